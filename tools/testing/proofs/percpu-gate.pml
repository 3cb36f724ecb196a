/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The per-CPU gate: tasks inside are counted in slots, the gate is closed by a store.
 *
 * Two tasks enter without a lock. The first may have been counted in either slot; one
 * slot was never used before. A third joins under the lock while the gate is closed,
 * before it was drained. A commit closes the gate, drains it and ends the transaction,
 * twice. Another task opens the gate, under the lock, when it may be open.
 *
 * Holds: a task is inside only in a transaction that is not over, and what it did
 * inside is seen by the commit that drained the gate. No task sleeps for ever.
 *
 * Commit: percpu-gate: add a reader-writer gate with per-CPU reader counts
 * Code: kernel/locking/percpu-gate.c __percpu_gate_use: cpumask_set_cpu(cpu, gate->used); ... smp_store_release(&slot->used, true);
 * Code: include/linux/percpu-gate.h __percpu_gate_count: if (unlikely(!READ_ONCE(slot->used))) slot = __percpu_gate_use(gate); atomic_inc(&slot->inside);
 * Code: include/linux/percpu-gate.h percpu_gate_enter: *slot = __percpu_gate_count(gate); ... smp_mb__after_atomic(); ... token = smp_load_acquire(&gate->token); if (unlikely(!token)) { __percpu_gate_uncount(gate, *slot);
 * Code: include/linux/percpu-gate.h __percpu_gate_uncount: atomic_dec_return(&slot->inside); if (inside > 0 || WARN_ON_ONCE(inside < 0)) return; ... if (waitqueue_active(&gate->wait)) __percpu_gate_wake(gate, slot);
 * Code: kernel/locking/percpu-gate.c __percpu_gate_wake: __wake_up(&gate->wait, TASK_NORMAL, 0, slot);
 * Code: kernel/locking/percpu-gate.c percpu_gate_wake: ->slot != slot) return 0; return autoremove_wake_function(
 * Code: include/linux/percpu-gate.h percpu_gate_close: WRITE_ONCE(gate->token, NULL); ... smp_mb();
 * Code: kernel/locking/percpu-gate.c percpu_gate_busy: if (atomic_read(&slot->inside)) return slot; } ... smp_acquire__after_ctrl_dep(); return NULL;
 * Code: kernel/locking/percpu-gate.c percpu_gate_wait: while ((waiter.slot = percpu_gate_busy(gate))) { ... prepare_to_wait(&gate->wait, &waiter.entry, TASK_UNINTERRUPTIBLE); if (atomic_read(&waiter.slot->inside)) schedule(); finish_wait(
 * Code: kernel/sched/wait.c prepare_to_wait: __add_wait_queue(wq_head, wq_entry); set_current_state(state);
 *
 * BREAK_enter_mb (assert): no barrier (A) between the count and the look at the token
 * BREAK_close_mb (assert): no barrier (B) between closing and the look at the slots
 * BREAK_leave_mb (hang): no barrier (C) between the count and the look at the queue
 * BREAK_leave_release (assert): leaving does not order what was done inside
 * BREAK_wait_mb (hang): no barrier (D) between queueing and the look at the slot
 * BREAK_refused_wake (hang): a task that is refused does not wake
 * BREAK_own_slot (hang): a task leaves through the slot of the CPU that it is on
 * BREAK_used_late (assert): a slot is marked as used behind barrier (A)
 * BREAK_join_unlocked (assert): joining without the lock
 * BREAK_recheck (assert): a waiter that was woken does not look at the slots again
 */
#include "weak.h"

#define LAST	3		/* the transaction that is not committed any more */
#define JOINER	2		/* CPUs; the tasks that enter are on 0 and 1 */
#define COMMIT	3

mtype = { running_, locked_down, switching };
mtype state = running_;
byte running = 1, token, token_before;
byte count[2];			/* tasks inside, by slot */
bool used0, locked;		/* slot 1 was used before */
byte inside[LAST + 1];
bool over[LAST + 1];
byte undone;			/* where the first task did what has not reached memory */

byte queued;			/* the slot that the commit is queued for, from 1 on */
bool asleep;

/* CPUs that may see these as they were */
byte old_token, old_queue, old_count[2], old_used;

#define QUEUE_CHANGED	CHANGED(old_queue, CPU(0) | CPU(1) | CPU(JOINER))

inline order_loads(cpu)
{
	FRESH(old_token, cpu);
	FRESH(old_queue, cpu);
	FRESH(old_count[0], cpu);
	FRESH(old_count[1], cpu);
	FRESH(old_used, cpu)
}

inline lock_on(cpu)
{
	atomic { !locked -> locked = true; order_loads(cpu) }
}

inline set_token(to)
{
	token_before = token;
	token = to;
	CHANGED(old_token, CPU(0) | CPU(1))
}

inline mark_used()
{
	atomic {
		if
		:: !slot && !used0 -> used0 = true; CHANGED(old_used, CPU(COMMIT))
		:: else
		fi
	}
}

inline count_one()
{
	atomic {
		if
		:: !count[slot] -> CHANGED(old_count[slot], CPU(COMMIT))
		:: else
		fi;
		count[slot]++
	}
}

/* Leave, or take a count back. */
inline uncount(refused)
{
#ifdef BREAK_own_slot
	atomic {
		if
		:: !refused -> if :: slot = 0 :: slot = 1 fi
		:: else
		fi
	};
#endif
	atomic {
#ifndef BREAK_leave_release
		me || !undone ->
#endif
		count[slot]--;
		zero = count[slot] == 0;
		if
		:: zero -> CHANGED(old_count[slot], CPU(COMMIT))
		:: else
		fi;
#ifndef BREAK_leave_mb
		order_loads(me)
#endif
	};
	atomic {
		if
		:: zero ->
			LOAD(sleeper, queued != 0, old_queue, me);
#ifdef BREAK_refused_wake
			if
			:: refused -> sleeper = false
			:: else
			fi;
#endif
			if
			:: sleeper ->
				if
				:: queued == slot + 1 -> queued = 0; asleep = false; QUEUE_CHANGED
				:: else
				fi
			:: else
			fi
		:: else
		fi;
		zero = false; sleeper = false
	}
}

inline work_inside()
{
	atomic {
		assert(!over[mine]);
		inside[mine]++;
		if
		:: me == 0 -> undone = mine
		:: else
		fi
	};
	atomic {
		assert(!over[mine]);
		inside[mine]--
	}
}

/* Stores reach memory. */
active proctype hardware()
{
end:	do
	:: atomic { undone -> undone = 0 }
	od
}

active [2] proctype enter()
{
	byte me = _pid - 1, slot, mine;
	bool zero, sleeper;

	if
	:: true
	:: me == 0 -> slot = 1
	fi;
#ifndef BREAK_used_late
	mark_used();
#endif
	count_one();
#ifndef BREAK_enter_mb
	atomic { order_loads(me) };
#endif
#ifdef BREAK_used_late
	mark_used();
#endif
	atomic {
		if
		:: mine = token
		:: old_token & CPU(me) -> mine = token_before
		fi;
		order_loads(me)		/* an acquire */
	};
	if
	:: mine -> work_inside(); uncount(false)
	:: else -> uncount(true)
	fi;
}

active proctype join()
{
	byte me = JOINER, slot = 1, mine;
	bool zero, sleeper;

end:
#ifdef BREAK_join_unlocked
	atomic { !locked && !token && state != switching -> mine = running; order_loads(me) };
#else
	atomic { !locked && !token && state != switching -> locked = true; mine = running; order_loads(me) };
#endif
#ifdef BREAK_join_unlocked
	count_one();
#else
	atomic { count_one(); locked = false };
#endif
	work_inside();
	uncount(false)
}

/* Under the lock. */
active proctype open()
{
end:	do
	:: atomic { !locked && !token && state == running_ -> set_token(running) }
	od
}

inline close(cpu)
{
	atomic { set_token(0) };
#ifndef BREAK_close_mb
	atomic { order_loads(cpu) }
#endif
}

/* The first slot that a task is in, from 1 on. */
inline look(cpu)
{
	atomic {
		busy = 0;
		LOAD(some, used0, old_used, cpu);
		if
		:: some ->
			LOAD(some, count[0] != 0, old_count[0], cpu);
			if
			:: some -> busy = 1
			:: else
			fi
		:: else
		fi
	};
	atomic {
		if
		:: !busy ->
			LOAD(some, count[1] != 0, old_count[1], cpu);
			if
			:: some -> busy = 2
			:: else
			fi
		:: else
		fi;
		some = false
	}
}

/* Called and left with the lock held. */
inline drain(cpu)
{
	do
	:: look(cpu);
	   if
	   :: !busy -> break
	   :: else
	   fi;
	   locked = false;
	   look(cpu);
	   if
	   :: busy ->
		atomic {
			QUEUE_CHANGED;
			queued = busy;
			asleep = true
		};
		atomic {
#ifndef BREAK_wait_mb
			order_loads(cpu);
#endif
			LOAD(some, count[busy - 1] != 0, old_count[busy - 1], cpu);
			if
			:: !some ->		/* finish_wait() */
				queued = 0;
				asleep = false;
				QUEUE_CHANGED
			:: else
			fi;
			some = false
		};
		!asleep
	   :: else
	   fi;
	   lock_on(cpu);
#ifdef BREAK_recheck
	   break;
#endif
	od;
	busy = 0
}

#define DRAINED(what)	assert(!inside[what] && undone != what)

active proctype commit()
{
	byte busy;
	bool some;

	do
	:: atomic { running < LAST && !locked -> locked = true; order_loads(COMMIT) };
	   state = locked_down;
	   close(COMMIT);
	   drain(COMMIT);
	   atomic {
		DRAINED(running);
		state = switching;
		over[running] = true;
		locked = false
	   };
	   lock_on(COMMIT);
	   atomic { running++; state = running_; locked = false }
	:: running == LAST -> break
	od
}
