// SPDX-License-Identifier: GPL-2.0
/*
 * fsload - run one kind of filesystem operation from many processes and time it
 *
 * Workers are forked processes. Each has a directory DIR/fsload.N of its own;
 * DIR/fsload.shared belongs to all. What an operation needs is set up first and
 * synced with syncfs(), so that its writeback is not in the timed part; then all
 * workers leave a barrier together. A worker shares nothing with the others
 * while it is timed: it counts in private memory, and --ms ends with a timer of
 * its own. The clock is read for each operation only with --latency.
 *
 * Names starting with 'd' are directories, those starting with 'f' files.
 *
 * Sources of the loads:
 *
 *   create, unlink, rename, fsync, append: the definitions of FxMark; Min et al.,
 *	"Understanding Manycore Scalability of File Systems", USENIX ATC 2016.
 *   mix: "Performance regression with async inode inactivation", Jan Kara,
 *	linux-xfs, 2021-10-04, and what reaim's disk jobs do with the change named
 *	there, fsync() of the file in place of sync(). See mix_run().
 *   dirs: "ext4 dbench performance with CONFIG_PREEMPT_RT", Tim Chen's remark on
 *	ffsb, 2010-04-09. See dirs_run().
 *
 * Latencies are counted in buckets, 64 to each power of two, and exactly below
 * 64 ns. A percentile (nearest rank, all workers together) is printed as the
 * highest value of its bucket, or the maximum, which is exact, if that is lower:
 * it is never below the true value, and above it by at most 1/64.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BIT(nr)		(1U << (nr))
#define MAX_WORKERS	4096
#define ALIGNMENT	4096		/* of the buffer, for O_DIRECT */
#define APPEND_LIMIT	(64L << 20)
#define MIX_BLOCK	1024L
#define NR_BUCKETS	(59 * 64)
#ifndef SPACE_TIMEOUT_S
#define SPACE_TIMEOUT_S	120
#endif

enum {
	WORKERS, DIRECTORY, MS, COUNT, SIZE, FILES, DIRS, EXTENTS, DIRECT, SHARED, FDATASYNC,
	AREA, HOLES, FALLOCATED, APPEND, LATENCY, SEED, KEEP, HOLD, HELP, NR_OPTS
};

struct dir {
	int fd;
	char *path;			/* for messages */
};

struct file {
	const struct dir *dir;
	char name[64];
	int fd;
};

struct result {
	uint64_t ops, ns, begin, end, extents, max;
	uint64_t buckets[NR_BUCKETS];
};

static struct {
	long workers, ms, count, size, files, dirs, extents, seed;
	long area, holes, fallocated, append;
	long direct, shared, fdatasync, latency, keep, hold;
	const char *dir;
	long spaces;			/* values of space_back_ns of each worker */
} opt = { .workers = 1, .files = 1000, .dirs = 100, .extents = 1, .seed = 1, .area = 1 << 20 };

/* What the operations leave behind, remove_dirs() removes for all of them. */
static const struct op {
	const char *name;
	unsigned int takes;		/* options */
	long size, min_size;		/* default and minimum of --size */
	void (*setup)(void);
	void (*before)(void);		/* before each operation */
	void (*run)(long nr);		/* operation nr of the worker */
	void (*after)(void);		/* after each operation */
	const char *help;
} *op;

static struct dir base;

/* Shared by all processes. */
static pthread_barrier_t *barrier;	/* the workers */
static pthread_barrier_t *start;	/* and, with --hold, the process that holds them */
static struct result *results;
static uint64_t *space_back;

/* The worker that this process is. */
static struct {
	long id;
	struct dir own, shared;
	struct file file;		/* a private file */
	off_t end;			/* append: of that file */
	long spaces;			/* values of space_back so far */
	char *buf;
	uint64_t random, begin, free_before;
	struct result r;
} me;

static volatile sig_atomic_t stop;

static void fail(const char *call, const struct dir *dir, const char *name)
{
	err(1, "%s: %s %s/%s", op->name, call, dir->path, name);
}

/* Time and latencies */

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

/* The worker's time runs between these; clock_off() is for what is not timed. */
static void clock_on(void)
{
	me.r.ns -= now();
}

static void clock_off(void)
{
	me.r.ns += now();
}

static unsigned int bucket_of(uint64_t value)
{
	int shift;

	if (value < 64)
		return value;
	shift = 57 - __builtin_clzll(value);
	return (shift + 1) * 64 + ((value >> shift) & 63);
}

static uint64_t bucket_top(unsigned int bucket)
{
	if (bucket < 64)
		return bucket;
	return ((bucket % 64 + UINT64_C(65)) << (bucket / 64 - 1)) - 1;
}

static uint64_t percentile(const struct result *r, unsigned int percent)
{
	uint64_t rank = (r->ops * percent + 99) / 100, seen = 0;
	unsigned int i;

	for (i = 0; i < NR_BUCKETS; i++) {
		seen += r->buckets[i];
		if (seen && seen >= rank)
			return bucket_top(i) < r->max ? bucket_top(i) : r->max;
	}
	return 0;
}

/* Begin of an operation, which op_done() counts. */
static uint64_t op_begin(void)
{
	return opt.latency ? now() : 0;
}

static void op_done(uint64_t begin)
{
	uint64_t ns;

	me.r.ops++;
	if (!opt.latency)
		return;
	ns = now() - begin;
	me.r.buckets[bucket_of(ns)]++;
	if (ns > me.r.max)
		me.r.max = ns;
}

/*
 * Splitmix64 (Steele, Lea, Flood, OOPSLA 2014). States that differ by a multiple
 * of 2^32 are at least 2^32 numbers apart in the sequence.
 */
static uint64_t random_below(uint64_t limit)
{
	uint64_t z = me.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % limit;
}

/* System calls; an error of one ends the program */

static void open_dir(struct dir *dir, const struct dir *parent, const char *name)
{
	dir->fd = openat(parent->fd, name, O_RDONLY | O_DIRECTORY);
	if (dir->fd < 0)
		fail("open", parent, name);
	if (asprintf(&dir->path, "%s/%s", parent->path, name) < 0)
		errx(1, "no memory");
}

static void make_dir(const struct dir *parent, long number)
{
	char name[64];

	snprintf(name, sizeof(name), "d%ld", number);
	if (mkdirat(parent->fd, name, 0700))
		fail("mkdir", parent, name);
}

/* The name of a file of this worker, in dir or, unless negative, dir/dSUB. */
static struct file *name_file(struct file *f, const struct dir *dir, long sub, long number)
{
	f->dir = dir;
	if (sub < 0)
		snprintf(f->name, sizeof(f->name), "f%ld.%ld", me.id, number);
	else
		snprintf(f->name, sizeof(f->name), "d%ld/f%ld.%ld", sub, me.id, number);
	return f;
}

static void open_file(struct file *f, int flags)
{
	f->fd = openat(f->dir->fd, f->name, flags, 0600);
	if (f->fd < 0)
		fail(flags & O_CREAT ? "create" : "open", f->dir, f->name);
}

static void open_new(struct file *f)
{
	open_file(f, O_CREAT | O_EXCL | O_WRONLY | (opt.direct ? O_DIRECT : 0));
}

static void close_file(const struct file *f)
{
	if (close(f->fd))
		fail("close", f->dir, f->name);
}

/* One system call, unless the filesystem stops short: then one more says why. */
static void write_file(const struct file *f, long size, off_t pos)
{
	long done;
	ssize_t n;

	for (done = 0; done < size; done += n) {
		n = pwrite(f->fd, me.buf + done, size - done, pos + done);
		if (n < 0)
			fail("write", f->dir, f->name);
	}
}

static void read_file(const struct file *f, long size, off_t pos)
{
	ssize_t n = pread(f->fd, me.buf, size, pos);

	if (n < 0)
		fail("read", f->dir, f->name);
	if (n != size)
		errx(1, "%s: read %s/%s: only %zd of %ld bytes", op->name, f->dir->path, f->name,
		     n, size);
}

static void sync_file(const struct file *f)
{
	if (opt.fdatasync ? fdatasync(f->fd) : fsync(f->fd))
		fail(opt.fdatasync ? "fdatasync" : "fsync", f->dir, f->name);
}

static void create_file(struct file *f)
{
	open_new(f);
	write_file(f, opt.size, 0);
	close_file(f);
}

static void unlink_file(const struct file *f)
{
	if (unlinkat(f->dir->fd, f->name, 0))
		fail("unlink", f->dir, f->name);
}

static void rename_file(const struct file *from, const struct file *to)
{
	if (renameat(from->dir->fd, from->name, to->dir->fd, to->name))
		fail("rename", from->dir, from->name);
}

/* Remove a directory like rm -r, in the order of readdir(). */
static void remove_tree(const struct dir *parent, const char *name)
{
	struct dirent *entry;
	struct dir dir;
	uint64_t begin;
	DIR *stream;

	open_dir(&dir, parent, name);
	stream = fdopendir(dir.fd);
	if (!stream)
		fail("opendir", parent, name);
	while (errno = 0, (entry = readdir(stream))) {
		if (entry->d_name[0] == 'd')
			remove_tree(&dir, entry->d_name);
		if (entry->d_name[0] != 'f')
			continue;
		begin = op_begin();
		if (unlinkat(dir.fd, entry->d_name, 0))
			fail("unlink", &dir, entry->d_name);
		op_done(begin);
	}
	if (errno)
		fail("readdir", parent, name);
	closedir(stream);
	free(dir.path);
	if (unlinkat(parent->fd, name, AT_REMOVEDIR))
		fail("rmdir", parent, name);
}

/*
 * Free space
 *
 * The filesystem should have no other user. All workers look at f_bfree at the
 * same point, when none of them has allocated what it is going to free, and the
 * space is back when f_bfree is no lower, for all files of all workers together:
 *
 * bigunlink: that point is when the files exist and are empty. Blocks that
 *	creating a name leaves behind (a directory's, XFS' inode chunks) are then
 *	not waited for, whereas all blocks of extent trees are.
 * rmtree: before the tree. It is in a directory of its own that is removed with
 *	it, so no directory that stays has grown.
 *
 * Before that f_bfree has to be the same for 20 ms (or 2 s are over). On XFS
 * statfs() itself expedites the deferred inactivation of inodes.
 */
static uint64_t free_blocks(void)
{
	struct statvfs st;

	if (fstatvfs(me.own.fd, &st))
		fail("statfs", &me.own, ".");
	return st.f_bfree;
}

/* What was freed earlier may still be coming back; that must not count later. */
static void note_free_blocks(void)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	uint64_t last;
	int i;

	pthread_barrier_wait(barrier);
	me.free_before = free_blocks();
	for (i = 0, last = -1; i < 100 && me.free_before != last; i++) {
		last = me.free_before;
		nanosleep(&pause, NULL);
		me.free_before = free_blocks();
	}
	pthread_barrier_wait(barrier);
}

static void time_space_back(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t blocks, ns;

	clock_off();
	while (blocks = free_blocks(), ns = now() - me.begin, blocks < me.free_before) {
		if (ns > SPACE_TIMEOUT_S * UINT64_C(1000000000))
			errx(1, "%s: statfs %s: %" PRIu64 " blocks free after %d s, %" PRIu64
			     " before", op->name, me.own.path, blocks, SPACE_TIMEOUT_S,
			     me.free_before);
		nanosleep(&pause, NULL);
	}
	space_back[me.id * opt.spaces + me.spaces++] = ns;
	/* Allocate nothing while another worker still waits. */
	pthread_barrier_wait(barrier);
	clock_on();
}

/* The operations */

static const struct dir *where(void)
{
	return opt.shared ? &me.shared : &me.own;
}

static void create_run(long nr)
{
	struct file f;

	create_file(name_file(&f, where(), -1, nr));
}

static void unlink_setup(void)
{
	long i;

	for (i = 0; i < opt.files; i++)
		create_run(i);
}

static void unlink_run(long nr)
{
	struct file f;

	unlink_file(name_file(&f, where(), -1, nr));
}

static void rename_setup(void)
{
	create_file(name_file(&me.file, &me.own, -1, 0));
}

static void rename_run(long nr)
{
	struct file other;

	name_file(&other, where(), -1, 1);
	rename_file(nr % 2 ? &other : &me.file, nr % 2 ? &me.file : &other);
}

static void append_setup(void)
{
	open_new(name_file(&me.file, &me.own, -1, 0));
}

static void append_before(void)
{
	if (me.end + opt.size <= APPEND_LIMIT)
		return;
	clock_off();
	if (ftruncate(me.file.fd, 0))
		fail("truncate", me.file.dir, me.file.name);
	me.end = 0;
	clock_on();
}

static void append_run(long nr)
{
	(void)nr;
	write_file(&me.file, opt.size, me.end);
	me.end += opt.size;
}

static void fsync_setup(void)
{
	append_setup();
	write_file(&me.file, opt.size, 0);
}

static void fsync_run(long nr)
{
	(void)nr;
	write_file(&me.file, opt.size, 0);
	sync_file(&me.file);
}

/*
 * writes: a file at a time, each block of it written once and synced. With
 * --shared the workers take the blocks in turn, so what one writes is between
 * the others' writes. Blocks are in random order, but for --append.
 */
static struct {
	struct file *files;
	long file;			/* the one that is written */
	long *blocks, nr, done;		/* of each file, this worker's */
} area;

static void make_area(struct file *f)
{
	long pos;

	open_new(f);
	if (opt.holes && ftruncate(f->fd, opt.area))
		fail("truncate", f->dir, f->name);
	if (opt.fallocated && fallocate(f->fd, 0, 0, opt.area))
		fail("fallocate", f->dir, f->name);
	if (!opt.holes && !opt.fallocated && !opt.append)
		for (pos = 0; pos < opt.area; pos += opt.size)
			write_file(f, opt.size, pos);
	close_file(f);
}

static void shuffle_blocks(void)
{
	long i, other, block;

	for (i = area.nr - 1; i > 0; i--) {
		other = random_below(i + 1);
		block = area.blocks[i];
		area.blocks[i] = area.blocks[other];
		area.blocks[other] = block;
	}
	area.done = 0;
}

static void writes_setup(void)
{
	const long of = opt.shared ? opt.workers : 1, first = opt.shared ? me.id : 0;
	struct file *f;
	long i;

	area.files = calloc(opt.files, sizeof(*area.files));
	area.blocks = calloc(opt.area / opt.size / of + 1, sizeof(*area.blocks));
	if (!area.files || !area.blocks)
		errx(1, "no memory");
	for (i = first * opt.size; i + opt.size <= opt.area; i += of * opt.size)
		area.blocks[area.nr++] = i;
	shuffle_blocks();
	for (i = 0; i < opt.files; i++) {
		f = name_file(&area.files[i], where(), -1, i);
		if (opt.shared)
			snprintf(f->name, sizeof(f->name), "f%ld", i);
		if (!opt.shared || !me.id)
			make_area(f);
	}
	pthread_barrier_wait(barrier);
	for (i = 0; i < opt.files; i++)
		open_file(&area.files[i], O_WRONLY | (opt.append ? O_APPEND : 0) |
			  (opt.direct ? O_DIRECT : 0));
}

/* The file that is written has no more blocks for this worker: the next one has. */
static void writes_before(void)
{
	if (area.done < area.nr)
		return;
	if (++area.file == opt.files) {
		if (opt.holes || opt.fallocated || opt.append)
			errx(1, "%s: %ld files are full, --files has to be larger", op->name,
			     opt.files);
		area.file = 0;
	}
	shuffle_blocks();
}

static void writes_run(long nr)
{
	const struct file *f = &area.files[area.file];

	(void)nr;
	/* With O_APPEND the position is not looked at. */
	write_file(f, opt.size, area.blocks[area.done++]);
	sync_file(f);
}

/* As many blocks as a file has, in order or at random: read, write, or copy them. */
static void mix_blocks(const struct file *in, const struct file *out, bool random)
{
	const long blocks = (opt.size + MIX_BLOCK - 1) / MIX_BLOCK;
	long i, pos, length;

	for (i = 0; i < blocks; i++) {
		pos = (random ? (long)random_below(blocks) : i) * MIX_BLOCK;
		length = opt.size - pos < MIX_BLOCK ? opt.size - pos : MIX_BLOCK;
		if (in)
			read_file(in, length, pos);
		if (out)
			write_file(out, length, pos);
	}
}

/*
 * One job of the mix, on a new file of --size bytes, in blocks of 1 KiB:
 *
 *   1. create it, write it from begin to end, fsync, close
 *   2. open it again, read it from begin to end
 *   3. read as many blocks as it has at random places
 *   4. write as many blocks as it has at random places
 *   5. copy it to a second new file block by block, close both; no fsync
 *   6. unlink both
 *
 * reaim's clients all work in one directory; --shared does the same. In the
 * thread Dave Chinner takes the lock of that directory for the bottleneck.
 */
static void mix_run(long nr)
{
	struct file f, copy;

	open_new(name_file(&f, where(), -1, 2 * nr));
	mix_blocks(NULL, &f, false);
	sync_file(&f);
	close_file(&f);

	open_file(&f, O_RDWR);
	mix_blocks(&f, NULL, false);
	mix_blocks(&f, NULL, true);
	mix_blocks(NULL, &f, true);
	open_new(name_file(&copy, where(), -1, 2 * nr + 1));
	mix_blocks(&f, &copy, false);
	close_file(&copy);
	close_file(&f);

	unlink_file(&f);
	unlink_file(&copy);
}

/* The worker's files of the load dirs. */
static struct place {
	long dir, number;
} *places;
static long nr_places;

static void dirs_setup(void)
{
	struct file f;
	long i;

	for (i = 0; !me.id && i < opt.dirs; i++)
		make_dir(&me.shared, i);
	pthread_barrier_wait(barrier);
	places = calloc(2 * opt.files, sizeof(*places));
	if (!places)
		errx(1, "no memory");
	for (i = 0; i < opt.files; i++) {
		places[i] = (struct place){ random_below(opt.dirs), i };
		create_file(name_file(&f, &me.shared, places[i].dir, i));
	}
	nr_places = opt.files;
}

/*
 * Each operation is with equal chance one of: create a file in a random
 * directory; rename a random one of the worker's files to another random
 * directory; remove a random one. The number of files stays from half to one and
 * a half of --files: a removal below that is a creation instead, and vice versa.
 */
static void dirs_run(long nr)
{
	enum { CREATE, RENAME, REMOVE } kind = random_below(3);
	struct file f, to;
	struct place *p;

	if (kind == REMOVE && nr_places <= opt.files / 2)
		kind = CREATE;
	else if (kind == CREATE && nr_places >= opt.files + opt.files / 2)
		kind = REMOVE;

	if (kind == CREATE) {
		p = &places[nr_places++];
		*p = (struct place){ random_below(opt.dirs), opt.files + nr };
		create_file(name_file(&f, &me.shared, p->dir, p->number));
		return;
	}
	p = &places[random_below(nr_places)];
	name_file(&f, &me.shared, p->dir, p->number);
	if (kind == REMOVE) {
		unlink_file(&f);
		*p = places[--nr_places];
	} else {
		p->dir = (p->dir + 1 + random_below(opt.dirs - 1)) % opt.dirs;
		rename_file(&f, name_file(&to, &me.shared, p->dir, p->number));
	}
}

/* Allocate the empty file, in extents of equal length with holes between them. */
static void allocate_extents(const struct file *f)
{
	struct fiemap map = { .fm_length = FIEMAP_MAX_OFFSET, .fm_flags = FIEMAP_FLAG_SYNC };
	struct statvfs st;
	long i, block, length;

	if (fstatvfs(f->fd, &st))
		fail("statfs", f->dir, f->name);
	block = st.f_frsize;
	length = (opt.size / block - (opt.extents - 1)) / opt.extents;
	if (length < 1)
		errx(1, "%s: %ld extents need --size %ld at least", op->name, opt.extents,
		     (2 * opt.extents - 1) * block);
	if (fallocate(f->fd, 0, 0, opt.size))
		fail("fallocate", f->dir, f->name);
	for (i = 1; i < opt.extents; i++)
		if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      (i * (length + 1) - 1) * block, block))
			fail("punch hole", f->dir, f->name);
	sync_file(f);
	if (ioctl(f->fd, FS_IOC_FIEMAP, &map))
		fail("FIEMAP", f->dir, f->name);
	me.r.extents = map.fm_mapped_extents;
	if (map.fm_mapped_extents < opt.extents)
		errx(1, "%s: FIEMAP %s/%s: %u extents, not %ld", op->name, f->dir->path,
		     f->name, map.fm_mapped_extents, opt.extents);
}

static void bigunlink_before(void)
{
	clock_off();
	open_new(name_file(&me.file, &me.own, -1, 0));
	note_free_blocks();
	allocate_extents(&me.file);
	close_file(&me.file);
	pthread_barrier_wait(barrier);
	clock_on();
}

static void bigunlink_run(long nr)
{
	(void)nr;
	unlink_file(&me.file);
}

static void rmtree_setup(void)
{
	struct dir tree;
	struct file f;
	long i;

	note_free_blocks();
	make_dir(&me.own, 0);
	open_dir(&tree, &me.own, "d0");
	for (i = 0; i < opt.dirs; i++)
		make_dir(&tree, i);
	for (i = 0; i < opt.files; i++)
		create_file(name_file(&f, &tree, i % opt.dirs, i));
	close(tree.fd);
	free(tree.path);
}

/* Its operations are the unlinks in it. */
static void rmtree_run(long nr)
{
	(void)nr;
	remove_tree(&me.own, "d0");
}

/* The command line */

#define TIME	(BIT(MS) | BIT(COUNT))
#define ALL	(BIT(WORKERS) | BIT(DIRECTORY) | BIT(LATENCY) | BIT(SEED) | BIT(KEEP) | \
			 BIT(HOLD))

static const struct op ops[] = {
	{ "create", TIME | BIT(SIZE) | BIT(DIRECT) | BIT(SHARED), 0, 0,
	  NULL, NULL, create_run, NULL,
	  "create files [FxMark MWCL, --shared: MWCM]; --size bytes (0) are\n"
	  "written to each in one write" },
	{ "unlink", BIT(FILES) | BIT(SIZE) | BIT(SHARED), 0, 0,
	  unlink_setup, NULL, unlink_run, NULL,
	  "unlink --files files of --size bytes (0), made before [MWUL,\n"
	  "--shared: MWUM]; ends when all are gone" },
	{ "rename", TIME | BIT(SHARED), 0, 0,
	  rename_setup, NULL, rename_run, NULL,
	  "rename a file in the private directory and back [MWRL]; --shared:\n"
	  "to the shared directory and back [MWRM]; each is one operation" },
	{ "fsync", TIME | BIT(SIZE) | BIT(DIRECT) | BIT(FDATASYNC), 4096, 1,
	  fsync_setup, NULL, fsync_run, NULL,
	  "overwrite the first --size bytes (4096) of a private file, fsync it\n"
	  "[DWSL]" },
	{ "append", TIME | BIT(SIZE) | BIT(DIRECT), 4096, 1,
	  append_setup, append_before, append_run, NULL,
	  "append --size bytes (4096) to a private file [DWAL]; it is truncated\n"
	  "to 0, not timed, before it would be larger than 64 MiB" },
	{ "writes", TIME | BIT(SIZE) | BIT(FILES) | BIT(AREA) | BIT(HOLES) | BIT(FALLOCATED) |
		    BIT(APPEND) | BIT(SHARED) | BIT(DIRECT) | BIT(FDATASYNC), 16384, 1,
	  writes_setup, writes_before, writes_run, NULL,
	  "write --size bytes (16384) at a random place that the worker has not\n"
	  "written yet, fsync; in --files files of --area bytes, one after\n"
	  "another, which were written before, or only have --holes, or are\n"
	  "--fallocated, or empty for --append (O_APPEND, until they have\n"
	  "--area bytes); --shared: all workers write to the same files" },
	{ "mix", TIME | BIT(SIZE) | BIT(SHARED) | BIT(FDATASYNC), 10240, 1,
	  NULL, NULL, mix_run, NULL,
	  "jobs like those of reaim's disk load, each on a new file of --size\n"
	  "bytes (10240) in blocks of 1 KiB: write, fsync, read, random reads\n"
	  "and writes, copy to a second file, unlink both; reaim's are in one\n"
	  "directory (--shared)" },
	{ "dirs", TIME | BIT(SIZE) | BIT(FILES) | BIT(DIRS), 0, 0,
	  dirs_setup, NULL, dirs_run, NULL,
	  "create, rename to another directory, or remove a random file in\n"
	  "--dirs shared directories, like ffsb; each worker has about --files\n"
	  "files of --size bytes (0)" },
	{ "bigunlink", BIT(COUNT) | BIT(SIZE) | BIT(EXTENTS), 16 << 20, 1,
	  NULL, bigunlink_before, bigunlink_run, time_space_back,
	  "--count times (1): unlink a preallocated file of --size bytes (16\n"
	  "MiB) in at least --extents extents, and wait for its space; only the\n"
	  "unlink is timed; all workers do it together" },
	{ "rmtree", BIT(SIZE) | BIT(FILES) | BIT(DIRS), 4096, 0,
	  rmtree_setup, NULL, rmtree_run, time_space_back,
	  "remove like rm -r a tree of --files files of --size bytes (4096) in\n"
	  "--dirs directories, made before, and wait for its space; operations\n"
	  "and latencies are those of unlink, the time is that of all" },
};

/* One with a maximum of 0 takes no value. */
static const struct {
	const char *name;
	long *value, min, max;
	const char *help;
} opts[NR_OPTS] = {
	[WORKERS] = { "workers", &opt.workers, 1, MAX_WORKERS,
		      "processes (1), each with a directory DIR/fsload.N of its own" },
	[DIRECTORY] = { "dir", NULL, 0, 1, "an existing directory without fsload.*; needed" },
	[MS] = { "ms", &opt.ms, 1, INT_MAX, "milliseconds to run (500)" },
	[COUNT] = { "count", &opt.count, 1, INT_MAX, "operations of each worker, not --ms" },
	[SIZE] = { "size", &opt.size, 0, 1L << 50, "bytes, see above" },
	[FILES] = { "files", &opt.files, 1, INT_MAX, "files of each worker (1000; writes: 1)" },
	[DIRS] = { "dirs", &opt.dirs, 1, INT_MAX,
		   "directories; dirs: of all, rmtree: of each worker (100)" },
	[EXTENTS] = { "extents", &opt.extents, 1, INT_MAX, "see above (1)" },
	[AREA] = { "area", &opt.area, 1, 1L << 50, "bytes of each file (1 MiB)" },
	[HOLES] = { "holes", &opt.holes, 0, 0, "see above" },
	[FALLOCATED] = { "fallocated", &opt.fallocated, 0, 0, "see above" },
	[APPEND] = { "append", &opt.append, 0, 0, "see above" },
	[DIRECT] = { "direct", &opt.direct, 0, 0, "write with O_DIRECT" },
	[SHARED] = { "shared", &opt.shared, 0, 0, "work in DIR/fsload.shared" },
	[FDATASYNC] = { "fdatasync", &opt.fdatasync, 0, 0, "fdatasync, not fsync" },
	[LATENCY] = { "latency", &opt.latency, 0, 0,
		      "time each operation; bigunlink and rmtree always do" },
	[SEED] = { "seed", &opt.seed, 0, INT_MAX, "of the random numbers (1)" },
	[KEEP] = { "keep", &opt.keep, 0, 0, "do not remove the files at the end" },
	[HOLD] = { "hold", &opt.hold, 0, 0,
		   "print \"ready\" when set up; wait for a line of input before the\n"
		   "                    operations, and for one before files are removed" },
	[HELP] = { "help", NULL, 0, 0, "print this text" },
};

#define NR_OPERATIONS	(sizeof(ops) / sizeof(ops[0]))

static void usage(void)
{
	const char *p;
	size_t i;

	printf("Usage: fsload OP --dir DIR [options]\n\n"
	       "Run filesystem operations from many processes; print one line of JSON.\n"
	       "In parentheses: defaults.\n\n");
	for (i = 0; i < NR_OPERATIONS; i++) {
		printf("  %-11s", ops[i].name);
		for (p = ops[i].help; *p; p++)
			printf(*p == '\n' ? "%c%13s" : "%c", *p, "");
		printf("\n");
	}
	printf("\n");
	for (i = 0; i < NR_OPTS; i++)
		printf("  --%-10s %-3s  %s\n", opts[i].name,
		       i == DIRECTORY ? "DIR" : opts[i].max ? "N" : "", opts[i].help);
	printf("\nThe JSON: op, workers, seed; ops and ns: operations and measured time of each\n"
	       "worker; wall_ns: from the first begin of a worker to the last end, less the\n"
	       "longest time that a worker did what is not timed, but not less than ns is;\n"
	       "latency_ns: p50, p90,\n"
	       "p99 (from above, within 1/64), max, n;\n"
	       "space_back_ns: from the begin of unlink or rmtree until statfs shows as many\n"
	       "blocks free as before, for each operation, worker by worker, asked about\n"
	       "every millisecond for at most %d s; extents: bigunlink's, of each worker's\n"
	       "last file. After an error: a message, exit status 1, no JSON.\n", SPACE_TIMEOUT_S);
}

static void parse_number(int c, const char *text)
{
	char *end;

	errno = 0;
	*opts[c].value = strtol(text, &end, 10);
	if (errno || end == text || *end ||
	    *opts[c].value < opts[c].min || *opts[c].value > opts[c].max)
		errx(1, "--%s: '%s' is not a number from %ld to %ld", opts[c].name, text,
		     opts[c].min, opts[c].max);
}

/* Check the options together, and set defaults. */
static void check_options(unsigned int given)
{
	unsigned int i;

	for (i = 0; i < NR_OPTS; i++)
		if (given & BIT(i) & ~(op->takes | ALL))
			errx(1, "%s does not take --%s", op->name, opts[i].name);
	if (!opt.dir)
		errx(1, "--dir is needed");
	if (opt.ms && opt.count)
		errx(1, "--ms and --count exclude each other");
	if (op->takes & BIT(MS) && !opt.count && !opt.ms)
		opt.ms = 500;
	if (op->run == unlink_run)
		opt.count = opt.files;
	if (op->run == rmtree_run || (op->run == bigunlink_run && !opt.count))
		opt.count = 1;
	if (op->after == time_space_back) {
		opt.spaces = opt.count;
		opt.latency = 1;
	}
	if (!(given & BIT(SIZE)))
		opt.size = op->size;
	if (opt.size < op->min_size)
		errx(1, "%s needs --size %ld at least", op->name, op->min_size);
	if (opt.direct && !opt.size)
		errx(1, "--direct needs --size");
	if (op->run == append_run && opt.size > APPEND_LIMIT)
		errx(1, "append takes --size %ld at most", APPEND_LIMIT);
	if (op->run == writes_run) {
		if (opt.holes + opt.fallocated + opt.append > 1)
			errx(1, "--holes, --fallocated and --append exclude each other");
		if (opt.area < opt.size * (opt.shared ? opt.workers : 1))
			errx(1, "--area is too small: each worker needs --size %ld of it",
			     opt.size);
		if (!(given & BIT(FILES)))
			opt.files = 1;
	}
	if (op->run == dirs_run && (opt.dirs < 2 || opt.files < 2))
		errx(1, "dirs needs --dirs 2 and --files 2 at least");
}

static void options(int argc, char **argv)
{
	struct option longopts[NR_OPTS + 1] = { { NULL, 0, NULL, 0 } };
	unsigned int given = 0;
	size_t i;
	int c;

	for (i = 0; i < NR_OPTS; i++)
		longopts[i] = (struct option){ opts[i].name, !!opts[i].max, NULL, i };
	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		if (c == HELP) {
			usage();
			exit(0);
		} else if (c == '?') {
			exit(1);
		} else if (c == DIRECTORY) {
			opt.dir = optarg;
		} else if (optarg) {
			parse_number(c, optarg);
		} else {
			*opts[c].value = 1;
		}
		given |= BIT(c);
	}
	if (optind == argc)
		errx(1, "no operation given, see --help");
	for (i = 0; i < NR_OPERATIONS; i++)
		if (!strcmp(ops[i].name, argv[optind]))
			op = &ops[i];
	if (!op)
		errx(1, "'%s' is not an operation, see --help", argv[optind]);
	if (optind + 1 < argc)
		errx(1, "'%s' is not an option, see --help", argv[optind + 1]);
	check_options(given);
}

/* Directories and processes */

static const char *dir_name(long nr)
{
	static char name[64];

	if (nr == opt.workers)
		return "fsload.shared";
	snprintf(name, sizeof(name), "fsload.%ld", nr);
	return name;
}

static void remove_dirs(long n)
{
	while (n--)
		remove_tree(&base, dir_name(n));
}

static void make_dirs(void)
{
	long i;

	base.path = (char *)opt.dir;
	base.fd = open(opt.dir, O_RDONLY | O_DIRECTORY);
	if (base.fd < 0)
		err(1, "%s: --dir %s", op->name, opt.dir);
	for (i = 0; i <= opt.workers; i++) {
		if (mkdirat(base.fd, dir_name(i), 0700)) {
			warn("%s: mkdir %s/%s", op->name, opt.dir, dir_name(i));
			remove_dirs(i);
			exit(1);
		}
	}
}

static void make_shared(void)
{
	size_t size = 2 * sizeof(*barrier) + opt.workers * (sizeof(*results) +
							    opt.spaces * sizeof(*space_back));
	pthread_barrierattr_t attr;

	results = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (results == MAP_FAILED)
		err(1, "mmap");
	space_back = (uint64_t *)(results + opt.workers);
	barrier = (pthread_barrier_t *)(space_back + opt.workers * opt.spaces);
	start = barrier + 1;
	if (pthread_barrierattr_init(&attr) ||
	    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) ||
	    pthread_barrier_init(barrier, &attr, opt.workers) ||
	    pthread_barrier_init(start, &attr, opt.workers + opt.hold))
		errx(1, "cannot make a barrier");
}

static void timer_expired(int signal)
{
	(void)signal;
	stop = 1;
}

static void run_op(void)
{
	long nr;

	me.r.begin = now();
	clock_on();
	for (nr = 0; !stop && (!opt.count || nr < opt.count); nr++) {
		if (op->before)
			op->before();
		me.begin = op_begin();
		op->run(nr);
		if (op->run != rmtree_run)
			op_done(me.begin);
		if (op->after)
			op->after();
	}
	clock_off();
	me.r.end = now();
}

static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n')
		if (c == EOF)
			errx(1, "%s: --hold: no more input", op->name);
}

/* A process that holds the workers, so that main() sees when one of them fails. */
static void hold(void)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		err(1, "%s: prctl", op->name);
	pthread_barrier_wait(start);
	printf("ready\n");
	if (fflush(stdout))
		err(1, "standard output");
	wait_for_line();
	pthread_barrier_wait(start);
}

static void work(long id)
{
	const struct sigaction sa = { .sa_handler = timer_expired, .sa_flags = SA_RESTART };
	const struct itimerval it = { .it_value = { opt.ms / 1000, opt.ms % 1000 * 1000 } };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || sigaction(SIGALRM, &sa, NULL))
		err(1, "%s: start of worker %ld", op->name, id);
	me.id = id;
	me.random = opt.seed + ((uint64_t)id << 32);
	open_dir(&me.own, &base, dir_name(id));
	open_dir(&me.shared, &base, dir_name(opt.workers));
	if (op->run != bigunlink_run) {
		if (posix_memalign((void **)&me.buf, ALIGNMENT, opt.size + 1))
			errx(1, "no memory");
		memset(me.buf, 0xcc, opt.size);
	}
	if (op->setup)
		op->setup();
	if (syncfs(me.own.fd))
		fail("syncfs", &me.own, ".");

	pthread_barrier_wait(start);
	if (opt.hold)
		pthread_barrier_wait(start);
	if (setitimer(ITIMER_REAL, &it, NULL))
		err(1, "%s: timer", op->name);
	run_op();
	results[id] = me.r;
}

/* The first worker that fails ends all. */
static bool run_workers(void)
{
	static pid_t pids[MAX_WORKERS + 1];
	long started, left, i;
	bool failed = false;
	int status;
	pid_t pid;

	/* Standard input unbuffered: what the one process reads is not lost to the other. */
	setvbuf(stdin, NULL, _IONBF, 0);
	for (started = 0; started < opt.workers + opt.hold; started++) {
		pids[started] = fork();
		if (!pids[started]) {
			if (started == opt.workers)
				hold();
			else
				work(started);
			exit(0);
		}
		if (pids[started] < 0) {
			warn("%s: fork of worker %ld", op->name, started);
			failed = true;
			break;
		}
	}
	for (left = started; left; left--) {
		for (i = 0; failed && i < started; i++)
			if (pids[i])
				kill(pids[i], SIGKILL);
		pid = wait(&status);
		for (i = 0; i < started; i++)
			if (pids[i] == pid)
				pids[i] = 0;
		if (WIFSIGNALED(status) && !failed)
			warnx("%s: a worker was killed by signal %d", op->name, WTERMSIG(status));
		failed |= status != 0;
	}
	return !failed;
}

/* The result */

static void print_array(const char *name, const uint64_t *values, size_t stride, long n)
{
	long i;

	printf(", \"%s\": [", name);
	for (i = 0; i < n; i++)
		printf("%s%" PRIu64, i ? ", " : "", values[i * stride / sizeof(*values)]);
	printf("]");
}

static void print_latency(void)
{
	static struct result sum;
	long i, b;

	for (i = 0; i < opt.workers; i++) {
		sum.ops += results[i].ops;
		if (results[i].max > sum.max)
			sum.max = results[i].max;
		for (b = 0; b < NR_BUCKETS; b++)
			sum.buckets[b] += results[i].buckets[b];
	}
	printf(", \"latency_ns\": {\"p50\": %" PRIu64 ", \"p90\": %" PRIu64 ", \"p99\": %" PRIu64
	       ", \"max\": %" PRIu64 ", \"n\": %" PRIu64 "}", percentile(&sum, 50),
	       percentile(&sum, 90), percentile(&sum, 99), sum.max, sum.ops);
}

/* Pauses may not overlap: it is not less than what any worker took. */
static uint64_t wall_ns(void)
{
	uint64_t begin = UINT64_MAX, end = 0, paused = 0, longest = 0;
	long i;

	for (i = 0; i < opt.workers; i++) {
		const struct result *r = &results[i];

		if (r->begin < begin)
			begin = r->begin;
		if (r->end > end)
			end = r->end;
		if (r->end - r->begin - r->ns > paused)
			paused = r->end - r->begin - r->ns;
		if (r->ns > longest)
			longest = r->ns;
	}
	return end - begin - paused > longest ? end - begin - paused : longest;
}

static void report(void)
{
	printf("{\"op\": \"%s\", \"workers\": %ld, \"seed\": %ld", op->name, opt.workers, opt.seed);
	print_array("ops", &results->ops, sizeof(*results), opt.workers);
	print_array("ns", &results->ns, sizeof(*results), opt.workers);
	printf(", \"wall_ns\": %" PRIu64, wall_ns());
	if (op->run == bigunlink_run)
		print_array("extents", &results->extents, sizeof(*results), opt.workers);
	if (opt.latency)
		print_latency();
	if (opt.spaces)
		print_array("space_back_ns", space_back, sizeof(*space_back),
			    opt.workers * opt.spaces);
	printf("}\n");
	if (fflush(stdout))
		err(1, "standard output");
}

int main(int argc, char **argv)
{
	bool ok;

	/* A message is one write, so that those of workers do not mix. */
	setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
	options(argc, argv);
	make_shared();
	make_dirs();
	ok = run_workers();
	if (ok && opt.hold) {
		report();
		wait_for_line();
	}
	if (!opt.keep)
		remove_dirs(opt.workers + 1);
	if (!ok)
		return 1;
	if (!opt.hold)
		report();
	return 0;
}
