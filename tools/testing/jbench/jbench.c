// SPDX-License-Identifier: GPL-2.0
/*
 * jbench - time journal and filesystem operations inside the kernel
 *
 * One pinned kernel thread per CPU runs an operation in a loop. A line written
 * to <debugfs>/jbench/run starts a run and returns when it is over:
 *
 *	op=NAME threads=N [ms=N] [warmup=N] [trace=N] [warmup_ops=N] [files=N]
 *		[items=N] [pause=N] [dirs=PATH,PATH...]
 *
 * with one directory per thread, on the filesystem to be measured. The file
 * reads back as one line of JSON: the result of the last run, or its error.
 *
 *	null		16 dependent locked additions to private memory: what the
 *			machine itself gives when threads are added
 *	planted		accesses to known lines of memory: what the contention
 *			microscope has to find
 *	planted_all	the same, while all tasks of all CPUs are traced, as for fsync
 *	disturbed	planted, with accesses of another task and of an interrupt
 *			in the middle, which the microscope must not count
 *	handle		jbd2_journal_start() and jbd2_journal_stop() (ext4)
 *	block		the same, with write access to a private block which is
 *			dirtied (ext4)
 *	chmod		a change of mode of a private file, whose inode shares no
 *			inode-table block with that of another thread (ext4, XFS)
 *	create_unlink	creation and removal of a name in the thread's directory
 *	create, unlink	one of the two; of up to 'files' names (trace=)
 *	commit		a transaction that logs the cores of items= private inodes, as
 *			chmod does with one (XFS)
 *	append		a write of 4 KiB to the end of a private file
 *	fsync		the same, and fsync
 *	gate, percpu_rwsem, srcu, percpu_ref, rwsem
 *			enter and leave, as a reader, one that all threads share
 *	gate_close, percpu_rwsem_close, srcu_close, percpu_ref_close, rwsem_close
 *			keep readers out and let them in again, or wait for them, when
 *			there are none; pause= ms pass before each, and do not count
 *	stats		no run: the exact totals of the ext4 journal that
 *			/proc/fs/jbd2 shows as averages
 */
#include <linux/atomic.h>
#include <linux/buffer_head.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/jbd2.h>
#include <linux/kallsyms.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/mutex.h>
#include <linux/namei.h>
#include <linux/percpu.h>
#include <linux/percpu-refcount.h>
#include <linux/percpu-rwsem.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/seq_buf.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>

#ifdef CONFIG_PERCPU_GATE
#include <linux/percpu-gate.h>
#endif

#include "ext4.h"
#include "mm/slab.h"

/* Its functions are found by name, see jbench_xfs_find(). */
#if IS_ENABLED(CONFIG_XFS_FS) && IS_ENABLED(CONFIG_KALLSYMS) && __has_include("xfs_platform.h")
#define JBENCH_XFS
/* Both have one. */
#undef ASSERT
#include "xfs_platform.h"
#include "xfs_shared.h"
#include "xfs_format.h"
#include "xfs_log_format.h"
#include "xfs_trans_resv.h"
#include "xfs_mount.h"
#include "xfs_inode.h"
#include "xfs_trans.h"
#endif

#define JBENCH_MAX_THREADS	32
#define JBENCH_MAX_MS		60000
#define JBENCH_MAX_FILES	1024
#define JBENCH_MAX_ITEMS	128
#define JBENCH_MAX_LINE		65536
#define JBENCH_MAX_TRACE	100000

/* Operations that a thread does before those that are traced, if not warmup_ops=. */
#define JBENCH_TRACE_WARMUP	16

/* What ext4 asks for when it changes one inode, and a little more. */
#define JBENCH_CREDITS		8

/* XFS_INODES_PER_CHUNK: inodes this far apart are in different clusters. */
#define JBENCH_XFS_CHUNK	64

/*
 * Marks for the contention microscope: no-ops with an operand that compilers do
 * not use. tools/testing/microscope/plugin.c has the same numbers.
 */
#define JBENCH_MARK_OPEN	0x4a420001
#define JBENCH_MARK_CLOSE	0x4a420002
#define JBENCH_MARK_OP_BEGIN	0x4a420003
#define JBENCH_MARK_OP_END	0x4a420004
#define JBENCH_MARK_OUT		0x4a420005
#define JBENCH_MARK_IN		0x4a420006
#define JBENCH_MARK_OPEN_ALL	0x4a420007

static __always_inline void jbench_mark(const u32 mark)
{
	/* nopl mark(%rax) */
	asm volatile(".byte 0x0f, 0x1f, 0x80; .long %c0" : : "i" (mark) : "memory");
}

/**
 * enum jbench_phase - what the threads of a run do
 * @JBENCH_WARMUP: run the operation, do not count
 * @JBENCH_MEASURE: run the operation and count
 * @JBENCH_STOP: leave
 */
enum jbench_phase {
	JBENCH_WARMUP,
	JBENCH_MEASURE,
	JBENCH_STOP,
};

struct jbench_run;

/**
 * struct jbench_thread - one thread of a run
 * @run: the run it belongs to
 * @task: the kernel thread, or NULL
 * @cpu: the CPU it is bound to
 * @path: its directory; write access to the mount is held
 * @file: its private file (chmod, append, fsync, block)
 * @items: its private files (commit)
 * @open: the same, open for writing (append, fsync)
 * @bh: its private block (block)
 * @journal: the journal of its directory's filesystem (handle, block)
 * @private: memory that no other thread touches (null)
 * @work: has another task run (disturbed)
 * @irq_work: has an interrupt (disturbed)
 * @ops: operations completed while measuring
 * @ns: time they took
 *
 * Aligned to two cache lines because some CPUs prefetch lines in pairs.
 */
struct jbench_thread {
	struct jbench_run *run;
	struct task_struct *task;
	unsigned int cpu;
	struct path path;
	struct dentry *file;
	struct dentry **items;
	struct file *open;
	struct buffer_head *bh;
	journal_t *journal;
	atomic64_t private;
	struct work_struct work;
	struct irq_work irq_work;
	u64 ops;
	u64 ns;
} __aligned(2 * SMP_CACHE_BYTES);

/**
 * struct jbench_op - an operation that can be timed
 * @name: name in the control line
 * @dirs: whether every thread needs a directory
 * @trace_only: whether it can only be done a limited number of times
 * @trace_all: whether what other tasks do is part of it
 * @setup: prepares a thread in the context of the writer (optional)
 * @run: one operation, the @n-th of its thread in this phase
 */
struct jbench_op {
	const char *name;
	bool dirs;
	bool trace_only;
	bool trace_all;
	int (*setup)(struct jbench_thread *t);
	int (*run)(struct jbench_thread *t, u64 n);
};

/**
 * struct jbench_run - a run
 * @op: the operation
 * @nr: number of threads
 * @ms: length of the measurement
 * @warmup: length of the warm-up, in ms
 * @trace: number of operations to mark for the microscope, or 0 to measure time
 * @warmup_ops: number of operations of a thread before those
 * @id: number of the run, part of the names of its files
 * @files: how many files chmod may create to find one whose inode is apart
 * @items: number of inodes that a transaction logs (commit)
 * @pause: time before each operation that does not count, in ms
 * @dirs: the directories as given
 * @ready: completed by every thread that is about to start
 * @phase: what the threads are to do; the only line that they share
 * @threads: the threads
 */
struct jbench_run {
	const struct jbench_op *op;
	unsigned int nr;
	unsigned int ms;
	unsigned int warmup;
	unsigned int trace;
	unsigned int warmup_ops;
	unsigned int id;
	unsigned int files;
	unsigned int items;
	unsigned int pause;
	char *dirs;
	/* Both are waited for: on lines of their own. */
	struct completion ready ____cacheline_aligned_in_smp;
	enum jbench_phase phase ____cacheline_aligned_in_smp;
	struct jbench_thread threads[];
};

static struct dentry *jbench_debugfs;

/* Serialises the runs and protects the result. */
static DEFINE_MUTEX(jbench_mutex);
static DECLARE_SEQ_BUF(jbench_result, 4096);

/* Makes @fmt the result and returns @err. */
static __printf(2, 3) int jbench_error(int err, const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	va_start(args, fmt);
	vaf.va = &args;
	seq_buf_clear(&jbench_result);
	seq_buf_printf(&jbench_result, "{\"error\": %d, \"message\": \"%pV\"}\n",
		       err, &vaf);
	va_end(args);
	return err;
}

/* Opens or creates @name in the directory of @t; returns a referenced dentry. */
static struct dentry *jbench_create(struct jbench_thread *t, const char *name)
{
	struct mnt_idmap *idmap = mnt_idmap(t->path.mnt);
	struct dentry *dentry;
	int err;

	dentry = start_creating(idmap, t->path.dentry, &QSTR(name));
	if (IS_ERR(dentry))
		return dentry;
	if (d_is_negative(dentry)) {
		err = vfs_create(idmap, dentry, 0600, NULL);
		if (err) {
			end_creating(dentry);
			return ERR_PTR(err);
		}
	}
	return end_creating_keep(dentry);
}

static int jbench_unlink(struct jbench_thread *t, const char *name)
{
	struct mnt_idmap *idmap = mnt_idmap(t->path.mnt);
	struct dentry *dentry;
	int err;

	dentry = start_removing(idmap, t->path.dentry, &QSTR(name));
	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	err = vfs_unlink(idmap, d_inode(t->path.dentry), dentry, NULL);
	end_removing(dentry);
	return err;
}

/* By name: the magic number of ext4 is also that of the ext2 driver. */
static bool jbench_fs_is(const struct super_block *sb, const char *name)
{
	return !strcmp(sb->s_type->name, name);
}

static int jbench_null_run(struct jbench_thread *t, u64 n)
{
	s64 v = n;
	int i;

	for (i = 0; i < 16; i++)
		v = atomic64_fetch_add(v | 1, &t->private);
	return 0;
}

static int jbench_handle_setup(struct jbench_thread *t)
{
	struct super_block *sb = t->path.mnt->mnt_sb;

	if (!jbench_fs_is(sb, "ext4") || !EXT4_SB(sb)->s_journal)
		return jbench_error(-EOPNOTSUPP, "%pd4 is not on ext4 with a journal",
				    t->path.dentry);
	t->journal = EXT4_SB(sb)->s_journal;
	return 0;
}

static int jbench_handle_run(struct jbench_thread *t, u64 n)
{
	handle_t *handle = jbd2_journal_start(t->journal, JBENCH_CREDITS);

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return jbd2_journal_stop(handle);
}

static struct {
	atomic64_t hot ____cacheline_aligned;
	u64 neighbours[8] ____cacheline_aligned;
	u64 constant ____cacheline_aligned;
	atomic64_t task ____cacheline_aligned;
	atomic64_t irq ____cacheline_aligned;
	u64 end[0] ____cacheline_aligned;
} jbench_planted;

/* Three locked additions, two stores, one of them next to others', and a load. */
static int jbench_planted_run(struct jbench_thread *t, u64 n)
{
	atomic64_inc(&jbench_planted.hot);
	atomic64_inc(&jbench_planted.hot);
	atomic64_inc(&jbench_planted.hot);
	WRITE_ONCE(jbench_planted.neighbours[t->cpu % 8], n);
	atomic64_set(&t->private, READ_ONCE(jbench_planted.constant));
	return 0;
}

static void jbench_disturb_task(struct work_struct *work)
{
	atomic64_inc(&jbench_planted.task);
}

static void jbench_disturb_irq(struct irq_work *work)
{
	atomic64_inc(&jbench_planted.irq);
}

static int jbench_disturbed_setup(struct jbench_thread *t)
{
	INIT_WORK(&t->work, jbench_disturb_task);
	t->irq_work = IRQ_WORK_INIT_HARD(jbench_disturb_irq);
	return 0;
}

/* What planted does, and in the middle on the same CPU another task and an interrupt. */
static int jbench_disturbed_run(struct jbench_thread *t, u64 n)
{
	atomic64_add(2, &jbench_planted.hot);
	schedule_work_on(t->cpu, &t->work);
	flush_work(&t->work);
	irq_work_queue(&t->irq_work);
	irq_work_sync(&t->irq_work);
	atomic64_inc(&jbench_planted.hot);
	atomic64_inc(&jbench_planted.hot);
	WRITE_ONCE(jbench_planted.neighbours[t->cpu % 8], n);
	return 0;
}

/* Whether @a and @b cannot be in the same block or cluster of inodes. */
static bool jbench_apart(const struct inode *a, const struct inode *b)
{
	unsigned long per_block;

	if (a->i_sb != b->i_sb)
		return true;
	if (jbench_fs_is(a->i_sb, "xfs"))
		return abs_diff(a->i_ino, b->i_ino) >= JBENCH_XFS_CHUNK;
	per_block = EXT4_SB(a->i_sb)->s_inodes_per_block;
	return div64_ul(a->i_ino - 1, per_block) !=
	       div64_ul(b->i_ino - 1, per_block);
}

/* Whether the inode of a file is apart from those of the threads before @t. */
static bool jbench_is_private(const struct jbench_thread *t, const struct dentry *file)
{
	const struct jbench_thread *other;
	unsigned int i;

	for (other = t->run->threads; other != t; other++) {
		if (other->file && !jbench_apart(d_inode(file), d_inode(other->file)))
			return false;
		for (i = 0; other->items && i < t->run->items; i++)
			if (!jbench_apart(d_inode(file), d_inode(other->items[i])))
				return false;
	}
	return true;
}

/*
 * Finds @t a file of its own, of those from number *@n on, and moves that on.
 * Files of an earlier run are used again, those that are too close to another
 * thread's file stay behind.
 */
static struct dentry *jbench_private(struct jbench_thread *t, unsigned int *n)
{
	struct dentry *dentry;
	char name[32];

	while (*n < t->run->files) {
		snprintf(name, sizeof(name), "jbench.%u", (*n)++);
		dentry = jbench_create(t, name);
		if (IS_ERR(dentry)) {
			jbench_error(PTR_ERR(dentry), "cannot create %s in %pd4",
				     name, t->path.dentry);
			return dentry;
		}
		if (jbench_is_private(t, dentry))
			return dentry;
		dput(dentry);
	}
	return ERR_PTR(jbench_error(-ENOSPC,
				    "too few of %u files in %pd4 have an inode block of their own",
				    t->run->files, t->path.dentry));
}

static int jbench_chmod_setup(struct jbench_thread *t)
{
	struct super_block *sb = t->path.mnt->mnt_sb;
	struct dentry *dentry;
	unsigned int n = 0;

	if (!jbench_fs_is(sb, "ext4") && !jbench_fs_is(sb, "xfs"))
		return jbench_error(-EOPNOTSUPP, "%pd4 is not on ext4 or XFS",
				    t->path.dentry);
	dentry = jbench_private(t, &n);
	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	t->file = dentry;
	return 0;
}

static int jbench_chmod_run(struct jbench_thread *t, u64 n)
{
	struct inode *inode = d_inode(t->file);
	struct iattr attr = {
		.ia_valid	= ATTR_MODE | ATTR_CTIME,
		.ia_mode	= S_IFREG | (n & 1 ? 0600 : 0640),
	};
	int err;

	inode_lock(inode);
	err = notify_change(mnt_idmap(t->path.mnt), t->file, &attr, NULL);
	inode_unlock(inode);
	return err;
}

#ifdef JBENCH_XFS
static typeof(xfs_ilock) *jbench_xfs_ilock;
static typeof(xfs_trans_alloc) *jbench_xfs_trans_alloc;
static typeof(xfs_trans_ijoin) *jbench_xfs_trans_ijoin;
static typeof(xfs_trans_log_inode) *jbench_xfs_trans_log_inode;
static typeof(xfs_trans_commit) *jbench_xfs_trans_commit;

static const struct {
	const char *name;
	void *function;
} jbench_xfs[] = {
	{ "xfs_ilock", &jbench_xfs_ilock },
	{ "xfs_trans_alloc", &jbench_xfs_trans_alloc },
	{ "xfs_trans_ijoin", &jbench_xfs_trans_ijoin },
	{ "xfs_trans_log_inode", &jbench_xfs_trans_log_inode },
	{ "xfs_trans_commit", &jbench_xfs_trans_commit },
};

/* Finds the symbol at @addr, and keeps it if it is one of those. */
static bool jbench_xfs_symbol(unsigned long addr, unsigned long *start, unsigned long *size)
{
	char text[KSYM_SYMBOL_LEN], *rest;
	unsigned long offset;
	unsigned int i;

	sprint_symbol(text, addr);
	rest = strchr(text, '+');
	if (!rest || sscanf(rest, "+%lx/%lx", &offset, size) != 2 || !*size)
		return false;
	*rest = 0;
	*start = addr - offset;
	for (i = 0; i < ARRAY_SIZE(jbench_xfs); i++)
		if (!strcmp(text, jbench_xfs[i].name))
			*(unsigned long *)jbench_xfs[i].function = *start;
	return true;
}

/*
 * XFS exports nothing, and a module can only ask what is at an address: looks at
 * the functions before and behind one of XFS.
 */
static int jbench_xfs_find(const struct super_block *sb)
{
	unsigned long from = (unsigned long)sb->s_op->statfs, addr, start, size;
	unsigned int i;

#ifdef CONFIG_X86_KERNEL_IBT
	/* A function whose address nobody takes must not be called by address. */
	if (cpu_feature_enabled(X86_FEATURE_IBT))
		return jbench_error(-EOPNOTSUPP, "commit needs ibt=off");
#endif
	for (addr = from; addr - from < SZ_2M && jbench_xfs_symbol(addr, &start, &size);
	     addr = start + size)
		cond_resched();
	for (addr = from; from - addr < SZ_2M && jbench_xfs_symbol(addr, &start, &size);
	     addr = start - 1)
		cond_resched();
	for (i = 0; i < ARRAY_SIZE(jbench_xfs); i++)
		if (!*(unsigned long *)jbench_xfs[i].function)
			return jbench_error(-EOPNOTSUPP, "%s was not found",
					    jbench_xfs[i].name);
	return 0;
}

static int jbench_commit_setup(struct jbench_thread *t)
{
	struct super_block *sb = t->path.mnt->mnt_sb;
	unsigned int i, n = 0;
	int err;

	if (!jbench_fs_is(sb, "xfs"))
		return jbench_error(-EOPNOTSUPP, "%pd4 is not on XFS", t->path.dentry);
	err = jbench_xfs_find(sb);
	if (err)
		return err;
	t->items = kcalloc(t->run->items, sizeof(*t->items), GFP_KERNEL);
	if (!t->items)
		return jbench_error(-ENOMEM, "no memory");
	for (i = 0; i < t->run->items; i++) {
		struct dentry *dentry = jbench_private(t, &n);

		if (IS_ERR(dentry))
			return PTR_ERR(dentry);
		t->items[i] = dentry;
	}
	return 0;
}

static int jbench_commit_run(struct jbench_thread *t, u64 n)
{
	struct xfs_mount *mp = XFS_M(t->path.mnt->mnt_sb);
	struct xfs_trans_res res = {
		.tr_logres = t->run->items * M_RES(mp)->tr_ichange.tr_logres,
		.tr_logcount = 1,
	};
	struct xfs_trans *tp;
	unsigned int i;
	int err;

	err = jbench_xfs_trans_alloc(mp, &res, 0, 0, 0, &tp);
	if (err)
		return err;
	/* The inodes are of this thread: lockdep knows no order of so many, and none is needed. */
	for (i = 0; i < t->run->items; i++) {
		struct xfs_inode *ip = XFS_I(d_inode(t->items[i]));

		jbench_xfs_ilock(ip, XFS_ILOCK_EXCL);
		jbench_xfs_trans_ijoin(tp, ip, XFS_ILOCK_EXCL);
		jbench_xfs_trans_log_inode(tp, ip, XFS_ILOG_CORE);
	}
	return jbench_xfs_trans_commit(tp);
}
#endif /* JBENCH_XFS */

/* The block of the inode table that holds the inode of @t's private file. */
static int jbench_block_setup(struct jbench_thread *t)
{
	struct super_block *sb = t->path.mnt->mnt_sb;
	struct ext4_sb_info *sbi;
	struct ext4_group_desc *desc;
	struct buffer_head *gdb;
	unsigned long group, index;
	ext4_fsblk_t table;
	int err;

	err = jbench_handle_setup(t);
	if (!err)
		err = jbench_chmod_setup(t);
	if (err)
		return err;
	sbi = EXT4_SB(sb);
	group = div64_ul(d_inode(t->file)->i_ino - 1, sbi->s_inodes_per_group);
	index = (d_inode(t->file)->i_ino - 1) % sbi->s_inodes_per_group;
	gdb = sbi_array_rcu_deref(sbi, s_group_desc, group / sbi->s_desc_per_block);
	desc = (void *)(gdb->b_data +
			group % sbi->s_desc_per_block * sbi->s_desc_size);
	table = le32_to_cpu(desc->bg_inode_table_lo);
	if (sbi->s_desc_size >= EXT4_MIN_DESC_SIZE_64BIT)
		table |= (ext4_fsblk_t)le32_to_cpu(desc->bg_inode_table_hi) << 32;
	t->bh = sb_bread(sb, table + index / sbi->s_inodes_per_block);
	return t->bh ? 0 : jbench_error(-EIO, "cannot read an inode-table block");
}

static int jbench_block_run(struct jbench_thread *t, u64 n)
{
	handle_t *handle = jbd2_journal_start(t->journal, JBENCH_CREDITS);
	int err, ret;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = jbd2_journal_get_write_access(handle, t->bh);
	if (!err)
		err = jbd2_journal_dirty_metadata(handle, t->bh);
	ret = jbd2_journal_stop(handle);
	return err ?: ret;
}

/* Creates or opens the @n-th file of a run. */
static struct dentry *jbench_create_nth(struct jbench_thread *t, u64 n)
{
	char name[48];

	snprintf(name, sizeof(name), "jbench.%u.%llu", t->run->id, n);
	return jbench_create(t, name);
}

static int jbench_create_run(struct jbench_thread *t, u64 n)
{
	struct dentry *dentry = jbench_create_nth(t, n);

	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	dput(dentry);
	return 0;
}

static int jbench_unlink_setup(struct jbench_thread *t)
{
	u64 n;
	int err;

	for (n = 0; n < t->run->warmup_ops + t->run->trace; n++) {
		err = jbench_create_run(t, n);
		if (err)
			return jbench_error(err, "cannot create file %llu in %pd4",
					    n, t->path.dentry);
	}
	return 0;
}

static int jbench_unlink_run(struct jbench_thread *t, u64 n)
{
	char name[48];

	snprintf(name, sizeof(name), "jbench.%u.%llu", t->run->id, n);
	return jbench_unlink(t, name);
}

static int jbench_append_setup(struct jbench_thread *t)
{
	struct path path = { .mnt = t->path.mnt };
	int err = jbench_chmod_setup(t);

	if (err)
		return err;
	path.dentry = t->file;
	t->open = dentry_open(&path, O_WRONLY | O_APPEND | O_LARGEFILE, current_cred());
	if (IS_ERR(t->open)) {
		err = PTR_ERR(t->open);
		t->open = NULL;
		return jbench_error(err, "cannot open a file in %pd4", t->path.dentry);
	}
	return 0;
}

static int jbench_append_run(struct jbench_thread *t, u64 n)
{
	static const char data[4096];
	loff_t pos = 0;
	ssize_t len = kernel_write(t->open, data, sizeof(data), &pos);

	if (len < 0)
		return len;
	return len == sizeof(data) ? 0 : -EIO;
}

static int jbench_fsync_run(struct jbench_thread *t, u64 n)
{
	return jbench_append_run(t, n) ?: vfs_fsync(t->open, 0);
}

static int jbench_create_unlink_run(struct jbench_thread *t, u64 n)
{
	struct dentry *dentry = jbench_create(t, "jbench");

	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	dput(dentry);
	return jbench_unlink(t, "jbench");
}

/* What keeps readers out in different ways. */
static DECLARE_RWSEM(jbench_rwsem);
DEFINE_STATIC_PERCPU_RWSEM(jbench_percpu_rwsem);
DEFINE_STATIC_SRCU(jbench_srcu);
static struct percpu_ref jbench_ref;
static DECLARE_COMPLETION(jbench_ref_gone);

static int jbench_rwsem_run(struct jbench_thread *t, u64 n)
{
	down_read(&jbench_rwsem);
	up_read(&jbench_rwsem);
	return 0;
}

static int jbench_percpu_rwsem_run(struct jbench_thread *t, u64 n)
{
	percpu_down_read(&jbench_percpu_rwsem);
	percpu_up_read(&jbench_percpu_rwsem);
	return 0;
}

static int jbench_srcu_run(struct jbench_thread *t, u64 n)
{
	srcu_read_unlock(&jbench_srcu, srcu_read_lock(&jbench_srcu));
	return 0;
}

static int jbench_percpu_ref_run(struct jbench_thread *t, u64 n)
{
	if (!percpu_ref_tryget_live(&jbench_ref))
		return -ENODEV;
	percpu_ref_put(&jbench_ref);
	return 0;
}

static int jbench_close_setup(struct jbench_thread *t)
{
	return t->run->nr == 1 ? 0 : jbench_error(-EINVAL, "%s takes one thread",
						  t->run->op->name);
}

static int jbench_rwsem_close_run(struct jbench_thread *t, u64 n)
{
	down_write(&jbench_rwsem);
	up_write(&jbench_rwsem);
	return 0;
}

static int jbench_percpu_rwsem_close_run(struct jbench_thread *t, u64 n)
{
	percpu_down_write(&jbench_percpu_rwsem);
	percpu_up_write(&jbench_percpu_rwsem);
	return 0;
}

static int jbench_srcu_close_run(struct jbench_thread *t, u64 n)
{
	synchronize_srcu(&jbench_srcu);
	return 0;
}

static void jbench_ref_release(struct percpu_ref *ref)
{
	complete(&jbench_ref_gone);
}

static int jbench_percpu_ref_close_run(struct jbench_thread *t, u64 n)
{
	percpu_ref_kill(&jbench_ref);
	wait_for_completion(&jbench_ref_gone);
	percpu_ref_reinit(&jbench_ref);
	return 0;
}

#ifdef CONFIG_PERCPU_GATE
static struct percpu_gate jbench_gate;

static int jbench_gate_run(struct jbench_thread *t, u64 n)
{
	struct percpu_gate_slot *slot;

	if (!percpu_gate_enter(&jbench_gate, &slot))
		return -ENODEV;
	percpu_gate_leave(&jbench_gate, slot);
	return 0;
}

static int jbench_gate_close_run(struct jbench_thread *t, u64 n)
{
	bool empty;

	percpu_gate_close(&jbench_gate);
	empty = percpu_gate_empty(&jbench_gate);
	percpu_gate_open(&jbench_gate, &jbench_gate);
	return empty ? 0 : -EBUSY;
}

static int jbench_gate_init(void)
{
	static struct lock_class_key key;
	int err = percpu_gate_init(&jbench_gate, sizeof(struct percpu_gate_slot), "jbench", &key);

	if (!err)
		percpu_gate_open(&jbench_gate, &jbench_gate);
	return err;
}

static void jbench_gate_exit(void)
{
	percpu_gate_destroy(&jbench_gate);
}
#else
static int jbench_gate_init(void)
{
	return 0;
}

static void jbench_gate_exit(void)
{
}
#endif

static int jbench_locks_init(void)
{
	int err = percpu_ref_init(&jbench_ref, jbench_ref_release, PERCPU_REF_ALLOW_REINIT,
				  GFP_KERNEL);

	if (err)
		return err;
	err = jbench_gate_init();
	if (err)
		percpu_ref_exit(&jbench_ref);
	return err;
}

static void jbench_locks_exit(void)
{
	jbench_gate_exit();
	percpu_ref_exit(&jbench_ref);
}

static const struct jbench_op jbench_ops[] = {
	{
		.name	= "null",
		.run	= jbench_null_run,
	}, {
		.name	= "planted",
		.run	= jbench_planted_run,
	}, {
		.name	= "planted_all",
		.trace_only = true,
		.trace_all = true,
		.run	= jbench_planted_run,
	}, {
		.name	= "disturbed",
		.trace_only = true,
		.setup	= jbench_disturbed_setup,
		.run	= jbench_disturbed_run,
	}, {
		.name	= "handle",
		.dirs	= true,
		.setup	= jbench_handle_setup,
		.run	= jbench_handle_run,
	}, {
		.name	= "chmod",
		.dirs	= true,
		.setup	= jbench_chmod_setup,
		.run	= jbench_chmod_run,
	}, {
		.name	= "create_unlink",
		.dirs	= true,
		.run	= jbench_create_unlink_run,
	}, {
		.name	= "block",
		.dirs	= true,
		.setup	= jbench_block_setup,
		.run	= jbench_block_run,
	}, {
		.name	= "create",
		.dirs	= true,
		.trace_only = true,
		.run	= jbench_create_run,
	}, {
		.name	= "unlink",
		.dirs	= true,
		.trace_only = true,
		.setup	= jbench_unlink_setup,
		.run	= jbench_unlink_run,
	}, {
		.name	= "append",
		.dirs	= true,
		.trace_only = true,
		.setup	= jbench_append_setup,
		.run	= jbench_append_run,
	}, {
		.name	= "fsync",
		.dirs	= true,
		.trace_only = true,
		.trace_all = true,
		.setup	= jbench_append_setup,
		.run	= jbench_fsync_run,
	}, {
		.name	= "rwsem",
		.run	= jbench_rwsem_run,
	}, {
		.name	= "rwsem_close",
		.setup	= jbench_close_setup,
		.run	= jbench_rwsem_close_run,
	}, {
		.name	= "percpu_rwsem",
		.run	= jbench_percpu_rwsem_run,
	}, {
		.name	= "percpu_rwsem_close",
		.setup	= jbench_close_setup,
		.run	= jbench_percpu_rwsem_close_run,
	}, {
		.name	= "srcu",
		.run	= jbench_srcu_run,
	}, {
		.name	= "srcu_close",
		.setup	= jbench_close_setup,
		.run	= jbench_srcu_close_run,
	}, {
		.name	= "percpu_ref",
		.run	= jbench_percpu_ref_run,
	}, {
		.name	= "percpu_ref_close",
		.setup	= jbench_close_setup,
		.run	= jbench_percpu_ref_close_run,
#ifdef CONFIG_PERCPU_GATE
	}, {
		.name	= "gate",
		.run	= jbench_gate_run,
	}, {
		.name	= "gate_close",
		.setup	= jbench_close_setup,
		.run	= jbench_gate_close_run,
#endif
#ifdef JBENCH_XFS
	}, {
		.name	= "commit",
		.dirs	= true,
		.setup	= jbench_commit_setup,
		.run	= jbench_commit_run,
#endif
	}, {
		.name	= "stats",
		.dirs	= true,
		.setup	= jbench_handle_setup,
	},
};

/* The traced thread of a CPU. */
static DEFINE_PER_CPU(struct task_struct *, jbench_traced);

/* Whether all threads are traced. */
static bool jbench_trace_all;

#ifdef CONFIG_TRACEPOINTS
static struct tracepoint *jbench_switches;

/* Marks the switches away from a traced thread and back to it; see the plugin. */
static void jbench_sched_switch(void *data, bool preempt, struct task_struct *prev,
				struct task_struct *next, unsigned int prev_state)
{
	if (READ_ONCE(jbench_trace_all) ? !is_idle_task(next) :
	    next == __this_cpu_read(jbench_traced))
		jbench_mark(JBENCH_MARK_IN);
	else
		jbench_mark(JBENCH_MARK_OUT);
}

static void jbench_find_sched_switch(struct tracepoint *tp, void *found)
{
	if (!strcmp(tp->name, "sched_switch"))
		*(struct tracepoint **)found = tp;
}

/* From the first traced run to jbench_unfollow(), as code is patched for it. */
static int jbench_follow(void)
{
	struct tracepoint *tp = NULL;
	int err;

	if (jbench_switches)
		return 0;
	for_each_kernel_tracepoint(jbench_find_sched_switch, &tp);
	if (!tp)
		return jbench_error(-EOPNOTSUPP, "no tracepoint sched_switch");
	err = tracepoint_probe_register(tp, jbench_sched_switch, NULL);
	if (err)
		return jbench_error(err, "cannot use sched_switch");
	jbench_switches = tp;
	return 0;
}

static void jbench_unfollow(void)
{
	if (!jbench_switches)
		return;
	tracepoint_probe_unregister(jbench_switches, jbench_sched_switch, NULL);
	tracepoint_synchronize_unregister();
}
#else
static int jbench_follow(void)
{
	return jbench_error(-EOPNOTSUPP, "trace= needs CONFIG_TRACEPOINTS");
}

static void jbench_unfollow(void)
{
}
#endif

/*
 * Marked operations, after some that are not. All threads have done those when
 * the first one is marked.
 */
static int jbench_trace(struct jbench_thread *t)
{
	struct jbench_run *run = t->run;
	int err = 0;
	u64 n;

	for (n = 0; !err && n < run->warmup_ops; n++) {
		err = run->op->run(t, n);
		cond_resched();
	}
	this_cpu_write(jbench_traced, current);
	complete(&run->ready);
	while (!err && READ_ONCE(run->phase) == JBENCH_WARMUP)
		usleep_range(50, 100);
	for (; !err && READ_ONCE(run->phase) == JBENCH_MEASURE &&
	     n < run->warmup_ops + run->trace; n++) {
		jbench_mark(JBENCH_MARK_OP_BEGIN);
		err = run->op->run(t, n);
		jbench_mark(JBENCH_MARK_OP_END);
		t->ops++;
		cond_resched();
	}
	this_cpu_write(jbench_traced, NULL);
	complete(&run->ready);
	/* Others may still be at it: an exit is not to be counted. */
	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return err;
}

/* Sleeps and returns for how long, in ns. */
static u64 jbench_pause(unsigned int ms)
{
	u64 start = ktime_get_ns();

	msleep(ms);
	return ktime_get_ns() - start;
}

/**
 * jbench_thread_fn - body of a thread
 * @data: the struct jbench_thread
 *
 * All threads are in their loop when the measurement begins, and see its
 * beginning and its end at the same moment; each counts in its own time.
 *
 * Return: 0, or the first error of the operation.
 */
static int jbench_thread_fn(void *data)
{
	struct jbench_thread *t = data;
	struct jbench_run *run = t->run;
	enum jbench_phase phase;
	u64 start, paused, ops;
	int err;

	if (run->trace)
		return jbench_trace(t);
	complete(&run->ready);
	for (phase = JBENCH_WARMUP; phase < JBENCH_STOP; phase++) {
		ops = 0;
		paused = 0;
		start = ktime_get_ns();
		while (READ_ONCE(run->phase) == phase) {
			if (run->pause)
				paused += jbench_pause(run->pause);
			err = run->op->run(t, ops);
			if (err)
				return err;
			if (!(++ops % 64))
				cond_resched();
		}
		t->ns = ktime_get_ns() - start - paused;
		t->ops = ops;
	}
	return 0;
}

/* Sleeps for a phase and starts the next; a signal ends the run. */
static int jbench_phase_sleep(struct jbench_run *run, unsigned int ms,
			      enum jbench_phase next)
{
	unsigned long left = msleep_interruptible(ms);

	WRITE_ONCE(run->phase, left ? JBENCH_STOP : next);
	return left ? jbench_error(-EINTR, "interrupted") : 0;
}

/**
 * jbench_run_threads - start the threads, let them run, collect them
 * @run: a run whose threads are set up
 *
 * Return: 0, or an error, which is then also the result.
 */
static int jbench_run_threads(struct jbench_run *run)
{
	unsigned int cpu = cpumask_first(cpu_online_mask);
	struct jbench_thread *t;
	unsigned int i;
	int err, ret;

	for (i = 0; i < run->nr; i++, cpu = cpumask_next(cpu, cpu_online_mask)) {
		struct task_struct *task;

		if (cpu >= nr_cpu_ids) {
			err = jbench_error(-EINVAL, "more threads than CPUs");
			goto stop;
		}
		t = &run->threads[i];
		t->cpu = cpu;
		task = kthread_create(jbench_thread_fn, t, "jbench/%u", cpu);
		if (IS_ERR(task)) {
			err = jbench_error(PTR_ERR(task), "cannot create a thread");
			goto stop;
		}
		kthread_bind(task, cpu);
		t->task = get_task_struct(task);
	}
	for (i = 0; i < run->nr; i++)
		wake_up_process(run->threads[i].task);
	for (i = 0; i < run->nr; i++)
		wait_for_completion(&run->ready);

	if (run->trace) {
		WRITE_ONCE(jbench_trace_all, run->op->trace_all);
		err = jbench_follow();
		if (err)
			goto stop;
		if (run->op->trace_all)
			jbench_mark(JBENCH_MARK_OPEN_ALL);
		else
			jbench_mark(JBENCH_MARK_OPEN);
		WRITE_ONCE(run->phase, JBENCH_MEASURE);
		for (i = 0; i < run->nr; i++)
			wait_for_completion(&run->ready);
		jbench_mark(JBENCH_MARK_CLOSE);
		goto stop;
	}
	err = jbench_phase_sleep(run, run->warmup, JBENCH_MEASURE);
	if (!err)
		err = jbench_phase_sleep(run, run->ms, JBENCH_STOP);
stop:
	WRITE_ONCE(run->phase, JBENCH_STOP);
	for (i = 0; i < run->nr; i++) {
		t = &run->threads[i];
		if (!t->task)
			continue;
		ret = kthread_stop_put(t->task);
		if (err)
			continue;
		if (ret)
			err = jbench_error(ret, "thread %u: %s failed", i, run->op->name);
		else if (!t->ops)
			err = jbench_error(-ETIMEDOUT, "thread %u: no %s was completed",
					   i, run->op->name);
	}
	return err;
}

/* Opens the directories in the context of the writer: a kthread has no root. */
static int jbench_open_dirs(struct jbench_run *run)
{
	char *dir;
	unsigned int i;
	int err;

	for (i = 0; i < run->nr; i++) {
		struct jbench_thread *t = &run->threads[i];
		struct path path;

		dir = strsep(&run->dirs, ",");
		if (!dir)
			return jbench_error(-EINVAL, "fewer directories than threads");
		err = kern_path(dir, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path);
		if (err)
			return jbench_error(err, "cannot open directory %u", i);
		err = mnt_want_write(path.mnt);
		if (err) {
			path_put(&path);
			return jbench_error(err, "cannot write to directory %u", i);
		}
		t->path = path;
	}
	if (run->dirs)
		return jbench_error(-EINVAL, "more directories than threads");
	return 0;
}

static void jbench_free(struct jbench_run *run)
{
	struct jbench_thread *t;
	unsigned int i;

	for (t = run->threads; t < run->threads + run->nr; t++) {
		if (t->open)
			fput(t->open);
		brelse(t->bh);
		for (i = 0; t->items && i < run->items; i++)
			dput(t->items[i]);
		kfree(t->items);
		dput(t->file);
		if (t->path.mnt)
			mnt_drop_write(t->path.mnt);
		path_put(&t->path);
	}
	kfree(run);
}

/* The address itself, not its hash: it is matched with those that were touched. */
static void jbench_show_object(const char *sep, const char *type,
			       const void *object, size_t size)
{
	if (object)
		seq_buf_printf(&jbench_result,
			       "%s{\"type\": \"%s\", \"address\": \"%px\", \"size\": %zu}",
			       sep, type, object, size);
}

/*
 * A traced run: what was done, and where the objects are that kmalloc() made and
 * the CPUs' copies of the per-CPU variables.
 */
static void jbench_show_trace(struct jbench_run *run)
{
	struct super_block *sb;
	const char *sep = "";
	unsigned int i;

	seq_buf_clear(&jbench_result);
	seq_buf_printf(&jbench_result, "{\"op\": \"%s\", \"threads\": %u, \"ops\": [",
		       run->op->name, run->nr);
	for (i = 0; i < run->nr; i++)
		seq_buf_printf(&jbench_result, "%s%llu", i ? ", " : "",
			       run->threads[i].ops);
	seq_buf_puts(&jbench_result, "], \"objects\": [");
	jbench_show_object("", "jbench_planted", &jbench_planted,
			   sizeof(jbench_planted));
	jbench_show_object(", ", "jbench_run", run, struct_size(run, threads, run->nr));
	if (run->op->dirs) {
		sb = run->threads[0].path.mnt->mnt_sb;
		jbench_show_object(", ", "super_block", sb, sizeof(*sb));
		if (jbench_fs_is(sb, "ext4")) {
			jbench_show_object(", ", "ext4_sb_info", EXT4_SB(sb),
					   sizeof(struct ext4_sb_info));
			jbench_show_object(", ", "journal_s", EXT4_SB(sb)->s_journal,
					   sizeof(journal_t));
		} else {
			jbench_show_object(", ", "xfs_mount", sb->s_fs_info, 0);
		}
	}
	seq_buf_puts(&jbench_result, "], \"percpu_offsets\": [");
	for_each_possible_cpu(i) {
		seq_buf_printf(&jbench_result, "%s\"%lx\"", sep, per_cpu_offset(i));
		sep = ", ";
	}
	seq_buf_puts(&jbench_result, "]}\n");
}

static void jbench_show_run(struct jbench_run *run)
{
	u64 rate = 0, ops = 0, ns = 0;
	struct jbench_thread *t;
	unsigned int i;

	seq_buf_clear(&jbench_result);
	seq_buf_printf(&jbench_result, "{\"op\": \"%s\", \"threads\": %u",
		       run->op->name, run->nr);
	for (i = 0; i < run->nr; i++)
		seq_buf_printf(&jbench_result, "%s%u", i ? ", " : ", \"cpus\": [",
			       run->threads[i].cpu);
	for (i = 0; i < run->nr; i++)
		seq_buf_printf(&jbench_result, "%s%llu", i ? ", " : "], \"ops\": [",
			       run->threads[i].ops);
	for (i = 0; i < run->nr; i++) {
		t = &run->threads[i];
		seq_buf_printf(&jbench_result, "%s%llu", i ? ", " : "], \"ns\": [",
			       t->ns);
		rate += div64_u64(t->ops * NSEC_PER_SEC, t->ns);
		ops += t->ops;
		ns += t->ns;
	}
	seq_buf_printf(&jbench_result, "], \"ops_per_s\": %llu, \"ns_per_op\": %llu}\n",
		       rate, div64_u64(ns, ops));
}

static void jbench_show_stats(journal_t *journal)
{
	struct transaction_stats_s stats;

	spin_lock(&journal->j_history_lock);
	stats = journal->j_stats;
	spin_unlock(&journal->j_history_lock);

	seq_buf_clear(&jbench_result);
	seq_buf_printf(&jbench_result,
		       "{\"op\": \"stats\", \"transactions\": %lu, \"requested\": %lu, \"handles\": %u, \"blocks\": %u, \"logged\": %u}\n",
		       stats.ts_tid, stats.ts_requested, stats.run.rs_handle_count,
		       stats.run.rs_blocks, stats.run.rs_blocks_logged);
}

static int jbench_number(const char *key, const char *value, unsigned int min,
			 unsigned int max, unsigned int *res)
{
	if (kstrtouint(value, 10, res) || *res < min || *res > max)
		return jbench_error(-EINVAL, "%s is not a number from %u to %u",
				    key, min, max);
	return 0;
}

/**
 * jbench_parse - read a control line
 * @line: the line, which is modified and must outlive the run
 *
 * Return: a run whose threads are not set up, or an error, which is then also
 * the result.
 */
static struct jbench_run *jbench_parse(char *line)
{
	unsigned int nr = 1, ms = 300, warmup = 100, trace = 0, files = 256, items = 1, pause = 0;
	unsigned int warmup_ops = JBENCH_TRACE_WARMUP;
	static unsigned int id;
	const struct jbench_op *op = NULL;
	struct jbench_run *run;
	char *word, *dirs = NULL;
	unsigned int i;
	int err = 0;

	line = strim(line);
	while ((word = strsep(&line, " "))) {
		char *value = word;
		char *key = strsep(&value, "=");

		if (!*key)
			continue;
		if (!value) {
			err = jbench_error(-EINVAL, "a word without a value");
		} else if (!strcmp(key, "op")) {
			for (i = 0; i < ARRAY_SIZE(jbench_ops); i++)
				if (!strcmp(jbench_ops[i].name, value))
					op = &jbench_ops[i];
		} else if (!strcmp(key, "threads")) {
			err = jbench_number(key, value, 1, JBENCH_MAX_THREADS, &nr);
		} else if (!strcmp(key, "ms")) {
			err = jbench_number(key, value, 1, JBENCH_MAX_MS, &ms);
		} else if (!strcmp(key, "warmup")) {
			err = jbench_number(key, value, 1, JBENCH_MAX_MS, &warmup);
		} else if (!strcmp(key, "trace")) {
			err = jbench_number(key, value, 1, JBENCH_MAX_TRACE, &trace);
		} else if (!strcmp(key, "warmup_ops")) {
			err = jbench_number(key, value, 1, JBENCH_MAX_TRACE, &warmup_ops);
		} else if (!strcmp(key, "items")) {
			err = jbench_number(key, value, 1, JBENCH_MAX_ITEMS, &items);
		} else if (!strcmp(key, "pause")) {
			err = jbench_number(key, value, 0, JBENCH_MAX_MS, &pause);
		} else if (!strcmp(key, "files")) {
			err = jbench_number(key, value, 1, JBENCH_MAX_FILES, &files);
		} else if (!strcmp(key, "dirs")) {
			dirs = value;
		} else {
			err = jbench_error(-EINVAL, "a word that is not known");
		}
		if (err)
			return ERR_PTR(err);
	}
	if (!op)
		return ERR_PTR(jbench_error(-EINVAL, "op is not one that is known"));
	if (!op->dirs && dirs)
		return ERR_PTR(jbench_error(-EINVAL, "%s takes no directory", op->name));

	if (op->trace_only && !trace)
		return ERR_PTR(jbench_error(-EINVAL, "%s needs trace=", op->name));

	run = kzalloc(struct_size(run, threads, nr), GFP_KERNEL);
	if (!run)
		return ERR_PTR(jbench_error(-ENOMEM, "no memory"));
	run->op = op;
	run->nr = nr;
	run->ms = ms;
	run->warmup = warmup;
	run->trace = trace;
	run->warmup_ops = warmup_ops;
	run->id = id++;
	run->files = files;
	run->items = items;
	run->pause = pause;
	run->dirs = dirs;
	init_completion(&run->ready);
	for (i = 0; i < nr; i++)
		run->threads[i].run = run;
	return run;
}

/**
 * jbench_run_line - run a control line and leave the result
 * @line: the line, which is modified
 *
 * Return: 0, or an error.
 */
static int jbench_run_line(char *line)
{
	struct jbench_run *run = jbench_parse(line);
	unsigned int i;
	int err = 0;

	if (IS_ERR(run))
		return PTR_ERR(run);
	if (run->op->dirs)
		err = jbench_open_dirs(run);
	for (i = 0; !err && run->op->setup && i < run->nr; i++)
		err = run->op->setup(&run->threads[i]);
	if (!err && !run->op->run) {
		jbench_show_stats(run->threads[0].journal);
	} else if (!err) {
		err = jbench_run_threads(run);
		if (!err && run->trace)
			jbench_show_trace(run);
		else if (!err)
			jbench_show_run(run);
	}
	jbench_free(run);
	return err;
}

static ssize_t jbench_write(struct file *file, const char __user *buf,
			    size_t len, loff_t *pos)
{
	char *line;
	int err;

	if (len > JBENCH_MAX_LINE)
		return -E2BIG;
	line = memdup_user_nul(buf, len);
	if (IS_ERR(line))
		return PTR_ERR(line);
	err = mutex_lock_interruptible(&jbench_mutex);
	if (!err) {
		err = jbench_run_line(line);
		mutex_unlock(&jbench_mutex);
	}
	kfree(line);
	return err ?: len;
}

/*
 * Says in the kernel log what is at some physical addresses, given in hex, one a
 * line: a page of a file or device, or what mem_dump_obj() knows.
 */
static void jbench_identify_one(u64 phys)
{
	struct address_space *mapping;
	struct folio *folio;
	struct slab *slab;

	if (!pfn_valid(PHYS_PFN(phys)))
		return;
	folio = page_folio(pfn_to_page(PHYS_PFN(phys)));
	slab = page_slab(pfn_to_page(PHYS_PFN(phys)));
	mapping = folio_test_slab(folio) ? NULL : folio_mapping(folio);
	pr_info("jbench: object at %llx:", phys);
	if (mapping && mapping->host)
		pr_cont(" page %lu of inode %llu on %s\n", folio->index,
			(u64)mapping->host->i_ino, mapping->host->i_sb->s_id);
	else if (slab && phys_to_virt(phys) - slab_address(slab) >=
			 slab->objects * slab->slab_cache->size)
		/* Memory that had another use then; mem_dump_obj() would warn. */
		pr_cont(" behind the last object of slab %s\n", slab->slab_cache->name);
	else
		mem_dump_obj(phys_to_virt(phys));
}

static ssize_t jbench_identify(struct file *file, const char __user *buf,
			       size_t len, loff_t *pos)
{
	char *words, *rest, *word;
	u64 phys;
	int err = 0;

	if (len > JBENCH_MAX_LINE)
		return -E2BIG;
	words = memdup_user_nul(buf, len);
	if (IS_ERR(words))
		return PTR_ERR(words);
	rest = words;
	while (!err && (word = strsep(&rest, "\n"))) {
		if (!*word)
			continue;
		err = kstrtou64(word, 16, &phys);
		if (!err)
			jbench_identify_one(phys);
		cond_resched();
	}
	kfree(words);
	return err ?: len;
}

static const struct file_operations jbench_identify_fops = {
	.owner		= THIS_MODULE,
	.open		= simple_open,
	.write		= jbench_identify,
	.llseek		= noop_llseek,
};

static int jbench_show(struct seq_file *m, void *v)
{
	int err = mutex_lock_interruptible(&jbench_mutex);

	if (err)
		return err;
	seq_puts(m, seq_buf_str(&jbench_result));
	mutex_unlock(&jbench_mutex);
	return 0;
}

static int jbench_open(struct inode *inode, struct file *file)
{
	return single_open(file, jbench_show, NULL);
}

static const struct file_operations jbench_fops = {
	.owner		= THIS_MODULE,
	.open		= jbench_open,
	.read		= seq_read,
	.write		= jbench_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int __init jbench_init(void)
{
	int err = jbench_locks_init();

	if (err)
		return err;
	jbench_debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("run", 0600, jbench_debugfs, NULL, &jbench_fops);
	debugfs_create_file("identify", 0200, jbench_debugfs, NULL, &jbench_identify_fops);
	if (IS_ERR(jbench_debugfs))
		jbench_locks_exit();
	return PTR_ERR_OR_ZERO(jbench_debugfs);
}

static void __exit jbench_exit(void)
{
	debugfs_remove(jbench_debugfs);
	jbench_unfollow();
	jbench_locks_exit();
}

module_init(jbench_init);
module_exit(jbench_exit);

MODULE_DESCRIPTION("Time journal and filesystem operations inside the kernel");
MODULE_INFO(tree, JBENCH_TREE);
MODULE_LICENSE("GPL");
/* As make modules builds it, jbd2 exports to those that say so. */
MODULE_IMPORT_NS("JOURNALS_JBD2");
