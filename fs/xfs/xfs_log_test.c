// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the log space that CPUs keep as credits. Part of xfs_log.c.
 */
#include <kunit/test.h>

#define LOG_TEST_SIZE	(64 << 20)
#define LOG_TEST_MAX	(LOG_TEST_SIZE / 64)

struct log_test {
	struct xfs_mount	mount;
	struct xlog		log;
	struct xfs_cil		cil;
	struct xlog_ticket	ticket;
};

static int
log_test_credits(
	struct log_test		*t)
{
	struct xlog_cil_pcp	*pcp;
	int			cpu, bytes = 0;

	for_each_possible_cpu(cpu) {
		pcp = per_cpu_ptr(t->cil.xc_pcp, cpu);
		bytes += atomic_read(&pcp->log_credit);
	}
	return bytes;
}

/* What a ticket does that reserves log space while there is enough. */
static void
log_test_reserve(
	struct log_test		*t,
	int			bytes)
{
	xlog_grant_add_space(&t->log.l_reserve_head, bytes);
	xlog_grant_add_space(&t->log.l_write_head, bytes);
}

static void
log_test_expect(
	struct kunit		*test,
	int			heads,
	int			credits)
{
	struct log_test		*t = test->priv;
	struct xlog		*log = &t->log;

	KUNIT_EXPECT_EQ(test, heads, atomic64_read(&log->l_reserve_head.grant));
	KUNIT_EXPECT_EQ(test, heads, atomic64_read(&log->l_write_head.grant));
	KUNIT_EXPECT_EQ(test, credits, log_test_credits(t));
	KUNIT_EXPECT_EQ(test, heads - credits,
			xlog_grant_reserved(log, &log->l_reserve_head));
}

/* This task waits for log space; it does not sleep unless it calls schedule(). */
static void
log_test_wait(
	struct log_test		*t,
	struct xlog_grant_head	*head)
{
	t->ticket.t_task = current;
	list_add_tail(&t->ticket.t_queue, &head->waiters);
	set_current_state(TASK_UNINTERRUPTIBLE);
}

static bool
log_test_woken(
	struct log_test		*t)
{
	bool			woken = task_is_running(current);

	__set_current_state(TASK_RUNNING);
	list_del_init(&t->ticket.t_queue);
	return woken;
}

/* Space moves between tickets and credits while the heads stay as they are. */
static void
test_credit_take(
	struct kunit		*test)
{
	struct log_test		*t = test->priv;
	struct xlog		*log = &t->log;

	/* A credit is of one CPU. */
	migrate_disable();
	KUNIT_EXPECT_FALSE(test, xlog_credit_take(log, 1));
	log_test_reserve(t, 1000);
	log_test_expect(test, 1000, 0);
	xlog_credit_put(log, 1000);
	log_test_expect(test, 1000, 1000);
	KUNIT_EXPECT_TRUE(test, xlog_credit_take(log, 600));
	log_test_expect(test, 1000, 400);
	KUNIT_EXPECT_FALSE(test, xlog_credit_take(log, 600));
	log_test_expect(test, 1000, 400);
	KUNIT_EXPECT_TRUE(test, xlog_credit_take(log, 400));
	log_test_expect(test, 1000, 0);
	migrate_enable();
}

/* What does not fit into a credit, or is negative, goes to both heads. */
static void
test_credit_limits(
	struct kunit		*test)
{
	struct log_test		*t = test->priv;
	struct xlog		*log = &t->log;

	migrate_disable();
	log_test_reserve(t, 2 * LOG_TEST_MAX);
	xlog_credit_put(log, LOG_TEST_MAX);
	log_test_expect(test, 2 * LOG_TEST_MAX, LOG_TEST_MAX);
	xlog_credit_put(log, 100);
	log_test_expect(test, 2 * LOG_TEST_MAX - 100, LOG_TEST_MAX);
	xlog_credit_put(log, -100);
	log_test_expect(test, 2 * LOG_TEST_MAX, LOG_TEST_MAX);
	migrate_enable();

	/* A log that is too small for credits has none. */
	xlog_credit_drain(log);
	log_test_expect(test, LOG_TEST_MAX, 0);
	log->l_credit_max = 0;
	xlog_credit_put(log, 100);
	log_test_expect(test, LOG_TEST_MAX - 100, 0);
}

/* Nothing is taken while the tickets have all of the log. */
static void
test_credit_full_log(
	struct kunit		*test)
{
	struct log_test		*t = test->priv;
	struct xlog		*log = &t->log;

	migrate_disable();
	log_test_reserve(t, LOG_TEST_SIZE);
	xlog_credit_put(log, 1000);
	KUNIT_EXPECT_FALSE(test, xlog_credit_take(log, 1000));
	migrate_enable();
	log_test_expect(test, LOG_TEST_SIZE, 1000);
}

/* While a ticket waits nothing is taken, and what is given back wakes it. */
static void
log_test_waiter(
	struct kunit		*test,
	struct xlog_grant_head	*head)
{
	struct log_test		*t = test->priv;
	struct xlog		*log = &t->log;

	migrate_disable();
	log_test_reserve(t, 5000);
	xlog_credit_put(log, 3000);
	log_test_wait(t, head);
	KUNIT_EXPECT_FALSE(test, xlog_credit_take(log, 1000));
	xlog_credit_put(log, 1000);
	KUNIT_EXPECT_TRUE(test, log_test_woken(t));
	migrate_enable();
	log_test_expect(test, 1000, 0);
}

static void
test_credit_reserve_waiter(
	struct kunit		*test)
{
	struct log_test		*t = test->priv;

	log_test_waiter(test, &t->log.l_reserve_head);
}

static void
test_credit_write_waiter(
	struct kunit		*test)
{
	struct log_test		*t = test->priv;

	log_test_waiter(test, &t->log.l_write_head);
}

/* A task that waits takes the credits of all CPUs, and may wake itself. */
static void
test_credit_drain(
	struct kunit		*test)
{
	struct log_test		*t = test->priv;
	struct xlog_cil_pcp	*pcp;
	int			cpu;

	for_each_possible_cpu(cpu) {
		log_test_reserve(t, 1000);
		pcp = per_cpu_ptr(t->cil.xc_pcp, cpu);
		atomic_set(&pcp->log_credit, 1000);
	}
	log_test_wait(t, &t->log.l_reserve_head);
	xlog_credit_drain(&t->log);
	KUNIT_EXPECT_TRUE(test, log_test_woken(t));
	log_test_expect(test, 0, 0);
}

static int
log_test_init(
	struct kunit		*test)
{
	struct log_test		*t;
	struct xlog		*log;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	test->priv = t;
	log = &t->log;
	log->l_mp = &t->mount;
	log->l_cilp = &t->cil;
	log->l_logsize = LOG_TEST_SIZE;
	log->l_credit_max = LOG_TEST_MAX;
	xlog_grant_head_init(&log->l_reserve_head);
	xlog_grant_head_init(&log->l_write_head);
	t->mount.m_log = log;
	t->ticket.t_flags = XLOG_TIC_PERM_RESERV;
	t->ticket.t_unit_res = 1000;
	t->ticket.t_cnt = 1;
	t->cil.xc_pcp = alloc_percpu(struct xlog_cil_pcp);
	KUNIT_ASSERT_NOT_NULL(test, t->cil.xc_pcp);
	return 0;
}

static void
log_test_exit(
	struct kunit		*test)
{
	struct log_test		*t = test->priv;

	if (!t || !t->cil.xc_pcp)
		return;
	free_percpu(t->cil.xc_pcp);
}

static struct kunit_case log_test_cases[] = {
	KUNIT_CASE(test_credit_take),
	KUNIT_CASE(test_credit_limits),
	KUNIT_CASE(test_credit_full_log),
	KUNIT_CASE(test_credit_reserve_waiter),
	KUNIT_CASE(test_credit_write_waiter),
	KUNIT_CASE(test_credit_drain),
	{}
};

static struct kunit_suite log_test_suite = {
	.name		= "xfs_log",
	.init		= log_test_init,
	.exit		= log_test_exit,
	.test_cases	= log_test_cases,
};

kunit_test_suite(log_test_suite);
