// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the queues of inodes to be inactivated. Part of xfs_icache.c.
 */
#include <kunit/test.h>

#define GC_TEST_CLUSTER		32		/* inodes */
#define GC_TEST_LOW_SPACE	1000000		/* blocks */
/* Long enough for a test to be over before a timer expires. */
#define GC_TEST_DELAY		(60 * HZ)

struct gc_test {
	struct xfs_mount	mount;
	struct xfs_inode	inode;
	atomic_t		runs;
};

static void
gc_test_worker(
	struct work_struct	*work)
{
	struct xfs_inodegc	*gc = container_of(to_delayed_work(work),
						struct xfs_inodegc, work);

	atomic_inc(&container_of(gc->mp, struct gc_test, mount)->runs);
}

/* The worker runs at once if many inodes wait for it, or space is low. */
static void
test_inodegc_want_queue(
	struct kunit		*test)
{
	struct gc_test		*t = test->priv;
	struct xfs_inode	*ip = &t->inode;

	KUNIT_EXPECT_FALSE(test, xfs_inodegc_want_queue_work(ip, 0));
	KUNIT_EXPECT_FALSE(test,
			xfs_inodegc_want_queue_work(ip, GC_TEST_CLUSTER));
	KUNIT_EXPECT_TRUE(test,
			xfs_inodegc_want_queue_work(ip, GC_TEST_CLUSTER + 1));

	xfs_set_freecounter(&t->mount, XC_FREE_BLOCKS, GC_TEST_LOW_SPACE - 1);
	KUNIT_EXPECT_TRUE(test, xfs_inodegc_want_queue_work(ip, 0));
	xfs_set_freecounter(&t->mount, XC_FREE_BLOCKS, GC_TEST_LOW_SPACE);
	KUNIT_EXPECT_FALSE(test, xfs_inodegc_want_queue_work(ip, 0));
}

/* A task waits if the backlog is long or memory is low, if it may wait. */
static void
test_inodegc_want_flush(
	struct kunit		*test)
{
	struct gc_test		*t = test->priv;
	struct xfs_inode	*ip = &t->inode;
	unsigned int		max = XFS_INODEGC_MAX_BACKLOG;
	unsigned int		nofs_flag;

	KUNIT_EXPECT_FALSE(test, xfs_inodegc_want_flush_work(ip, max, 0));
	KUNIT_EXPECT_TRUE(test, xfs_inodegc_want_flush_work(ip, max + 1, 0));
	KUNIT_EXPECT_TRUE(test, xfs_inodegc_want_flush_work(ip, 0, 1));

	nofs_flag = memalloc_nofs_save();
	KUNIT_EXPECT_FALSE(test, xfs_inodegc_want_flush_work(ip, max + 1, 0));
	KUNIT_EXPECT_FALSE(test, xfs_inodegc_want_flush_work(ip, 0, 1));
	memalloc_nofs_restore(nofs_flag);
}

/* A second inode does not move the timer that the first one has started. */
static void
test_inodegc_timer(
	struct kunit		*test)
{
	struct gc_test		*t = test->priv;
	struct xfs_inodegc	*gc = per_cpu_ptr(t->mount.m_inodegc, 0);
	unsigned long		expires;

	queue_delayed_work_on(0, t->mount.m_inodegc_wq, &gc->work,
			GC_TEST_DELAY);
	expires = gc->work.timer.expires;
	xfs_inodegc_schedule(gc, 0, false);
	KUNIT_EXPECT_TRUE(test, timer_pending(&gc->work.timer));
	KUNIT_EXPECT_EQ(test, expires, gc->work.timer.expires);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->runs));

	/* It is brought forward when the worker is to run now. */
	xfs_inodegc_schedule(gc, 0, true);
	KUNIT_EXPECT_FALSE(test, timer_pending(&gc->work.timer));
	flush_work(&gc->work.work);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->runs));
}

/* The first inode has the worker run, whether it may wait or not. */
static void
test_inodegc_first(
	struct kunit		*test)
{
	struct gc_test		*t = test->priv;
	struct xfs_inodegc	*gc = per_cpu_ptr(t->mount.m_inodegc, 0);

	xfs_inodegc_schedule(gc, 0, false);
	flush_delayed_work(&gc->work);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&t->runs));
	xfs_inodegc_schedule(gc, 0, true);
	KUNIT_EXPECT_FALSE(test, timer_pending(&gc->work.timer));
	flush_work(&gc->work.work);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&t->runs));
}

static int
gc_test_init(
	struct kunit		*test)
{
	struct gc_test		*t;
	struct xfs_inodegc	*gc;
	int			cpu;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	test->priv = t;
	KUNIT_ASSERT_EQ(test, 0, percpu_counter_init(
			&t->mount.m_free[XC_FREE_BLOCKS].count,
			2 * GC_TEST_LOW_SPACE, GFP_KERNEL));
	t->mount.m_ino_geo.inodes_per_cluster = GC_TEST_CLUSTER;
	t->mount.m_low_space[XFS_LOWSP_5_PCNT] = GC_TEST_LOW_SPACE;
	t->inode.i_mount = &t->mount;

	t->mount.m_inodegc_wq = alloc_workqueue("xfs-inodegc-test",
			WQ_PERCPU, 0);
	KUNIT_ASSERT_NOT_NULL(test, t->mount.m_inodegc_wq);
	t->mount.m_inodegc = alloc_percpu(struct xfs_inodegc);
	KUNIT_ASSERT_NOT_NULL(test, t->mount.m_inodegc);
	for_each_possible_cpu(cpu) {
		gc = per_cpu_ptr(t->mount.m_inodegc, cpu);
		gc->mp = &t->mount;
		INIT_DELAYED_WORK(&gc->work, gc_test_worker);
	}
	return 0;
}

static void
gc_test_exit(
	struct kunit		*test)
{
	struct gc_test		*t = test->priv;
	struct xfs_inodegc	*gc;
	int			cpu;

	if (!t)
		return;
	if (t->mount.m_inodegc) {
		for_each_possible_cpu(cpu) {
			gc = per_cpu_ptr(t->mount.m_inodegc, cpu);
			cancel_delayed_work_sync(&gc->work);
		}
		free_percpu(t->mount.m_inodegc);
	}
	if (t->mount.m_inodegc_wq)
		destroy_workqueue(t->mount.m_inodegc_wq);
	percpu_counter_destroy(&t->mount.m_free[XC_FREE_BLOCKS].count);
}

static struct kunit_case gc_test_cases[] = {
	KUNIT_CASE(test_inodegc_want_queue),
	KUNIT_CASE(test_inodegc_want_flush),
	KUNIT_CASE(test_inodegc_timer),
	KUNIT_CASE(test_inodegc_first),
	{}
};

static struct kunit_suite gc_test_suite = {
	.name		= "xfs_inodegc",
	.init		= gc_test_init,
	.exit		= gc_test_exit,
	.test_cases	= gc_test_cases,
};

kunit_test_suite(gc_test_suite);
