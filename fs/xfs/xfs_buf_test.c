// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the lock of buffers. Part of xfs_buf.c.
 */
#include <kunit/test.h>
#include <linux/kthread.h>

#define BUF_TEST_TASKS	4
#define BUF_TEST_ROUNDS	2000

struct buf_test {
	struct xfs_buf		buf;
	struct xfs_buftarg	target;		/* for tracepoints */
	unsigned int		inside;
	unsigned int		count;
	atomic_t		failed;
	struct completion	go;
	struct completion	locked;
};

static struct task_struct *
buf_test_start(
	struct kunit		*test,
	int			(*func)(void *))
{
	struct task_struct	*task;

	task = kthread_create(func, test->priv, "xfs_buf_test");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	get_task_struct(task);
	return task;
}

static void
test_buf_trylock(
	struct kunit		*test)
{
	struct buf_test		*t = test->priv;

	KUNIT_EXPECT_FALSE(test, xfs_buf_islocked(&t->buf));
	KUNIT_EXPECT_TRUE(test, xfs_buf_trylock(&t->buf));
	KUNIT_EXPECT_TRUE(test, xfs_buf_islocked(&t->buf));
	KUNIT_EXPECT_FALSE(test, xfs_buf_trylock(&t->buf));
	xfs_buf_unlock(&t->buf);
	KUNIT_EXPECT_FALSE(test, xfs_buf_islocked(&t->buf));
}

/* Another task may release the lock than the one that took it. */
static int
buf_test_release(
	void			*data)
{
	struct buf_test		*t = data;

	wait_for_completion(&t->go);
	xfs_buf_unlock(&t->buf);
	return 0;
}

static void
test_buf_release(
	struct kunit		*test)
{
	struct buf_test		*t = test->priv;
	struct task_struct	*task;

	task = buf_test_start(test, buf_test_release);
	wake_up_process(task);
	xfs_buf_lock(&t->buf);
	complete(&t->go);
	xfs_buf_lock(&t->buf);
	KUNIT_EXPECT_FALSE(test, xfs_buf_trylock(&t->buf));
	xfs_buf_unlock(&t->buf);
	kthread_stop_put(task);
	KUNIT_EXPECT_FALSE(test, xfs_buf_islocked(&t->buf));
}

static int
buf_test_many(
	void			*data)
{
	struct buf_test		*t = data;
	unsigned int		i;

	for (i = 0; i < BUF_TEST_ROUNDS; i++) {
		if (i % 4 || !xfs_buf_trylock(&t->buf))
			xfs_buf_lock(&t->buf);
		if (t->inside++)
			atomic_inc(&t->failed);
		t->count++;
		if (i % 8 == 0)
			cond_resched();
		if (i % 64 == 0)
			schedule_timeout_uninterruptible(1);
		t->inside--;
		xfs_buf_unlock(&t->buf);
	}
	complete(&t->locked);
	wait_for_completion(&t->go);
	return 0;
}

/* One task at a time has the lock, and all of them get it. */
static void
test_buf_many_tasks(
	struct kunit		*test)
{
	struct buf_test		*t = test->priv;
	struct task_struct	*tasks[BUF_TEST_TASKS];
	unsigned int		i;

	for (i = 0; i < BUF_TEST_TASKS; i++)
		tasks[i] = buf_test_start(test, buf_test_many);
	for (i = 0; i < BUF_TEST_TASKS; i++)
		wake_up_process(tasks[i]);
	for (i = 0; i < BUF_TEST_TASKS; i++)
		wait_for_completion(&t->locked);
	complete_all(&t->go);
	for (i = 0; i < BUF_TEST_TASKS; i++)
		kthread_stop_put(tasks[i]);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->failed));
	KUNIT_EXPECT_EQ(test, BUF_TEST_TASKS * BUF_TEST_ROUNDS, t->count);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->buf.b_lock));
}

/* A task of the test that locks the buffer, says so, and waits to go on. */
static int
buf_test_hold(
	void			*data)
{
	struct buf_test		*t = data;

	xfs_buf_lock(&t->buf);
	complete(&t->locked);
	wait_for_completion(&t->go);
	xfs_buf_unlock(&t->buf);
	return 0;
}

/* Until a task waits for the lock. */
static void
buf_test_wait_for_waiter(
	struct buf_test		*t)
{
	while (!(atomic_read(&t->buf.b_lock) & XFS_BUF_WAITERS))
		schedule_timeout_uninterruptible(1);
}

/* Let the task that waits for the lock be patient, or not be any more. */
static void
buf_test_patience(
	struct buf_test		*t,
	bool			patient)
{
	struct xfs_buf_waiter	*waiter;

	raw_spin_lock(&t->buf.b_wait_lock);
	waiter = list_first_entry(&t->buf.b_lock_waiters,
			struct xfs_buf_waiter, list);
	waiter->since = patient ? jiffies + 3600 * HZ :
			jiffies - XFS_BUF_LOCK_PATIENCE - 1;
	raw_spin_unlock(&t->buf.b_wait_lock);
}

/* A task that waits for the lock, and needs the CPU of the caller to take it. */
static struct task_struct *
buf_test_waiter(
	struct kunit		*test,
	bool			realtime)
{
	struct buf_test		*t = test->priv;
	struct task_struct	*task;

	task = buf_test_start(test, buf_test_hold);
	if (realtime)
		sched_set_fifo_low(task);
	xfs_buf_lock(&t->buf);
	migrate_disable();
	kthread_bind(task, smp_processor_id());
	wake_up_process(task);
	buf_test_wait_for_waiter(t);
	return task;
}

/* Release the lock, and take it again before the waiter can. */
static bool
buf_test_relock(
	struct buf_test		*t,
	bool			*tried)
{
	bool			locked;

	preempt_disable();
	xfs_buf_unlock(&t->buf);
	*tried = xfs_buf_trylock(&t->buf);
	locked = *tried || xfs_buf_lock_fast(&t->buf);
	preempt_enable();
	return locked;
}

/* Let the waiter have the lock, and end. */
static void
buf_test_end(
	struct kunit		*test,
	struct task_struct	*task,
	bool			locked)
{
	struct buf_test		*t = test->priv;

	migrate_enable();
	if (locked)
		xfs_buf_unlock(&t->buf);
	wait_for_completion(&t->locked);
	complete(&t->go);
	kthread_stop_put(task);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->buf.b_lock));
}

/*
 * A trylock does not get ahead of a task that waits. A lock does, but not any
 * more when the task has waited for long.
 */
static void
test_buf_handover(
	struct kunit		*test)
{
	struct buf_test		*t = test->priv;
	struct task_struct	*task;
	unsigned int		times;
	bool			tried, locked;

	task = buf_test_waiter(test, false);
	for (times = 0; times < 3; times++) {
		buf_test_patience(t, true);
		locked = buf_test_relock(t, &tried);
		KUNIT_EXPECT_FALSE(test, tried);
		KUNIT_EXPECT_TRUE(test, locked);
		if (!locked) {
			buf_test_end(test, task, locked);
			return;
		}
		/* Let it try in vain, and go to sleep again. */
		schedule_timeout_uninterruptible(2);
	}

	buf_test_patience(t, false);
	locked = buf_test_relock(t, &tried);
	KUNIT_EXPECT_FALSE(test, locked);
	buf_test_end(test, task, locked);
}

/* A real-time task is handed the lock by the first release. */
static void
test_buf_realtime(
	struct kunit		*test)
{
	struct buf_test		*t = test->priv;
	struct task_struct	*task;
	bool			tried, locked;

	task = buf_test_waiter(test, true);
	buf_test_patience(t, true);
	locked = buf_test_relock(t, &tried);
	KUNIT_EXPECT_FALSE(test, locked);
	buf_test_end(test, task, locked);
}

static int
buf_test_init(
	struct kunit		*test)
{
	struct buf_test		*t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	raw_spin_lock_init(&t->buf.b_wait_lock);
	INIT_LIST_HEAD(&t->buf.b_lock_waiters);
	t->buf.b_target = &t->target;
	init_completion(&t->go);
	init_completion(&t->locked);
	test->priv = t;
	return 0;
}

static struct kunit_case buf_test_cases[] = {
	KUNIT_CASE(test_buf_trylock),
	KUNIT_CASE(test_buf_release),
	KUNIT_CASE(test_buf_many_tasks),
	KUNIT_CASE(test_buf_handover),
	KUNIT_CASE(test_buf_realtime),
	{}
};

static struct kunit_suite buf_test_suite = {
	.name		= "xfs_buf",
	.init		= buf_test_init,
	.test_cases	= buf_test_cases,
};

kunit_test_suite(buf_test_suite);
