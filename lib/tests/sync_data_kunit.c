// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of which task submits the data of a file that several tasks sync
 */

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/sync-data.h>

#define TASKS		4
#define PATIENCE	(20 * HZ)	/* until a wait counts as a hang */

struct data_test {
	unsigned int		seq;
	atomic_t		submissions;
	atomic_t		failures;	/* submissions that are to fail */
	atomic_t		at_once;	/* now, and more than one ever */
	bool			overlap;
	bool			started[TASKS];
	struct completion	done;
	unsigned long		since;		/* in jiffies */
	struct task_struct	*tasks[TASKS];
};

static struct data_test *data_test(struct kunit *test)
{
	struct data_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	init_completion(&t->done);
	t->since = jiffies;
	test->priv = t;
	return t;
}

/* Tasks that still wait, after a failure, lose patience. */
static void data_exit(struct kunit *test)
{
	struct data_test *t = test->priv;
	unsigned int i;

	for (i = 0; t && i < TASKS; i++)
		if (t->tasks[i])
			kthread_stop_put(t->tasks[i]);
}

/* A task that syncs the file once. */
static int syncer(void *data)
{
	struct data_test *t = data;
	unsigned int mine, i;

	for (i = 0; i < TASKS; i++)
		if (t->tasks[i] == current)
			WRITE_ONCE(t->started[i], true);
	if (sync_data_begin(&t->seq, &mine)) {
		if (atomic_inc_return(&t->at_once) > 1)
			WRITE_ONCE(t->overlap, true);
		atomic_inc(&t->submissions);
		schedule_timeout_uninterruptible(1);
		atomic_dec(&t->at_once);
		sync_data_end(&t->seq, mine,
			      atomic_dec_if_positive(&t->failures) < 0);
	}
	complete(&t->done);
	return 0;
}

/* Tasks may lose patience: the machine is too slow for the test. */
static bool late(struct data_test *t)
{
	return time_after(jiffies, t->since + SYNC_DATA_WAIT / 2);
}

/* Start tasks, and wait until all of them wait for the submission under way. */
static void start_syncers(struct kunit *test, struct data_test *t)
{
	struct task_struct *task;
	unsigned int i, j;

	for (i = 0; i < TASKS; i++) {
		task = kthread_create(syncer, t, "sync-data/%u", i);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
		get_task_struct(task);
		t->tasks[i] = task;
		wake_up_process(task);
		for (j = 0; j < PATIENCE && !late(t) &&
		     (!READ_ONCE(t->started[i]) ||
		      READ_ONCE(task->__state) != TASK_UNINTERRUPTIBLE); j++)
			schedule_timeout_uninterruptible(1);
		KUNIT_ASSERT_LT(test, j, (unsigned int)PATIENCE);
	}
}

/* End the submission under way, and let all tasks finish. */
static void end_and_wait(struct kunit *test, struct data_test *t,
			 unsigned int mine, bool done)
{
	unsigned int i;

	sync_data_end(&t->seq, mine, done);
	for (i = 0; i < TASKS; i++)
		KUNIT_ASSERT_NE(test, 0UL,
				wait_for_completion_timeout(&t->done, PATIENCE));
	if (late(t))
		kunit_skip(test, "tasks take too long to start");
	KUNIT_EXPECT_FALSE(test, t->overlap);
}

/* A task that is alone submits, each time. */
static void test_alone(struct kunit *test)
{
	/* The number may wrap around. */
	unsigned int seq = -4U, mine, i;

	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_TRUE(test, sync_data_begin(&seq, &mine));
		KUNIT_EXPECT_NE(test, 0U, mine);
		KUNIT_EXPECT_TRUE(test, seq & 1);
		sync_data_end(&seq, mine, i != 2);
	}
	/* One failed, and does not count. */
	KUNIT_EXPECT_EQ(test, 2U, seq);
}

/*
 * Tasks that come during a submission need another one, but one does for all of
 * them.
 */
static void test_one_for_all(struct kunit *test)
{
	struct data_test *t = data_test(test);
	unsigned int mine;

	KUNIT_ASSERT_TRUE(test, sync_data_begin(&t->seq, &mine));
	start_syncers(test, t);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->submissions));
	end_and_wait(test, t, mine, true);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->submissions));
	KUNIT_EXPECT_EQ(test, 4U, t->seq);
}

/* If submissions fail, those that wait submit until as many succeeded. */
static void test_failures(struct kunit *test)
{
	struct data_test *t = data_test(test);
	unsigned int mine;

	KUNIT_ASSERT_TRUE(test, sync_data_begin(&t->seq, &mine));
	start_syncers(test, t);
	atomic_set(&t->failures, TASKS);
	end_and_wait(test, t, mine, false);
	/* Each has submitted itself, as none was done for it. */
	KUNIT_EXPECT_EQ(test, TASKS, atomic_read(&t->submissions));
	KUNIT_EXPECT_EQ(test, 0U, t->seq);
}

/* A task does not wait forever; what it submits then counts for itself only. */
static void test_patience(struct kunit *test)
{
	struct data_test *t = data_test(test);
	unsigned int mine, other;

	KUNIT_ASSERT_TRUE(test, sync_data_begin(&t->seq, &mine));
	KUNIT_EXPECT_TRUE(test, sync_data_begin(&t->seq, &other));
	KUNIT_EXPECT_EQ(test, 0U, other);
	sync_data_end(&t->seq, other, true);
	KUNIT_EXPECT_EQ(test, mine, t->seq);
	sync_data_end(&t->seq, mine, true);
	KUNIT_EXPECT_EQ(test, 2U, t->seq);
}

static struct kunit_case sync_data_cases[] = {
	KUNIT_CASE(test_alone),
	KUNIT_CASE(test_one_for_all),
	KUNIT_CASE(test_failures),
	KUNIT_CASE_SLOW(test_patience),
	{}
};

static struct kunit_suite sync_data_suite = {
	.name = "sync-data",
	.exit = data_exit,
	.test_cases = sync_data_cases,
};

kunit_test_suite(sync_data_suite);

MODULE_DESCRIPTION("KUnit tests of include/linux/sync-data.h");
MODULE_LICENSE("GPL");
