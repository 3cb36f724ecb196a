// SPDX-License-Identifier: GPL-2.0
/*
 * jbench - time journal and filesystem operations inside the kernel
 *
 * One pinned kernel thread per CPU runs an operation in a loop. A line written
 * to <debugfs>/jbench/run starts a run and returns when it is over:
 *
 *	op=NAME threads=N [ms=N] [warmup=N] [files=N] [dirs=PATH,PATH...]
 *
 * with one directory per thread, on the filesystem to be measured. The file
 * reads back as one line of JSON: the result of the last run, or its error.
 *
 *	null		16 dependent locked additions to private memory: what the
 *			machine itself gives when threads are added
 *	handle		jbd2_journal_start() and jbd2_journal_stop() (ext4)
 *	chmod		a change of mode of a private file, whose inode shares no
 *			inode-table block with that of another thread (ext4, XFS)
 *	create_unlink	creation and removal of a name in the thread's directory
 *	stats		no run: the exact totals of the ext4 journal that
 *			/proc/fs/jbd2 shows as averages
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/jbd2.h>
#include <linux/kthread.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/mutex.h>
#include <linux/namei.h>
#include <linux/sched.h>
#include <linux/seq_buf.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "ext4.h"

#define JBENCH_MAX_THREADS	32
#define JBENCH_MAX_MS		60000
#define JBENCH_MAX_FILES	1024
#define JBENCH_MAX_LINE		4096

/* What ext4 asks for when it changes one inode, and a little more. */
#define JBENCH_CREDITS		8

/* XFS_INODES_PER_CHUNK: inodes this far apart are in different clusters. */
#define JBENCH_XFS_CHUNK	64

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
 * @file: its private file (chmod)
 * @journal: the journal of its directory's filesystem (handle)
 * @private: memory that no other thread touches (null)
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
	journal_t *journal;
	atomic64_t private;
	u64 ops;
	u64 ns;
} __aligned(2 * SMP_CACHE_BYTES);

/**
 * struct jbench_op - an operation that can be timed
 * @name: name in the control line
 * @dirs: whether every thread needs a directory
 * @setup: prepares a thread in the context of the writer (optional)
 * @run: one operation, the @n-th of its thread in this phase
 */
struct jbench_op {
	const char *name;
	bool dirs;
	int (*setup)(struct jbench_thread *t);
	int (*run)(struct jbench_thread *t, u64 n);
};

/**
 * struct jbench_run - a run
 * @op: the operation
 * @nr: number of threads
 * @ms: length of the measurement
 * @warmup: length of the warm-up, in ms
 * @files: how many files chmod may create to find one whose inode is apart
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
	unsigned int files;
	char *dirs;
	struct completion ready;
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

/*
 * Finds @t a file of its own. Files of an earlier run are used again, those
 * that are too close to another thread's file stay behind.
 */
static int jbench_chmod_setup(struct jbench_thread *t)
{
	struct super_block *sb = t->path.mnt->mnt_sb;
	struct jbench_thread *other;
	struct dentry *dentry;
	char name[32];
	unsigned int n;

	if (!jbench_fs_is(sb, "ext4") && !jbench_fs_is(sb, "xfs"))
		return jbench_error(-EOPNOTSUPP, "%pd4 is not on ext4 or XFS",
				    t->path.dentry);

	for (n = 0; n < t->run->files; n++) {
		snprintf(name, sizeof(name), "jbench.%u", n);
		dentry = jbench_create(t, name);
		if (IS_ERR(dentry))
			return jbench_error(PTR_ERR(dentry), "cannot create %s in %pd4",
					    name, t->path.dentry);
		for (other = t->run->threads; other != t; other++)
			if (!jbench_apart(d_inode(dentry), d_inode(other->file)))
				break;
		if (other == t) {
			t->file = dentry;
			return 0;
		}
		dput(dentry);
	}
	return jbench_error(-ENOSPC, "none of %u files in %pd4 has an inode block of its own",
			    t->run->files, t->path.dentry);
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

static int jbench_create_unlink_run(struct jbench_thread *t, u64 n)
{
	struct dentry *dentry = jbench_create(t, "jbench");

	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	dput(dentry);
	return jbench_unlink(t, "jbench");
}

static const struct jbench_op jbench_ops[] = {
	{
		.name	= "null",
		.run	= jbench_null_run,
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
		.name	= "stats",
		.dirs	= true,
		.setup	= jbench_handle_setup,
	},
};

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
	u64 start, ops;
	int err;

	complete(&run->ready);
	for (phase = JBENCH_WARMUP; phase < JBENCH_STOP; phase++) {
		ops = 0;
		start = ktime_get_ns();
		while (READ_ONCE(run->phase) == phase) {
			err = run->op->run(t, ops);
			if (err)
				return err;
			if (!(++ops % 64))
				cond_resched();
		}
		t->ns = ktime_get_ns() - start;
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

	for (t = run->threads; t < run->threads + run->nr; t++) {
		dput(t->file);
		if (t->path.mnt)
			mnt_drop_write(t->path.mnt);
		path_put(&t->path);
	}
	kfree(run);
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
	unsigned int nr = 1, ms = 300, warmup = 100, files = 256;
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

	run = kzalloc(struct_size(run, threads, nr), GFP_KERNEL);
	if (!run)
		return ERR_PTR(jbench_error(-ENOMEM, "no memory"));
	run->op = op;
	run->nr = nr;
	run->ms = ms;
	run->warmup = warmup;
	run->files = files;
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
		if (!err)
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
	jbench_debugfs = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("run", 0600, jbench_debugfs, NULL, &jbench_fops);
	return PTR_ERR_OR_ZERO(jbench_debugfs);
}

static void __exit jbench_exit(void)
{
	debugfs_remove(jbench_debugfs);
}

module_init(jbench_init);
module_exit(jbench_exit);

MODULE_DESCRIPTION("Time journal and filesystem operations inside the kernel");
MODULE_INFO(tree, JBENCH_TREE);
MODULE_LICENSE("GPL");
