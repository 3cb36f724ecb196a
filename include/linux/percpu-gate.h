/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PERCPU_GATE_H
#define _LINUX_PERCPU_GATE_H

/*
 * A gate that many tasks go through, and that is closed now and then for somebody
 * to be alone: a rwsem whose readers do not write to shared memory, and whose
 * writer needs no grace period.
 *
 * Who is inside is counted in slots, one for each CPU. While the gate is open a
 * word, the token, says what those who enter get; NULL means closed. Entering is
 * one atomic operation on the slot of this CPU, and leaving another on the same
 * slot, wherever the task is by then. So each slot is exact by itself, and it does
 * not matter in which order slots are read, or that tasks migrate and sleep.
 *
 *	enter			close, drain
 *	-----			------------
 *	slot += 1		token = NULL
 *	full barrier (A)	full barrier (B)
 *	read token		read the slots
 *
 * With both barriers one side sees what the other wrote: either who closes sees
 * that somebody is inside, or who enters sees NULL, and takes the count back. A
 * task that entered after the slots were read, and sees a token, sees a newer one.
 *
 *	leave			wait
 *	-----			----
 *	slot -= 1		queue itself
 *	full barrier (C)	full barrier (D)
 *	anyone queued?		read the slot
 *
 * Taking a count back is leaving, too: who waits may have seen that count.
 *
 * A percpu_rw_semaphore whose rcu_sync is never left costs readers the same. What
 * it has not: a task may be inside whose gate is closed (percpu_gate_join()), any
 * number may wait for those inside, who closes and opens holds a lock that spins,
 * and what is read with the gate is the word that opens it.
 *
 * Opening and closing are not serialized here: whoever uses a gate has a lock for
 * what the token stands for, and opens and closes under that lock. Somebody who
 * holds it may also join those inside while the gate is closed; no barrier is needed
 * for that, as the last look at the slots is under the lock.
 *
 * A task inside may sleep. It must not wait for the gate to be drained, nor for
 * anything that waits for that. Lockdep is told in percpu_gate_wait(); tell it with
 * percpu_gate_might_wait() wherever somebody waits for who waits there.
 */

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/lockdep.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/wait.h>

/*
 * The low half of a count is how many are inside, the high half how many have left,
 * modulo 2^32. Who leaves moves one from low to high; who is refused was in neither.
 */
#define PERCPU_GATE_INSIDE	U32_MAX
#define PERCPU_GATE_LEFT	((s64)BIT_ULL(32))

/**
 * struct percpu_gate_slot - who entered on one CPU
 * @count: tasks that are inside, and in the high half those that were
 * @used: the CPU is in the gate's mask. Never cleared: somebody may be between
 *	looking here and counting itself.
 *
 * May be the first member of a larger structure, see percpu_gate_init().
 */
struct percpu_gate_slot {
	atomic64_t		count;
	bool			used;
};

/**
 * struct percpu_gate - a gate with a slot for each CPU
 * @token: what those who enter get, or NULL if it is closed
 * @slots: of all possible CPUs
 * @used: CPUs of which the slot was used
 * @wait: those who wait for a slot to be empty
 * @dep_map: read by those inside, written by those who wait
 *
 * Opening and closing write the first cache line, and only waiting the second.
 */
struct percpu_gate {
	void			*token;
	void __percpu		*slots;
	cpumask_var_t		used;
	wait_queue_head_t	wait ____cacheline_aligned_in_smp;
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	struct lockdep_map	dep_map;
#endif
};

/**
 * percpu_gate_init() - make a gate, closed
 * @gate: the gate; its memory is zeroed
 * @size: of a slot, in bytes: that of struct percpu_gate_slot, or of a structure that
 *	begins with one and has what else belongs to a CPU
 * @name: for lockdep
 * @key: for lockdep: gates with the same key are taken for one
 *
 * Slots are zeroed and have cache lines of their own.
 *
 * Context: May sleep (GFP_KERNEL).
 * Return: 0, or -ENOMEM.
 */
static inline int percpu_gate_init(struct percpu_gate *gate, size_t size,
				   const char *name, struct lock_class_key *key)
{
	gate->token = NULL;
	gate->slots = __alloc_percpu(ALIGN(size, SMP_CACHE_BYTES),
				     SMP_CACHE_BYTES);
	if (!gate->slots)
		return -ENOMEM;
	if (!zalloc_cpumask_var(&gate->used, GFP_KERNEL)) {
		free_percpu(gate->slots);
		gate->slots = NULL;
		return -ENOMEM;
	}
	init_waitqueue_head(&gate->wait);
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	lockdep_init_map(&gate->dep_map, name, key, 0);
#endif
	return 0;
}

/**
 * percpu_gate_destroy() - free what percpu_gate_init() allocated
 * @gate: a gate in which no call of another function is still running; or zeroed memory
 *
 * That nobody is inside is not enough: who leaves looks for who waits after it was
 * seen to have left.
 *
 * Context: Any in which memory can be freed.
 */
static inline void percpu_gate_destroy(struct percpu_gate *gate)
{
	if (!gate->slots)
		return;
	free_percpu(gate->slots);
	free_cpumask_var(gate->used);
	gate->slots = NULL;
}

static inline struct percpu_gate_slot *
percpu_gate_slot(const struct percpu_gate *gate, unsigned int cpu)
{
	return per_cpu_ptr(gate->slots, cpu);
}

/* Count the task in the slot of a CPU; of which one does not matter. */
static inline struct percpu_gate_slot *__percpu_gate_count(struct percpu_gate *gate)
{
	struct percpu_gate_slot *slot = raw_cpu_ptr(gate->slots);

	if (unlikely(!READ_ONCE(slot->used))) {
		unsigned int cpu = raw_smp_processor_id();

		slot = percpu_gate_slot(gate, cpu);
		cpumask_set_cpu(cpu, gate->used);
		/*
		 * Whoever sees this and is counted is counted in a slot that
		 * is in the mask: pairs with (B).
		 */
		smp_store_release(&slot->used, true);
	}
	atomic64_inc(&slot->count);
	return slot;
}

/* Somebody who waits for this slot to be empty. */
struct percpu_gate_waiter {
	struct wait_queue_entry	entry;
	struct percpu_gate_slot	*slot;
};

static inline int percpu_gate_wake(struct wait_queue_entry *entry,
				   unsigned int mode, int flags, void *slot)
{
	if (container_of(entry, struct percpu_gate_waiter, entry)->slot != slot)
		return 0;
	return autoremove_wake_function(entry, mode, flags, NULL);
}

static inline void __percpu_gate_uncount(struct percpu_gate *gate,
					 struct percpu_gate_slot *slot, s64 left)
{
	u32 inside = atomic64_add_return(left - 1, &slot->count);

	/* The common case is neither 0 nor, after an underflow, -1. */
	if (inside + 1 > 1 || WARN_ON_ONCE(inside))
		return;
	/*
	 * Barrier (C), pairs with (D) in percpu_gate_wait(). Where atomics are a
	 * lock and a plain variable, the lock does that: the waiter reads under
	 * it. It also orders what the task did inside before the count.
	 */
	if (waitqueue_active(&gate->wait))
		__wake_up(&gate->wait, TASK_NORMAL, 0, slot);
}

/**
 * percpu_gate_enter() - enter if the gate is open
 * @gate: the gate
 * @slot: set to the slot to leave through, if the gate is open
 *
 * Context: Any in which a spinlock_t may be taken, but not under the scheduler's locks:
 *	who is refused may have to wake somebody. May be preempted.
 * Return: the token, which stays what it is until this task has left; NULL if the
 *	gate is closed, the task is not inside then.
 */
static inline void *percpu_gate_enter(struct percpu_gate *gate,
				      struct percpu_gate_slot **slot)
{
	void *token;

	/* Not needed, but who drains would see each count that is taken back. */
	if (!READ_ONCE(gate->token))
		return NULL;
	*slot = __percpu_gate_count(gate);
	/* Barrier (A), pairs with (B) in percpu_gate_close(). */
	smp_mb__after_atomic();
	/* Pairs with percpu_gate_open(): what the token stands for is complete. */
	token = smp_load_acquire(&gate->token);
	if (unlikely(!token)) {
		__percpu_gate_uncount(gate, *slot, 0);
		return NULL;
	}
	rwsem_acquire_read(&gate->dep_map, 0, 1, _THIS_IP_);
	return token;
}

/**
 * percpu_gate_join() - be inside, whether the gate is open or not
 * @gate: the gate
 *
 * Context: The lock under which the gate is closed, and under which percpu_gate_empty()
 *	is asked for the last time, is held, shared or exclusive. Does not sleep.
 * Return: the slot to leave through.
 */
static inline struct percpu_gate_slot *percpu_gate_join(struct percpu_gate *gate)
{
	rwsem_acquire_read(&gate->dep_map, 0, 1, _THIS_IP_);
	return __percpu_gate_count(gate);
}

/**
 * percpu_gate_leave() - leave
 * @gate: the gate, which must not be destroyed before this returns
 * @slot: what percpu_gate_enter() or percpu_gate_join() gave, on any CPU
 *
 * Context: As percpu_gate_enter(). The same task as entered.
 */
static inline void percpu_gate_leave(struct percpu_gate *gate,
				     struct percpu_gate_slot *slot)
{
	rwsem_release(&gate->dep_map, _THIS_IP_);
	__percpu_gate_uncount(gate, slot, PERCPU_GATE_LEFT);
}

/**
 * percpu_gate_back_out() - leave as if never having been inside
 * @gate: the gate, which must not be destroyed before this returns
 * @slot: what percpu_gate_enter() gave
 *
 * For who is let in, but finds that it cannot do there what it came for. It is not
 * counted in percpu_gate_left().
 *
 * Context: As percpu_gate_leave().
 */
static inline void percpu_gate_back_out(struct percpu_gate *gate,
					struct percpu_gate_slot *slot)
{
	rwsem_release(&gate->dep_map, _THIS_IP_);
	__percpu_gate_uncount(gate, slot, 0);
}

/**
 * percpu_gate_open() - let tasks enter
 * @gate: the gate
 * @token: what they get, not NULL
 *
 * Context: The lock of whoever uses the gate is held; shared is enough if all who open
 *	with that agree in the token.
 */
static inline void percpu_gate_open(struct percpu_gate *gate, void *token)
{
	/* Pairs with percpu_gate_enter(). */
	smp_store_release(&gate->token, token);
}

/**
 * percpu_gate_close() - let no more tasks enter
 * @gate: the gate, open or closed
 *
 * Tasks that are inside stay there, see percpu_gate_wait().
 *
 * Context: The lock of whoever uses the gate is held exclusively.
 */
static inline void percpu_gate_close(struct percpu_gate *gate)
{
	WRITE_ONCE(gate->token, NULL);
	/* Barrier (B), pairs with (A) in percpu_gate_enter(). */
	smp_mb();
}

/**
 * percpu_gate_for_each_used() - CPUs of which the slot may be in use
 * @cpu: unsigned int
 * @gate: the gate
 *
 * Bits of the mask appear meanwhile: for_each_cpu() does not read it as atomic.
 */
#define percpu_gate_for_each_used(cpu, gate)				\
	for_each_possible_cpu(cpu)					\
		if (!cpumask_test_cpu(cpu, (gate)->used)) {		\
		} else

/* The first slot that somebody is in, or NULL. */
static inline struct percpu_gate_slot *__percpu_gate_busy(const struct percpu_gate *gate)
{
	unsigned int cpu;

	percpu_gate_for_each_used(cpu, gate) {
		struct percpu_gate_slot *slot = percpu_gate_slot(gate, cpu);

		if (atomic64_read(&slot->count) & PERCPU_GATE_INSIDE)
			return slot;
	}
	/* Pairs with (C): what was done inside is seen. */
	smp_acquire__after_ctrl_dep();
	return NULL;
}

/**
 * percpu_gate_empty() - is nobody inside?
 * @gate: a closed gate
 *
 * Whoever asks sees what was done inside, if the answer is yes.
 *
 * Context: The lock of whoever uses the gate, exclusively, for an answer that stays
 *	true. Reads one cache line for each CPU that was ever used.
 * Return: true if nobody is.
 */
static inline bool percpu_gate_empty(const struct percpu_gate *gate)
{
	WARN_ON_ONCE(READ_ONCE(gate->token));
	return !__percpu_gate_busy(gate);
}

/**
 * percpu_gate_assert_outside() - tell lockdep that this task is not inside
 * @gate: the gate
 *
 * For who was refused, before it does what may take long: had it been let in and not left,
 * whoever waits for those inside would wait for it.
 *
 * Context: Any.
 */
static inline void percpu_gate_assert_outside(const struct percpu_gate *gate)
{
	lockdep_assert_not_held(gate);
}

/**
 * percpu_gate_might_wait() - tell lockdep that somebody may wait for those inside
 * @gate: the gate
 *
 * Context: Where percpu_gate_wait() could be called.
 */
static inline void percpu_gate_might_wait(struct percpu_gate *gate)
{
	rwsem_acquire(&gate->dep_map, 0, 0, _THIS_IP_);
	rwsem_release(&gate->dep_map, _THIS_IP_);
}

/**
 * percpu_gate_wait() - sleep until nobody is seen inside
 * @gate: a closed gate
 *
 * That is a good moment to take the lock and ask percpu_gate_empty(): somebody may
 * have joined meanwhile.
 *
 * Context: Sleeps, uninterruptibly. Not under a lock that somebody inside may want, nor
 *	by a task that is inside.
 */
static inline void percpu_gate_wait(struct percpu_gate *gate)
{
	struct percpu_gate_waiter waiter = {
		.entry = {
			.private = current,
			.func = percpu_gate_wake,
			.entry = LIST_HEAD_INIT(waiter.entry.entry),
		},
	};

	might_sleep();
	percpu_gate_might_wait(gate);
	while ((waiter.slot = __percpu_gate_busy(gate))) {
		/* Has barrier (D), pairs with (C) in __percpu_gate_uncount(). */
		prepare_to_wait(&gate->wait, &waiter.entry, TASK_UNINTERRUPTIBLE);
		if (atomic64_read(&waiter.slot->count) & PERCPU_GATE_INSIDE)
			schedule();
		finish_wait(&gate->wait, &waiter.entry);
	}
}

/**
 * percpu_gate_slot_left() - how many tasks have left through a slot
 * @slot: the slot
 *
 * Wraps around: use differences.
 *
 * Return: the number.
 */
static inline u32 percpu_gate_slot_left(const struct percpu_gate_slot *slot)
{
	return (u64)atomic64_read(&slot->count) >> 32;
}

/**
 * percpu_gate_left() - how many tasks have left, through any slot
 * @gate: the gate
 *
 * Wraps around: use differences.
 *
 * Return: the number.
 */
static inline u32 percpu_gate_left(const struct percpu_gate *gate)
{
	unsigned int cpu;
	u32 sum = 0;

	percpu_gate_for_each_used(cpu, gate)
		sum += percpu_gate_slot_left(percpu_gate_slot(gate, cpu));
	return sum;
}

#endif /* _LINUX_PERCPU_GATE_H */
