// SPDX-License-Identifier: GPL-2.0
/*
 * Keep each CPU thread, and the stub process that it runs, on one host CPU.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <init.h>
#include <os.h>
#include <smp.h>
#include "internal.h"

static bool pin_cpus;
static cpu_set_t host_set;		/* the host CPUs we were started on */

/* Map a UML CPU to a host CPU, round-robin if there are fewer host CPUs. */
static int host_cpu(int cpu)
{
	int skip = cpu % CPU_COUNT(&host_set), host;

	for (host = 0; host < CPU_SETSIZE - 1; host++)
		if (CPU_ISSET(host, &host_set) && !skip--)
			break;
	return host;
}

static int pin(int pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(host_cpu(cpu), &set);
	/* Not the libc wrapper: the kernel has its own sched_setaffinity(). */
	if (syscall(__NR_sched_setaffinity, pid, sizeof(set), &set) < 0)
		return -errno;
	return 0;
}

/* Pin the calling CPU thread. */
void os_pin_cpu_thread(void)
{
	int err;

	if (!pin_cpus)
		return;
	err = pin(0, uml_curr_cpu());
	if (err)
		os_warn("Cannot pin CPU %d to a host CPU: errno = %d\n",
			uml_curr_cpu(), -err);
}

/**
 * os_pin_stub() - move a stub process to the host CPU of its CPU thread
 * @pid: the stub process, which the calling CPU thread is about to run
 * @data: data page shared with the stub process
 *
 * Makes a system call on the host only if another CPU thread ran the stub
 * process last. Errors are ignored: the stub process is gone, or runs slower.
 *
 * Context: CPU thread which holds the turnstile of the stub process.
 */
void os_pin_stub(int pid, struct stub_data *data)
{
	int cpu = uml_curr_cpu();

	if (!pin_cpus || data->cpu == cpu)
		return;
	data->cpu = cpu;
	pin(pid, cpu);
}

/* Helper threads serve all CPUs: drop the affinity inherited at creation. */
void os_unpin_helper_thread(pthread_t thread)
{
	if (pin_cpus)
		pthread_setaffinity_np(thread, sizeof(host_set), &host_set);
}

static int __init pin_cpus_setup(char *line, int *add)
{
	*add = 0;
	if (syscall(__NR_sched_getaffinity, 0, sizeof(host_set), &host_set) < 0)
		os_warn("Cannot read the CPU affinity: errno = %d\n", errno);
	else
		pin_cpus = true;
	return 0;
}

__uml_setup("pincpus", pin_cpus_setup,
"pincpus\n"
"    Keep each CPU, and the process that it runs, on one of the host CPUs that\n"
"    UML was started on. The two take turns, so nothing is lost if they share\n"
"    one; if they do not, each system call has to wake an idle host CPU twice.\n"
"    Leave at least one host CPU to each CPU, or they wait for each other.\n"
"\n"
);
