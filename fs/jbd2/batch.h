/* SPDX-License-Identifier: GPL-2.0+ */
/*
 * How long to wait for others to join a transaction before it is committed. Decisions
 * only, without side effects: KUnit tests them.
 */

#ifndef _JBD2_BATCH_H
#define _JBD2_BATCH_H

#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

/**
 * jbd2_batch_delay() - how long a synchronous handle waits before it requests a commit
 * @age: of the transaction, in ns
 * @average: time that commits take, in ns
 * @min_us: j_min_batch_time, in us
 * @max_us: j_max_batch_time, in us; 0 turns waiting off
 *
 * Return: ns to wait for others; 0 if the transaction is older than commits take.
 */
static inline u64 jbd2_batch_delay(u64 age, u64 average, u32 min_us, u32 max_us)
{
	u64 time = max(average, (u64)min_us * NSEC_PER_USEC);

	time = min(time, (u64)max_us * NSEC_PER_USEC);
	return age < time ? time : 0;
}

/*
 * At most this long, and at most this part of the time that a commit takes. Less than the first
 * is not worth it: to sleep and wake up takes as long.
 */
#define JBD2_REJOIN_MIN_NS	(100 * NSEC_PER_USEC)
#define JBD2_REJOIN_MAX_NS	(500 * NSEC_PER_USEC)
#define JBD2_REJOIN_PART	16

/**
 * jbd2_rejoin_delay() - how long the next commit waits for those who waited for the last
 * @average: time that commits take, in ns
 * @waiters: somebody waited for the commit that has just ended
 * @requested: the next commit was requested before that one ended
 * @max_us: j_max_batch_time, in us; less than 100 turns waiting off
 *
 * If both are true, tasks that sync in a loop have split into two groups, and each commit
 * is for one of them: who has just been woken up misses the next transaction by the
 * microseconds in which he would come back to it. Once he has made it they are one group,
 * and nobody requests a commit before the last one ends. A task that syncs alone never
 * has two commits on their way.
 *
 * Return: ns to wait before the next transaction is locked.
 */
static inline u64 jbd2_rejoin_delay(u64 average, bool waiters, bool requested, u32 max_us)
{
	u64 delay;

	if (!waiters || !requested)
		return 0;
	delay = min3(average / JBD2_REJOIN_PART, (u64)JBD2_REJOIN_MAX_NS,
		     (u64)max_us * NSEC_PER_USEC);
	return delay < JBD2_REJOIN_MIN_NS ? 0 : delay;
}

#endif /* _JBD2_BATCH_H */
