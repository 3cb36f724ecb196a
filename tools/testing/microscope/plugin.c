// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU TCG plugin that records what memory an operation touches
 *
 *	qemu-system-x86_64 -plugin FILE,out=DIR[,interrupts=LIST]
 *
 * The guest marks its operations with long no-ops that no compiler emits,
 * "nopl MARK(%rax)"; jbench does, in a run with trace=N. Accesses of the kernel
 * are counted
 *
 *	from MARK_OPEN	by the task that does an operation, between MARK_OP_BEGIN and
 *			MARK_OP_END. MARK_OUT is where the CPU switches to another
 *			task, MARK_IN where it switches back.
 *	from MARK_OPEN_ALL	on all CPUs, whatever they do: for operations that
 *			others complete, like fsync. Here MARK_OUT is a switch to
 *			the idle task.
 *
 * to MARK_CLOSE.
 *
 * What runs between one of the addresses in LIST, the entries of interrupts, and
 * the iret that ends it is not counted. After MARK_OPEN_ALL the end of an interrupt in
 * which another task was switched to is, as depths are known of CPUs and not of tasks.
 *
 * DIR/table is written at MARK_CLOSE: a line "scope op" or, after MARK_OPEN_ALL,
 * "scope all"; a line "ops CPU COUNTED" for each CPU; and for cache lines that one CPU
 * wrote and another touched, a line "CPU PC PADDR VADDR SIZE KIND COUNT" for each place
 * in the code and in memory, in hexadecimal but for the counts; KIND is r, w or a
 * (atomic read-modify-write, counted once). After MARK_OPEN there is also a line of
 * kind L for each: COUNT operations wrote it.
 * DIR/addresses has the physical addresses in it, for the guest to say what is there,
 * but not of lines with less than one access in a hundred operations.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/qemu-plugin.h"

#define MAX_CPUS 256
#define MAX_INTERRUPTS 512
#define LINE 64
#define RARE 100	/* operations for one access */
#define LOOK_BACK 8	/* accesses; a loop that waits has no more */

/* The displacement of the no-op; jbench.c has the same. */
enum mark {
	MARK_OPEN = 0x4a420001,
	MARK_CLOSE = 0x4a420002,
	MARK_OP_BEGIN = 0x4a420003,
	MARK_OP_END = 0x4a420004,
	MARK_OUT = 0x4a420005,
	MARK_IN = 0x4a420006,
	MARK_OPEN_ALL = 0x4a420007,
};

/* An address in the kernel has this bit set; where it is clear, the access is atomic. */
#define PC_PLAIN (1ULL << 62)

struct row {
	uint64_t pc;
	uint64_t paddr;
	uint64_t vaddr;
	uint64_t count;		/* 0: the slot is free */
	uint8_t size;
	char kind;
};

/* Open addressing; at most half of the slots are used. */
struct table {
	struct row *rows;
	size_t slots;
	size_t used;
};

/* Written by the thread of this CPU only, but for @total. */
struct cpu {
	pthread_mutex_t lock;	/* protects @total and the counts */
	struct table total;
	struct row *op;		/* the accesses of the present operation */
	size_t op_len;
	size_t op_max;
	bool in_op;
	bool out;		/* another task runs */
	unsigned int interrupts;	/* how deep in them the task is */
	uint64_t counted;
} __attribute__((aligned(128)));

static struct cpu cpus[MAX_CPUS] = {
	[0 ... MAX_CPUS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER },
};
static bool scope_all;		/* written before @window is set */
static bool window;		/* between MARK_OPEN or MARK_OPEN_ALL, and MARK_CLOSE */
static const char *out_dir;
static uint64_t interrupts[MAX_INTERRUPTS];
static size_t nr_interrupts;

static void die(const char *what, const char *arg)
{
	fprintf(stderr, "microscope plugin: %s %s\n", what, arg);
	exit(1);
}

static void *must(void *p)
{
	if (!p)
		die("out of", "memory");
	return p;
}

static uint64_t hash(const struct row *r)
{
	uint64_t h = (r->pc * 0x9e3779b97f4a7c15ULL) ^ (r->paddr * 0xc2b2ae3d27d4eb4fULL) ^ r->kind;

	return h ^ (h >> 29);
}

static bool same_place(const struct row *a, const struct row *b)
{
	return a->pc == b->pc && a->paddr == b->paddr && a->size == b->size && a->kind == b->kind;
}

/* The slot of a row with the place and kind of @row: its own, or a free one. */
static struct row *table_slot(struct table *t, const struct row *row)
{
	struct row *r;
	size_t i;

	if (2 * t->used >= t->slots) {
		struct table bigger = { .slots = t->slots ? 2 * t->slots : 4096, .used = t->used };

		bigger.rows = must(calloc(bigger.slots, sizeof(*bigger.rows)));
		for (i = 0; i < t->slots; i++)
			if (t->rows[i].count)
				*table_slot(&bigger, &t->rows[i]) = t->rows[i];
		free(t->rows);
		*t = bigger;
	}
	for (i = hash(row);; i++) {
		r = &t->rows[i & (t->slots - 1)];
		if (!r->count || same_place(r, row))
			return r;
	}
}

static void table_add(struct table *t, const struct row *row)
{
	struct row *r = table_slot(t, row);

	if (r->count) {
		r->count += row->count;
	} else {
		*r = *row;
		t->used++;
	}
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t line_of(uint64_t paddr)
{
	return paddr & ~(LINE - 1ULL);
}

static uint64_t last_byte(const struct row *row)
{
	return row->paddr + row->size - 1;
}

/* Adds the operation that just ended to the totals. */
static void add_op(struct cpu *c)
{
	/* A row may straddle two. */
	uint64_t *lines = must(malloc((2 * c->op_len + 1) * sizeof(*lines)));
	uint64_t paddr;
	size_t i, n = 0;

	for (i = 0; i < c->op_len; i++) {
		const struct row *r = &c->op[i];

		table_add(&c->total, r);
		if (r->kind == 'r')
			continue;
		for (paddr = line_of(r->paddr); paddr <= last_byte(r); paddr += LINE)
			lines[n++] = paddr;
	}
	qsort(lines, n, sizeof(*lines), compare_u64);
	for (i = 0; i < n; i++) {
		struct row row = { .paddr = lines[i], .count = 1, .size = LINE, .kind = 'L' };

		if (!i || lines[i] != lines[i - 1])
			table_add(&c->total, &row);
	}
	free(lines);
}

/*
 * A row of kind S stands for a cache line: @vaddr is the first CPU that touched it and
 * these flags, @count the number of accesses and one more.
 */
#define LINE_WRITTEN	(1ULL << 32)
#define LINE_MANY	(1ULL << 33)	/* more than one CPU */

static struct row *line_slot(struct table *lines, uint64_t paddr, unsigned int cpu)
{
	struct row line = { .paddr = line_of(paddr), .vaddr = cpu, .count = 1, .kind = 'S' };
	struct row *r = table_slot(lines, &line);

	if (!r->count) {
		*r = line;
		lines->used++;
	}
	return r;
}

static void note_lines(struct table *lines, const struct row *row, unsigned int cpu)
{
	uint64_t paddr;

	for (paddr = line_of(row->paddr); paddr <= last_byte(row); paddr += LINE) {
		struct row *line = line_slot(lines, paddr, cpu);

		line->count += row->count;
		if ((uint32_t)line->vaddr != cpu)
			line->vaddr |= LINE_MANY;
		if (row->kind != 'r')
			line->vaddr |= LINE_WRITTEN;
	}
}

static bool is_shared(struct table *lines, uint64_t paddr, unsigned int cpu)
{
	uint64_t flags = line_slot(lines, paddr, cpu)->vaddr & (LINE_WRITTEN | LINE_MANY);

	return flags == (LINE_WRITTEN | LINE_MANY);
}

static FILE *create(const char *name)
{
	char path[4096];
	FILE *out;

	if (snprintf(path, sizeof(path), "%s/%s", out_dir, name) >= (int)sizeof(path))
		die("too long:", out_dir);
	out = fopen(path, "w");
	if (!out)
		die("cannot write", path);
	return out;
}

static void finish(FILE *out)
{
	if (fclose(out))
		die("cannot write to", out_dir);
}

static void write_rows(FILE *out, const struct table *t, struct table *lines, unsigned int cpu)
{
	size_t n;

	for (n = 0; n < t->slots; n++) {
		const struct row *r = &t->rows[n];

		if (r->count && (is_shared(lines, r->paddr, cpu) ||
				 is_shared(lines, last_byte(r), cpu)))
			fprintf(out, "%u %" PRIx64 " %" PRIx64 " %" PRIx64 " %u %c %" PRIu64 "\n",
				cpu, r->pc, r->paddr, r->vaddr, r->size, r->kind, r->count);
	}
}

/* Where rows begin, in each line, but once. */
static void note_addresses(struct table *seen, const struct table *t, struct table *lines,
			   uint64_t ops)
{
	uint64_t line;
	size_t n;

	for (n = 0; n < t->slots; n++) {
		const struct row *r = &t->rows[n];

		if (!r->count || r->kind == 'L')
			continue;
		for (line = line_of(r->paddr); line <= last_byte(r); line += LINE) {
			struct row at = { .count = 1, .kind = 'A' };

			at.paddr = r->paddr > line ? r->paddr : line;
			if (is_shared(lines, line, 0) &&
			    (line_slot(lines, line, 0)->count - 1) * RARE > ops)
				table_add(seen, &at);
		}
	}
}

static void write_table(void)
{
	FILE *out = create("table");
	struct table lines = {}, addresses = {};
	uint64_t ops = 0;
	unsigned int i;
	size_t n;

	fprintf(out, "scope %s\n", scope_all ? "all" : "op");
	for (i = 0; i < MAX_CPUS; i++)
		pthread_mutex_lock(&cpus[i].lock);
	for (i = 0; i < MAX_CPUS; i++) {
		const struct table *t = &cpus[i].total;

		ops += cpus[i].counted;
		for (n = 0; n < t->slots; n++)
			if (t->rows[n].count && t->rows[n].kind != 'L')
				note_lines(&lines, &t->rows[n], i);
	}
	for (i = 0; i < MAX_CPUS; i++) {
		if (cpus[i].counted)
			fprintf(out, "ops %u %" PRIu64 "\n", i, cpus[i].counted);
		write_rows(out, &cpus[i].total, &lines, i);
		note_addresses(&addresses, &cpus[i].total, &lines, ops);
	}
	for (i = 0; i < MAX_CPUS; i++)
		pthread_mutex_unlock(&cpus[i].lock);
	finish(out);

	out = create("addresses");
	for (n = 0; n < addresses.slots; n++)
		if (addresses.rows[n].count)
			fprintf(out, "%" PRIx64 "\n", addresses.rows[n].paddr);
	finish(out);
	free(addresses.rows);
	free(lines.rows);
}

static void on_mark(unsigned int i, void *data)
{
	struct cpu *c = &cpus[i];
	size_t n;

	switch ((enum mark)(uintptr_t)data) {
	case MARK_OPEN:
	case MARK_OPEN_ALL:
		for (n = 0; n < MAX_CPUS; n++) {
			pthread_mutex_lock(&cpus[n].lock);
			free(cpus[n].total.rows);
			memset(&cpus[n].total, 0, sizeof(cpus[n].total));
			cpus[n].counted = 0;
			pthread_mutex_unlock(&cpus[n].lock);
		}
		scope_all = (uintptr_t)data == MARK_OPEN_ALL;
		__atomic_store_n(&window, true, __ATOMIC_SEQ_CST);
		break;
	case MARK_CLOSE:
		__atomic_store_n(&window, false, __ATOMIC_SEQ_CST);
		write_table();
		break;
	case MARK_OP_BEGIN:
		c->op_len = 0;
		c->out = false;
		c->interrupts = 0;
		c->in_op = __atomic_load_n(&window, __ATOMIC_RELAXED);
		break;
	case MARK_OP_END:
		if (!c->in_op)
			break;
		c->in_op = false;
		pthread_mutex_lock(&c->lock);
		c->counted++;
		add_op(c);
		pthread_mutex_unlock(&c->lock);
		break;
	case MARK_OUT:
		c->out = true;
		break;
	case MARK_IN:
		c->out = false;
		/* The depth of another task is not known. */
		if (scope_all)
			c->interrupts = 0;
		break;
	}
}

static void on_interrupt(unsigned int i, void *data)
{
	(void)data;
	if (!cpus[i].out)
		cpus[i].interrupts++;
}

static void on_iret(unsigned int i, void *data)
{
	(void)data;
	if (!cpus[i].out && cpus[i].interrupts)
		cpus[i].interrupts--;
}

static void on_access(unsigned int i, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	uint64_t pc = (uintptr_t)data;
	bool atomic = !(pc & PC_PLAIN);
	bool store = qemu_plugin_mem_is_store(info);
	struct cpu *c = &cpus[i];
	struct qemu_plugin_hwaddr *hw;
	struct row row;
	size_t n;

	if (c->out || c->interrupts)
		return;
	if (!__atomic_load_n(&window, __ATOMIC_ACQUIRE) || !(scope_all || c->in_op))
		return;
	/* With one CPU, QEMU makes a load and a store of an atomic operation. */
	if (atomic && !store)
		return;
	hw = qemu_plugin_get_hwaddr(info, vaddr);
	if (!hw || qemu_plugin_hwaddr_is_io(hw))
		return;
	row = (struct row) {
		.pc = pc | PC_PLAIN,
		.paddr = qemu_plugin_hwaddr_phys_addr(hw),
		.vaddr = vaddr,
		.count = 1,
		.size = 1 << qemu_plugin_mem_size_shift(info),
		.kind = atomic ? 'a' : store ? 'w' : 'r',
	};
	if (scope_all) {
		pthread_mutex_lock(&c->lock);
		table_add(&c->total, &row);
		pthread_mutex_unlock(&c->lock);
		return;
	}
	/* Or the memory that a CPU needs while it waits for another would have no bound. */
	for (n = c->op_len; n > 0 && n + LOOK_BACK > c->op_len; n--) {
		struct row *r = &c->op[n - 1];

		if (same_place(r, &row)) {
			r->count++;
			return;
		}
	}
	if (c->op_len == c->op_max) {
		c->op_max = c->op_max ? 2 * c->op_max : 4096;
		c->op = must(realloc(c->op, c->op_max * sizeof(*c->op)));
	}
	c->op[c->op_len++] = row;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static const uint8_t nopl[] = { 0x0f, 0x1f, 0x80 };
	static const uint8_t iretq[] = { 0x48, 0xcf };
	size_t i, n;

	(void)id;
	for (i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *code = qemu_plugin_insn_data(insn);
		size_t len = qemu_plugin_insn_size(insn);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		uint32_t mark;

		if (!(pc >> 63))
			continue;
		if (len == sizeof(nopl) + sizeof(mark) && !memcmp(code, nopl, sizeof(nopl))) {
			memcpy(&mark, code + sizeof(nopl), sizeof(mark));
			if (mark >= MARK_OPEN && mark <= MARK_OPEN_ALL)
				qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark,
					QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)mark);
			continue;
		}
		for (n = 0; n < nr_interrupts; n++)
			if (interrupts[n] == pc)
				qemu_plugin_register_vcpu_insn_exec_cb(insn, on_interrupt,
					QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (len == sizeof(iretq) && !memcmp(code, iretq, len)) {
			/* on_iret() runs before it reads its frame, which is the interrupt's. */
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_iret,
				QEMU_PLUGIN_CB_NO_REGS, NULL);
			continue;
		}
		if (is_atomic(code, len))
			pc &= ~PC_PLAIN;
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)pc);
	}
}

static void read_interrupts(const char *path)
{
	FILE *in = fopen(path, "r");

	if (!in)
		die("cannot read", path);
	while (nr_interrupts < MAX_INTERRUPTS &&
	       fscanf(in, "%" SCNx64, &interrupts[nr_interrupts]) == 1)
		nr_interrupts++;
	if (!feof(in))
		die("not a list of addresses, or too long:", path);
	fclose(in);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	int i;

	(void)info;
	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out_dir = must(strdup(argv[i] + 4));
		else if (!strncmp(argv[i], "interrupts=", 11))
			read_interrupts(argv[i] + 11);
		else
			die("unknown argument", argv[i]);
	}
	if (!out_dir)
		die("missing argument", "out=");
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
