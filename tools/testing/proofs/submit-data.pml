/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One of the tasks that sync a file submits the data of all, include/linux/sync-data.h.
 *
 * Three tasks write a folio each and sync; the last one does it twice. One submission may
 * fail halfway, and its error is for the task that made it. The first task may lose patience and
 * submit without the number; the others may not, so that nothing but a wakeup ends their sleep.
 *
 * Holds: a task that is told that all went well has its folio under writeback, and no task
 * sleeps for ever.
 *
 * The store that sets the dirty tag may reach memory late, until the full barrier (A). What is
 * looked at after cmpxchg() is looked at after its store, that is barrier (B).
 *
 * Commit: fs: let one of the tasks that sync a file submit its data
 * Code: include/linux/sync-data.h sync_data_go: unsigned int now = smp_load_acquire(seq); if ((int)(now - goal) >= 0) return true; if (now & 1 || !try_cmpxchg(seq, &now, now + 1)) return false; *mine = now + 1; return true;
 * Code: include/linux/sync-data.h sync_data_begin: *mine = 0; smp_mb(); goal = (READ_ONCE(*seq) + 3) & ~1U; return !wait_var_event_timeout(seq, sync_data_go(seq, goal, mine), SYNC_DATA_WAIT) || *mine;
 * Code: include/linux/sync-data.h sync_data_end: if (mine) store_release_wake_up(seq, done ? mine + 1 : mine - 1);
 * Code: include/linux/sync-data.h sync_data_submit: if (!mapping_tagged(mapping, PAGECACHE_TAG_DIRTY) || !sync_data_begin(seq, &mine)) return 0; ret = filemap_fdatawrite(mapping); sync_data_end(seq, mine, !ret);
 *
 * BREAK_tag_late (assert): without (A)
 * BREAK_look_early (assert): without (B)
 * BREAK_begun_before (assert): the submission under way is taken for one that begins later
 * BREAK_failure_counts (assert): one that failed counts as well
 * BREAK_sleep_late (hang): looks, then queues itself and does not look again
 * BREAK_wake_one (hang): one of the waiters is woken
 * BREAK_no_wake_failed (hang): one that failed wakes no task
 */
#define TASKS	3
#define GOAL(n)	((((n) + 3) / 2) * 2)

bool tag_late[TASKS];		/* the store of the dirty tag has not reached memory */
bool dirty[TASKS], sent[TASKS];
bool asleep[TASKS];
byte seq;
bool failed;			/* there was the failure */

inline store_tag(n)
{
	atomic { tag_late[n] -> tag_late[n] = false; dirty[n] = true }
}

/* What a CPU does when it likes */
active proctype hardware()
{
end:	do
	:: store_tag(0)
	:: store_tag(1)
	:: store_tag(2)
	od
}

inline wake()
{
	atomic {
#ifdef BREAK_wake_one
		if
		:: asleep[0] -> asleep[0] = false
		:: !asleep[0] && asleep[1] -> asleep[1] = false
		:: !asleep[0] && !asleep[1] -> asleep[2] = false
		fi
#else
		asleep[0] = false; asleep[1] = false; asleep[2] = false
#endif
	}
}

/* Those with the tag, or those that had it when "seen" was looked up. */
#ifdef BREAK_look_early
#define TAGGED(n)	(dirty[n] && (seen & (1 << (n))))
#else
#define TAGGED(n)	dirty[n]
#endif

inline send(n)
{
	atomic {
		if
		:: TAGGED(n) -> dirty[n] = false; sent[n] = true
		:: else
		fi
	}
}

/* filemap_fdatawrite() */
inline submit()
{
	send(0);
	if
	:: atomic { !failed -> failed = true; error = true }
	:: send(1); send(2)
	fi
}

proctype syncer(byte me; byte times)
{
	byte now, goal, mine;
	bool error;
#ifdef BREAK_look_early
	byte seen;
#endif

again:
	atomic { sent[me] = false; tag_late[me] = true };
	error = false; mine = 0;
	/* The CPU knows of its own store. */
	if
	:: atomic { !tag_late[me] && !dirty[me] -> goto out }
	:: tag_late[me] || dirty[me]
	fi;
#ifndef BREAK_tag_late
	!tag_late[me];
#endif
	goal = GOAL(seq);
#ifdef BREAK_begun_before
	goal = ((seq + 2) / 2) * 2;
#endif
	do
	::
#ifndef BREAK_sleep_late
	   asleep[me] = true;
#endif
#ifdef BREAK_look_early
	   seen = dirty[0] + 2 * dirty[1] + 4 * dirty[2];
#endif
	   now = seq;
	   if
	   :: now >= goal -> break
	   :: now < goal && now % 2
	   :: now < goal && now % 2 == 0 ->
		if
		:: atomic { seq == now -> seq = now + 1; mine = now + 1 }; break
		:: seq != now
		fi
	   fi;
#ifdef BREAK_sleep_late
	   asleep[me] = true;
#endif
	   if
	   :: !asleep[me]
	   :: me == 0 -> break
	   fi
	od;
	asleep[me] = false;

	if
	:: mine == 0 && now >= goal
	:: else ->
		submit();
		if
		:: mine && error ->
#ifdef BREAK_failure_counts
			seq = mine + 1;
#else
			seq = mine - 1;
#endif
#ifndef BREAK_no_wake_failed
			wake()
#endif
		:: mine && !error -> seq = mine + 1; wake()
		:: mine == 0
		fi
	fi;
	assert(error || sent[me]);
out:
	times--;
	if
	:: times -> goto again
	:: else
	fi
}

init {
	atomic {
		run syncer(0, 1);
		run syncer(1, 1);
		run syncer(2, 2)
	}
}
