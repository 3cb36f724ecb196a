// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of how a commit waits for tasks in fsync
 */

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/sync-cohort.h>

#define COMMIT		7		/* the number of the next commit */
#define LONG_US		(20 * USEC_PER_SEC)
#define PATIENCE	(10 * HZ)	/* until a wait counts as a hang */

struct cohort_test {
	struct sync_cohort	cohort;
	bool			all;
	struct task_struct	*committer;
	struct completion	done;
	bool			in_time;
};

static int cohort_init(struct kunit *test)
{
	struct cohort_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	sync_cohort_init(&t->cohort);
	t->cohort.stay_us = SYNC_COHORT_MAX_WAIT;
	init_completion(&t->done);
	test->priv = t;
	return 0;
}

/* A commit that still waits, after a failure, ends by its limit. */
static void cohort_exit(struct kunit *test)
{
	struct cohort_test *t = test->priv;

	if (t && t->committer)
		kthread_stop_put(t->committer);
}

static int committer(void *data)
{
	struct cohort_test *t = data;

	t->in_time = __sync_cohort_gather(&t->cohort, COMMIT, t->all, LONG_US);
	complete(&t->done);
	return 0;
}

/* Let a commit begin; true if it waits. */
static bool commit_waits(struct kunit *test, bool all)
{
	struct cohort_test *t = test->priv;
	struct task_struct *task;
	unsigned int i;

	if (t->committer)
		kthread_stop_put(t->committer);
	t->committer = NULL;
	t->all = all;
	task = kthread_create(committer, t, "sync-cohort");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	get_task_struct(task);
	t->committer = task;
	wake_up_process(task);
	for (i = 0; i < PATIENCE; i++) {
		if (try_wait_for_completion(&t->done))
			return false;
		/* A look that comes too early is repeated. */
		if (waitqueue_active(&t->cohort.wait))
			return true;
		schedule_timeout_uninterruptible(1);
	}
	KUNIT_FAIL_AND_ABORT(test, "the commit neither waits nor ends");
}

/* It still waits when it has had the time to look. */
static void expect_waits(struct kunit *test)
{
	struct cohort_test *t = test->priv;

	schedule_timeout_uninterruptible(3);
	KUNIT_EXPECT_FALSE(test, completion_done(&t->done));
}

/* It ends, and not by its limit. */
static void expect_ends(struct kunit *test)
{
	struct cohort_test *t = test->priv;

	KUNIT_ASSERT_NE(test, 0UL,
			wait_for_completion_timeout(&t->done, PATIENCE));
	KUNIT_EXPECT_TRUE(test, t->in_time);
}

/* A commit without members begins at once. */
static void test_no_members(struct kunit *test)
{
	struct cohort_test *t = test->priv;
	struct sync_member member;

	KUNIT_EXPECT_FALSE(test, commit_waits(test, true));
	sync_cohort_join(&t->cohort, &member, true);
	sync_cohort_leave(&t->cohort, &member);
	KUNIT_EXPECT_FALSE(test, commit_waits(test, true));
}

/* It waits for those that are there, not for others that come later. */
static void test_members(struct kunit *test)
{
	struct cohort_test *t = test->priv;
	struct sync_member members[2], late;

	sync_cohort_join(&t->cohort, &members[0], true);
	sync_cohort_join(&t->cohort, &members[1], true);
	KUNIT_ASSERT_TRUE(test, commit_waits(test, false));
	sync_cohort_join(&t->cohort, &late, true);
	sync_cohort_leave(&t->cohort, &members[0]);
	expect_waits(test);
	sync_cohort_leave(&t->cohort, &members[1]);
	expect_ends(test);
	/* The next commit waits for the late one. */
	KUNIT_ASSERT_TRUE(test, commit_waits(test, false));
	sync_cohort_leave(&t->cohort, &late);
	expect_ends(test);
}

/* Tasks that overwrite are waited for only if the caller says so. */
static void test_overwrites(struct kunit *test)
{
	struct cohort_test *t = test->priv;
	struct sync_member member, other;

	sync_cohort_join(&t->cohort, &other, false);
	KUNIT_EXPECT_FALSE(test, commit_waits(test, false));
	sync_cohort_join(&t->cohort, &member, true);
	KUNIT_ASSERT_TRUE(test, commit_waits(test, false));
	sync_cohort_leave(&t->cohort, &member);
	expect_ends(test);
	sync_cohort_leave(&t->cohort, &other);

	sync_cohort_join(&t->cohort, &other, false);
	KUNIT_ASSERT_TRUE(test, commit_waits(test, true));
	sync_cohort_leave(&t->cohort, &other);
	expect_ends(test);
}

/* A task that waits for this commit ends the wait, one for another does not. */
static void test_hurry(struct kunit *test)
{
	struct cohort_test *t = test->priv;
	struct sync_member member;

	sync_cohort_join(&t->cohort, &member, true);
	KUNIT_ASSERT_TRUE(test, commit_waits(test, false));
	sync_cohort_hurry(&t->cohort, COMMIT - 1);
	expect_waits(test);
	sync_cohort_hurry(&t->cohort, COMMIT);
	expect_ends(test);
	sync_cohort_leave(&t->cohort, &member);

	/* A hurry that comes first counts, too, and one for another later. */
	sync_cohort_init(&t->cohort);
	t->cohort.stay_us = SYNC_COHORT_MAX_WAIT;
	sync_cohort_join(&t->cohort, &member, true);
	sync_cohort_hurry(&t->cohort, COMMIT);
	sync_cohort_hurry(&t->cohort, COMMIT - 1);
	KUNIT_EXPECT_FALSE(test, commit_waits(test, false));
	sync_cohort_leave(&t->cohort, &member);
}

/* Wait without an end but the limit, and restore the average. */
static void gather_in_vain(struct kunit *test)
{
	struct cohort_test *t = test->priv;

	t->cohort.stay_us = SYNC_COHORT_MIN_STAY;
	sync_cohort_gather(&t->cohort, COMMIT, true);
	KUNIT_EXPECT_EQ(test, SYNC_COHORT_MIN_STAY * 7U / 8, t->cohort.stay_us);
	t->cohort.stay_us = SYNC_COHORT_MAX_WAIT;
}

/* A commit waits for as many new members of each kind. */
static void expect_waits_for_new(struct kunit *test)
{
	struct cohort_test *t = test->priv;
	struct sync_member members[2];

	KUNIT_EXPECT_FALSE(test, commit_waits(test, true));
	sync_cohort_join(&t->cohort, &members[0], true);
	sync_cohort_join(&t->cohort, &members[1], false);
	KUNIT_ASSERT_TRUE(test, commit_waits(test, true));
	sync_cohort_leave(&t->cohort, &members[0]);
	expect_waits(test);
	sync_cohort_leave(&t->cohort, &members[1]);
	expect_ends(test);
}

/* A task that stays for too long is not waited for again, but others are. */
static void test_limit(struct kunit *test)
{
	struct cohort_test *t = test->priv;
	struct sync_member slow[2];
	unsigned int i;

	sync_cohort_join(&t->cohort, &slow[0], true);
	sync_cohort_join(&t->cohort, &slow[1], false);
	gather_in_vain(test);
	for (i = 0; i < 2 * SYNC_COHORT_SLOTS; i++)
		expect_waits_for_new(test);
	sync_cohort_leave(&t->cohort, &slow[0]);
	for (i = 0; i < 2; i++)
		expect_waits_for_new(test);
	sync_cohort_leave(&t->cohort, &slow[1]);
	for (i = 0; i < 2 * SYNC_COHORT_SLOTS; i++)
		expect_waits_for_new(test);
}

/* If tasks of each slot stay for too long, none is waited for. */
static void test_no_slot(struct kunit *test)
{
	struct cohort_test *t = test->priv;
	struct sync_member slow[SYNC_COHORT_SLOTS];
	unsigned int i;

	for (i = 0; i < SYNC_COHORT_SLOTS; i++) {
		sync_cohort_join(&t->cohort, &slow[i], true);
		if (i < SYNC_COHORT_SLOTS - 1)
			gather_in_vain(test);
	}
	KUNIT_EXPECT_FALSE(test, commit_waits(test, true));
	/* Any one is enough. */
	sync_cohort_leave(&t->cohort, &slow[1]);
	KUNIT_ASSERT_TRUE(test, commit_waits(test, true));
	sync_cohort_leave(&t->cohort, &slow[SYNC_COHORT_SLOTS - 1]);
	expect_ends(test);
	sync_cohort_leave(&t->cohort, &slow[0]);
	sync_cohort_leave(&t->cohort, &slow[2]);
}

/* What an average becomes when a task leaves. */
static void test_average(struct kunit *test)
{
	static const struct {
		unsigned int before;
		s64 stay;
		unsigned int after;
	} cases[] = {
		{ 0, 0, 0 },
		{ 0, -1, 0 },
		/* A long one among short ones is forgotten. */
		{ 1, 400, 0 },
		{ 799, 400, 699 },
		{ 800, 1599, 700 },
		{ 800, 1600, 900 },
		{ 8000, 0, 7000 },
		{ 8000, 16000, 9000 },
		/* One long stay does not change it much. */
		{ 0, 3600LL * USEC_PER_SEC, 200 },
		{ 8000, 3600LL * USEC_PER_SEC, 9200 },
		{ SYNC_COHORT_MAX_WAIT, 3600LL * USEC_PER_SEC,
		  SYNC_COHORT_MAX_WAIT },
	};
	struct cohort_test *t = test->priv;
	struct sync_member member;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, cases[i].after,
				    sync_cohort_average(cases[i].before,
							cases[i].stay),
				    "case %u", i);

	/* Only tasks that may be waited for are counted. */
	for (i = SYNC_COHORT_MIN_STAY - 1; i <= SYNC_COHORT_MIN_STAY; i++) {
		t->cohort.stay_us = i;
		sync_cohort_join(&t->cohort, &member, true);
		KUNIT_EXPECT_EQ(test, !!member.of, i == SYNC_COHORT_MIN_STAY);
		member.since = ktime_sub_ms(member.since, 1000);
		sync_cohort_leave(&t->cohort, &member);
		KUNIT_EXPECT_EQ(test, sync_cohort_average(i, USEC_PER_SEC),
				t->cohort.stay_us);
	}
	for (i = 0; i < SYNC_COHORT_SLOTS; i++)
		KUNIT_EXPECT_EQ(test, 0,
				atomic_read(&t->cohort.slots[i].changing));
}

static struct kunit_case sync_cohort_cases[] = {
	KUNIT_CASE(test_no_members),
	KUNIT_CASE(test_members),
	KUNIT_CASE(test_overwrites),
	KUNIT_CASE(test_hurry),
	KUNIT_CASE(test_limit),
	KUNIT_CASE(test_no_slot),
	KUNIT_CASE(test_average),
	{}
};

static struct kunit_suite sync_cohort_suite = {
	.name = "sync-cohort",
	.init = cohort_init,
	.exit = cohort_exit,
	.test_cases = sync_cohort_cases,
};

kunit_test_suite(sync_cohort_suite);

MODULE_DESCRIPTION("KUnit tests of include/linux/sync-cohort.h");
MODULE_LICENSE("GPL");
