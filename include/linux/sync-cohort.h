/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_SYNC_COHORT_H
#define _LINUX_SYNC_COHORT_H
/*
 * Tasks that are about to need a commit of a filesystem's log
 *
 * fsync(2) writes the data of a file, and then waits for a commit of the
 * filesystem's log, which has to begin after metadata was changed for that
 * data. A device that serves one request at a time ends the writes of several
 * tasks one by one. The first task to have its data written requests a commit,
 * which begins without the others. They need the next one; so each commit
 * serves few tasks, and costs a request that data could have had.
 *
 * A cohort counts the tasks that are in this phase of fsync. A commit that is
 * about to begin waits for those that are there at that time, but not for
 * others that come meanwhile, so a task that syncs alone never waits. It waits
 * for three times the average time of the phase at most, and neither counts
 * tasks nor waits where that is so short that sleeping and waking up would take
 * as long. A task that stays for longer is not waited for again: the tasks that
 * a commit waits for have a slot of their own, which others do not join before
 * all of them have left. If there is no empty slot, a commit does not wait.
 *
 * Tasks that overwrite are counted separately. The commit has their changes, so
 * it need not wait for their data. But tasks that sync in a loop may split into
 * two groups, one of which writes data while the other waits for a commit, with
 * two commits for each round of writes. If a commit was requested before the
 * one before it ended, a wait for those that overwrite gives the tasks that
 * wake up the time to join in, and there is one group.
 *
 * Nothing but the time at which a commit begins depends on all this. The
 * average may miss an update, and a task that reads @slot just before it changes
 * is waited for although it came later.
 *
 * It is a header, so that each filesystem that is built as a module carries it.
 */
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/wait.h>

/* In microseconds. */
#define SYNC_COHORT_MIN_STAY	1600
#define SYNC_COHORT_MAX_WAIT	250000

#define SYNC_COHORT_SLOTS	8

/**
 * struct sync_members - tasks that a commit may wait for
 * @changing: how many change metadata when their data has been written
 * @others: how many do not
 */
struct sync_members {
	atomic_t		changing;
	atomic_t		others;
};

/**
 * struct sync_cohort - tasks that write data in fsync on a filesystem
 * @slots: all of them
 * @slot: which slot tasks join; only the committer changes it
 * @stay_us: average time of the phase, in microseconds
 * @hurry: numbers of commits that tasks wait for and that should begin, by
 *	parity
 * @wait: the committer
 */
struct sync_cohort {
	struct sync_members	slots[SYNC_COHORT_SLOTS];
	unsigned int		slot;
	unsigned int		stay_us;
	unsigned int		hurry[2];
	wait_queue_head_t	wait;
} ____cacheline_aligned_in_smp;

/**
 * struct sync_member - what a task has to know to leave a cohort
 * @since: when it joined
 * @of: where it is counted, or NULL
 */
struct sync_member {
	ktime_t			since;
	atomic_t		*of;
};

static inline void sync_cohort_init(struct sync_cohort *cohort)
{
	memset(cohort, 0, sizeof(*cohort));
	init_waitqueue_head(&cohort->wait);
}

/**
 * sync_cohort_join() - begin to write data for fsync
 * @cohort: of the filesystem
 * @member: to be passed to sync_cohort_leave()
 * @changes: metadata will change when the data has been written; may be a guess
 *
 * What the task does until it leaves should not depend on a commit of the log.
 * If it does after all, that takes longer by the limit of the committer's wait.
 */
static inline void sync_cohort_join(struct sync_cohort *cohort,
				    struct sync_member *member, bool changes)
{
	struct sync_members *members = &cohort->slots[READ_ONCE(cohort->slot)];

	member->since = ktime_get();
	member->of = NULL;
	if (READ_ONCE(cohort->stay_us) < SYNC_COHORT_MIN_STAY)
		return;
	member->of = changes ? &members->changing : &members->others;
	atomic_inc(member->of);
}

static inline void sync_cohort_wake(struct sync_cohort *cohort)
{
	/*
	 * The caller has changed what sync_cohort_gather() looks at, or has seen
	 * another task's change of it. Pairs with the barrier of
	 * prepare_to_wait() there:
	 */
	smp_mb();
	/* either the committer is seen here, or it sees the change. */
	if (waitqueue_active(&cohort->wait))
		wake_up(&cohort->wait);
}

/* What the average becomes; a single long stay does not change it much. */
static inline unsigned int sync_cohort_average(unsigned int average, s64 stay)
{
	stay = clamp_t(s64, stay, 0, 2 * average + SYNC_COHORT_MIN_STAY);
	/* On a fast device it becomes 0, and is not written again. */
	if (average < SYNC_COHORT_MIN_STAY && stay < SYNC_COHORT_MIN_STAY)
		return average - DIV_ROUND_UP(average, 8);
	average = average - average / 8 + (unsigned int)stay / 8;
	return min(average, SYNC_COHORT_MAX_WAIT);
}

/**
 * sync_cohort_leave() - end what sync_cohort_join() has begun
 * @cohort: of the filesystem
 * @member: of the task
 *
 * All metadata that the data needs has been changed, or there was an error.
 */
static inline void sync_cohort_leave(struct sync_cohort *cohort,
				     struct sync_member *member)
{
	unsigned int old = READ_ONCE(cohort->stay_us);
	unsigned int new = sync_cohort_average(old,
			ktime_us_delta(ktime_get(), member->since));

	if (new != old)
		WRITE_ONCE(cohort->stay_us, new);
	if (member->of && atomic_dec_and_test(member->of))
		sync_cohort_wake(cohort);
}

/**
 * sync_cohort_hurry() - let a commit begin at once
 * @cohort: of the filesystem
 * @commit: number of the commit
 *
 * The caller has requested the commit, or knows that a task has, and is about
 * to wait for it, but not in fsync(2).
 */
static inline void sync_cohort_hurry(struct sync_cohort *cohort,
				     unsigned int commit)
{
	if (READ_ONCE(cohort->hurry[commit & 1]) != commit)
		WRITE_ONCE(cohort->hurry[commit & 1], commit);
	sync_cohort_wake(cohort);
}

/* There is no task to wait for, or one is in a hurry for the commit. */
static inline bool sync_cohort_ready(struct sync_cohort *cohort,
				     struct sync_members *members,
				     unsigned int commit, bool all)
{
	return READ_ONCE(cohort->hurry[commit & 1]) == commit ||
		(!atomic_read(&members->changing) &&
		 (!all || !atomic_read(&members->others)));
}

/* Another slot, without tasks that an earlier commit has found, or -1. */
static inline int sync_cohort_empty_slot(struct sync_cohort *cohort)
{
	unsigned int slot;

	for (slot = 0; slot < SYNC_COHORT_SLOTS; slot++)
		if (slot != cohort->slot &&
		    !atomic_read(&cohort->slots[slot].changing) &&
		    !atomic_read(&cohort->slots[slot].others))
			return slot;
	return -1;
}

/* As sync_cohort_gather(). Returns false if it waits until the limit, in us. */
static inline bool __sync_cohort_gather(struct sync_cohort *cohort,
					unsigned int commit, bool all,
					unsigned int limit)
{
	struct sync_members *members = &cohort->slots[cohort->slot];
	DEFINE_WAIT(wait);
	ktime_t end;
	bool ready;
	int empty;

	if (sync_cohort_ready(cohort, members, commit, all))
		return true;
	empty = sync_cohort_empty_slot(cohort);
	if (empty < 0)
		return true;
	/* Others that come now do not make this wait longer. */
	WRITE_ONCE(cohort->slot, empty);
	end = ktime_add_us(ktime_get(), limit);
	do {
		prepare_to_wait(&cohort->wait, &wait, TASK_UNINTERRUPTIBLE);
		ready = sync_cohort_ready(cohort, members, commit, all);
		/* Without the task's slack, which may be of any length. */
	} while (!ready &&
		 schedule_hrtimeout_range(&end, 0, HRTIMER_MODE_ABS));
	finish_wait(&cohort->wait, &wait);
	return ready;
}

/**
 * sync_cohort_gather() - wait for tasks that are about to need a commit
 * @cohort: of the filesystem
 * @commit: number of the commit that is about to begin
 * @all: wait for tasks that overwrite, too
 *
 * Waits for those that are members now, but for none that was there already when
 * a commit waited before. Ends early if a task is in a hurry. One task at a time
 * may call it, the one that is about to begin the commit.
 *
 * Context: process, may sleep, for SYNC_COHORT_MAX_WAIT us at most.
 */
static inline void sync_cohort_gather(struct sync_cohort *cohort,
				      unsigned int commit, bool all)
{
	unsigned int stay = READ_ONCE(cohort->stay_us);

	might_sleep();
	if (stay < SYNC_COHORT_MIN_STAY ||
	    __sync_cohort_gather(cohort, commit, all,
				 min(3 * stay, SYNC_COHORT_MAX_WAIT)))
		return;
	/* An average that is too short grows again. */
	stay = READ_ONCE(cohort->stay_us);
	WRITE_ONCE(cohort->stay_us, stay - stay / 8);
}

#endif /* _LINUX_SYNC_COHORT_H */
