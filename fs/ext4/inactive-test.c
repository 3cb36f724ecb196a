// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the queue of deferred inodes.
 */

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/wait.h>

#include "inactive.h"
#include "mballoc.h"

#define NR_INO		4096
#define TIMEOUT		(30 * HZ)

struct inactive_test {
	struct ext4_inactive q;
	struct kunit *test;
	bool refuse;			/* ->process does nothing */
	bool may_begin;
	unsigned int only;		/* ->process does so many of a batch */
	struct completion *block;	/* ->process waits for it */
	struct completion in_process;
	atomic_t seen[NR_INO];		/* how often */
	u32 order[NR_INO];
	atomic_t nr;
	unsigned int largest;
	wait_queue_head_t wait;
};

static struct inactive_test *to_test(struct ext4_inactive *q)
{
	return container_of(q, struct inactive_test, q);
}

static bool test_begin(struct ext4_inactive *q)
{
	return READ_ONCE(to_test(q)->may_begin);
}

static void test_end(struct ext4_inactive *q)
{
}

static unsigned int test_process(struct ext4_inactive *q,
				 struct ext4_inactive_item **items,
				 unsigned int nr)
{
	struct inactive_test *t = to_test(q);
	unsigned int i;

	if (READ_ONCE(t->refuse))
		return 0;
	complete(&t->in_process);
	if (t->block)
		wait_for_completion(t->block);
	WRITE_ONCE(t->largest, max(t->largest, nr));
	nr = min(nr, READ_ONCE(t->only));
	for (i = 0; i < nr; i++) {
		if (items[i]->ino < NR_INO)
			atomic_inc(&t->seen[items[i]->ino]);
		t->order[(unsigned int)(atomic_inc_return(&t->nr) - 1) %
			 NR_INO] = items[i]->ino;
	}
	wake_up(&t->wait);
	return nr;
}

static const struct ext4_inactive_ops test_ops = {
	.begin = test_begin,
	.end = test_end,
	.process = test_process,
};

static int inactive_test_init(struct kunit *test)
{
	struct inactive_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->test = test;
	t->may_begin = true;
	t->only = UINT_MAX;
	init_waitqueue_head(&t->wait);
	init_completion(&t->in_process);
	KUNIT_ASSERT_EQ(test, ext4_inactive_queue_init(&t->q, &test_ops), 0);
	t->q.max_nr = NR_INO;
	t->q.max_clusters = LONG_MAX;
	t->q.batch = 32;
	t->q.delay_ms = 1;
	test->priv = t;
	return 0;
}

static void inactive_test_exit(struct kunit *test)
{
	struct inactive_test *t = test->priv;

	if (t && t->q.ops)
		ext4_inactive_queue_destroy(&t->q);
}

static bool park(struct inactive_test *t, u32 ino, u64 clusters, bool heavy)
{
	struct ext4_inactive_item *item;

	item = ext4_inactive_get_item(&t->q, clusters, heavy, true);
	if (!item)
		return false;
	item->ino = ino;
	ext4_inactive_add(item, false);
	return true;
}

/* Each of the first @nr items was processed exactly once. */
static void expect_all(struct inactive_test *t, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ_MSG(t->test, atomic_read(&t->seen[i]), 1,
				    "inode %u", i);
	KUNIT_EXPECT_EQ(t->test, atomic_read(&t->nr), nr);
	KUNIT_EXPECT_EQ(t->test, ext4_inactive_nr(&t->q, true), 0);
	KUNIT_EXPECT_EQ(t->test, percpu_counter_sum(&t->q.clusters), 0);
}

/*
 * The workers start without a kick, also for the list of a CPU that is not
 * online.
 */
static void test_worker(struct kunit *test)
{
	struct inactive_test *t = test->priv;
	struct ext4_inactive_item *item;
	unsigned int cpu, nr = 0;

	for_each_possible_cpu(cpu) {
		item = ext4_inactive_get_item(&t->q, 1, false, true);
		KUNIT_ASSERT_NOT_NULL(test, item);
		atomic_dec(&item->list->nr);
		item->list = per_cpu_ptr(t->q.light, cpu);
		atomic_inc(&item->list->nr);
		item->ino = nr++;
		ext4_inactive_add(item, false);
	}
	KUNIT_EXPECT_TRUE(test, park(t, nr++, 1000, true));
	KUNIT_EXPECT_TRUE(test, wait_event_timeout(t->wait,
			!ext4_inactive_nr(&t->q, true) &&
			atomic_read(&t->nr) == nr, TIMEOUT));
	expect_all(t, nr);
}

/* A worker needs ->begin(), and retries if ->process() does nothing. */
static void test_worker_retries(struct kunit *test)
{
	struct inactive_test *t = test->priv;

	t->may_begin = false;
	KUNIT_EXPECT_TRUE(test, park(t, 0, 1, false));
	msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->nr), 0);
	WRITE_ONCE(t->refuse, true);
	WRITE_ONCE(t->may_begin, true);
	ext4_inactive_kick(&t->q);
	msleep(20);
	KUNIT_EXPECT_EQ(test, ext4_inactive_nr(&t->q, true), 1);
	WRITE_ONCE(t->refuse, false);
	KUNIT_EXPECT_TRUE(test, wait_event_timeout(t->wait,
			!ext4_inactive_nr(&t->q, true), TIMEOUT));
	expect_all(t, 1);
}

static void test_limits(struct kunit *test)
{
	struct inactive_test *t = test->priv;
	struct ext4_inactive_item *item;
	unsigned int i;

	t->may_begin = false;
	t->q.max_nr = 40;
	migrate_disable();
	for (i = 0; i < 40; i++) {
		KUNIT_EXPECT_FALSE(test, ext4_inactive_full(&t->q, false));
		KUNIT_EXPECT_TRUE(test, park(t, i, 1, false));
	}
	KUNIT_EXPECT_TRUE(test, ext4_inactive_full(&t->q, false));
	KUNIT_EXPECT_FALSE(test, park(t, i, 1, false));
	/* Callers that cannot remove the inode are exempt from the limit. */
	item = ext4_inactive_get_item(&t->q, 1, false, false);
	KUNIT_EXPECT_NOT_NULL(test, item);
	if (item) {
		item->ino = i++;
		ext4_inactive_add(item, true);
	}
	/* The heavy lists have limits of their own. */
	for (; i < 41 + 40 * EXT4_INACTIVE_HEAVY; i++)
		KUNIT_EXPECT_TRUE(test, park(t, i, 1, true));
	KUNIT_EXPECT_FALSE(test, park(t, i, 1, true));
	migrate_enable();
	KUNIT_EXPECT_EQ(test, ext4_inactive_nr(&t->q, true), i);
	KUNIT_EXPECT_TRUE(test, ext4_inactive_flush(&t->q, true));
	expect_all(t, i);
	/* A stale ->busy must not make the count negative. */
	t->q.heavy[0].busy = 5;
	KUNIT_EXPECT_EQ(test, ext4_inactive_nr(&t->q, false), 0);
	t->q.heavy[0].busy = 0;

	/* Limit checked before the item is counted: the last may exceed it. */
	t->q.max_clusters = 1000000;
	KUNIT_EXPECT_TRUE(test, park(t, i++, 999999, true));
	KUNIT_EXPECT_TRUE(test, park(t, i++, 1000000, true));
	KUNIT_EXPECT_FALSE(test, park(t, i, 1, true));
	KUNIT_EXPECT_FALSE(test, park(t, i, 1, false));
	KUNIT_EXPECT_TRUE(test, ext4_inactive_full(&t->q, false));
	KUNIT_EXPECT_TRUE(test, ext4_inactive_flush(&t->q, true));
	KUNIT_EXPECT_FALSE(test, ext4_inactive_full(&t->q, false));
	expect_all(t, i);
}

/* Oldest first, in batches; items that are not done stay first. */
static void test_order(struct kunit *test)
{
	struct inactive_test *t = test->priv;
	unsigned int i;

	t->may_begin = false;
	migrate_disable();
	for (i = 0; i < 50; i++)
		KUNIT_EXPECT_TRUE(test, park(t, i, 7, false));
	t->only = 20;
	KUNIT_EXPECT_TRUE(test, ext4_inactive_progress(&t->q));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->nr), 20);
	KUNIT_EXPECT_EQ(test, t->largest, 32);
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&t->q.clusters), 30 * 7);
	for (; i < 60; i++)
		KUNIT_EXPECT_TRUE(test, park(t, i, 7, false));
	t->refuse = true;
	KUNIT_EXPECT_FALSE(test, ext4_inactive_progress(&t->q));
	KUNIT_EXPECT_FALSE(test, ext4_inactive_flush(&t->q, false));
	KUNIT_EXPECT_EQ(test, percpu_counter_sum(&t->q.clusters), 40 * 7);
	t->refuse = false;
	KUNIT_EXPECT_TRUE(test, ext4_inactive_flush(&t->q, false));
	migrate_enable();
	expect_all(t, 60);
	for (i = 0; i < 60; i++)
		KUNIT_EXPECT_EQ(test, t->order[i], i);
	KUNIT_EXPECT_FALSE(test, ext4_inactive_progress(&t->q));
}

/* Heavy items are processed one at a time, and only if requested. */
static void test_heavy(struct kunit *test)
{
	struct inactive_test *t = test->priv;
	unsigned int i;

	t->may_begin = false;
	for (i = 0; i < 6; i++)
		KUNIT_EXPECT_TRUE(test, park(t, i, 7, true));
	KUNIT_EXPECT_TRUE(test, park(t, i++, 7, false));
	KUNIT_EXPECT_TRUE(test, ext4_inactive_flush(&t->q, false));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->nr), 1);
	KUNIT_EXPECT_EQ(test, t->order[0], 6);
	KUNIT_EXPECT_TRUE(test, ext4_inactive_flush(&t->q, true));
	KUNIT_EXPECT_EQ(test, t->largest, 1);
	expect_all(t, i);
}

static int flusher(void *data)
{
	struct inactive_test *t = data;

	ext4_inactive_flush(&t->q, true);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	/* A batch begun by the worker is done when flush returns. */
	return atomic_read(&t->nr);
}

/* Flush waits for the batch that a worker is processing. */
static void test_flush_waits(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(block);
	struct inactive_test *t = test->priv;
	struct task_struct *task;

	t->block = &block;
	KUNIT_EXPECT_TRUE(test, park(t, 0, 1, false));
	KUNIT_ASSERT_TRUE(test,
			  wait_for_completion_timeout(&t->in_process, TIMEOUT));
	task = kthread_run(flusher, t, "inactive-flush");
	KUNIT_EXPECT_FALSE(test, IS_ERR(task));
	msleep(20);
	if (!IS_ERR(task)) {
		KUNIT_EXPECT_EQ(test, READ_ONCE(task->__state),
				TASK_UNINTERRUPTIBLE);
		KUNIT_EXPECT_EQ(test, atomic_read(&t->nr), 0);
	}
	complete_all(&block);
	if (!IS_ERR(task))
		KUNIT_EXPECT_EQ(test, kthread_stop(task), 1);
	KUNIT_EXPECT_TRUE(test, wait_event_timeout(t->wait,
			!ext4_inactive_nr(&t->q, true), TIMEOUT));
	expect_all(t, 1);
	t->block = NULL;
}

/* No item is processed after the queue is destroyed, and none is leaked. */
static void test_destroy(struct kunit *test)
{
	struct inactive_test *t = test->priv;
	unsigned int i, before;

	for (i = 0; i < 1000; i++)
		KUNIT_EXPECT_TRUE(test, park(t, i, 1, i % 10 == 0));
	ext4_inactive_queue_destroy(&t->q);
	before = atomic_read(&t->nr);
	msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->nr), before);
	for (i = 0; i < 1000; i++)
		KUNIT_EXPECT_LE(test, atomic_read(&t->seen[i]), 1);
}

#define ADDERS	4

struct adder {
	struct inactive_test *t;
	unsigned int first;
	unsigned int refused;
	struct task_struct *task;
};

static int adder_thread(void *data)
{
	struct adder *a = data;
	unsigned int i;

	for (i = 0; i < NR_INO / ADDERS; i++) {
		while (!park(a->t, a->first + i, 1 + i % 3, i % 16 == 0)) {
			a->refused++;
			if (i % 2)
				ext4_inactive_progress(&a->t->q);
			else
				cond_resched();
		}
		if (i % 256 == 17)
			ext4_inactive_flush(&a->t->q, true);
		if (i % 64 == 5)
			ext4_inactive_kick(&a->t->q);
		if (i % 128 == 100)
			schedule_timeout_interruptible(1);
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/*
 * Several tasks add, process and flush concurrently with the workers: each item
 * is processed once, no batch exceeds its limit, and the workers finish the
 * rest.
 */
static void test_concurrent(struct kunit *test)
{
	struct inactive_test *t = test->priv;
	struct adder adders[ADDERS] = {};
	unsigned int i;

	t->q.max_nr = 48;
	t->q.batch = 16;
	for (i = 0; i < ADDERS; i++) {
		adders[i].t = t;
		adders[i].first = i * (NR_INO / ADDERS);
		adders[i].task = kthread_create(adder_thread, &adders[i],
						"inactive-add/%u", i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(adders[i].task));
		kthread_bind(adders[i].task, cpumask_nth(i % num_online_cpus(),
							 cpu_online_mask));
	}
	for (i = 0; i < ADDERS; i++)
		wake_up_process(adders[i].task);
	KUNIT_EXPECT_TRUE(test, wait_event_timeout(t->wait,
			atomic_read(&t->nr) >= NR_INO &&
			!ext4_inactive_nr(&t->q, true), TIMEOUT));
	for (i = 0; i < ADDERS; i++)
		kthread_stop(adders[i].task);
	KUNIT_EXPECT_LE(test, t->largest, 16);
	expect_all(t, NR_INO);
}

/* The first matching row applies. ANY matches 0 and 1. */
static const struct {
	u8 mode;
	/*
	 * eligible, must_not_work, over_limit, limited, tight, heavy,
	 * committed, young, split
	 */
	u8 facts[9];
	enum ext4_inactive_verdict verdict;
} rows[] = {
#define ANY	2
#define MODE(m)	(1 << EXT4_INACTIVE_##m)
#define ON	(MODE(AUTO) | MODE(ALL) | MODE(SYNC))
	{ MODE(OFF), { ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY },
	  EXT4_INACTIVE_NOT_ELIGIBLE },
	{ ON, { 0, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY },
	  EXT4_INACTIVE_NOT_ELIGIBLE },
	{ ON, { 1, 1, ANY, ANY, ANY, 0, ANY, ANY, ANY }, EXT4_INACTIVE_PARK },
	{ ON, { 1, 1, ANY, ANY, ANY, 1, ANY, ANY, ANY },
	  EXT4_INACTIVE_PARK_HEAVY },
	{ ON, { 1, 0, 1, ANY, ANY, ANY, ANY, ANY, ANY }, EXT4_INACTIVE_LIMIT },
	{ ON, { 1, 0, 0, 1, ANY, ANY, ANY, ANY, ANY }, EXT4_INACTIVE_LIMITED },
	{ ON, { 1, 0, 0, 0, 1, 0, ANY, ANY, ANY }, EXT4_INACTIVE_TIGHT },
	{ ON, { 1, 0, 0, 0, 1, 1, ANY, ANY, ANY }, EXT4_INACTIVE_PARK_NOW },
	{ ON, { 1, 0, 0, 0, 0, 1, ANY, ANY, ANY }, EXT4_INACTIVE_PARK_HEAVY },
	{ MODE(ALL) | MODE(SYNC), { 1, 0, 0, 0, 0, 0, ANY, ANY, ANY },
	  EXT4_INACTIVE_PARK },
	{ MODE(AUTO), { 1, 0, 0, 0, 0, 0, 1, ANY, ANY }, EXT4_INACTIVE_PARK },
	{ MODE(AUTO), { 1, 0, 0, 0, 0, 0, 0, 1, ANY }, EXT4_INACTIVE_YOUNG },
	{ MODE(AUTO), { 1, 0, 0, 0, 0, 0, 0, 0, 1 }, EXT4_INACTIVE_SPLIT },
	{ MODE(AUTO), { 1, 0, 0, 0, 0, 0, 0, 0, 0 }, EXT4_INACTIVE_PARK },
};

static bool fits(const u8 *facts, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows[0].facts); i++)
		if (facts[i] != ANY && facts[i] != (bits >> i & 1))
			return false;
	return true;
}

static void test_decide(struct kunit *test)
{
	unsigned int bits, row, used = 0;
	enum ext4_inactive_mode mode;

	for (mode = EXT4_INACTIVE_OFF; mode <= EXT4_INACTIVE_SYNC; mode++)
		for (bits = 0; bits < 512; bits++) {
			struct ext4_inactive_facts f = {
				.mode = mode,
				.eligible = bits & 1,
				.must_not_work = bits & 2,
				.over_limit = bits & 4,
				.limited = bits & 8,
				.tight = bits & 16,
				.heavy = bits & 32,
				.committed = bits & 64,
				.young = bits & 128,
				.split = bits & 256,
			};

			for (row = 0; row < ARRAY_SIZE(rows); row++)
				if (rows[row].mode & (1 << mode) &&
				    fits(rows[row].facts, bits))
					break;
			KUNIT_ASSERT_LT(test, row, ARRAY_SIZE(rows));
			used |= 1 << row;
			KUNIT_EXPECT_EQ_MSG(test, ext4_inactive_decide(&f),
					    rows[row].verdict,
					    "mode %u, bits %#x, row %u", mode,
					    bits, row);
		}
	KUNIT_EXPECT_EQ(test, used, (1 << ARRAY_SIZE(rows)) - 1);
}

/* The credits of a batch are exactly those that its groups need. */
static void test_credits(struct kunit *test)
{
	enum { GROUPS = 12, INODES = 32, EXTENTS = 8 };
	struct ext4_free_extent *extents;
	struct rnd_state rnd;
	unsigned int round;

	extents = kunit_kcalloc(test, INODES * EXTENTS, sizeof(*extents),
				GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, extents);
	prandom_seed_state(&rnd, 1);
	for (round = 0; round < 1000; round++) {
		/* From all extents in one group to most in separate groups. */
		unsigned int spread = 1 + round % GROUPS;
		unsigned int last = GROUPS, group = 0;
		unsigned long blocks = 0, numbers = 0;
		unsigned int i, j, next, nr = 0, credits = 0;

		for (i = 0; i < INODES; i++) {
			next = prandom_u32_state(&rnd) % (EXTENTS + 1);
			for (j = nr; j < nr + next; j++) {
				extents[j].fe_group =
					prandom_u32_state(&rnd) % spread;
				blocks |= BIT(extents[j].fe_group);
			}
			/* Inodes come in the order of their numbers. */
			group += !(prandom_u32_state(&rnd) % 8) &&
				 group + 1 < GROUPS;
			numbers |= BIT(group);
			credits += ext4_inactive_bitmap_credits(
				extents, nr, next, group != last);
			last = group;
			nr += next;
			KUNIT_ASSERT_EQ(test, credits,
					2 * (hweight_long(blocks) +
					     hweight_long(numbers)));
		}
	}
}

static struct kunit_case inactive_test_cases[] = {
	KUNIT_CASE(test_decide),
	KUNIT_CASE(test_credits),
	KUNIT_CASE(test_worker),
	KUNIT_CASE(test_worker_retries),
	KUNIT_CASE(test_limits),
	KUNIT_CASE(test_order),
	KUNIT_CASE(test_heavy),
	KUNIT_CASE(test_flush_waits),
	KUNIT_CASE(test_destroy),
	KUNIT_CASE(test_concurrent),
	{}
};

static struct kunit_suite inactive_test_suite = {
	.name = "ext4_inactive",
	.init = inactive_test_init,
	.exit = inactive_test_exit,
	.test_cases = inactive_test_cases,
};

kunit_test_suites(&inactive_test_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests of the queue of inodes to be removed");
MODULE_LICENSE("GPL");
