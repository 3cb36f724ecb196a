/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PERCPU_GATE_H
#define _LINUX_PERCPU_GATE_H

/*
 * A gate that many tasks pass, and that is closed now and then for exclusive
 * access: an rwsem with readers that do not write to shared memory, and a
 * writer that needs no grace period.
 *
 * Tasks inside are counted in slots, one for each CPU. While the gate is open,
 * a word, the token, is what entering tasks get; NULL means closed. Entering
 * is one atomic operation on the slot of this CPU, and leaving another on the
 * same slot, wherever the task is by then. So each slot is exact by itself,
 * and it does not matter in which order slots are read, or that tasks migrate
 * and sleep.
 *
 *	enter			close, drain
 *	-----			------------
 *	slot += 1		token = NULL
 *	full barrier (A)	full barrier (B)
 *	read token		read the slots
 *
 * With both barriers one side sees what the other wrote: either the closer
 * sees the count of the task, or the task sees NULL and takes the count back.
 * A task that enters after the slots were read, and sees a token, sees a newer
 * one.
 *
 *	leave			wait
 *	-----			----
 *	slot -= 1		queue itself
 *	full barrier (C)	full barrier (D)
 *	waiter queued?		read the slot
 *
 * Taking a count back is leaving, too: a waiter may have seen that count.
 *
 * Opening and closing are not serialized here: the user of a gate has a lock
 * for the object behind the token, and opens and closes the gate under it. A
 * holder of that lock may also join while the gate is closed. This needs no
 * barrier, as the slots are read for the last time under the lock.
 *
 * A task inside may sleep. It must not wait for the gate to drain, nor for
 * anything that waits for that. percpu_gate_wait() tells lockdep; call
 * percpu_gate_might_wait() wherever a task waits for one that waits there.
 */

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/lockdep.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/wait.h>

/**
 * struct percpu_gate_slot - tasks that entered on one CPU
 * @inside: number of tasks inside
 * @used: the CPU is in the gate's mask. Never cleared: a task may be between
 *	reading it and incrementing @inside.
 *
 * May be the first member of a larger structure, see percpu_gate_init().
 */
struct percpu_gate_slot {
	atomic_t		inside;
	bool			used;
};

/**
 * struct percpu_gate - a gate with a slot for each CPU
 * @token: what entering tasks get, or NULL if the gate is closed
 * @slots: slots of all possible CPUs
 * @used: CPUs with a slot that was used
 * @wait: tasks that wait for a slot to be empty
 * @dep_map: held for read by tasks inside, acquired for write by waiters
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

int percpu_gate_init(struct percpu_gate *gate, size_t size, const char *name,
		     struct lock_class_key *key);
void percpu_gate_destroy(struct percpu_gate *gate);
bool percpu_gate_empty(const struct percpu_gate *gate);
void percpu_gate_wait(struct percpu_gate *gate);

/* Slow halves of the functions below. */
struct percpu_gate_slot *__percpu_gate_use(struct percpu_gate *gate);
void __percpu_gate_wake(struct percpu_gate *gate,
			struct percpu_gate_slot *slot);

static inline struct percpu_gate_slot *
percpu_gate_slot(const struct percpu_gate *gate, unsigned int cpu)
{
	return per_cpu_ptr(gate->slots, cpu);
}

/* Count the task in the slot of this CPU; any other slot would do as well. */
static inline struct percpu_gate_slot *
__percpu_gate_count(struct percpu_gate *gate)
{
	struct percpu_gate_slot *slot = raw_cpu_ptr(gate->slots);

	if (unlikely(!READ_ONCE(slot->used)))
		slot = __percpu_gate_use(gate);
	atomic_inc(&slot->inside);
	return slot;
}

static inline void __percpu_gate_uncount(struct percpu_gate *gate,
					 struct percpu_gate_slot *slot)
{
	int inside = atomic_dec_return(&slot->inside);

	if (inside > 0 || WARN_ON_ONCE(inside < 0))
		return;
	/* Barrier (C), pairs with (D) in percpu_gate_wait(). */
	if (waitqueue_active(&gate->wait))
		__percpu_gate_wake(gate, slot);
}

/**
 * percpu_gate_enter() - enter the gate if it is open
 * @gate: the gate
 * @slot: set to the slot to leave through, if the gate is open
 *
 * Context: Any in which a spinlock_t may be taken, except under the
 *	scheduler's locks: a refused task may have to wake a waiter. May be
 *	preempted.
 * Return: the token, which stays valid until this task has left; NULL if the
 *	gate is closed, the task is not inside then.
 */
static inline void *percpu_gate_enter(struct percpu_gate *gate,
				      struct percpu_gate_slot **slot)
{
	void *token;

	/* Not needed, but a drain would see each count that is taken back. */
	if (!READ_ONCE(gate->token))
		return NULL;
	*slot = __percpu_gate_count(gate);
	/* Barrier (A), pairs with (B) in percpu_gate_close(). */
	smp_mb__after_atomic();
	/* Pairs with percpu_gate_open(): the token's object is complete. */
	token = smp_load_acquire(&gate->token);
	if (unlikely(!token)) {
		__percpu_gate_uncount(gate, *slot);
		return NULL;
	}
	rwsem_acquire_read(&gate->dep_map, 0, 1, _THIS_IP_);
	return token;
}

/**
 * percpu_gate_join() - enter the gate, whether it is open or not
 * @gate: the gate
 *
 * Context: Holds, shared or exclusive, the lock under which the gate is closed
 *	and percpu_gate_empty() is called for the last time. Does not sleep.
 * Return: the slot to leave through.
 */
static inline struct percpu_gate_slot *
percpu_gate_join(struct percpu_gate *gate)
{
	rwsem_acquire_read(&gate->dep_map, 0, 1, _THIS_IP_);
	return __percpu_gate_count(gate);
}

/**
 * percpu_gate_leave() - leave the gate
 * @gate: the gate, which must not be destroyed before this returns
 * @slot: slot from percpu_gate_enter() or percpu_gate_join(), of any CPU
 *
 * Context: As percpu_gate_enter(), in the task that entered.
 */
static inline void percpu_gate_leave(struct percpu_gate *gate,
				     struct percpu_gate_slot *slot)
{
	rwsem_release(&gate->dep_map, _THIS_IP_);
	__percpu_gate_uncount(gate, slot);
}

/**
 * percpu_gate_open() - let tasks enter
 * @gate: the gate
 * @token: what entering tasks get, not NULL
 *
 * Context: Holds the lock that the user of the gate provides; shared is enough
 *	if all tasks that open the gate under it pass the same token.
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
 * Context: Holds the lock that the user of the gate provides, exclusively.
 */
static inline void percpu_gate_close(struct percpu_gate *gate)
{
	WRITE_ONCE(gate->token, NULL);
	/* Barrier (B), pairs with (A) in percpu_gate_enter(). */
	smp_mb();
}

/**
 * percpu_gate_for_each_used() - iterate over CPUs with a slot that was used
 * @cpu: iterator, unsigned int
 * @gate: the gate
 *
 * Bits are set in the mask concurrently, and for_each_cpu() does not read it
 * atomically.
 */
#define percpu_gate_for_each_used(cpu, gate)				\
	for_each_possible_cpu(cpu)					\
		if (!cpumask_test_cpu(cpu, (gate)->used)) {		\
		} else

/**
 * percpu_gate_assert_outside() - tell lockdep that this task is not inside
 * @gate: the gate
 *
 * For a task that was refused, before an operation that may take long: if it
 * were still inside, tasks that wait for the gate to drain would wait for it.
 *
 * Context: Any.
 */
static inline void percpu_gate_assert_outside(const struct percpu_gate *gate)
{
	lockdep_assert_not_held(gate);
}

/**
 * percpu_gate_might_wait() - tell lockdep of a possible wait for tasks inside
 * @gate: the gate
 *
 * Context: Where percpu_gate_wait() could be called.
 */
static inline void percpu_gate_might_wait(struct percpu_gate *gate)
{
	rwsem_acquire(&gate->dep_map, 0, 0, _THIS_IP_);
	rwsem_release(&gate->dep_map, _THIS_IP_);
}

#endif /* _LINUX_PERCPU_GATE_H */
