/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting for a commit without j_state_lock.
 *
 * Two fsyncs of transaction 1, of which one may move to another CPU, and one of
 * transaction 2; a journal thread whose commits may fail; another CPU that may
 * abort the journal at any time. fsync is jbd2_complete_transaction(), and all
 * wait and wake as in the kernel. There is no commit timer: a wakeup that is
 * lost stays lost.
 *
 * Holds: an fsync that returns 0 has its transaction on disk. No task sleeps
 * for ever. A waiter that is woken has nothing more to wait for.
 *
 * What is done under j_state_lock is one step: only j_commit_sequence and the
 * flag are read without it, and each section writes no more than one of them.
 *
 * Commit: jbd2: fix lost commit error in jbd2_complete_transaction()
 * Commit: jbd2: wait for a commit without j_state_lock
 * Commit: jbd2: split j_wait_done_commit by transaction id parity
 * Code: fs/jbd2/journal.c kjournald2: journal->j_commit_sequence != journal->j_commit_request ... jbd2_journal_commit_transaction(journal) ... prepare_to_wait(&journal->j_wait_commit
 * Code: fs/jbd2/commit.c jbd2_journal_commit_transaction: jbd2_journal_abort(journal, err) ... smp_store_release(&journal->j_commit_sequence, ... write_unlock(&journal->j_state_lock) ... wake_up(&journal->j_wait_done_commit[stats.ts_tid & 1])
 * Code: fs/jbd2/journal.c jbd2_journal_abort: write_lock(&journal->j_state_lock) ... journal->j_flags |= JBD2_ABORT ... __jbd2_log_start_commit(journal, transaction->t_tid) ... write_unlock(&journal->j_state_lock)
 * Code: fs/jbd2/journal.c jbd2_complete_transaction: if (jbd2_commit_done(journal, tid)) return is_journal_aborted(journal) ? -EIO : 0; ... if (!need_to_wait) return is_journal_aborted(journal) ? -EIO : 0; wait_commit: return jbd2_log_wait_commit(journal, tid);
 * Code: fs/jbd2/journal.c jbd2_log_wait_commit: wake_up(&journal->j_wait_commit); wait_event(journal->j_wait_done_commit[tid & 1], jbd2_commit_done(journal, tid)); ... if (unlikely(is_journal_aborted(journal))) return -EIO
 * Code: include/linux/jbd2.h jbd2_commit_done: smp_load_acquire(&journal->j_commit_sequence)
 *
 * BREAK_acquire (assert): j_commit_sequence is read without acquire
 * BREAK_read_lock (assert): an fsync that finds neither transaction has ordered no loads
 * BREAK_order (assert): neither the unlock behind an abort nor a release orders the stores
 * BREAK_abort_late (assert): the commit is published, then the journal aborted
 * BREAK_late_check (assert): an fsync that finds the commit done does not look at the flag
 * BREAK_switch_mb (assert): the scheduler has no barrier when a task moves to another CPU
 * BREAK_recheck (hang): done is not looked at again between queueing and sleeping
 * BREAK_wake_early (assert): the wakeup comes before the commit is published
 * BREAK_wake_one (hang): the wakeup wakes one of the waiters
 * BREAK_wake_other (hang): the other parity is woken
 * BREAK_one_queue (assert): both parities are on one queue
 */
#include "weak.h"

#define LAST	3		/* transactions are 1 to LAST */
#define FSYNCS	3
#define TID(fsync)	(fsync == 0 -> 1 : fsync)
#define OTHER	FSYNCS		/* a CPU that the first fsync may move to */

byte running, committing, latest;
byte request, sequence;
bool aborted;			/* JBD2_ABORT */
bool abort_pending;		/* in the store buffer of the journal thread's CPU */
bool on_disk[LAST + 1];
byte old;			/* CPUs that may see JBD2_ABORT as it was */

bool thread_asleep;
bool queued[FSYNCS], asleep[FSYNCS];

#define READERS		15
#define SET_ABORTED	if :: !aborted -> aborted = true; CHANGED(old, READERS) :: else fi

active proctype hardware()
{
end:	do
	:: atomic { abort_pending -> abort_pending = false; SET_ABORTED }
	od
}

inline wake_thread()
{
	thread_asleep = false
}

#define PARITY(i, tid)	((TID(i) & 1) == (tid & 1))
#if defined(BREAK_wake_other)
#define WAKES(i, tid)	(queued[i] && !PARITY(i, tid))
#elif defined(BREAK_one_queue)
#define WAKES(i, tid)	queued[i]
#elif defined(BREAK_wake_one)
#define WAKES(i, tid)	(queued[i] && PARITY(i, tid) && !woken)
#else
#define WAKES(i, tid)	(queued[i] && PARITY(i, tid))
#endif

inline wake_one_of(i, tid)
{
	if
	:: WAKES(i, tid) -> queued[i] = false; asleep[i] = false; woken = true
	:: else
	fi
}

inline wake_done(tid)
{
	atomic {
		woken = false;
		wake_one_of(0, tid);
		wake_one_of(1, tid);
		wake_one_of(2, tid);
		woken = false
	}
}

/* jbd2_journal_abort() of the journal thread */
inline abort_journal()
{
#ifdef BREAK_order
	abort_pending = true
#else
	atomic {
		abort_pending = true;
		if
		:: running -> request = running
		:: else
		fi
	};
	!abort_pending		/* an unlock is a release */
#endif
}

active proctype kjournald2()
{
	byte tid;
	bool failed, woken;

	do
	:: atomic { sequence == request -> thread_asleep = true };
end_idle:  !thread_asleep
	:: atomic { sequence != request ->
		/* jbd2_journal_commit_transaction() */
		assert(running && !committing);
		tid = running;
		committing = tid;
		running = 0
	   };
	   if
	   :: aborted || abort_pending
	   :: else ->
		if
		:: on_disk[tid] = true
		:: failed = true
		fi
	   fi;
#ifndef BREAK_abort_late
	   if
	   :: failed -> abort_journal()
	   :: else
	   fi;
#endif
#ifdef BREAK_wake_early
	   wake_done(tid);
#endif
#ifndef BREAK_order
	   !abort_pending;		/* smp_store_release() */
#endif
	   atomic { sequence = tid; committing = 0 };
#ifndef BREAK_wake_early
	   wake_done(tid);
#endif
#ifdef BREAK_abort_late
	   if
	   :: failed -> abort_journal()
	   :: else
	   fi;
#endif
	   tid = 0; failed = false
	od
}

/* ext4_abort() on another CPU */
active proctype shutdown()
{
	atomic {
		SET_ABORTED;
		if
		:: running && request != running -> request = running; wake_thread()
		:: else
		fi
	}
}

/* Tasks that start handles, hence transactions. */
active proctype handles()
{
end:	do
	:: atomic { !running && !aborted && latest < LAST ->
		latest++; running = latest }
	od
}

/* jbd2_commit_done() */
inline commit_done()
{
	done = sequence >= tid;
#ifndef BREAK_acquire
	FRESH(old, cpu)
#endif
}

proctype fsync(byte me)
{
	byte tid = TID(me), cpu = me;
	bool done, seen;

end_new:
	latest >= tid;		/* our handle was one of that transaction */

	/* jbd2_complete_transaction() */
	atomic {
		commit_done();
		if
		:: done -> goto completed
		:: else
		fi
	};
	atomic {
#ifndef BREAK_read_lock
		FRESH(old, cpu);	/* a lock is an acquire */
#endif
		if
		:: running == tid ->
			if
			:: request != tid -> request = tid; wake_thread()
			:: else
			fi
		:: committing == tid
		:: else -> goto completed
		fi
	};

	/* jbd2_log_wait_commit() */
	atomic {
		commit_done();
		if
		:: done -> goto waited
		:: else -> wake_thread()
		fi
	};
	do
	:: atomic { queued[me] = true; asleep[me] = true };	/* prepare_to_wait_event() */
#ifndef BREAK_recheck
	   atomic {
		commit_done();
		if
		:: done -> break
		:: else
		fi
	   };
#endif
	   atomic { !asleep[me] ->
		assert(sequence >= tid) };	/* not woken to sleep again */
#ifdef BREAK_recheck
	   atomic {
		commit_done();
		if
		:: done -> break
		:: else
		fi
	   }
#endif
	od;
	atomic { queued[me] = false; asleep[me] = false };	/* finish_wait() */
	goto waited;

completed:
#ifdef BREAK_late_check
	goto success;
#endif
waited:
	atomic {
		if
		:: me == 0 ->
			cpu = OTHER;	/* moved by the scheduler */
#ifndef BREAK_switch_mb
			FRESH(old, OTHER)
#endif
		:: true
		fi;
		LOAD(seen, aborted, old, cpu);
		if
		:: seen -> goto out	/* -EIO */
		:: else -> goto success
		fi
	};
success:
	assert(on_disk[tid]);
out:
	atomic { done = false; seen = false; cpu = me; FRESH(old, me) }
}

init {
	byte i;

	atomic {
		for (i : 0 .. FSYNCS - 1) {
			run fsync(i)
		}
	}
}
