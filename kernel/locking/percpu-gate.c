// SPDX-License-Identifier: GPL-2.0
/*
 * The part of include/linux/percpu-gate.h that need not be fast: gates are
 * initialized, drained and destroyed here.
 */

#include <linux/export.h>
#include <linux/percpu-gate.h>
#include <linux/sched.h>
#include <linux/slab.h>

/**
 * percpu_gate_init() - initialize a closed gate
 * @gate: the gate, in zeroed memory
 * @size: size of a slot in bytes: of struct percpu_gate_slot, or of a structure
 *	that begins with one and holds other data of a CPU
 * @name: name for lockdep
 * @key: lockdep key; gates with the same key are in one class
 *
 * Slots are zeroed and have cache lines of their own.
 *
 * Context: May sleep (GFP_KERNEL).
 * Return: 0, or -ENOMEM.
 */
int percpu_gate_init(struct percpu_gate *gate, size_t size, const char *name,
		     struct lock_class_key *key)
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
EXPORT_SYMBOL_GPL(percpu_gate_init);

/**
 * percpu_gate_destroy() - free what percpu_gate_init() allocated
 * @gate: a gate on which no other function is running, or zeroed memory
 *
 * An empty gate is not enough: percpu_gate_leave() looks for waiters after the
 * task was seen to have left.
 *
 * Context: Any in which memory can be freed.
 */
void percpu_gate_destroy(struct percpu_gate *gate)
{
	if (!gate->slots)
		return;
	free_percpu(gate->slots);
	free_cpumask_var(gate->used);
	gate->slots = NULL;
}
EXPORT_SYMBOL_GPL(percpu_gate_destroy);

/* First use of the slot of this CPU. The CPU is in the mask when it returns. */
struct percpu_gate_slot *__percpu_gate_use(struct percpu_gate *gate)
{
	unsigned int cpu = raw_smp_processor_id();
	struct percpu_gate_slot *slot = percpu_gate_slot(gate, cpu);

	cpumask_set_cpu(cpu, gate->used);
	/*
	 * A task that sees this counts itself in a slot that is in the mask:
	 * pairs with (B) in percpu_gate_close().
	 */
	smp_store_release(&slot->used, true);
	return slot;
}
EXPORT_SYMBOL_GPL(__percpu_gate_use);

/* A task that waits for @slot to be empty. */
struct percpu_gate_waiter {
	struct wait_queue_entry	entry;
	struct percpu_gate_slot	*slot;
};

static int percpu_gate_wake(struct wait_queue_entry *entry, unsigned int mode,
			    int flags, void *slot)
{
	if (container_of(entry, struct percpu_gate_waiter, entry)->slot != slot)
		return 0;
	return autoremove_wake_function(entry, mode, flags, NULL);
}

/* Wake the tasks that wait for @slot to be empty. */
void __percpu_gate_wake(struct percpu_gate *gate, struct percpu_gate_slot *slot)
{
	__wake_up(&gate->wait, TASK_NORMAL, 0, slot);
}
EXPORT_SYMBOL_GPL(__percpu_gate_wake);

/* Returns the first slot with a task inside, or NULL. */
static struct percpu_gate_slot *percpu_gate_busy(const struct percpu_gate *gate)
{
	unsigned int cpu;

	percpu_gate_for_each_used(cpu, gate) {
		struct percpu_gate_slot *slot = percpu_gate_slot(gate, cpu);

		if (atomic_read(&slot->inside))
			return slot;
	}
	/* Pairs with (C): makes accesses inside visible. */
	smp_acquire__after_ctrl_dep();
	return NULL;
}

/**
 * percpu_gate_empty() - is no task inside?
 * @gate: a closed gate
 *
 * If this returns true, the caller sees what tasks did inside.
 *
 * Context: For a result that stays true, holds the lock that the user of the
 *	gate provides, exclusively. Reads one cache line for each CPU that was
 *	ever used.
 * Return: true if no task is inside.
 */
bool percpu_gate_empty(const struct percpu_gate *gate)
{
	WARN_ON_ONCE(READ_ONCE(gate->token));
	return !percpu_gate_busy(gate);
}
EXPORT_SYMBOL_GPL(percpu_gate_empty);

/**
 * percpu_gate_wait() - sleep until no task is seen inside
 * @gate: a closed gate
 *
 * Unless the caller holds the lock under which tasks join, it has to take that
 * and check percpu_gate_empty() after this: a task may have joined meanwhile.
 *
 * Context: Sleeps, uninterruptibly. Not under a lock that a task inside may
 *	take, nor by a task that is inside.
 */
void percpu_gate_wait(struct percpu_gate *gate)
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
	while ((waiter.slot = percpu_gate_busy(gate))) {
		/* Barrier (D), pairs with (C) in __percpu_gate_uncount(). */
		prepare_to_wait(&gate->wait, &waiter.entry,
				TASK_UNINTERRUPTIBLE);
		if (atomic_read(&waiter.slot->inside))
			schedule();
		finish_wait(&gate->wait, &waiter.entry);
	}
}
EXPORT_SYMBOL_GPL(percpu_gate_wait);
