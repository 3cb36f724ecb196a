/* SPDX-License-Identifier: GPL-2.0+ */
/*
 * How long to wait for more handles to join a transaction before it is
 * committed. Pure functions without side effects, tested by KUnit.
 */

#ifndef _JBD2_BATCH_H
#define _JBD2_BATCH_H

#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

/**
 * jbd2_batch_delay() - delay before a synchronous handle requests a commit
 * @age: age of the transaction, in ns
 * @average: average commit time, in ns
 * @min_us: j_min_batch_time, in us
 * @max_us: j_max_batch_time, in us; 0 disables waiting
 *
 * Return: ns to wait for more handles to join; 0 if the transaction is already
 * older than a commit takes.
 */
static inline u64 jbd2_batch_delay(u64 age, u64 average, u32 min_us, u32 max_us)
{
	u64 time = max(average, (u64)min_us * NSEC_PER_USEC);

	time = min(time, (u64)max_us * NSEC_PER_USEC);
	return age < time ? time : 0;
}

/*
 * The rejoin delay is at most JBD2_REJOIN_MAX_NS, and at most the average
 * commit time divided by JBD2_REJOIN_PART. A delay below JBD2_REJOIN_MIN_NS is
 * not worth it, as sleeping and waking up take as long.
 */
#define JBD2_REJOIN_MIN_NS	(100 * NSEC_PER_USEC)
#define JBD2_REJOIN_MAX_NS	(500 * NSEC_PER_USEC)
#define JBD2_REJOIN_PART	16

/**
 * jbd2_rejoin_delay() - delay before the next transaction is locked
 * @average: average commit time, in ns
 * @waiters: there are waiters for the commit that has just ended
 * @requested: the next commit was requested before that one ended
 * @max_us: j_max_batch_time, in us; less than 100 disables waiting
 *
 * If both @waiters and @requested are true, tasks that sync in a loop have
 * split into two groups, and each commit serves only one of them: a task that
 * has just been woken up misses the next transaction by the microseconds it
 * needs to return to it. Once it joins in time the groups merge, and no commit
 * is requested before the previous one ends. A task that syncs alone never has
 * two commits in flight.
 *
 * Return: ns to wait before the next transaction is locked.
 */
static inline u64 jbd2_rejoin_delay(u64 average, bool waiters, bool requested,
				    u32 max_us)
{
	u64 delay;

	if (!waiters || !requested)
		return 0;
	delay = min3(average / JBD2_REJOIN_PART, (u64)JBD2_REJOIN_MAX_NS,
		     (u64)max_us * NSEC_PER_USEC);
	return delay < JBD2_REJOIN_MIN_NS ? 0 : delay;
}

#endif /* _JBD2_BATCH_H */
