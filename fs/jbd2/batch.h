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

#endif /* _JBD2_BATCH_H */
