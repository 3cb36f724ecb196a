// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the per-CPU gate
 */

#include <kunit/interrupts.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu-gate.h>
#include <linux/random.h>
#include <linux/sched/task.h>
#include <linux/spinlock.h>

#define ERAS		200		/* tokens in the life of a gate */
#define QUICK_ERAS	20000	/* of which two take turns */
#define MAX_THREADS	16
#define PATIENCE	(20 * HZ)	/* until a wait counts as a hang */

/* The object behind a token. */
struct era {
	bool		over;
	atomic_t	inside;
	atomic_t	work;
};

struct gate_test {
	struct percpu_gate	gate;
	spinlock_t		lock;		/* for opening, closing */
	struct era		*eras;
	struct era		*now;		/* NULL if closed; lock */
	atomic_t		entered;
	atomic_t		refused;
	atomic_t		wrong;
};

static int gate_init(struct kunit *test)
{
	static struct lock_class_key key;
	struct gate_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->eras = kunit_kcalloc(test, ERAS, sizeof(*t->eras), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->eras);
	spin_lock_init(&t->lock);
	KUNIT_ASSERT_EQ(test, 0,
			percpu_gate_init(&t->gate,
					 sizeof(struct percpu_gate_slot),
					 "gate test", &key));
	test->priv = t;
	return 0;
}

static void gate_exit(struct kunit *test)
{
	struct gate_test *t = test->priv;

	if (t)
		percpu_gate_destroy(&t->gate);
}

/* Number of tasks inside, summed over the slots of all CPUs. */
static int inside(struct percpu_gate *gate)
{
	int cpu, sum = 0;

	for_each_possible_cpu(cpu)
		sum += atomic_read(&percpu_gate_slot(gate, cpu)->inside);
	return sum;
}

static void test_token(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot, *second;

	KUNIT_EXPECT_NULL(test, percpu_gate_enter(&t->gate, &slot));

	percpu_gate_open(&t->gate, &t->eras[0]);
	KUNIT_EXPECT_PTR_EQ(test, percpu_gate_enter(&t->gate, &slot),
			    (void *)&t->eras[0]);
	KUNIT_EXPECT_EQ(test, 1, inside(&t->gate));

	percpu_gate_close(&t->gate);
	KUNIT_EXPECT_NULL(test, percpu_gate_enter(&t->gate, &second));
	KUNIT_EXPECT_FALSE(test, percpu_gate_empty(&t->gate));
	percpu_gate_leave(&t->gate, slot);
	KUNIT_EXPECT_TRUE(test, percpu_gate_empty(&t->gate));

	percpu_gate_open(&t->gate, &t->eras[1]);
	KUNIT_EXPECT_PTR_EQ(test, percpu_gate_enter(&t->gate, &slot),
			    (void *)&t->eras[1]);
	percpu_gate_leave(&t->gate, slot);
	KUNIT_EXPECT_EQ(test, 0, inside(&t->gate));
}

/* A count that is taken back is seen meanwhile. */
static void test_taken_back(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot = __percpu_gate_count(&t->gate);

	KUNIT_EXPECT_FALSE(test, percpu_gate_empty(&t->gate));
	__percpu_gate_uncount(&t->gate, slot);
	KUNIT_EXPECT_TRUE(test, percpu_gate_empty(&t->gate));
}

/* Leaving once too often is a bug of the caller, and triggers a warning. */
static void test_underflow(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot;
	static bool reported;

	if (!IS_ENABLED(CONFIG_BUG) || reported)
		kunit_skip(test, "reported once a boot, and with CONFIG_BUG");
	reported = true;
	slot = __percpu_gate_count(&t->gate);
	__percpu_gate_uncount(&t->gate, slot);
	kunit_warning_suppress(test) {
		__percpu_gate_uncount(&t->gate, slot);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	atomic_set(&slot->inside, 0);
}

static void test_join_closed(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot;

	spin_lock(&t->lock);
	percpu_gate_close(&t->gate);
	slot = percpu_gate_join(&t->gate);
	spin_unlock(&t->lock);
	KUNIT_EXPECT_FALSE(test, percpu_gate_empty(&t->gate));
	percpu_gate_leave(&t->gate, slot);
	KUNIT_EXPECT_TRUE(test, percpu_gate_empty(&t->gate));
}

static void move_to(struct kunit *test, int cpu)
{
	KUNIT_EXPECT_EQ(test, 0,
			set_cpus_allowed_ptr(current, cpumask_of(cpu)));
	KUNIT_EXPECT_EQ(test, cpu, raw_smp_processor_id());
}

/* A task that enters on one CPU and leaves on another uses only one slot. */
static void test_migrate(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot;
	int from, to;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	for_each_online_cpu(from) {
		to = cpumask_next_wrap(from, cpu_online_mask);
		percpu_gate_open(&t->gate, t->eras);
		move_to(test, from);
		KUNIT_EXPECT_NOT_NULL(test, percpu_gate_enter(&t->gate, &slot));
		KUNIT_EXPECT_PTR_EQ(test, slot,
				    percpu_gate_slot(&t->gate, from));
		percpu_gate_close(&t->gate);
		move_to(test, to);
		KUNIT_EXPECT_FALSE(test, percpu_gate_empty(&t->gate));
		percpu_gate_leave(&t->gate, slot);
		KUNIT_EXPECT_EQ(test, 0, inside(&t->gate));
		KUNIT_EXPECT_TRUE(test, percpu_gate_empty(&t->gate));
	}
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

#ifdef CONFIG_HOTPLUG_CPU
/* The slot of an offline CPU still counts the tasks that entered there. */
static void test_cpu_gone(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot;
	int cpu = cpumask_last(cpu_online_mask);
	int err;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	percpu_gate_open(&t->gate, t->eras);
	move_to(test, cpu);
	KUNIT_EXPECT_NOT_NULL(test, percpu_gate_enter(&t->gate, &slot));
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	err = remove_cpu(cpu);
	percpu_gate_close(&t->gate);
	KUNIT_EXPECT_FALSE(test, percpu_gate_empty(&t->gate));
	percpu_gate_leave(&t->gate, slot);
	KUNIT_EXPECT_TRUE(test, percpu_gate_empty(&t->gate));
	if (err)
		kunit_skip(test, "CPU %d does not go off line: %d", cpu, err);
	KUNIT_EXPECT_EQ(test, 0, add_cpu(cpu));
}
#endif

struct waiter {
	struct percpu_gate	*gate;
	struct completion	done;
	struct task_struct	*thread;
};

static int waits(void *arg)
{
	struct waiter *w = arg;

	percpu_gate_wait(w->gate);
	complete(&w->done);
	return 0;
}

static bool queued(struct percpu_gate *gate, int n)
{
	struct wait_queue_entry *entry;

	guard(spinlock_irqsave)(&gate->wait.lock);
	list_for_each_entry(entry, &gate->wait.head, entry)
		n--;
	return !n;
}

/* Start a thread that waits; it is n-th in the queue when this returns. */
static struct waiter *start_waiter(struct kunit *test, int n)
{
	struct gate_test *t = test->priv;
	struct waiter *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	unsigned long end = jiffies + PATIENCE;

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->gate = &t->gate;
	init_completion(&w->done);
	w->thread = kthread_create(waits, w, "gate waiter");
	KUNIT_ASSERT_FALSE(test, IS_ERR(w->thread));
	get_task_struct(w->thread);
	wake_up_process(w->thread);
	while (!queued(&t->gate, n) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_TRUE(test, queued(&t->gate, n));
	return w;
}

/*
 * kthread_stop() would not return for a thread that never wakes up. After it
 * the thread does not use @w any more, which the end of the test frees.
 */
static void expect_woken(struct kunit *test, struct waiter *w)
{
	KUNIT_ASSERT_NE(test, 0,
			wait_for_completion_timeout(&w->done, PATIENCE));
	kthread_stop(w->thread);
	put_task_struct(w->thread);
}

/* Waiters are woken only when the slot that they wait for becomes empty. */
static void test_wait(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot[3];
	struct waiter *w[2];
	int first = cpumask_first(cpu_online_mask);
	int last = cpumask_last(cpu_online_mask);
	int i;

	if (first == last)
		kunit_skip(test, "needs two CPUs");
	percpu_gate_open(&t->gate, t->eras);
	for (i = 0; i < 3; i++) {
		move_to(test, i ? first : last);
		KUNIT_EXPECT_NOT_NULL(test,
				      percpu_gate_enter(&t->gate, &slot[i]));
	}
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	percpu_gate_close(&t->gate);
	w[0] = start_waiter(test, 1);
	w[1] = start_waiter(test, 2);
	percpu_gate_leave(&t->gate, slot[0]);
	KUNIT_EXPECT_TRUE(test, queued(&t->gate, 2));
	percpu_gate_leave(&t->gate, slot[1]);
	KUNIT_EXPECT_TRUE(test, queued(&t->gate, 2));
	percpu_gate_leave(&t->gate, slot[2]);
	expect_woken(test, w[0]);
	expect_woken(test, w[1]);
	KUNIT_EXPECT_TRUE(test, percpu_gate_empty(&t->gate));
}

/* One waiter waits for the slot of the first CPU, one for that of the last. */
static void test_wait_for_two(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot[2];
	struct waiter *w[2];
	int first = cpumask_first(cpu_online_mask);
	int last = cpumask_last(cpu_online_mask);

	if (first == last)
		kunit_skip(test, "needs two CPUs");
	move_to(test, last);
	slot[1] = __percpu_gate_count(&t->gate);
	w[1] = start_waiter(test, 1);
	move_to(test, first);
	slot[0] = __percpu_gate_count(&t->gate);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	w[0] = start_waiter(test, 2);
	__percpu_gate_uncount(&t->gate, slot[1]);
	/* w[1] goes on to wait for the other slot. */
	KUNIT_EXPECT_EQ(test, 0, wait_for_completion_timeout(&w[1]->done, 2));
	__percpu_gate_uncount(&t->gate, slot[0]);
	expect_woken(test, w[0]);
	expect_woken(test, w[1]);
}

/* A task that is counted, then refused, wakes a waiter that saw the count. */
static void test_wait_for_refused(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct percpu_gate_slot *slot = __percpu_gate_count(&t->gate);
	struct waiter *w = start_waiter(test, 1);

	__percpu_gate_uncount(&t->gate, slot);
	expect_woken(test, w);
}

static void close_and_drain(struct gate_test *t)
{
	percpu_gate_close(&t->gate);
	while (!percpu_gate_empty(&t->gate)) {
		spin_unlock(&t->lock);
		percpu_gate_wait(&t->gate);
		spin_lock(&t->lock);
	}
}

/* Start up to @n threads; returns how many were started. */
static int start_threads(struct kunit *test, struct task_struct **thread, int n,
			 int (*fn)(void *))
{
	int i;

	for (i = 0; i < n; i++) {
		thread[i] = kthread_run(fn, test->priv, "gate %d", i);
		if (IS_ERR(thread[i])) {
			KUNIT_FAIL(test, "no thread: %pe", thread[i]);
			break;
		}
	}
	return i;
}

static void stop_threads(struct task_struct **thread, int n)
{
	while (n)
		kthread_stop(thread[--n]);
}

/* Work inside the gate: @era must not be over, nor end meanwhile. */
static void work_inside(struct gate_test *t, struct era *era)
{
	if (READ_ONCE(era->over))
		atomic_inc(&t->wrong);
	atomic_inc(&era->inside);
	switch (get_random_u32_below(16)) {
	case 0:
		schedule_timeout_uninterruptible(1);
		break;
	case 1 ... 4:
		cond_resched();
		break;
	}
	atomic_inc(&era->work);
	if (READ_ONCE(era->over))
		atomic_inc(&t->wrong);
	atomic_dec(&era->inside);
}

static int enters(void *arg)
{
	struct gate_test *t = arg;
	struct percpu_gate_slot *slot;

	while (!kthread_should_stop()) {
		struct era *era = percpu_gate_enter(&t->gate, &slot);

		if (era) {
			atomic_inc(&t->entered);
			work_inside(t, era);
			percpu_gate_leave(&t->gate, slot);
		}
		cond_resched();
	}
	return 0;
}

/* Joins also while the gate is closed, as long as t->now allows it. */
static int joins(void *arg)
{
	struct gate_test *t = arg;
	struct percpu_gate_slot *slot;

	while (!kthread_should_stop()) {
		struct era *era;

		spin_lock(&t->lock);
		era = t->now;
		if (era)
			slot = percpu_gate_join(&t->gate);
		spin_unlock(&t->lock);
		if (era) {
			atomic_inc(&t->entered);
			work_inside(t, era);
			percpu_gate_leave(&t->gate, slot);
		}
		schedule_timeout_uninterruptible(1);
	}
	return 0;
}

/* Tasks sleep and migrate inside, while the gate is closed again and again. */
static void test_sleep_inside(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct task_struct *entering[MAX_THREADS], *joining[2];
	int n = min_t(int, MAX_THREADS, 2 * num_online_cpus());
	int entrants, joiners, i, work = 0, left = 0;

	entrants = start_threads(test, entering, n, enters);
	joiners = start_threads(test, joining, ARRAY_SIZE(joining), joins);
	for (i = 0; entrants && i < ERAS; i++) {
		struct era *era = &t->eras[i];
		unsigned long end = jiffies + PATIENCE;
		int before = atomic_read(&t->entered);

		spin_lock(&t->lock);
		t->now = era;
		percpu_gate_open(&t->gate, era);
		spin_unlock(&t->lock);
		while (atomic_read(&t->entered) - before < 2 &&
		       time_before(jiffies, end))
			schedule_timeout_uninterruptible(1);

		spin_lock(&t->lock);
		close_and_drain(t);
		t->now = NULL;
		left += atomic_read(&era->inside);
		WRITE_ONCE(era->over, true);
		spin_unlock(&t->lock);
	}
	stop_threads(entering, entrants);
	stop_threads(joining, joiners);

	KUNIT_EXPECT_EQ(test, 0, left);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->wrong));
	KUNIT_EXPECT_EQ(test, 0, inside(&t->gate));
	KUNIT_EXPECT_GE(test, atomic_read(&t->entered), 2 * ERAS);
	for (i = 0; i < ERAS; i++)
		work += atomic_read(&t->eras[i].work);
	KUNIT_EXPECT_EQ(test, work, atomic_read(&t->entered));
}

static int enters_quickly(void *arg)
{
	struct gate_test *t = arg;
	struct percpu_gate_slot *slot;
	unsigned int tries = 0;

	while (!kthread_should_stop()) {
		struct era *era;

		if (!(++tries % 1024))
			cond_resched();
		era = percpu_gate_enter(&t->gate, &slot);
		if (!era) {
			atomic_inc(&t->refused);
			continue;
		}
		if (READ_ONCE(era->over))
			atomic_inc(&t->wrong);
		cpu_relax();
		if (READ_ONCE(era->over))
			atomic_inc(&t->wrong);
		atomic_inc(&t->entered);
		percpu_gate_leave(&t->gate, slot);
	}
	return 0;
}

static void relax(void)
{
	int n = get_random_u32_below(256);

	while (n--)
		cpu_relax();
}

/* Tasks enter just as the gate is closed, and are interrupted there. */
static void test_close_quickly(struct kunit *test)
{
	struct gate_test *t = test->priv;
	struct kunit_interrupts *in = kunit_start_interrupts(test);
	struct task_struct *thread[3];
	unsigned long end = jiffies + PATIENCE;
	int n, i;

	n = start_threads(test, thread,
			  min_t(int, ARRAY_SIZE(thread),
				max_t(int, 1, num_online_cpus() - 1)),
			  enters_quickly);
	for (i = 0; n && (i < QUICK_ERAS || atomic_read(&t->entered) < 100);
	     i++) {
		struct era *era = &t->eras[i % 2];

		if (time_after(jiffies, end))
			break;
		WRITE_ONCE(era->over, false);
		spin_lock(&t->lock);
		percpu_gate_open(&t->gate, era);
		spin_unlock(&t->lock);
		/* The threads may have no other CPU to run on. */
		if (!(i % 128))
			schedule_timeout_uninterruptible(1);
		relax();
		spin_lock(&t->lock);
		close_and_drain(t);
		WRITE_ONCE(era->over, true);
		relax();
		spin_unlock(&t->lock);
	}
	stop_threads(thread, n);
	kunit_stop_interrupts(test, in);

	KUNIT_EXPECT_EQ(test, 0, atomic_read(&t->wrong));
	KUNIT_EXPECT_EQ(test, 0, inside(&t->gate));
	/* With fewer entries the test shows nothing. */
	KUNIT_EXPECT_GE(test, atomic_read(&t->entered), 100);
	kunit_info(test, "%d times closed, %d entered, %d refused\n", i,
		   atomic_read(&t->entered), atomic_read(&t->refused));
}

static struct kunit_case percpu_gate_cases[] = {
	KUNIT_CASE(test_token),
	KUNIT_CASE(test_taken_back),
	KUNIT_CASE(test_underflow),
	KUNIT_CASE(test_join_closed),
	KUNIT_CASE(test_migrate),
#ifdef CONFIG_HOTPLUG_CPU
	KUNIT_CASE(test_cpu_gone),
#endif
	KUNIT_CASE(test_wait),
	KUNIT_CASE(test_wait_for_two),
	KUNIT_CASE(test_wait_for_refused),
	KUNIT_CASE_SLOW(test_sleep_inside),
	KUNIT_CASE_SLOW(test_close_quickly),
	{}
};

static struct kunit_suite percpu_gate_suite = {
	.name = "percpu_gate",
	.init = gate_init,
	.exit = gate_exit,
	.test_cases = percpu_gate_cases,
};

kunit_test_suite(percpu_gate_suite);

MODULE_DESCRIPTION("KUnit tests of the per-CPU gate");
MODULE_LICENSE("GPL");
