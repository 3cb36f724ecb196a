/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Credits that CPUs keep: no task is refused while they do, and none outlives its transaction.
 *
 * A transaction has room for two credits, or for four. One task gets two and gives them
 * back to the pool of its CPU. Two others, of which one may be on that CPU, need one each.
 * What they do not find in their pool they charge the transaction for, and if it is full,
 * they empty all pools. When all have left, the commit empties the pools, too.
 *
 * Holds: a task that begins when the first has given back both is not refused, unless
 * another one gives credits back in the meantime, and so still has them. The transaction
 * never promises more than it has room for, nor less than handles have. After the commit
 * pools are empty and all is given back.
 *
 * Commit: jbd2: pool unused credits per CPU
 * Code: fs/jbd2/transaction.c jbd2_charge: if (old + credits > journal->j_max_transaction_buffers) return false; } while (!atomic_try_cmpxchg(&t->t_outstanding_credits, &old, old + credits));
 * Code: fs/jbd2/transaction.c jbd2_empty_pools: if (!smp_load_acquire(&t->t_pools_on)) return; spin_lock(&journal->j_pools_lock); if (!t->t_pools_on) goto out; WRITE_ONCE(t->t_pool_max, 0); smp_mb(); ... sum += atomic_xchg(pool, 0); } atomic_sub(sum, &t->t_outstanding_credits); ... smp_store_release(&t->t_pools_on, false); out: spin_unlock(&journal->j_pools_lock);
 * Code: fs/jbd2/transaction.c jbd2_put_credits: max = READ_ONCE(t->t_pool_max) ... if (!max) { atomic_sub(credits, &t->t_outstanding_credits); return; } now = atomic_add_return(credits, pool); do { max = READ_ONCE(t->t_pool_max); if (now <= max) return; keep = max / 2; } while (!atomic_try_cmpxchg(pool, &now, keep)); atomic_sub(now - keep, &t->t_outstanding_credits);
 * Code: fs/jbd2/transaction.c jbd2_get_credits: while (have >= credits) { if (atomic_try_cmpxchg(pool, &have, have - credits)) return true; } more = READ_ONCE(t->t_pool_max) / 2; if (more && jbd2_charge(journal, t, credits + more)) { jbd2_put_credits(t, slot, more); return true; } if (jbd2_charge(journal, t, credits)) return true; jbd2_empty_pools(journal, t); return jbd2_charge(journal, t, credits);
 * Code: fs/jbd2/transaction.c add_transaction_credits: charged = jbd2_charge(journal, t, total); if (!charged) { jbd2_empty_pools(journal, t); charged = jbd2_charge(journal, t, total); }
 * Code: fs/jbd2/transaction.c stop_this_handle: jbd2_put_credits(transaction, handle->h_slot, handle->h_total_credits); ... percpu_gate_leave(&journal->j_gate, handle->h_slot);
 * Code: fs/jbd2/commit.c jbd2_journal_commit_transaction: jbd2_journal_wait_updates(journal); ... jbd2_empty_pools(journal, commit_transaction);
 *
 * BREAK_put_mb (assert): no barrier between the pool and the look at t_pool_max
 * BREAK_put_recheck (assert): a task that gives back does not look at t_pool_max again
 * BREAK_empty_mb (assert): no barrier between t_pool_max and the look at the pools
 * BREAK_empty_nolock (assert): a task that finds t_pool_max 0 does not wait for the task that
 *	empties the pools
 * BREAK_empty_early (assert): t_pools_on is cleared before t has the credits back
 * BREAK_exact (assert): a task that needs credits does not try again when pools are empty
 * BREAK_commit (assert): the commit does not empty the pools
 * BREAK_leave_first (assert): a handle leaves before it gives back
 */
#include "weak.h"

#define BIG	2		/* what the first task needs */
#define KEEP	2		/* t_pool_max, at first */
#define COMMIT	3		/* CPU; those of the tasks are 0 to 2 */

byte room = 2;			/* j_max_transaction_buffers */
byte max = KEEP;		/* t_pool_max: KEEP or 0 */
bool max_pending;		/* it is 0, but memory does not know yet */
byte charged;			/* t_outstanding_credits */
byte have;			/* what handles have */
byte pool[2];
bool emptying;			/* j_pools_lock */
bool on = true;			/* t_pools_on */
byte inside = 3;
bool given;			/* the first task has given back all */
byte hands;			/* tasks that give back */
byte saw_hands;			/* tasks that have begun before another gave back */

byte old_max;			/* CPUs that may see KEEP when it is 0 */

inline set_max()
{
	atomic {
		if
		:: max -> max = 0; CHANGED(old_max, 7)
		:: else
		fi;
		max_pending = false
	}
}

active proctype hardware()
{
end:	do
	:: atomic { max_pending -> set_max() }
	od
}

inline load_max(to)
{
	if
	:: to = max
	:: old_max & CPU(me) -> to = KEEP
	fi
}

inline charge(n)
{
	atomic {
		if
		:: charged + n <= room -> charged = charged + n; ok = true
		:: else -> ok = false
		fi
	}
}

inline put(n)
{
	atomic { hands++; saw_hands = 7; load_max(limit) };
	if
	:: !limit -> atomic { charged = charged - (n); limit = 0 }
	:: else ->
		atomic {
			pool[slot] = pool[slot] + n;
			now = pool[slot];
#ifndef BREAK_put_mb
			FRESH(old_max, me)
#endif
		};
		do
		:: atomic {
#ifndef BREAK_put_recheck
			load_max(limit);
#endif
			if
			:: now <= limit -> break
			:: else
			fi
		   };
		   atomic {
			if
			:: pool[slot] == now ->
				pool[slot] = limit / 2;
				FRESH(old_max, me);
				back = now - limit / 2
			:: else -> now = pool[slot]; FRESH(old_max, me)
			fi
		   };
		   if
		   :: back -> atomic { charged = charged - back; back = 0; break }
		   :: else
		   fi
		od;
		atomic { now = 0; limit = 0 }
	fi;
	hands--
}

/* The pools that are looked at after the store of t_pool_max, or, with no barrier, before. */
inline empty_pools()
{
#ifdef BREAK_empty_nolock
	if
	:: max && !max_pending -> atomic { !emptying -> emptying = true }
	:: !max || max_pending -> goto emptied
	fi;
#else
	if
	:: on -> atomic { !emptying -> emptying = true; FRESH(old_max, me) }
	:: !on -> atomic { FRESH(old_max, me); goto emptied }
	fi;
#endif
	if
	:: on ->
		max_pending = true;
#ifndef BREAK_empty_mb
		!max_pending;
#endif
		atomic { sum = pool[0]; pool[0] = 0 };
		atomic { sum = sum + pool[1]; pool[1] = 0 };
#ifdef BREAK_empty_early
		on = false;
#endif
		atomic { charged = charged - sum; sum = 0 };
		on = false
	:: !on
	fi;
	/* An unlock is a release. */
	atomic { !max_pending -> emptying = false };
emptied:
	skip
}

inline get(n)
{
	atomic {
		if
		:: pool[slot] >= n -> pool[slot] = pool[slot] - n; ok = true
		:: else -> ok = false
		fi
	};
	if
	:: !ok ->
		atomic { load_max(limit) };
		if
		:: limit ->
			atomic { hands++; saw_hands = 7; limit = 0 };
			charge(n + KEEP / 2);
			if
			:: ok -> put(KEEP / 2)
			:: else
			fi;
			hands--
		:: else
		fi;
		if
		:: !ok -> charge(n)
		:: else
		fi;
		if
		:: !ok ->
			empty_pools();
#ifndef BREAK_exact
			charge(n)
#endif
		:: else
		fi
	:: else
	fi
}

active proctype commit()
{
	byte me = COMMIT, sum;

	!inside;
#ifndef BREAK_commit
	empty_pools();
#endif
	assert(!charged && !have && !pool[0] && !pool[1])
}

proctype task(byte me)
{
	byte slot = (me -> 1 : 0), need = (me -> 1 : BIG), limit, now, back, sum;
	bool ok, sure;

	if
	:: me == 1 -> slot = 0
	:: true
	fi;
	atomic {
		sure = given;
		if
		:: !hands -> saw_hands = saw_hands & (255 - CPU(me))
		:: else -> saw_hands = saw_hands | CPU(me)
		fi
	};
	get(need);
	if
	:: ok ->
		atomic { have = have + need; assert(have <= charged && charged <= room) };
		atomic { have = have - need };
#ifdef BREAK_leave_first
		inside--;
#endif
		put(need)
	:: else -> assert(!sure || (saw_hands & CPU(me)))
	fi;
	atomic {
		if
		:: me == 0 -> given = true
		:: else
		fi
	};
#ifndef BREAK_leave_first
	atomic { inside--; FRESH(old_max, me) }
#else
	if
	:: !ok -> inside--
	:: else
	fi
#endif
}

init {
	atomic {
		if
		:: room = 4
		:: true
		fi;
		run task(0); run task(1); run task(2)
	}
}
