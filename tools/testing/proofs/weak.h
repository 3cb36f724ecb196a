/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Weak memory for Spin, whose own is sequentially consistent.
 *
 * A CPU may do a load long before the instruction that asks for it. So for a
 * condition that is read without a lock there is a set of CPUs, "old": those of
 * its readers that had nothing to order their loads since it last changed. LOAD()
 * on one of them may return the condition as it is or as it was. What orders
 * later loads behind itself (an acquire, a full barrier, a context switch) is
 * FRESH().
 *
 * A store may reach memory late: where that matters, a model keeps it pending
 * and lets a process "hardware" do it at any time. What orders earlier stores
 * before itself (a release, a full barrier, an unlock) waits for that.
 */
#define CPU(n)			(1 << (n))
#define CHANGED(old, readers)	old = readers
#define FRESH(old, cpu)		old = old & (255 - CPU(cpu))

inline LOAD(to, condition, old, cpu)
{
	if
	:: to = (condition)
	:: old & CPU(cpu) -> to = !(condition)
	fi
}
