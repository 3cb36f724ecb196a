/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Log space that CPUs keep as credits: none is kept while a ticket waits for it.
 *
 * Two tasks, each on a CPU of its own, reserve log space, give it back to the credit of
 * their CPU, and may hold it until the other has its space, too, for they may need locks of
 * each other. The second one may roll a transaction instead: it adds to the reserve head,
 * gives back what it did not use, and waits on the write head. At first no space is free:
 * it is in credits, in tickets of two more tasks that give it back, to a credit or, if that
 * would become too large, to the heads, or the AIL frees it by moving the tail, by itself or
 * only when a task that sleeps has asked for that. There is enough for both when all that is
 * done.
 *
 * Nobody else comes along who could wake a ticket, and no timer does.
 *
 * Holds: no task sleeps for ever. No task takes a credit if it had to see a ticket in a queue
 * since it began, nor if the reserve head has had no space left since then. Credits are used
 * space on both heads at any time. When all is given back, the heads are what the credits
 * are: no space is lost, and none is freed twice.
 *
 * What is done under the lock of a head is one step. A shutdown is not modelled.
 *
 * Commit: xfs: keep unused log space per CPU
 * Code: fs/xfs/xfs_log.c xlog_grant_has_waiters: { return !list_empty_careful(&log->l_reserve_head.waiters) || !list_empty_careful(&log->l_write_head.waiters); }
 * Code: fs/xfs/xfs_log.c xlog_credit_take: int old = atomic_read(credit); do { if (old < bytes || xlog_grant_has_waiters(log) || !xlog_grant_space_left(log, &log->l_reserve_head)) return false; } while (!atomic_try_cmpxchg(credit, &old, old - bytes)); return true; }
 * Code: fs/xfs/xfs_log.c xlog_credit_return: { xlog_grant_sub_space(&log->l_reserve_head, bytes); xlog_grant_sub_space(&log->l_write_head, bytes); xfs_log_space_wake(log->l_mp); }
 * Code: fs/xfs/xfs_log.c xlog_credit_put: if (bytes >= 0 && bytes <= log->l_credit_max - atomic_read(credit)) { atomic_add_return(bytes, credit); if (likely(!xlog_grant_has_waiters(log))) return; bytes = atomic_xchg(credit, 0); } xlog_credit_return(log, bytes); }
 * Code: fs/xfs/xfs_log.c xlog_credit_drain: smp_mb(); if (log->l_credit_max) { for_each_possible_cpu(cpu) { pcp = per_cpu_ptr(log->l_cilp->xc_pcp, cpu); if (atomic_read(&pcp->log_credit)) bytes += atomic_xchg(&pcp->log_credit, 0); } } xlog_credit_return(log, bytes); }
 * Code: fs/xfs/xfs_log.c xlog_grant_head_wake: list_for_each_entry(tic, &head->waiters, t_queue) { need_bytes = xlog_ticket_reservation(log, head, tic); if (*free_bytes < need_bytes) return false; *free_bytes -= need_bytes; ... wake_up_process(tic->t_task); } return true; }
 * Code: fs/xfs/xfs_log.c xlog_grant_head_wait: bool drained = false; list_add_tail(&tic->t_queue, &head->waiters); do { if (xlog_is_shutdown(log)) goto shutdown; __set_current_state(TASK_UNINTERRUPTIBLE); spin_unlock(&head->lock); if (!drained) { xlog_credit_drain(log); drained = true; } if (!task_is_running(current)) { ... xfs_ail_push_all(log->l_ailp); ... schedule(); ... } spin_lock(&head->lock); if (xlog_is_shutdown(log)) goto shutdown; } while (xlog_grant_space_left(log, head) < need_bytes); list_del_init(&tic->t_queue); return 0;
 * Code: fs/xfs/xfs_log.c xlog_grant_head_check: free_bytes = xlog_grant_space_left(log, head); if (!list_empty_careful(&head->waiters)) { spin_lock(&head->lock); if (!xlog_grant_head_wake(log, head, &free_bytes) || free_bytes < *need_bytes) { error = xlog_grant_head_wait(log, head, tic, *need_bytes); } spin_unlock(&head->lock); } else if (free_bytes < *need_bytes) { spin_lock(&head->lock); error = xlog_grant_head_wait(log, head, tic, *need_bytes); spin_unlock(&head->lock); } return error; }
 * Code: fs/xfs/xfs_log.c xfs_log_reserve: if (xlog_credit_take(log, need_bytes)) goto out_reserved; error = xlog_grant_head_check(log, &log->l_reserve_head, tic, &need_bytes); ... if (need_bytes + XLOG_CREDIT_BATCH <= log->l_credit_max && need_bytes + XLOG_CREDIT_BATCH + log->l_logsize / 16 <= xlog_grant_space_left(log, &log->l_reserve_head) && !xlog_grant_has_waiters(log)) batch = XLOG_CREDIT_BATCH; xlog_grant_add_space(&log->l_reserve_head, need_bytes + batch); xlog_grant_add_space(&log->l_write_head, need_bytes + batch); if (batch) xlog_credit_put(log, batch); out_reserved: ... return 0;
 * Code: fs/xfs/xfs_log.c xfs_log_ticket_regrant: if (!ticket->t_cnt) { xlog_grant_add_space(&log->l_reserve_head, ticket->t_unit_res); ... } xlog_credit_put(log, ticket->t_curr_res);
 * Code: fs/xfs/xfs_log.c xfs_log_regrant: error = xlog_grant_head_check(log, &log->l_write_head, tic, &need_bytes); ... xlog_grant_add_space(&log->l_write_head, need_bytes);
 * Code: fs/xfs/xfs_log.c xfs_log_space_wake: smp_mb(); if (!list_empty_careful(&log->l_write_head.waiters)) { ... spin_lock(&log->l_write_head.lock); free_bytes = xlog_grant_space_left(log, &log->l_write_head); xlog_grant_head_wake(log, &log->l_write_head, &free_bytes); spin_unlock(&log->l_write_head.lock); } if (!list_empty_careful(&log->l_reserve_head.waiters)) { ... spin_lock(&log->l_reserve_head.lock); free_bytes = xlog_grant_space_left(log, &log->l_reserve_head); xlog_grant_head_wake(log, &log->l_reserve_head, &free_bytes); spin_unlock(&log->l_reserve_head.lock); } }
 * Code: fs/xfs/xfs_log.c xfs_log_ticket_ungrant: xlog_credit_put(log, bytes);
 * Code: fs/xfs/xfs_trans_ail.c xfs_ail_update_finish: __xfs_ail_assign_tail_lsn(ailp); ... spin_unlock(&ailp->ail_lock); xfs_log_space_wake(log->l_mp); }
 *
 * BREAK_put_mb (hang): no barrier (A) between the credit and the look at the queues
 * BREAK_put_look (hang): a task that gives back to a credit does not look at the queues
 * BREAK_put_keep (hang): it looks, but leaves the credit where it is
 * BREAK_put_wake (hang): a task that gives back to the heads does not wake tickets
 * BREAK_drain_mb (hang): no barrier (B) between queueing and the look at the credits
 * BREAK_drain_first (hang): credits are drained, and space looked for, before the ticket is queued
 * BREAK_drain_running (hang): they are drained before the state is set
 * BREAK_drain_offline (hang): the credit of one CPU, which may be offline, is not drained
 * BREAK_drain_wake (hang): a task that drains credits does not wake tickets, nor itself
 * BREAK_drain_none (hang): it does not if there were no credits
 * BREAK_wake_mb (hang): no barrier between the space and the look at the queues
 * BREAK_push_once (hang): a task that sleeps again does not push the AIL
 * BREAK_take_first (assert): a credit is taken without a look at the queues
 * BREAK_take_full (assert): a credit is taken without a look at the reserve head
 * BREAK_batch_early (assert): a batch is in the credit before it is in the heads
 */
#include "weak.h"

#define SIZE	3		/* of the log */
#define RESERVE	0		/* heads */
#define WRITE	1
#define MAX	2		/* l_credit_max */
#define BATCH	1		/* XLOG_CREDIT_BATCH */
#define ALL	15
#define BOTH	(CPU(0) | CPU(1))

byte tail;			/* l_tail_space */
byte grant[2] = SIZE, credit[2];
byte queue[4];			/* two for each head */
byte queued[2];
byte asleep;			/* tasks that are not TASK_RUNNING; they may not sleep yet */
byte got;			/* tasks */
byte behind;			/* tasks that began when they had to see a ticket in a queue */
byte none_left;			/* tasks that began when the reserve head had no space left */
bool push;			/* of the AIL */

/* CPUs that may see these as they were, of those between begin_looks() and end_looks() */
byte readers;
byte old_queue[2], old_credit[2];

#define NEED(task)	(2 - (task))
#define FREE(h)		(SIZE - tail > grant[h] -> SIZE - tail - grant[h] : 0)
#define QUEUE(h, i)	queue[2 * (h) + (i)]
#define MAY_BATCH	(head == RESERVE && NEED(me) + BATCH <= MAX)
#define IS_FIRST(h)	(QUEUE(h, 0) == me)
#define OTHERS		(readers & (ALL - CPU(me)))

inline order_loads()
{
	FRESH(old_queue[0], me);
	FRESH(old_queue[1], me);
	FRESH(old_credit[0], me);
	FRESH(old_credit[1], me)
}

inline begin_looks()
{
	readers = readers | CPU(me)
}

inline end_looks()
{
	order_loads();
	readers = readers & (ALL - CPU(me));
	some = false
}

inline space_freed()
{
	if
	:: FREE(RESERVE) -> none_left = 0
	:: else
	fi
}

inline add_credit(n)
{
	if
	:: !credit[slot] -> CHANGED(old_credit[slot], OTHERS)
	:: else
	fi;
	credit[slot] = credit[slot] + n;
	assert(credit[0] + credit[1] <= grant[RESERVE] && credit[0] + credit[1] <= grant[WRITE])
}

inline xchg_credit(to, s)
{
	if
	:: credit[s] -> CHANGED(old_credit[s], OTHERS)
	:: else
	fi;
	to = to + credit[s];
	credit[s] = 0;
	order_loads()
}

/* Under the lock of the head, like all that is done to a queue; atomic. */
inline head_wake(h)
{
	i = 0;
	do
	:: i < queued[h] && NEED(QUEUE(h, i)) <= free ->
		free = free - NEED(QUEUE(h, i));
		asleep = asleep & (ALL - CPU(QUEUE(h, i)));
		i++
	:: else -> break
	od;
	stop = i < queued[h];
	i = 0
}

inline enqueue(h)
{
	if
	:: !queued[h] -> CHANGED(old_queue[h], OTHERS)
	:: else
	fi;
	QUEUE(h, queued[h]) = me;
	queued[h]++
}

inline dequeue(h)
{
	if
	:: IS_FIRST(h) -> QUEUE(h, 0) = QUEUE(h, 1)
	:: else
	fi;
	QUEUE(h, 1) = 0;
	queued[h]--;
	if
	:: !queued[h] -> CHANGED(old_queue[h], OTHERS); behind = 0; QUEUE(h, 0) = 0
	:: else
	fi
}

inline wake_waiters(h)
{
	do
	:: atomic {
		LOAD(some, queued[h] != 0, old_queue[h], me);
		if
		:: some
		:: else -> break
		fi
	   };
	   atomic {
		order_loads();
		free = FREE(h);
		head_wake(h);
		free = 0; some = false; stop = false;
		break
	   }
	od
}

/* xfs_log_space_wake(); the barrier belongs to the step before */
inline wake_barrier()
{
#ifndef BREAK_wake_mb
	order_loads()
#else
	skip
#endif
}

inline space_wake()
{
	wake_waiters(WRITE);
	wake_waiters(RESERVE)
}

inline sub_space(n)
{
	atomic {
		assert(grant[RESERVE] >= n && grant[WRITE] >= n);
		grant[RESERVE] = grant[RESERVE] - n;
		space_freed()
	};
	atomic { grant[WRITE] = grant[WRITE] - n; n = 0; wake_barrier() }
}

inline has_waiters()
{
	do
	:: atomic {
		LOAD(some, queued[RESERVE] != 0, old_queue[RESERVE], me);
		if
		:: some -> break
		:: else
		fi
	   };
	   atomic { LOAD(some, queued[WRITE] != 0, old_queue[WRITE], me); break }
	od
}

/* xlog_credit_put(). n is a variable, and 0 after that. Ends at given_back. */
inline put(n)
{
	do
	:: atomic {
		begin_looks();
		if
		:: n <= MAX && credit[slot] <= MAX - n
		:: else -> break
		fi
	   };
	   atomic {
		add_credit(n);
#ifndef BREAK_put_mb
		order_loads();
#endif
		n = 0
	   };
#ifndef BREAK_put_look
	   has_waiters();
#endif
	   atomic {
		if
#ifndef BREAK_put_keep
		:: some -> xchg_credit(n, slot); some = false; break
		:: else -> end_looks(); goto given_back
#else
		:: true -> end_looks(); goto given_back
#endif
		fi
	   }
	od;
	sub_space(n);
#ifndef BREAK_put_wake
	space_wake();
#endif
	atomic { end_looks(); goto given_back }
}

inline drain_slot(s)
{
	do
	:: atomic {
		LOAD(some, credit[s] != 0, old_credit[s], me);
		if
		:: some
		:: else -> break
		fi
	   };
	   atomic { xchg_credit(bytes, s); some = false; break }
	od
}

inline drain()
{
#ifndef BREAK_drain_mb
	atomic { order_loads() };
#endif
	drain_slot(0);
#ifndef BREAK_drain_offline
	drain_slot(1);
#endif
#ifdef BREAK_drain_none
	if
	:: bytes -> sub_space(bytes); space_wake()
	:: else
	fi
#else
	sub_space(bytes);
#ifndef BREAK_drain_wake
	space_wake()
#endif
#endif
}

#define MAY_LACK	(credit[slot] < NEED(me) || (old_credit[slot] & CPU(me)))
#define MAY_SUFFICE	(credit[slot] >= NEED(me) || (old_credit[slot] & CPU(me)))

/* xlog_credit_take(). It reads the credit before the rest, and again when it takes from it. */
inline take()
{
	atomic {
		begin_looks();
		if
		:: (queued[RESERVE] && !(old_queue[RESERVE] & CPU(me))) ||
		   (queued[WRITE] && !(old_queue[WRITE] & CPU(me))) -> behind = behind | CPU(me)
		:: else
		fi;
		if
		:: !FREE(RESERVE) -> none_left = none_left | CPU(me)
		:: else
		fi
	};
	do
	:: atomic { MAY_LACK -> break }
	:: atomic { MAY_SUFFICE -> skip };
#ifndef BREAK_take_first
	   has_waiters();
#endif
#ifndef BREAK_take_full
	   atomic { some = some || !FREE(RESERVE) };
#endif
	   atomic {
		if
		:: !some && credit[slot] >= NEED(me) ->
			assert(!((behind | none_left) & CPU(me)));
			credit[slot] = credit[slot] - NEED(me);
			if
			:: !credit[slot] -> CHANGED(old_credit[slot], OTHERS)
			:: else
			fi;
			end_looks();
			behind = behind & (ALL - CPU(me));
			none_left = none_left & (ALL - CPU(me));
			goto reserved
		:: some || credit[slot] < NEED(me) -> break
		fi
	   }
	od;
	atomic {
		some = false;
		behind = behind & (ALL - CPU(me));
		none_left = none_left & (ALL - CPU(me))
	}
}

inline push_ail()
{
	if
	:: asleep & CPU(me) -> push = (tail != 0)
	:: else
	fi
}

/* xlog_grant_head_wait(), after the ticket was queued. */
inline wait(h)
{
#ifndef BREAK_drain_first
	drain();
#endif
#ifdef BREAK_drain_running
	asleep = asleep | CPU(me);
#endif
#ifdef BREAK_push_once
	atomic { push_ail() };
#endif
	do
	:: atomic {
		end_looks();
#ifndef BREAK_push_once
		push_ail()
#endif
	   };
	   atomic { !(asleep & CPU(me)) ->
		if
		:: FREE(h) >= NEED(me) ->
			dequeue(h);
			if
			:: MAY_BATCH -> begin_looks()
			:: else
			fi;
			break
		:: else -> asleep = asleep | CPU(me)
		fi
	   }
	od
}

/* xlog_grant_head_check(); the lock is taken, which orders loads, a step before it has to be */
inline check(h)
{
	free = FREE(h);
	atomic { LOAD(some, queued[h] != 0, old_queue[h], me); order_loads() };
#ifdef BREAK_drain_first
	if
	:: some || free < NEED(me) -> drain()
	:: else
	fi;
#endif
	do
	:: atomic {
#ifdef BREAK_drain_first
		some = (queued[h] != 0);
		free = FREE(h);
#endif
		if
		:: some -> head_wake(h)
		:: else -> stop = false
		fi;
		some = false;
		if
		:: stop || free < NEED(me) ->
			enqueue(h);
#ifndef BREAK_drain_running
			asleep = asleep | CPU(me);
#endif
			stop = false; free = 0
		:: else -> free = 0; break
		fi
	   };
	   wait(h);
	   break
	od
}

/*
 * xfs_log_reserve(), or xfs_log_ticket_regrant() and xfs_log_regrant(), and then
 * xfs_log_ticket_ungrant()
 */
proctype task(byte me; byte head)
{
	byte slot = me, bytes, free, i;
	bool some, stop;

	if
	:: head == RESERVE -> take()
	:: else -> atomic { grant[RESERVE] = grant[RESERVE] + NEED(me); bytes = 1; goto give_back }
	fi;
from_head:
	check(head);
	do
	:: atomic {
		if
		:: MAY_BATCH && NEED(me) + BATCH <= FREE(RESERVE)
		:: else -> break
		fi
	   };
	   has_waiters();
	   atomic {
		if
		:: !some -> bytes = BATCH
		:: else -> some = false
		fi;
		break
	   }
	od;
#ifdef BREAK_batch_early
	atomic { add_credit(bytes); bytes = 0 };
#endif
	atomic {
		end_looks();
		if
		:: head == RESERVE -> grant[RESERVE] = grant[RESERVE] + NEED(me) + bytes
		:: else
		fi;
		grant[WRITE] = grant[WRITE] + NEED(me) + bytes;
		if
		:: bytes -> goto give_back
		:: else
		fi
	};
reserved:
	atomic {
		got = got | CPU(me);
		bytes = NEED(me);
		/* Both may hold what they got until the other has got it, too. */
		if
		:: goto give_back
		:: true
		fi
	};
	got == BOTH;
give_back:
	put(bytes);
given_back:
	atomic {
		if
		:: got & CPU(me)
		:: !(got & CPU(me)) && head == WRITE -> begin_looks(); goto from_head
		:: !(got & CPU(me)) && head == RESERVE -> goto reserved
		fi
	}
}

proctype give(byte me; byte slot; byte bytes)
{
	byte free, i;
	bool some, stop;

	put(bytes);
given_back:
	skip
}

proctype ail(byte me; bool lazy)
{
	byte free, i;
	bool some, stop;

end:	atomic { !lazy || push -> begin_looks() };
	atomic { tail = 0; push = false; space_freed(); wake_barrier() };
	space_wake();
	atomic { end_looks() }
}

/* A task that sleeps for ever is left to Spin. */
active proctype quiet()
{
	timeout;
	assert(asleep || (grant[RESERVE] == credit[0] + credit[1] && grant[WRITE] == grant[RESERVE]))
}

inline start_ail(credits, lazy)
{
	credit[cpu] = credits;
	grant[RESERVE]--;
	grant[WRITE]--;
	tail = 1;
	run ail(2, lazy)
}

init {
	byte cpu;

	atomic {
		if
		:: cpu = 0
		:: cpu = 1
		fi;
		run task(0, RESERVE);
		if
		:: run give(2, cpu, 2); run give(3, 0, 1); got = CPU(1)
		:: run task(1, WRITE);
			if
			:: run give(2, cpu, 2)
			:: cpu -> start_ail(1, true)
			fi
		:: run task(1, RESERVE);
			if
			:: !cpu -> run give(2, 0, SIZE)
			:: cpu -> run give(2, 1, 2); credit[0] = 1
			:: cpu -> start_ail(2, false)
			:: cpu -> start_ail(2, true)
			fi
		fi;
		cpu = 0
	}
}
