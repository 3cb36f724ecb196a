/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lock of XFS's buffers: a running task may get ahead of those that sleep, for a while.
 *
 * Tasks lock a buffer, each twice, or try to. All that is done to b_lock is atomic, and all
 * that is done to the list is done under b_wait_lock, so every step is a step here.
 *
 * Holds: one task at a time has the lock. No task sleeps for ever. A trylock does not succeed
 * while a task is in the list. A waiter whose turn it is gets the lock from the release: that
 * does not free it for another task. Its turn comes at any time while it waits.
 *
 * Commit: xfs: let running tasks take a buffer's lock before sleeping ones
 * Code: fs/xfs/xfs_buf.c xfs_buf_lock_fast: int old = atomic_read(&bp->b_lock); while (!(old & XFS_BUF_LOCKED)) { if (atomic_try_cmpxchg_acquire(&bp->b_lock, &old, old | XFS_BUF_LOCKED)) return true; } return false; }
 * Code: fs/xfs/xfs_buf.c xfs_buf_lock_dequeue: list_del(&waiter->list); if (list_empty(&bp->b_lock_waiters)) atomic_andnot(XFS_BUF_WAITERS, &bp->b_lock); }
 * Code: fs/xfs/xfs_buf.c xfs_buf_lock_slow: raw_spin_lock(&bp->b_wait_lock); list_add_tail(&waiter.list, &bp->b_lock_waiters); for (;;) { old = atomic_fetch_or_acquire(XFS_BUF_LOCKED | XFS_BUF_WAITERS, &bp->b_lock); if (!(old & XFS_BUF_LOCKED)) { xfs_buf_lock_dequeue(bp, &waiter); break; } waiter.woken = false; set_current_state(TASK_UNINTERRUPTIBLE); raw_spin_unlock(&bp->b_wait_lock); schedule(); raw_spin_lock(&bp->b_wait_lock); if (waiter.granted) break; } raw_spin_unlock(&bp->b_wait_lock); ... }
 * Code: fs/xfs/xfs_buf.c xfs_buf_unlock_slow: raw_spin_lock(&bp->b_wait_lock); waiter = list_first_entry_or_null(&bp->b_lock_waiters, struct xfs_buf_waiter, list); ... if (!waiter->woken) wake_up_process(waiter->task); if (rt_or_dl_task(waiter->task) || time_after(jiffies, waiter->since + XFS_BUF_LOCK_PATIENCE)) { waiter->granted = true; xfs_buf_lock_dequeue(bp, waiter); } else { waiter->woken = true; atomic_fetch_andnot_release(XFS_BUF_LOCKED, &bp->b_lock); } ... raw_spin_unlock(&bp->b_wait_lock); }
 * Code: fs/xfs/xfs_buf.c xfs_buf_trylock: int old = 0; if (atomic_try_cmpxchg_acquire(&bp->b_lock, &old, XFS_BUF_LOCKED)) {
 * Code: fs/xfs/xfs_buf.c xfs_buf_unlock: int old = XFS_BUF_LOCKED; ... if (!atomic_try_cmpxchg_release(&bp->b_lock, &old, 0)) xfs_buf_unlock_slow(bp);
 *
 * BREAK_waiters_late (hang): XFS_BUF_WAITERS is set after the look at XFS_BUF_LOCKED
 * BREAK_list_late (assert): the waiter is put into the list after that
 * BREAK_state_late (hang): it is set to sleep after b_wait_lock is released
 * BREAK_clear_waiters (assert): a task that leaves the list clears XFS_BUF_WAITERS for all
 * BREAK_no_wake (hang): a release does not wake the first waiter
 * BREAK_no_turn (assert): a waiter never gets its turn
 * BREAK_turn_frees (hang): a release that hands over the lock frees it, too
 * BREAK_try_steals (assert): a trylock does not look at XFS_BUF_WAITERS
 */
#define TASKS	3

bool locked, waiters;
byte wait_lock;			/* 1 + its holder */
byte list[TASKS], nr;
bool late[TASKS];		/* has waited for long */
bool woken[TASKS], granted[TASKS], asleep[TASKS];
byte inside;			/* tasks that have the lock */
byte behind;			/* tasks that found the buffer locked and are in the list */

#define FIRST	list[0]
#define DUE(t)	late[t]

inline take_wait_lock()
{
	atomic { !wait_lock -> wait_lock = 1 + me }
}

/* Atomic. */
inline dequeue(t)
{
	i = 0;
	do
	:: list[i] != t -> i++
	:: else -> break
	od;
	nr--;
	do
	:: i < nr -> list[i] = list[i + 1]; i++
	:: else -> break
	od;
	list[nr] = 0;
	i = 0;
	behind = behind & (255 - (1 << t));
	late[t] = false;
#ifdef BREAK_clear_waiters
	waiters = false
#else
	waiters = (nr > 0)
#endif
}

inline enter()
{
	inside++;
	assert(inside == 1)
}

inline lock()
{
	if
	:: atomic { !locked -> locked = true; enter() }
	:: atomic { locked ->
		wait_lock == 0 -> wait_lock = 1 + me
	   };
	   slow()
	fi
}

inline slow()
{
#ifndef BREAK_list_late
	atomic { list[nr] = me; nr++ };
#endif
	do
	:: atomic {
		old = locked;
		locked = true;
#ifndef BREAK_waiters_late
		waiters = true;
#endif
		if
		:: !old -> enter(); dequeue(me); wait_lock = 0; break
		:: else -> behind = behind | (1 << me)
		fi
	   };
#ifdef BREAK_waiters_late
	   waiters = true;
#endif
	   atomic {
#ifdef BREAK_list_late
		if
		:: !asleep_once -> list[nr] = me; nr++; asleep_once = true
		:: else
		fi;
#endif
		woken[me] = false;
#ifndef BREAK_state_late
		asleep[me] = true;
#endif
		wait_lock = 0
	   };
#ifdef BREAK_state_late
	   asleep[me] = true;
#endif
	   !asleep[me];
	   take_wait_lock();
	   atomic {
		if
		:: granted[me] -> granted[me] = false; enter(); wait_lock = 0; break
		:: else
		fi
	   }
	od;
	atomic { woken[me] = false; old = false }
}

inline unlock()
{
	if
	:: atomic { locked && !waiters -> inside--; locked = false }
	:: atomic { waiters -> skip };
	   take_wait_lock();
	   atomic {
		inside--;
#ifndef BREAK_no_wake
		if
		:: !woken[FIRST] -> asleep[FIRST] = false
		:: else
		fi;
#endif
		if
#ifndef BREAK_no_turn
		:: DUE(FIRST) ->
			granted[FIRST] = true;
			first = FIRST;
			dequeue(first);
#ifdef BREAK_turn_frees
			locked = false;
#endif
#endif
		:: else ->
			woken[FIRST] = true;
			locked = false;
			assert(!DUE(FIRST))
		fi;
		wait_lock = 0
	   }
	fi
}

inline try()
{
	if
#ifdef BREAK_try_steals
	:: atomic { !locked ->
#else
	:: atomic { !locked && !waiters ->
#endif
		assert(!behind);
		locked = true;
		enter();
		mine = true
	   }
	:: atomic { locked || waiters -> skip }
	fi
}

proctype task(byte me)
{
	byte i, turn, first;
	bool old, mine;
#ifdef BREAK_list_late
	bool asleep_once;
#endif

	do
	:: turn < 2 -> turn++;
		if
		:: lock(); mine = true
		:: try()
		fi;
		if
		:: mine -> mine = false; unlock()
		:: else
		fi
	:: else -> break
	od
}

proctype clock()
{
end:
	do
	:: atomic { (behind & 1) && !late[0] -> late[0] = true }
	:: atomic { (behind & 2) && !late[1] -> late[1] = true }
	:: atomic { (behind & 4) && !late[2] -> late[2] = true }
	od
}

init {
	atomic {
		run clock();
		run task(0);
		run task(1);
		run task(2)
	}
}
