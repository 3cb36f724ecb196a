/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interrupt code under test between any two instructions
 *
 * Races that need one CPU to stall while another does a lot are next to
 * impossible to hit by repetition. An interrupt at the right point makes them
 * likely, and some thousand interrupts are likely to hit that point.
 */
#ifndef _KUNIT_INTERRUPTS_H
#define _KUNIT_INTERRUPTS_H

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/prandom.h>
#include <linux/smp.h>

struct kunit_interrupts {
	struct hrtimer		timer;
	struct rnd_state	rnd;
};

static inline enum hrtimer_restart kunit_interrupt(struct hrtimer *timer)
{
	struct kunit_interrupts *in =
		container_of(timer, struct kunit_interrupts, timer);
	u64 end = ktime_get_ns() +
		  prandom_u32_state(&in->rnd) % (20 * NSEC_PER_USEC);

	while (ktime_get_ns() < end)
		cpu_relax();
	/* Relative to now: code under test runs even if interrupts are slow. */
	hrtimer_set_expires(timer, ktime_add_us(ktime_get(), 100 +
				prandom_u32_state(&in->rnd) % 200));
	return HRTIMER_RESTART;
}

static inline void kunit_start_interrupts_here(void *data)
{
	struct kunit_interrupts *in = data;

	hrtimer_start(&in->timer, us_to_ktime(100),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

static inline void kunit_cancel_interrupts(void *data)
{
	struct kunit_interrupts *in = data;
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		hrtimer_cancel(&in[cpu].timer);
}

/**
 * kunit_start_interrupts() - interrupt all CPUs at random
 * @test: the test; the interrupts stop when it ends, at the latest
 *
 * Each online CPU is interrupted every 100 to 300 us, if its timers have that
 * resolution, for up to 20 us, so that other CPUs get ahead of it. Aborts the
 * test if there is no memory.
 *
 * Context: May sleep.
 * Return: the argument for kunit_stop_interrupts().
 */
static inline struct kunit_interrupts *
kunit_start_interrupts(struct kunit *test)
{
	struct kunit_interrupts *in =
		kunit_kcalloc(test, nr_cpu_ids, sizeof(*in), GFP_KERNEL);
	unsigned int cpu;

	KUNIT_ASSERT_NOT_NULL(test, in);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		prandom_seed_state(&in[cpu].rnd, cpu);
		hrtimer_setup(&in[cpu].timer, kunit_interrupt, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_PINNED_HARD);
	}
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, kunit_cancel_interrupts,
						  in));
	cpus_read_lock();
	for_each_online_cpu(cpu)
		smp_call_function_single(cpu, kunit_start_interrupts_here,
					 &in[cpu], 1);
	cpus_read_unlock();
	return in;
}

/**
 * kunit_stop_interrupts() - stop interrupting CPUs
 * @test: the test
 * @in: return value of kunit_start_interrupts()
 *
 * Context: May sleep.
 */
static inline void kunit_stop_interrupts(struct kunit *test,
					 struct kunit_interrupts *in)
{
	kunit_release_action(test, kunit_cancel_interrupts, in);
}

#endif /* _KUNIT_INTERRUPTS_H */
