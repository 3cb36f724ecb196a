/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Asking for a commit, without j_state_lock if one has been asked for before.
 *
 * Three tasks that call jbd2_log_start_commit(), two of them for transaction 1
 * and one for transaction 2, and do not wait for the commit, so that no other
 * task's wakeup helps; jbd2_journal_abort(), which asks for the running
 * transaction; the journal thread, without its timer. The tids they ask for may be
 * old by then.
 *
 * Holds: what was asked for is committed, and the journal thread never looks for a
 * transaction that is not there. j_commit_request never moves backwards.
 *
 * The journal thread holds j_state_lock for reading, which keeps requests out.
 *
 * Commit: jbd2: test for a requested commit without j_state_lock
 * Commit: jbd2: check for commit requests under j_state_lock for reading
 * Code: include/linux/jbd2.h jbd2_commit_requested: return tid_geq(READ_ONCE(journal->j_commit_request), tid)
 * Code: fs/jbd2/journal.c jbd2_log_start_commit: if (jbd2_commit_requested(journal, tid)) return 0; write_lock(&journal->j_state_lock); ret = __jbd2_log_start_commit(journal, tid); write_unlock(&journal->j_state_lock);
 * Code: fs/jbd2/journal.c __jbd2_log_start_commit: if (journal->j_commit_request == target) return 0; ... journal->j_running_transaction->t_tid == target) { ... WRITE_ONCE(journal->j_commit_request, target); ... wake_up(&journal->j_wait_commit);
 * Code: fs/jbd2/journal.c kjournald2: if (journal->j_commit_sequence != journal->j_commit_request) { ... prepare_to_wait(&journal->j_wait_commit, ... read_unlock(&journal->j_state_lock); schedule(); read_lock(&journal->j_state_lock);
 *
 * BREAK_recheck (assert): "not yet" is acted upon without another look under the lock
 * BREAK_lock (assert): the request is made without the lock
 * BREAK_any_request (assert): any commit under way is taken for the one asked for
 * BREAK_wake (assert): the request is made without a wakeup
 * BREAK_wake_before (assert): the wakeup is made before the lock is taken
 * BREAK_queue_late (assert): the journal thread drops the lock before it queues itself
 */
#define LAST	3
#define ASKING	3
#define TID(asker)	(asker == 0 -> 1 : asker)

byte running, committing, latest;
byte request, sequence;
byte asked;			/* the newest that a caller was told is under way */
bool locked;			/* j_state_lock */
bool thread_queued, thread_asleep, aborted;

inline lock()
{
	atomic { !locked -> locked = true }
}

inline wake_thread()
{
	atomic { thread_queued = false; thread_asleep = false }
}

inline store_request(tid)
{
	atomic {
		assert(tid > request);
		request = tid
	}
}

inline make_request(tid)
{
	store_request(tid);
#if !defined(BREAK_wake) && !defined(BREAK_wake_before)
	wake_thread()
#endif
}

/* __jbd2_log_start_commit() */
inline start_commit(tid)
{
#ifdef BREAK_recheck
	make_request(tid)
#else
	if
	:: request == tid
	:: request != tid && running == tid -> make_request(tid)
	:: request != tid && running != tid ->
		assert(request >= tid)		/* "bad log_start_commit" */
	fi
#endif
}

#ifdef BREAK_any_request
#define REQUESTED	(request >= tid || request != sequence)
#else
#define REQUESTED	(request >= tid)
#endif

proctype asker(byte me)
{
	byte tid = TID(me);

end_new:
	latest >= tid;
	/* jbd2_log_start_commit() */
	if
	:: REQUESTED -> goto out
	:: else
	fi;
#ifdef BREAK_wake_before
	wake_thread();
#endif
#ifndef BREAK_lock
	lock();
#endif
	start_commit(tid);
#ifndef BREAK_lock
	locked = false;
#endif
out:
	atomic {
		if
		:: tid > asked -> asked = tid
		:: else
		fi
	}
}

active proctype abort_journal()
{
	if
	:: skip
	:: goto out		/* not this time: only the three tasks ask */
	fi;
	lock();
	aborted = true;
	if
	:: running && request != running -> make_request(running)
	:: else
	fi;
	locked = false;
out:	skip
}

active proctype handles()
{
end:	do
	:: atomic { !locked && !running && !aborted && latest < LAST ->
		latest++; running = latest }
	od
}

active proctype kjournald2()
{
	do
	:: lock();
	   if
	   :: sequence != request ->
		locked = false;
		/* jbd2_journal_commit_transaction() */
		atomic { !locked ->
			assert(running && !committing);
			committing = running;
			running = 0
		};
		atomic { !locked ->
			assert(committing > sequence);
			sequence = committing;
			committing = 0
		}
	   :: sequence == request ->
#ifdef BREAK_queue_late
		locked = false;
		atomic { thread_queued = true; thread_asleep = true };
#else
		atomic { thread_queued = true; thread_asleep = true };
		locked = false;
#endif
end_idle:	atomic { !thread_asleep -> thread_queued = false }
	   fi
	od
}

/* When all is quiet, what was asked for is done. */
active proctype quiet()
{
	timeout;
	assert(sequence >= asked && sequence == request)
}

init {
	byte i;

	atomic {
		for (i : 0 .. ASKING - 1) {
			run asker(i)
		}
	}
}
