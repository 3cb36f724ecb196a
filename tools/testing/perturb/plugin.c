// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU TCG plugin that widens race windows: virtual CPUs sleep at named places
 *
 *	qemu-system-x86_64 -plugin FILE,ranges=FILE,out=FILE[,seed=S][,one_in=N][,max_us=M]
 *
 * A line "START END KIND NAME" of the ranges, addresses in hexadecimal, is a point: places in
 * the code at which the CPU that comes by may be put to sleep while the others go on. KIND is
 *
 *	entry	before the instruction at START
 *	memory	before each instruction that accesses memory other than its stack and the
 *		data of its CPU, before each call, as the callee will, and between the
 *		load and the store of an instruction that does both and is not atomic
 *	atomic	after each atomic instruction
 *
 * A place that is executed X times in a phase, a quarter of a second, puts a CPU to sleep once
 * in N * sqrt(X), so that loops do not take it all, and what happens once in a commit is not
 * left out. What comes late everywhere does not come late, so in each phase one place in
 * PLACES_HOT is hot: there it is PLACES_HOT times as often. Sleeps are of 1 to M microseconds,
 * each power of two as likely as another, as the windows of races differ by orders of magnitude.
 *
 * A guest whose CPUs sleep is one whose host is busy: spinlocks are held for long, other CPUs
 * wait for the next exclusive section of QEMU, and timers come late. None of this is noticed
 * for some milliseconds, but it must not be for ever: a CPU sleeps BUDGET percent of the time,
 * and a point, for which all places of its lines with one NAME and KIND count, an eighth of
 * that, so that what is executed often leaves something to what is not.
 *
 * All numbers are drawn from S, but what the guest does with them is not repeatable.
 *
 * OUT has a line "point NAME KIND LOOKED SLEPT NANOSECONDS" for each point, how often a place of
 * it was executed and a CPU put to sleep, and a line "cpu NUMBER SLEPT NANOSECONDS" for each CPU
 * that came by. It is replaced each second, as QEMU may be killed.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "../lib/qemu-plugin.h"

#define MAX_CPUS 256
#define MAX_POINTS 4096
#define MAX_US 4000	/* of one sleep; the guest's watchdogs wait for seconds */
#define NS_PER_US 1000ULL
#define NS_PER_SEC 1000000000ULL

#define PHASE_NS (NS_PER_SEC / 4)
#define PLACES_HOT 16
#define MAX_RATES 8192	/* of a CPU; places that share one do no harm */

#define BUDGET 30	/* percent of the time that a CPU may sleep */
#define BURST_NS (NS_PER_SEC / 20)	/* that it may sleep at a time */
#define POINT_SHARE 8	/* points that use up the budget of a CPU */

enum kind { ENTRY, MEMORY, ATOMIC, NR_KINDS };

static const char *const kinds[] = { "entry", "memory", "atomic" };

struct point {
	char *name;
	enum kind kind;
};

struct range {
	uint64_t start;
	uint64_t end;
	unsigned int point;
};

/* Sleep fills it; time empties it. */
struct bucket {
	uint64_t level;		/* ns */
	uint64_t when;
};

/* How often a place is executed. */
struct rate {
	uint32_t phase;
	uint32_t count;		/* in this phase */
	uint32_t before;	/* in the one before */
};

struct count {
	struct bucket bucket;
	uint64_t looked;
	uint64_t slept;
	uint64_t ns;
};

/* Written by the thread of this CPU only; @counts and what it points to is read by others. */
struct cpu {
	struct count *counts;	/* of each point */
	struct rate *rates;
	struct bucket bucket;
	uint64_t random;
	uint64_t slept;
	uint64_t ns;
} __attribute__((aligned(128)));

static struct cpu cpus[MAX_CPUS];
static struct point points[MAX_POINTS];
static size_t nr_points;
static struct range *ranges;
static size_t nr_ranges;
static const char *out_path;
static char *tmp_path;
static uint64_t seed;
static uint64_t one_in = 32;
static uint64_t max_us = 2000;
static uint64_t began;		/* ns */
static uint64_t next_write;	/* ns */
static pthread_mutex_t write_lock = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what, const char *arg)
{
	fprintf(stderr, "perturb plugin: %s %s\n", what, arg);
	_exit(1);	/* not through on_exit_of_qemu() */
}

static void *must(void *p)
{
	if (!p)
		die("out of", "memory");
	return p;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

/* Of splitmix64. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static uint64_t draw(struct cpu *c)
{
	c->random += 0x9e3779b97f4a7c15ULL;
	return mix(c->random);
}

/* 1 to @max, each power of two as likely as another. */
static uint64_t log_uniform(uint64_t r, uint64_t max)
{
	unsigned int powers = 64 - __builtin_clzll(max);
	uint64_t least = 1ULL << (r >> 32) % powers;
	uint64_t above = 2 * least > max ? max + 1 : 2 * least;

	return least + (uint32_t)r % (above - least);
}

/* Whether a CPU may sleep, or a point of it with its share of the budget. */
static bool has_room(struct bucket *b, uint64_t now, unsigned int share)
{
	uint64_t out = (now - b->when) / 100 * BUDGET / share;

	b->level -= out < b->level ? out : b->level;
	b->when = now;
	return b->level < BURST_NS / share;
}

/* Notes an execution of a place. It is to put the CPU to sleep in one of so many. */
static uint64_t odds(struct cpu *c, uint64_t place, uint32_t phase)
{
	uint64_t hash = mix(seed ^ place);
	struct rate *r = &c->rates[hash % MAX_RATES];
	bool hot = mix(hash + phase) % PLACES_HOT == 0;
	uint64_t odds;

	if (r->phase != phase) {
		r->before = r->phase + 1 == phase ? r->count : 0;
		r->count = 0;
		r->phase = phase;
	}
	r->count++;
	/* The square root, by half of the digits. */
	odds = one_in << (31 - __builtin_clz(r->before > r->count ? r->before : r->count)) / 2;
	return hot && odds > PLACES_HOT ? odds / PLACES_HOT : hot ? 1 : odds;
}

/* Counts are read while they are written. */
static void add(uint64_t *count, uint64_t value)
{
	__atomic_store_n(count, *count + value, __ATOMIC_RELAXED);
}

static uint64_t get(const uint64_t *count)
{
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static void write_counts(void)
{
	FILE *out = fopen(tmp_path, "w");
	size_t i, n;

	if (!out)
		die("cannot write", tmp_path);
	for (n = 0; n < nr_points; n++) {
		struct count sum = {};

		for (i = 0; i < MAX_CPUS; i++) {
			struct count *counts = __atomic_load_n(&cpus[i].counts, __ATOMIC_ACQUIRE);

			if (!counts)
				continue;
			sum.looked += get(&counts[n].looked);
			sum.slept += get(&counts[n].slept);
			sum.ns += get(&counts[n].ns);
		}
		fprintf(out, "point %s %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", points[n].name,
			kinds[points[n].kind], sum.looked, sum.slept, sum.ns);
	}
	for (i = 0; i < MAX_CPUS; i++)
		if (__atomic_load_n(&cpus[i].counts, __ATOMIC_ACQUIRE))
			fprintf(out, "cpu %zu %" PRIu64 " %" PRIu64 "\n", i,
				get(&cpus[i].slept), get(&cpus[i].ns));
	if (fclose(out) || rename(tmp_path, out_path))
		die("cannot write", out_path);
}

static void write_now_and_then(uint64_t now)
{
	if (now < get(&next_write) || pthread_mutex_trylock(&write_lock))
		return;
	if (now >= get(&next_write)) {
		__atomic_store_n(&next_write, now + NS_PER_SEC, __ATOMIC_RELAXED);
		write_counts();
	}
	pthread_mutex_unlock(&write_lock);
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	pthread_mutex_lock(&write_lock);
	write_counts();
	pthread_mutex_unlock(&write_lock);
}

static void begin(struct cpu *c, unsigned int i)
{
	struct count *counts = must(calloc(nr_points, sizeof(*counts)));

	c->random = mix(seed + i);
	/* Or the shortest sleep is one of 50 us. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	c->rates = must(calloc(MAX_RATES, sizeof(*c->rates)));
	__atomic_store_n(&c->counts, counts, __ATOMIC_RELEASE);
}

static void sleep_ns(uint64_t ns)
{
	struct timespec left = { .tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* @place is the number of a point, and the lower half of an address. */
static void look(unsigned int i, uint64_t place)
{
	struct cpu *c = &cpus[i];
	struct count *count;
	uint64_t now, slept, r;

	if (!c->counts)
		begin(c, i);
	count = &c->counts[place >> 32];
	add(&count->looked, 1);
	now = now_ns();
	write_now_and_then(now);
	if (draw(c) % odds(c, place, (now - began) / PHASE_NS))
		return;
	if (!has_room(&c->bucket, now, 1) || !has_room(&count->bucket, now, POINT_SHARE))
		return;
	r = draw(c);
	sleep_ns(log_uniform(r, max_us) * NS_PER_US);
	slept = now_ns() - now;
	c->bucket.level += slept;
	count->bucket.level += slept;
	add(&count->slept, 1);
	add(&count->ns, slept);
	add(&c->slept, 1);
	add(&c->ns, slept);
}

static void on_exec(unsigned int i, void *data)
{
	look(i, (uintptr_t)data);
}

static void on_access(unsigned int i, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	(void)info;
	(void)vaddr;
	look(i, (uintptr_t)data);
}

/* QEMU 7.2 calls what is registered with QEMU_PLUGIN_MEM_R for stores. */
static void on_load(unsigned int i, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	(void)vaddr;
	if (!qemu_plugin_mem_is_store(info))
		look(i, (uintptr_t)data);
}

/* Where the byte is that says whether an operand is a register; 0 if there is none. */
static size_t modrm_at(const struct decoded *d)
{
	switch (d->code[0]) {
	case 0x00 ... 0x3f:
		if (d->code[0] != 0x0f)
			return (d->code[0] & 7) < 4 ? 1 : 0;
		break;
	case 0x8d:	/* lea */
		return 0;
	case 0x63: case 0x69: case 0x6b: case 0x80 ... 0x8c: case 0x8e: case 0x8f: case 0xc0:
	case 0xc1: case 0xc6: case 0xc7: case 0xd0 ... 0xd3: case 0xf6: case 0xf7: case 0xfe:
	case 0xff:
		return 1;
	default:
		return 0;
	}
	if (d->len < 3)
		return 0;
	switch (d->code[1]) {
	case 0x05 ... 0x0e: case 0x18 ... 0x1f:		/* prefetches and nops among them */
	case 0x30 ... 0x37: case 0x77: case 0x80 ... 0x8f: case 0xa0 ... 0xa2: case 0xa8 ... 0xaa:
	case 0xc8 ... 0xcf:
		return 0;
	case 0x38: case 0x3a:
		return 3;
	}
	return 2;
}

static bool accesses_memory(const uint8_t *code, size_t len)
{
	struct decoded d = decode(code, len);
	size_t at;

	if (!d.len || d.gs)
		return false;
	if (d.code[0] == 0xa8 || d.code[0] == 0xa9)	/* test, among string instructions */
		return false;
	if (d.code[0] >= 0xa0 && d.code[0] <= 0xaf)
		return true;
	at = modrm_at(&d);
	if (!at || at >= d.len || d.code[at] >= 0xc0)
		return false;
	return (d.code[at] & 7) != 4 || at + 1 >= d.len || (d.code[at + 1] & 7) != 4 || d.rex_b;
}

static bool is_call(const uint8_t *code, size_t len)
{
	struct decoded d = decode(code, len);

	return d.len > 1 && (d.code[0] == 0xe8 || (d.code[0] == 0xff && (d.code[1] >> 3 & 7) == 2));
}

/* Adds to a variable, say, without a lock prefix. For such that access memory only. */
static bool is_plain_rmw(const uint8_t *code, size_t len)
{
	struct decoded d = decode(code, len);
	size_t at = modrm_at(&d);
	unsigned int reg;

	if (!at || is_atomic(code, len))
		return false;
	reg = d.code[at] >> 3 & 7;
	switch (d.code[0]) {
	case 0x00 ... 0x0e: case 0x10 ... 0x37:
		return (d.code[0] & 7) < 2;
	case 0x80 ... 0x83:
		return reg != 7;	/* cmp */
	case 0xc0: case 0xc1: case 0xd0 ... 0xd3:
		return true;
	case 0xf6: case 0xf7:
		return reg == 2 || reg == 3;
	case 0xfe: case 0xff:
		return reg < 2;
	case 0x0f:
		break;
	default:
		return false;
	}
	switch (d.code[1]) {
	case 0xab: case 0xb0: case 0xb1: case 0xb3: case 0xbb: case 0xc0: case 0xc1:
		return true;
	case 0xba:
		return reg > 4;		/* not bt */
	}
	return false;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		size_t len = qemu_plugin_insn_size(insn);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);

		for (n = 0; n < nr_ranges; n++) {
			const struct range *r = &ranges[n];
			enum kind kind = points[r->point].kind;
			void *place = (void *)((uint64_t)r->point << 32 | (uint32_t)pc);

			if (pc < r->start || pc >= r->end)
				continue;
			/* on_access() comes after each access. */
			if (kind == ATOMIC && is_atomic(code, len))
				qemu_plugin_register_vcpu_mem_cb(insn, on_access,
					QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, place);
			if ((kind == ENTRY && pc == r->start) ||
			    (kind == MEMORY && (accesses_memory(code, len) || is_call(code, len))))
				qemu_plugin_register_vcpu_insn_exec_cb(insn, on_exec,
					QEMU_PLUGIN_CB_NO_REGS, place);
			if (kind == MEMORY && accesses_memory(code, len) && is_plain_rmw(code, len))
				qemu_plugin_register_vcpu_mem_cb(insn, on_load,
					QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, place);
		}
	}
}

static unsigned int find_point(const char *name, enum kind kind)
{
	size_t i;

	for (i = 0; i < nr_points; i++)
		if (points[i].kind == kind && !strcmp(points[i].name, name))
			return i;
	if (nr_points == MAX_POINTS)
		die("too many points:", name);
	points[nr_points].name = must(strdup(name));
	points[nr_points].kind = kind;
	return nr_points++;
}

static void read_ranges(const char *path)
{
	FILE *in = fopen(path, "r");
	char kind[16], name[256];
	struct range range;
	size_t i, before = nr_ranges;

	if (!in)
		die("cannot read", path);
	while (fscanf(in, "%" SCNx64 "%" SCNx64 "%15s%255s", &range.start, &range.end, kind,
		      name) == 4) {
		for (i = 0; i < NR_KINDS && strcmp(kind, kinds[i]); i++)
			;
		if (i == NR_KINDS)
			die("there is no kind", kind);
		range.point = find_point(name, i);
		ranges = must(realloc(ranges, (nr_ranges + 1) * sizeof(*ranges)));
		ranges[nr_ranges++] = range;
	}
	if (!feof(in) || nr_ranges == before)
		die("not a list of ranges:", path);
	fclose(in);
}

static uint64_t number(const char *arg, uint64_t least, uint64_t most)
{
	const char *text = strchr(arg, '=') + 1;
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value < least || value > most)
		die("not a number in its range:", arg);
	return value;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	int i;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out_path = must(strdup(argv[i] + 4));
		else if (!strncmp(argv[i], "ranges=", 7))
			read_ranges(argv[i] + 7);
		else if (!strncmp(argv[i], "seed=", 5))
			seed = mix(number(argv[i], 0, UINT64_MAX));
		else if (!strncmp(argv[i], "one_in=", 7))
			one_in = number(argv[i], 1, UINT32_MAX);
		else if (!strncmp(argv[i], "max_us=", 7))
			max_us = number(argv[i], 1, MAX_US);
		else
			die("unknown argument", argv[i]);
	}
	if (!out_path)
		die("missing argument", "out=");
	if (!nr_ranges)
		die("missing argument", "ranges=");
	tmp_path = must(malloc(strlen(out_path) + sizeof(".tmp")));
	sprintf(tmp_path, "%s.tmp", out_path);
	began = now_ns();
	write_counts();
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
