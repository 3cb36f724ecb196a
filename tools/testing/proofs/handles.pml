/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which task may start a handle, and when: the gate of a journal, reservations, barrier, abort.
 *
 * Three tasks. The first starts a handle with a reservation that it drops, the second one
 * whose reservation becomes a handle of its own later, in a locked transaction, too. The
 * third starts two without reservation and may find no credits. All of them go through
 * the gate if it is open. A commit locks, drains, switches and frees a transaction.
 * jbd2_journal_lock_updates() waits for reservations, then for handles, then looks for
 * reservations again, as does jbd2_journal_trylock_updates(); which of them goes on is up to
 * a mutex. The journal may be aborted at any time.
 *
 * The gate itself (counts, barriers, wakeups of the task that waits for it to drain) is proven in
 * percpu-gate.pml, and is sequentially consistent here: counting and the look at the
 * token are two steps in this order.
 *
 * Holds: a handle without a reservation starts only in an unlocked transaction, not
 * under a barrier and not in an aborted journal. No handle is open when the commit goes
 * on, nor under locked updates, where there is no reservation, either. No task looks at a
 * transaction that was freed. No task sleeps for ever.
 *
 * Commit: jbd2: start handles without j_state_lock
 * Commit: jbd2: reserve credits and start reserved handles without j_state_lock
 * Commit: jbd2: skip wakeups on empty j_wait_updates and j_wait_reserved
 * Code: fs/jbd2/transaction.c join_open_transaction: t = percpu_gate_enter(&journal->j_gate, &slot); if (!t) return NULL; if (handle->h_reserved) { sub_reserved_credits(journal, blocks); } else { if (rsv_blocks && !jbd2_reserve_credits(journal, rsv_blocks)) goto out; if (!jbd2_get_credits(journal, t, slot, blocks + rsv_blocks)) goto unreserve; } ... return t; unreserve: if (rsv_blocks) sub_reserved_credits(journal, rsv_blocks); out: percpu_gate_leave(&journal->j_gate, slot); return NULL;
 * Code: fs/jbd2/transaction.c start_this_handle: transaction = join_open_transaction(journal, handle, blocks, rsv_blocks); if (transaction) goto joined; ... read_lock(&journal->j_state_lock); ... if (is_journal_aborted(journal) || ... if (!handle->h_reserved && journal->j_barrier_count) { ... (handle->h_reserved || !journal->j_barrier_count)) { jbd2_get_transaction(journal, new_transaction); ... if (transaction->t_state == T_SWITCH) ... sub_reserved_credits(journal, blocks); } handle->h_slot = percpu_gate_join(&journal->j_gate); if (!handle->h_reserved) jbd2_open_gate(journal, transaction); ... read_unlock(&journal->j_state_lock);
 * Code: fs/jbd2/transaction.c stop_this_handle: __jbd2_journal_unreserve_handle(handle->h_rsv_handle, ... percpu_gate_leave(&journal->j_gate, handle->h_slot);
 * Code: fs/jbd2/transaction.c sub_reserved_credits: atomic_sub(blocks, &journal->j_reserved_credits); ... if (wq_has_sleeper(&journal->j_wait_reserved)) wake_up(&journal->j_wait_reserved);
 * Code: fs/jbd2/transaction.c jbd2_journal_free_reserved: read_lock(&journal->j_state_lock); __jbd2_journal_unreserve_handle(handle, journal->j_running_transaction); read_unlock(&journal->j_state_lock);
 * Code: fs/jbd2/transaction.c jbd2_journal_wait_updates: while (!percpu_gate_empty(&journal->j_gate)) { write_unlock(&journal->j_state_lock); percpu_gate_wait(&journal->j_gate); write_lock(&journal->j_state_lock); ... }
 * Code: fs/jbd2/transaction.c jbd2_journal_stop_updates: write_lock(&journal->j_state_lock); ++journal->j_barrier_count; percpu_gate_close(&journal->j_gate); ... do { if (atomic_read(&journal->j_reserved_credits)) { write_unlock(&journal->j_state_lock); wait_event(journal->j_wait_reserved, atomic_read(&journal->j_reserved_credits) == 0); write_lock(&journal->j_state_lock); } jbd2_journal_wait_updates(journal); } while (atomic_read(&journal->j_reserved_credits)); write_unlock(&journal->j_state_lock);
 * Code: fs/jbd2/commit.c jbd2_journal_commit_transaction: write_lock(&journal->j_state_lock); ... WRITE_ONCE(commit_transaction->t_state, T_LOCKED); percpu_gate_close(&journal->j_gate); ... jbd2_journal_wait_updates(journal); ... commit_transaction->t_state = T_SWITCH; ... journal->j_running_transaction = NULL;
 * Code: fs/jbd2/journal.c jbd2_journal_abort: write_lock(&journal->j_state_lock); ... journal->j_flags |= JBD2_ABORT; percpu_gate_close(&journal->j_gate);
 * Code: include/linux/wait.h wq_has_sleeper: smp_mb(); return waitqueue_active(wq_head);
 * Code: kernel/sched/wait.c prepare_to_wait_event: __add_wait_queue(wq_head, wq_entry); } set_current_state(state);
 *
 * BREAK_close_locked (assert): locking the transaction does not close the gate
 * BREAK_close_barrier (assert): jbd2_journal_lock_updates() does not close the gate
 * BREAK_close_abort (assert): aborting does not close the gate
 * BREAK_close_unlocked (assert): the gate is closed before the lock is taken
 * BREAK_open_reserved (assert): a reserved handle opens the gate
 * BREAK_open_unlocked (assert): the gate is opened after the lock is dropped
 * BREAK_sleep_counted (hang): a task that finds no credits waits for the commit without leaving
 * BREAK_recheck (assert): a waiter that was woken does not look for handles again under the lock
 * BREAK_join_late (assert): a reserved handle gives its reservation back before it is counted,
 *	and not under the lock
 * BREAK_sleeper_mb (hang): waitqueue_active() in place of wq_has_sleeper()
 * BREAK_event_mb (hang): prepare_to_wait_event() has no barrier
 * BREAK_barrier_once (assert): jbd2_journal_lock_updates() does not look for reservations again
 * BREAK_free_reserved (hang): a reservation that cannot start is given back without a wakeup
 */
#include "weak.h"

#define LAST	2		/* the transaction that is not committed any more */
#define HANDLES	3
#define BARRIER	3		/* CPU; the handles' are 0 to 2 */

mtype = { none, open, locked_down, switching };
mtype state = none;		/* of the running transaction */
byte running, latest, token;
byte count;			/* of the gate: tasks inside, or looking whether they may be */
byte inside[LAST + 1];		/* open handles */
bool freed[LAST + 1];
byte reserved;			/* j_reserved_credits */
bool sub_pending[HANDLES];	/* atomic_sub() of it that memory has not seen */
bool locked;			/* j_state_lock: readers exclude each other, too, here */
bool barrier, aborted;
bool rsv_queued, rsv_asleep;	/* j_wait_reserved */

/* CPUs that may see these as they were */
byte old_rsv_queue, old_reserved;

#define RSV_QUEUE_CHANGED	CHANGED(old_rsv_queue, CPU(0) | CPU(1))
#define RESERVED_CHANGED	CHANGED(old_reserved, CPU(BARRIER))

inline sub_done(i)
{
	atomic { sub_pending[i] ->
		sub_pending[i] = false;
		reserved--;
		if
		:: !reserved -> RESERVED_CHANGED
		:: else
		fi
	}
}

active proctype hardware()
{
end:	do
	:: sub_done(0)
	:: sub_done(1)
	od
}

inline order_loads(cpu)
{
	atomic {
		FRESH(old_rsv_queue, cpu);
		FRESH(old_reserved, cpu)
	}
}

inline lock_on(cpu)
{
	atomic { !locked -> locked = true; order_loads(cpu) }
}

/* An unlock is a release. */
inline handle_unlock()
{
	atomic { !sub_pending[me] -> locked = false }
}

inline sub_reserved_credits()
{
	atomic { !sub_pending[me] -> sub_pending[me] = true };
#ifndef BREAK_sleeper_mb
	atomic { !sub_pending[me] -> order_loads(me) };
#endif
	atomic {
		LOAD(sleeper, rsv_queued, old_rsv_queue, me);
		if
		:: sleeper -> rsv_queued = false; rsv_asleep = false; RSV_QUEUE_CHANGED
		:: else
		fi;
		sleeper = false
	}
}

active proctype abort_journal()
{
#ifdef BREAK_close_unlocked
	token = 0;
#endif
	atomic { !locked ->
		aborted = true;
#if !defined(BREAK_close_abort) && !defined(BREAK_close_unlocked)
		token = 0
#endif
	}
}

inline add_reserved()
{
	if
	:: !reserved -> RESERVED_CHANGED
	:: else
	fi;
	reserved++
}

inline got_in()
{
	inside[tid]++;
	started = true
}

inline leave()
{
	/* Leaving is a full barrier. */
	atomic { !sub_pending[me] ->
		assert(!freed[tid]);
		inside[tid]--;
		count--;
		tid = 0;
		order_loads(me)
	}
}

/* What start_this_handle() finds under the lock. */
#define CAN_CREATE	(!running && latest < LAST && (is_reserved || !barrier))
#define CAN_JOIN	(running && (is_reserved -> state != switching : \
				     state == open && !barrier))

inline start_under_lock()
{
	do
	:: atomic { !locked && aborted -> order_loads(me); break }
	:: atomic { !locked && !aborted && CAN_CREATE ->
		order_loads(me);
		latest++;
		running = latest;
		state = open
	   }
	:: atomic { !locked && !aborted && CAN_JOIN ->
		order_loads(me);
		locked = true
	   };
	   if
	   :: is_reserved -> sub_reserved_credits();
#ifdef BREAK_join_late
	      handle_unlock();
	      atomic { !locked && CAN_JOIN -> locked = true }
#endif
	   :: else
	   fi;
	   atomic {
		tid = running;
		count++;
		got_in();
		if
		:: !is_reserved && me < 2 -> add_reserved()
		:: else
		fi;
#ifndef BREAK_open_unlocked
#ifndef BREAK_open_reserved
		if
		:: !is_reserved -> token = running
		:: else
		fi
#else
		token = running
#endif
#endif
	   };
	   handle_unlock();
#ifdef BREAK_open_unlocked
	   token = tid;
#endif
	   break
	od
}

inline join_open_transaction()
{
	if
	:: !token -> goto slow
	:: token
	fi;
	count++;
	atomic {
		tid = token;
		if
		:: !tid -> count--
		:: else ->
			assert(tid == running && state == open && !barrier && !aborted);
			got_in()
		fi
	};
	if
	:: !started -> goto slow
	:: started && is_reserved -> sub_reserved_credits()
	:: started && !is_reserved && me < 2 ->
		/* atomic_add_return() */
		atomic { !sub_pending[me] -> add_reserved(); order_loads(me) }
	:: started && me == 2 && tid < LAST -> goto no_credits
	:: started && me == 2
	fi
}

proctype handle(byte me)
{
	byte tid, was;
	bool is_reserved, started, sleeper, again;

next:	join_open_transaction();
	goto in;
no_credits:
#ifdef BREAK_sleep_counted
	running != tid;
#endif
	was = tid;
	atomic { leave(); started = false };
	running != was || aborted;
	was = 0;
	goto next;

slow:	start_under_lock();
	if
	:: !started && !is_reserved -> goto out
	:: !started && is_reserved ->
		/* jbd2_journal_free_reserved() */
#ifdef BREAK_free_reserved
		reserved--;
#else
		lock_on(me);
		sub_reserved_credits();
		handle_unlock();
#endif
		goto out
	:: else
	fi;

in:	if
	:: me == 0 -> sub_reserved_credits()	/* h_rsv_handle, not used */
	:: else
	fi;
	atomic { leave(); started = false };
	if
	:: me == 1 && !is_reserved -> is_reserved = true; goto next	/* jbd2_journal_start_reserved() */
	:: me == 2 && !again -> again = true; goto next
	:: else
	fi;
out:	atomic { is_reserved = false; again = false; order_loads(me) }
}

/* Called and left with the lock held. That the last to leave wakes us is percpu-gate's. */
inline wait_updates()
{
	do
	:: atomic { !count -> break }
	:: atomic { count -> locked = false };
	   !count;
	   atomic { !locked -> locked = true };
#ifdef BREAK_recheck
	   break
#endif
	od
}

active proctype commit()
{
	byte committing;

end:	do
	:: atomic { !locked && running && running < LAST ->
		locked = true;
		committing = running;
		state = locked_down;
#ifndef BREAK_close_locked
		token = 0
#endif
	   };
	   wait_updates();
	   atomic {
		state = switching;
		assert(!inside[committing]);
		locked = false
	   };
	   atomic { !locked ->
		assert(!inside[committing]);
		state = none;
		running = 0
	   };
	   atomic {
		assert(!inside[committing]);
		freed[committing] = true;
		committing = 0
	   }
	od
}

active proctype lock_updates()
{
	bool some;

#ifdef BREAK_close_unlocked
	token = 0;
#endif
	atomic { !locked ->
		order_loads(BARRIER);
		locked = true;
		barrier = true;
#if !defined(BREAK_close_barrier) && !defined(BREAK_close_unlocked)
		token = 0
#endif
	};
again:	LOAD(some, reserved != 0, old_reserved, BARRIER);
	if
	:: some ->
		locked = false;
		do
		:: order_loads(BARRIER);	/* the lock of the queue */
		   atomic {
			if
			:: !rsv_queued -> RSV_QUEUE_CHANGED
			:: else
			fi;
			rsv_queued = true;
			rsv_asleep = true
		   };
		   atomic {
#ifndef BREAK_event_mb
			order_loads(BARRIER);
#endif
			LOAD(some, reserved != 0, old_reserved, BARRIER);
			if
			:: !some ->
				rsv_queued = false;
				rsv_asleep = false;
				RSV_QUEUE_CHANGED;
				break
			:: else
			fi
		   };
		   !rsv_asleep
		od;
		lock_on(BARRIER)
	:: else
	fi;
	wait_updates();
#ifndef BREAK_barrier_once
	/* percpu_gate_empty() was an acquire. */
	if
	:: reserved -> goto again
	:: else
	fi;
#endif
	/* Updates are locked. */
	atomic { locked = false; assert(!inside[1] && !inside[2] && !reserved); some = false };
	atomic { assert(!inside[1] && !inside[2] && !reserved); barrier = false }	/* unlock_updates() */
}

init {
	byte i;

	atomic {
		for (i : 0 .. HANDLES - 1) {
			run handle(i)
		}
	}
}
