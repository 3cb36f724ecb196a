/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waking those who wait for the last handle, and for the last reservation, only
 * if there are any.
 *
 * Two handles: one with a reservation that it drops, one with a reservation that
 * becomes a handle of its own later, in a locked transaction, too. Two that wait
 * on j_wait_updates: a commit and jbd2_journal_lock_updates(),
 * which first waits on j_wait_reserved. The journal may be aborted at any time:
 * then no handle starts, and a reservation that cannot start is given back.
 * Waiting for a transaction to unlock and for a barrier to go is no part of this:
 * both are plain conditions here.
 *
 * Holds: nobody sleeps for ever. No handle is open when the commit goes on, nor
 * under locked updates. Nobody looks at a transaction that was freed.
 *
 * Commit: jbd2: wake up waiters for updates and reservations only if there are any
 * Code: fs/jbd2/transaction.c stop_this_handle: __jbd2_journal_unreserve_handle(handle->h_rsv_handle, ... if (atomic_dec_and_test(&transaction->t_updates)) { ... if (waitqueue_active(&journal->j_wait_updates)) wake_up(&journal->j_wait_updates); }
 * Code: fs/jbd2/transaction.c sub_reserved_credits: atomic_sub(blocks, &journal->j_reserved_credits); ... if (wq_has_sleeper(&journal->j_wait_reserved)) wake_up(&journal->j_wait_reserved);
 * Code: fs/jbd2/transaction.c start_this_handle: if (transaction->t_state == T_SWITCH) ... sub_reserved_credits(journal, blocks); ... atomic_inc(&transaction->t_updates) ... read_unlock(&journal->j_state_lock)
 * Code: fs/jbd2/transaction.c jbd2_journal_free_reserved: read_lock(&journal->j_state_lock); __jbd2_journal_unreserve_handle(handle, journal->j_running_transaction); read_unlock(&journal->j_state_lock);
 * Code: fs/jbd2/transaction.c jbd2_journal_wait_updates: while (1) { ... = journal->j_running_transaction; if (!transaction) break; prepare_to_wait(&journal->j_wait_updates, ... if (!atomic_read(&transaction->t_updates)) ... write_unlock(&journal->j_state_lock); schedule(); ... write_lock(&journal->j_state_lock);
 * Code: fs/jbd2/transaction.c jbd2_journal_lock_updates: ++journal->j_barrier_count; ... wait_event(journal->j_wait_reserved, atomic_read(&journal->j_reserved_credits) == 0); ... jbd2_journal_wait_updates(journal);
 * Code: fs/jbd2/commit.c jbd2_journal_commit_transaction: commit_transaction->t_state = T_LOCKED; ... jbd2_journal_wait_updates(journal); commit_transaction->t_state = T_SWITCH; ... journal->j_running_transaction = NULL;
 * Code: include/linux/wait.h wq_has_sleeper: smp_mb(); return waitqueue_active(wq_head);
 * Code: kernel/sched/wait.c prepare_to_wait: __add_wait_queue(wq_head, wq_entry); set_current_state(state);
 * Code: kernel/sched/wait.c prepare_to_wait_event: __add_wait_queue(wq_head, wq_entry); } set_current_state(state);
 *
 * BREAK_dec_relaxed (hang): t_updates is decremented without a barrier
 * BREAK_look_first (hang): the last handle looks at the queue before it decrements
 * BREAK_prepare_mb (hang): prepare_to_wait() has no barrier
 * BREAK_sleeper_mb (hang): waitqueue_active() in place of wq_has_sleeper()
 * BREAK_event_mb (hang): prepare_to_wait_event() has no barrier
 * BREAK_wake_one (hang): the last handle wakes one of the waiters
 * BREAK_recheck (assert): who was woken does not look at t_updates again
 * BREAK_reread (assert): who was woken looks at the transaction that was running before
 * BREAK_free_reserved (hang): a reservation that cannot start is given back without a wakeup
 */
#include "weak.h"

#define LAST	2		/* the transaction that is not committed any more */
#define HANDLES	2
#define COMMIT	2		/* CPUs of the two who wait; the handles' are 0 and 1 */
#define BARRIER	3

mtype = { none, open, locked_down, switching };
mtype state = none;		/* of the running transaction */
byte running, latest;
byte updates[LAST + 1];		/* t_updates */
bool freed[LAST + 1];
byte reserved;			/* j_reserved_credits */
bool sub_pending[HANDLES];	/* atomic_sub() of it that memory has not seen */
bool locked;			/* j_state_lock: readers exclude each other, too, here */
bool barrier, aborted;

/* j_wait_updates: [0] the commit, [1] the barrier. j_wait_reserved: the barrier. */
bool queued[2], asleep[2];
bool rsv_queued, rsv_asleep;

/* CPUs that may see these as they were */
byte old_queue, old_rsv_queue, old_updates, old_reserved;

#define QUEUED			(queued[0] || queued[1])
#define QUEUE_CHANGED		CHANGED(old_queue, 3)
#define RSV_QUEUE_CHANGED	CHANGED(old_rsv_queue, 3)
#define UPDATES_CHANGED		CHANGED(old_updates, CPU(COMMIT) | CPU(BARRIER))
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

active proctype abort_journal()
{
	aborted = true
}

inline order_loads(cpu)
{
	atomic {
		FRESH(old_queue, cpu);
		FRESH(old_rsv_queue, cpu);
		FRESH(old_updates, cpu);
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

inline look_at_queue()
{
	LOAD(sleeper, QUEUED, old_queue, me)
}

inline stop_this_handle()
{
#ifdef BREAK_look_first
	look_at_queue();
#endif
	atomic { !sub_pending[me] ->
		assert(!freed[tid]);
		updates[tid]--;
		last = updates[tid] == 0;
		if
		:: last -> UPDATES_CHANGED
		:: else
		fi;
#ifndef BREAK_dec_relaxed
		order_loads(me)
#endif
	};
	atomic {
		if
		:: last ->
#ifndef BREAK_look_first
			look_at_queue();
#endif
			if
			:: sleeper ->
				if
				:: queued[0] -> queued[0] = false; asleep[0] = false
#ifdef BREAK_wake_one
				:: !queued[0] && queued[1] -> queued[1] = false; asleep[1] = false
#endif
				:: else
				fi;
#ifndef BREAK_wake_one
				queued[1] = false; asleep[1] = false;
#endif
				if
				:: !QUEUED -> QUEUE_CHANGED
				:: else
				fi
			:: else
			fi
		:: else
		fi;
		tid = 0; last = false; sleeper = false
	}
}

/* What start_this_handle() finds under the lock. */
#define CAN_CREATE	(!running && latest < LAST && (is_reserved || !barrier))
#define CAN_JOIN	(running && (is_reserved -> state != switching : \
				     state == open && !barrier))

inline start_this_handle()
{
	started = false;
	do
	:: atomic { !locked && aborted -> order_loads(me); break }
	:: atomic { !locked && !aborted && CAN_CREATE ->
		order_loads(me);
		latest++;
		running = latest;
		state = open
	   }
	:: atomic { !locked && !aborted && CAN_JOIN -> locked = true; order_loads(me) };
	   if
	   :: is_reserved -> sub_reserved_credits()
	   :: else
	   fi;
	   atomic {
		if
		:: !is_reserved ->
			if
			:: !reserved -> RESERVED_CHANGED
			:: else
			fi;
			reserved++
		:: else
		fi;
		tid = running;
		if
		:: updates[tid] == 0 -> UPDATES_CHANGED
		:: else
		fi;
		updates[tid]++;
		started = true
	   };
	   handle_unlock();
	   break
	od
}

proctype handle(byte me)
{
	byte tid;
	bool is_reserved, started, sleeper, last;

again:	start_this_handle();
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
	:: started && me == 0 -> sub_reserved_credits()	/* h_rsv_handle, not used */
	:: else
	fi;
	stop_this_handle();
	if
	:: me == 1 && !is_reserved ->
		is_reserved = true;	/* jbd2_journal_start_reserved() */
		goto again
	:: else
	fi;
out:	atomic { started = false; is_reserved = false; order_loads(me) }
}

/* Called and left with the lock held. */
inline wait_updates(i, cpu)
{
	do
	:: atomic {
#ifdef BREAK_reread
		if
		:: !tid -> tid = running
		:: else
		fi;
#else
		tid = running;
#endif
		if
		:: !tid -> break
		:: else
		fi;
		/* prepare_to_wait(): the lock of the queue is an acquire */
		order_loads(cpu)
	   };
	   atomic {
		if
		:: !QUEUED -> QUEUE_CHANGED
		:: else
		fi;
		queued[i] = true;
		asleep[i] = true
	   };
	   atomic {
#ifndef BREAK_prepare_mb
		order_loads(cpu);
#endif
		assert(!freed[tid]);
		LOAD(some, updates[tid] != 0, old_updates, cpu);
		if
		:: !some ->
			queued[i] = false;	/* finish_wait() */
			asleep[i] = false;
			if
			:: !QUEUED -> QUEUE_CHANGED
			:: else
			fi;
			break
		:: else
		fi
	   };
	   locked = false;
	   !asleep[i];
	   lock_on(cpu);
#ifdef BREAK_recheck
	   break;
#endif
	od;
	atomic { tid = 0; some = false }
}

active proctype commit()
{
	byte tid, committing;
	bool some;

end:	do
	:: atomic { !locked && running && running < LAST ->
		locked = true;
		order_loads(COMMIT);
		committing = running;
		state = locked_down
	   };
	   wait_updates(0, COMMIT);
	   atomic {
		state = switching;
		assert(!updates[committing]);
		locked = false
	   };
	   atomic { !locked ->
		assert(!updates[committing]);
		state = none;
		running = 0
	   };
	   atomic {
		assert(!updates[committing]);
		freed[committing] = true;
		committing = 0
	   }
	od
}

active proctype lock_updates()
{
	byte tid;
	bool some;

	atomic { !locked ->
		order_loads(BARRIER);
		barrier = true;
		LOAD(some, reserved != 0, old_reserved, BARRIER)
	};
	if
	:: some ->
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
		od
	:: else
	fi;
	lock_on(BARRIER);
	wait_updates(1, BARRIER);
	/* Updates are locked. */
	atomic { locked = false; assert(!updates[1] && !updates[2]); some = false };
	atomic { assert(!updates[1] && !updates[2]); barrier = false }	/* unlock_updates() */
}

init {
	byte i;

	atomic {
		for (i : 0 .. HANDLES - 1) {
			run handle(i)
		}
	}
}
