// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for jbd2, on a real journal
 *
 * Each test gets a memory-backed disk of its own. The journal takes the first
 * TEST_JOURNAL_BLOCKS blocks of the disk, the "filesystem" is the rest. The
 * disk completes every bio before submit_bio() returns, so a copy of its
 * memory is what a power cut at that moment leaves. It can be told to fail
 * requests.
 */

#include <kunit/interrupts.h>
#include <kunit/test.h>
#include <linux/blkdev.h>
#include <linux/buffer_head.h>
#include <linux/completion.h>
#include <linux/jbd2.h>
#include <linux/kthread.h>
#include <linux/pagemap.h>
#include <linux/prandom.h>
#include <linux/sched/task.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "batch.h"

#define TEST_BLOCKSIZE		1024
#define TEST_JOURNAL_BLOCKS	JBD2_MIN_JOURNAL_BLOCKS
#define TEST_FS_START		TEST_JOURNAL_BLOCKS
#define TEST_FS_BLOCKS		512
#define TEST_DISK_BLOCKS	(TEST_FS_START + TEST_FS_BLOCKS)
#define TEST_DISK_BYTES		(TEST_DISK_BLOCKS * TEST_BLOCKSIZE)
#define TEST_WAITERS		6
/* Size of a tag without any of the 64bit and checksum features */
#define TEST_TAG_BYTES		8
/* A descriptor block also holds a header, one UUID and slack at the end */
#define TEST_TAGS_PER_BLOCK \
	((TEST_BLOCKSIZE - sizeof(journal_header_t) - 16 - 16) / TEST_TAG_BYTES)

struct test_disk {
	struct gendisk		*disk;
	struct file		*file;
	struct block_device	*bdev;
	u8			*mem;
	bool			fail_writes;
	bool			fail_flushes;
};

static void test_disk_submit_bio(struct bio *bio)
{
	struct test_disk *td = bio->bi_bdev->bd_disk->private_data;
	loff_t pos = (loff_t)bio->bi_iter.bi_sector << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;

	if (op_is_write(bio_op(bio)) && READ_ONCE(td->fail_writes)) {
		bio_io_error(bio);
		return;
	}
	if ((bio->bi_opf & REQ_PREFLUSH) && READ_ONCE(td->fail_flushes)) {
		bio_io_error(bio);
		return;
	}
	bio_for_each_segment(bv, bio, iter) {
		if (op_is_write(bio_op(bio)))
			memcpy_from_bvec(td->mem + pos, &bv);
		else
			memcpy_to_bvec(&bv, td->mem + pos);
		pos += bv.bv_len;
	}
	bio_endio(bio);
}

static const struct block_device_operations test_disk_fops = {
	.owner		= THIS_MODULE,
	.submit_bio	= test_disk_submit_bio,
};

static void test_disk_destroy(void *data)
{
	struct test_disk *td = data;

	if (!IS_ERR_OR_NULL(td->file))
		bdev_fput(td->file);
	if (!IS_ERR_OR_NULL(td->disk)) {
		if (disk_live(td->disk))
			del_gendisk(td->disk);
		put_disk(td->disk);
	}
	vfree(td->mem);
}

static struct test_disk *test_disk_create(struct kunit *test, const char *name)
{
	struct queue_limits lim = {
		.features = BLK_FEAT_SYNCHRONOUS | BLK_FEAT_WRITE_CACHE |
			    BLK_FEAT_FUA,
	};
	struct test_disk *td;

	td = kunit_kzalloc(test, sizeof(*td), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, td);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action(test, test_disk_destroy, td));
	td->mem = vzalloc(TEST_DISK_BYTES);
	KUNIT_ASSERT_NOT_NULL(test, td->mem);
	td->disk = blk_alloc_disk(&lim, NUMA_NO_NODE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, td->disk);
	td->disk->fops = &test_disk_fops;
	td->disk->private_data = td;
	td->disk->flags |= GENHD_FL_NO_PART;
	strscpy(td->disk->disk_name, name, DISK_NAME_LEN);
	set_capacity(td->disk, TEST_DISK_BYTES >> SECTOR_SHIFT);
	KUNIT_ASSERT_EQ(test, 0, add_disk(td->disk));
	td->file = bdev_file_open_by_dev(disk_devt(td->disk),
					 BLK_OPEN_READ | BLK_OPEN_WRITE,
					 td, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, td->file);
	td->bdev = file_bdev(td->file);
	KUNIT_ASSERT_EQ(test, 0, set_blocksize(td->file, TEST_BLOCKSIZE));
	return td;
}

/* Write an empty external journal, as mke2fs does. */
static void test_mkjournal(struct test_disk *td)
{
	journal_superblock_t *sb = (journal_superblock_t *)td->mem;

	sb->s_header.h_magic = cpu_to_be32(JBD2_MAGIC_NUMBER);
	sb->s_header.h_blocktype = cpu_to_be32(JBD2_SUPERBLOCK_V2);
	sb->s_blocksize = cpu_to_be32(TEST_BLOCKSIZE);
	sb->s_maxlen = cpu_to_be32(TEST_JOURNAL_BLOCKS);
	sb->s_first = cpu_to_be32(1);
	sb->s_sequence = cpu_to_be32(1);
	sb->s_nr_users = cpu_to_be32(1);
}

static journal_t *test_journal_open(struct kunit *test, struct test_disk *td)
{
	journal_t *journal;

	journal = jbd2_journal_init_dev(td->bdev, td->bdev, 0,
					TEST_JOURNAL_BLOCKS, TEST_BLOCKSIZE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, journal);
	if (jbd2_journal_load(journal)) {
		jbd2_journal_destroy(journal);
		KUNIT_FAIL_AND_ABORT(test, "journal does not load");
	}
	/* Commit only when the test asks for it. */
	journal->j_commit_interval = 3600 * HZ;
	journal->j_max_batch_time = 0;
	return journal;
}

/* State of the j_bmap callbacks that see the log blocks of a commit. */
struct test_bmap {
	unsigned int	calls;
	unsigned int	fail_at;	/* this call fails; 0: none does */
	unsigned int	jumps;		/* blocks that do not follow the last */
	unsigned int	changes;	/* of the space left for new handles */
	sector_t	last;
	unsigned long	left;
};

struct test_env {
	struct test_disk	*td;
	journal_t		*journal;
	struct test_bmap	bmap;
	void			*token;		/* see test_next_bmap() */
};

/* The journal must be gone before the disk is. */
static void test_env_destroy(void *data)
{
	struct test_env *env = data;

	if (env->journal)
		jbd2_journal_destroy(env->journal);
	env->journal = NULL;
}

static int journal_test_init(struct kunit *test)
{
	struct test_env *env;

	env = kunit_kzalloc(test, sizeof(*env), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, env);
	env->td = test_disk_create(test, "jbd2test0");
	test_mkjournal(env->td);
	env->journal = test_journal_open(test, env->td);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action(test, test_env_destroy, env));
	test->priv = env;
	return 0;
}

/*
 * Journal block @nr of the filesystem area with every byte set to @fill; @new
 * if the filesystem has just allocated it.
 */
static int __test_write_block(journal_t *journal, handle_t *handle,
			      unsigned int nr, u8 fill, bool new)
{
	struct buffer_head *bh;
	int err;

	bh = __bread(journal->j_fs_dev, TEST_FS_START + nr, TEST_BLOCKSIZE);
	if (!bh)
		return -EIO;
	if (new) {
		lock_buffer(bh);
		err = jbd2_journal_get_create_access(handle, bh);
		unlock_buffer(bh);
	} else {
		err = jbd2_journal_get_write_access(handle, bh);
	}
	if (!err) {
		memset(bh->b_data, fill, TEST_BLOCKSIZE);
		err = jbd2_journal_dirty_metadata(handle, bh);
	}
	brelse(bh);
	return err;
}

static int test_write_block(journal_t *journal, handle_t *handle,
			    unsigned int nr, u8 fill)
{
	return __test_write_block(journal, handle, nr, fill, false);
}

/* One handle that journals blocks [@first, @first + @n) and is stopped. */
static void test_write_range(struct kunit *test, unsigned int first,
			     unsigned int n, u8 fill)
{
	struct test_env *env = test->priv;
	handle_t *handle;
	unsigned int i;
	int err = 0;

	handle = jbd2_journal_start(env->journal, n);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	for (i = 0; i < n && !err; i++)
		err = test_write_block(env->journal, handle, first + i, fill);
	KUNIT_EXPECT_EQ(test, 0, err);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
}

/*
 * Cut the power: copy the disk as it is, recover the copy's journal there and
 * compare the filesystem area with @want, one fill byte per block.
 */
static void test_power_cut(struct kunit *test, const u8 *want)
{
	struct test_env *env = test->priv;
	struct test_disk *after;
	journal_t *journal;
	unsigned int i, wrong = 0;

	after = test_disk_create(test, "jbd2test1");
	memcpy(after->mem, env->td->mem, TEST_DISK_BYTES);
	journal = test_journal_open(test, after);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_destroy(journal));
	for (i = 0; i < TEST_FS_BLOCKS; i++) {
		const u8 *block = after->mem +
				  (TEST_FS_START + i) * TEST_BLOCKSIZE;

		if (block[0] == want[i] &&
		    !memcmp(block, block + 1, TEST_BLOCKSIZE - 1))
			continue;
		kunit_info(test, "block %u: want %#x, have %#x .. %#x\n", i,
			   want[i], block[0], block[TEST_BLOCKSIZE - 1]);
		wrong++;
	}
	KUNIT_EXPECT_EQ(test, 0, wrong);
	kunit_release_action(test, test_disk_destroy, after);
}

/* Credits of the running transaction that are in per-CPU pools. */
static int test_pooled(journal_t *journal)
{
	unsigned int cpu;
	int sum = 0;

	percpu_gate_for_each_used(cpu, &journal->j_gate)
		sum += atomic_read(jbd2_pool(percpu_gate_slot(&journal->j_gate,
							      cpu)));
	return sum;
}

/* Credits promised to handles, for blocks and as reserved; not pooled ones. */
static int test_charged(journal_t *journal)
{
	transaction_t *t = journal->j_running_transaction;

	return atomic_read(&t->t_outstanding_credits) -
	       test_pooled(journal);
}

/* A stopped handle gives back unused credits; nested handles charge none. */
static void test_handle_accounting(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	handle_t *handle, *nested;
	transaction_t *t;
	int before;

	test_write_range(test, 0, 1, 1);
	t = journal->j_running_transaction;
	KUNIT_ASSERT_NOT_NULL(test, t);
	before = test_charged(journal);

	handle = jbd2_journal_start(journal, 10);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	nested = jbd2_journal_start(journal, 99);
	KUNIT_EXPECT_PTR_EQ(test, handle, nested);
	KUNIT_EXPECT_EQ(test, before + 10, test_charged(journal));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_extend(handle, 5, 0));
	KUNIT_EXPECT_EQ(test, before + 15, test_charged(journal));
	KUNIT_EXPECT_EQ(test, 0, test_write_block(journal, handle, 1, 1));
	KUNIT_EXPECT_EQ(test, 0, test_write_block(journal, handle, 1, 2));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(nested));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	/* One new block stays charged, however often it was written. */
	KUNIT_EXPECT_EQ(test, before + 1, test_charged(journal));
	KUNIT_EXPECT_EQ(test, 2, t->t_nr_buffers);
	KUNIT_EXPECT_PTR_EQ(test, NULL, journal_current_handle());
}

/* A commit uses a log block per buffer, its descriptors and a commit block. */
static void test_commit_blocks(struct kunit *test)
{
	static const unsigned int sizes[] = {
		1, 2, 100, 121, 122, 123, 250, 300
	};
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	unsigned long tags = TEST_TAGS_PER_BLOCK;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		unsigned long log = journal->j_last - journal->j_first;
		unsigned long used, min, max;
		unsigned long head;

		KUNIT_ASSERT_EQ(test, 0, jbd2_journal_flush(journal, 0));
		KUNIT_ASSERT_EQ(test, log, journal->j_free);
		head = journal->j_head;
		test_write_range(test, 0, sizes[i], i);
		KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));

		used = log - journal->j_free;
		/* Allow for descriptors that hold up to two more tags. */
		min = sizes[i] + DIV_ROUND_UP(sizes[i], tags + 2) + 1;
		max = sizes[i] + DIV_ROUND_UP(sizes[i], tags) + 1;
		KUNIT_EXPECT_GE(test, used, min);
		KUNIT_EXPECT_LE(test, used, max);
		KUNIT_EXPECT_EQ(test, used,
				(journal->j_head + log - head) % log);
		KUNIT_EXPECT_EQ(test, journal->j_commit_sequence,
				journal->j_transaction_sequence - 1);
	}
}

static int test_bmap(journal_t *journal, sector_t *block)
{
	struct test_bmap *bmap = journal->j_private;
	sector_t next = bmap->last + 1;
	unsigned long left;

	read_lock(&journal->j_state_lock);
	left = jbd2_log_space_left(journal);
	read_unlock(&journal->j_state_lock);

	if (next == journal->j_last)
		next = journal->j_first;
	if (bmap->calls++) {
		bmap->jumps += *block != next;
		bmap->changes += left != bmap->left;
	}
	bmap->last = *block;
	bmap->left = left;
	return bmap->calls == bmap->fail_at ? -EIO : 0;
}

/*
 * A commit takes consecutive log blocks and meanwhile does not change
 * jbd2_log_space_left(). If it fails half way, no block is leaked.
 */
static void test_log_blocks(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	unsigned long head, log = journal->j_last - journal->j_first;
	struct test_bmap *bmap = &env->bmap;

	journal->j_private = bmap;
	journal->j_bmap = test_bmap;
	head = journal->j_head;
	test_write_range(test, 0, 250, 1);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_GT(test, bmap->calls, 250);
	KUNIT_EXPECT_EQ(test, 0, bmap->jumps);
	KUNIT_EXPECT_EQ(test, 0, bmap->changes);
	KUNIT_EXPECT_EQ(test, bmap->calls, log - journal->j_free);
	KUNIT_EXPECT_EQ(test, bmap->calls,
			(journal->j_head + log - head) % log);

	bmap->fail_at = bmap->calls + 50;
	test_write_range(test, 0, 100, 2);
	KUNIT_EXPECT_EQ(test, -EIO, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_EQ(test, bmap->fail_at, bmap->calls);
	KUNIT_EXPECT_EQ(test, 0, bmap->jumps);
	KUNIT_EXPECT_EQ(test, bmap->calls, log - journal->j_free);
	KUNIT_EXPECT_EQ(test, bmap->calls,
			(journal->j_head + log - head) % log);
	KUNIT_EXPECT_EQ(test, -EIO, jbd2_journal_destroy(journal));
	env->journal = NULL;
}

/* Commits wrap around the smallest log, with a power cut now and then. */
static void test_wrap_and_recover(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	u8 *want = kunit_kzalloc(test, TEST_FS_BLOCKS, GFP_KERNEL);
	struct rnd_state rnd;
	unsigned int i, wraps = 0;
	unsigned long head;

	KUNIT_ASSERT_NOT_NULL(test, want);
	prandom_seed_state(&rnd, 7303);
	for (i = 0; i < 150; i++) {
		unsigned int n = 1 + prandom_u32_state(&rnd) % 40;
		unsigned int first = prandom_u32_state(&rnd) %
				     (TEST_FS_BLOCKS - n);

		head = journal->j_head;
		test_write_range(test, first, n, i);
		memset(want + first, i, n);
		KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
		if (journal->j_head < head)
			wraps++;
		if (i % 37 == 0)
			test_power_cut(test, want);
	}
	KUNIT_EXPECT_GE(test, wraps, 2);
	test_power_cut(test, want);
}

/* The log tail stops at, and only at, blocks that are not yet in place. */
static void test_log_tail(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	u8 *want = kunit_kzalloc(test, TEST_FS_BLOCKS, GFP_KERNEL);
	tid_t tail = journal->j_tail_sequence;
	unsigned long free = journal->j_free;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, want);
	/* Use more log space than a commit must free to move the tail. */
	for (i = 0;
	     free - journal->j_free <= journal->j_max_transaction_buffers;
	     i++) {
		KUNIT_ASSERT_LT(test, i, 45);
		test_write_range(test, i * 10, 10, i + 1);
		memset(want + i * 10, i + 1, 10);
		KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	}
	/* This commit would move the tail if blocks were in place. */
	test_write_range(test, 0, 10, 0x66);
	memset(want, 0x66, 10);
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_EQ(test, tail, journal->j_tail_sequence);
	test_power_cut(test, want);

	/*
	 * With all blocks written in place, only the next commit is needed.
	 * Scanning the checkpoint list stops early if another task wants the
	 * CPU, so repeat it until the list is empty.
	 */
	KUNIT_ASSERT_EQ(test, 0, sync_blockdev(env->td->bdev));
	for (i = 0; READ_ONCE(journal->j_checkpoint_transactions); i++) {
		unsigned long nr = TEST_FS_BLOCKS;

		KUNIT_ASSERT_LT(test, i, 1000);
		jbd2_journal_shrink_checkpoint_list(journal, &nr);
		schedule_timeout_uninterruptible(1);
	}
	test_write_range(test, TEST_FS_BLOCKS - 3, 3, 0x77);
	memset(want + TEST_FS_BLOCKS - 3, 0x77, 3);
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_EQ(test, journal->j_commit_sequence,
			journal->j_tail_sequence);
	test_power_cut(test, want);
}

/* Completes a write without the buffer lock, as ext4 does for file data. */
struct test_writeback {
	struct delayed_work	work;
	struct buffer_head	*bh;
	u8			*place;
	bool			ended;
};

static void test_writeback_end(struct work_struct *work)
{
	struct test_writeback *wb = container_of(to_delayed_work(work),
						 struct test_writeback, work);

	memcpy(wb->place, wb->bh->b_data, TEST_BLOCKSIZE);
	WRITE_ONCE(wb->ended, true);
	clear_buffer_async_write(wb->bh);
	folio_end_writeback(wb->bh->b_folio);
}

/* A buffer under writeback is still needed in the log, though it is clean. */
static void test_under_writeback(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	u8 *want = kunit_kzalloc(test, TEST_FS_BLOCKS, GFP_KERNEL);
	struct test_writeback *wb =
		kunit_kzalloc(test, sizeof(*wb), GFP_KERNEL);
	unsigned long nr = TEST_FS_BLOCKS;
	struct folio *folio;

	KUNIT_ASSERT_NOT_NULL(test, want);
	KUNIT_ASSERT_NOT_NULL(test, wb);
	INIT_DELAYED_WORK(&wb->work, test_writeback_end);
	wb->place = env->td->mem + TEST_FS_START * TEST_BLOCKSIZE;
	test_write_range(test, 0, 1, 0x55);
	want[0] = 0x55;
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));

	wb->bh = __find_get_block(journal->j_fs_dev, TEST_FS_START,
				  TEST_BLOCKSIZE);
	KUNIT_ASSERT_NOT_NULL(test, wb->bh);
	folio = wb->bh->b_folio;
	folio_lock(folio);
	KUNIT_EXPECT_TRUE(test, folio_clear_dirty_for_io(folio));
	set_buffer_async_write(wb->bh);
	folio_start_writeback(folio);
	clear_buffer_dirty(wb->bh);
	folio_unlock(folio);

	jbd2_journal_shrink_checkpoint_list(journal, &nr);
	KUNIT_EXPECT_NOT_NULL(test, journal->j_checkpoint_transactions);
	test_power_cut(test, want);

	/* The log must not become empty before the write has ended. */
	schedule_delayed_work(&wb->work, HZ / 10);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_flush(journal, 0));
	KUNIT_EXPECT_TRUE(test, READ_ONCE(wb->ended));
	flush_delayed_work(&wb->work);
	brelse(wb->bh);
	test_power_cut(test, want);
}

/* Commit blocks with cache flushes enabled; returns the expected contents. */
static u8 *test_commit_with_barriers(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	u8 *want = kunit_kzalloc(test, TEST_FS_BLOCKS, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, want);
	write_lock(&journal->j_state_lock);
	journal->j_flags |= JBD2_BARRIER;
	write_unlock(&journal->j_state_lock);
	test_write_range(test, 0, 5, 0x55);
	memset(want, 0x55, 5);
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	return want;
}

/* Cut the power and lose the disk cache, which holds the blocks in place. */
static void test_cache_is_lost(struct kunit *test, const u8 *want)
{
	struct test_env *env = test->priv;

	WRITE_ONCE(env->td->fail_flushes, false);
	memset(env->td->mem + TEST_FS_START * TEST_BLOCKSIZE, 0,
	       5 * TEST_BLOCKSIZE);
	test_power_cut(test, want);
}

/* Blocks stay in the log if the flush after writing them in place fails. */
static void test_flush_error(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	u8 *want = test_commit_with_barriers(test);

	WRITE_ONCE(env->td->fail_flushes, true);
	KUNIT_EXPECT_EQ(test, -EIO, jbd2_journal_flush(journal, 0));
	KUNIT_EXPECT_TRUE(test, is_journal_aborted(journal));
	test_cache_is_lost(test, want);
}

/* The same in jbd2_journal_destroy(), with nothing left to write. */
static void test_flush_error_at_end(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	u8 *want = test_commit_with_barriers(test);
	unsigned long nr = TEST_FS_BLOCKS;

	KUNIT_ASSERT_EQ(test, 0, sync_blockdev(env->td->bdev));
	jbd2_journal_shrink_checkpoint_list(journal, &nr);
	KUNIT_ASSERT_NULL(test, journal->j_checkpoint_transactions);
	WRITE_ONCE(env->td->fail_flushes, true);
	env->journal = NULL;
	KUNIT_EXPECT_EQ(test, -EIO, jbd2_journal_destroy(journal));
	test_cache_is_lost(test, want);
}

/* Uncommitted changes must not be there after a power cut. */
static void test_uncommitted_is_lost(struct kunit *test)
{
	struct test_env *env = test->priv;
	u8 *want = kunit_kzalloc(test, TEST_FS_BLOCKS, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, want);
	test_write_range(test, 3, 10, 0x11);
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(env->journal));
	memset(want + 3, 0x11, 10);
	test_write_range(test, 3, 10, 0x22);
	test_power_cut(test, want);
}

#define TEST_FC_BLOCKS	4

/* Offset of the next fast commit block to replay; each pass starts at 0. */
static unsigned int test_fc_next;

static int test_fc_replay(journal_t *journal, struct buffer_head *bh,
			  enum passtype pass, int off, tid_t expected_tid)
{
	if (!off)
		test_fc_next = 0;
	return off == test_fc_next++ ? JBD2_FC_REPLAY_CONTINUE : -EFSCORRUPTED;
}

/* Fast commits that fill their area are replayed up to its last block. */
static void test_fc_replay_full(struct kunit *test)
{
	struct test_disk *td = test_disk_create(test, "jbd2test1");
	journal_superblock_t *sb = (journal_superblock_t *)td->mem;
	journal_t *journal;

	test_mkjournal(td);
	sb->s_maxlen = cpu_to_be32(TEST_JOURNAL_BLOCKS + TEST_FC_BLOCKS);
	sb->s_num_fc_blks = cpu_to_be32(TEST_FC_BLOCKS);
	sb->s_feature_incompat =
		cpu_to_be32(JBD2_FEATURE_INCOMPAT_FAST_COMMIT);
	/* Non-empty log without a transaction: only the area is replayed. */
	sb->s_start = cpu_to_be32(1);
	journal = jbd2_journal_init_dev(td->bdev, td->bdev, 0,
					TEST_JOURNAL_BLOCKS + TEST_FC_BLOCKS,
					TEST_BLOCKSIZE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, journal);
	journal->j_fc_replay_callback = test_fc_replay;
	test_fc_next = 0;
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_load(journal));
	KUNIT_EXPECT_EQ(test, journal->j_fc_last - journal->j_fc_first,
			test_fc_next);
	jbd2_journal_destroy(journal);
	kunit_release_action(test, test_disk_destroy, td);
}

/* Not on the stack: an aborted test leaves its waiter threads behind. */
struct test_waiter {
	journal_t		*journal;
	tid_t			tid;
	struct completion	done;
	int			ret;
};

static int test_waiter_fn(void *data)
{
	struct test_waiter *w = data;

	w->ret = jbd2_log_wait_commit(w->journal, w->tid);
	kthread_complete_and_exit(&w->done, 0);
}

static void test_waiter_start(struct kunit *test, struct test_waiter *w,
			      tid_t tid)
{
	struct test_env *env = test->priv;
	struct task_struct *t;

	w->journal = env->journal;
	w->tid = tid;
	w->ret = 1;
	init_completion(&w->done);
	t = kthread_run(test_waiter_fn, w, "jbd2-test-wait");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t);
}

static bool test_waiter_finished(struct test_waiter *w)
{
	return wait_for_completion_timeout(&w->done, 60 * HZ);
}

/* Waiters of a transaction return when it is committed, and not before. */
static void test_wait_commit(struct kunit *test)
{
	struct test_env *env = test->priv;
	struct test_waiter *w;
	unsigned int round, i;
	tid_t tid;

	w = kunit_kcalloc(test, TEST_WAITERS, sizeof(*w), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w);

	for (round = 0; round < 20; round++) {
		test_write_range(test, round, 3, round);
		tid = env->journal->j_running_transaction->t_tid;
		for (i = 0; i < TEST_WAITERS; i++)
			test_waiter_start(test, &w[i], tid + (i & 1));
		KUNIT_EXPECT_EQ(test, 1,
				jbd2_journal_start_commit(env->journal, NULL));
		for (i = 0; i < TEST_WAITERS; i += 2) {
			KUNIT_ASSERT_TRUE(test, test_waiter_finished(&w[i]));
			KUNIT_EXPECT_EQ(test, 0, w[i].ret);
		}
		KUNIT_EXPECT_TRUE(test, jbd2_transaction_committed(env->journal,
								   tid));
		for (i = 1; i < TEST_WAITERS; i += 2)
			KUNIT_EXPECT_FALSE(test, completion_done(&w[i].done));

		/* The odd waiters wait for a transaction that starts now. */
		test_write_range(test, round, 3, round);
		KUNIT_ASSERT_EQ(test, tid + 1,
				env->journal->j_running_transaction->t_tid);
		KUNIT_ASSERT_EQ(test, 0,
				jbd2_complete_transaction(env->journal,
							  tid + 1));
		for (i = 1; i < TEST_WAITERS; i += 2) {
			KUNIT_ASSERT_TRUE(test, test_waiter_finished(&w[i]));
			KUNIT_EXPECT_EQ(test, 0, w[i].ret);
		}
	}
}

/* Tasks that wait for a commit get -EIO if it cannot be written. */
static void test_wait_commit_error(struct kunit *test)
{
	struct test_env *env = test->priv;
	struct test_waiter *w;
	unsigned int i;
	tid_t tid;

	w = kunit_kcalloc(test, TEST_WAITERS, sizeof(*w), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w);

	test_write_range(test, 0, 5, 1);
	tid = env->journal->j_running_transaction->t_tid;
	for (i = 0; i < TEST_WAITERS; i++)
		test_waiter_start(test, &w[i], tid);
	WRITE_ONCE(env->td->fail_writes, true);
	KUNIT_EXPECT_EQ(test, -EIO,
			jbd2_complete_transaction(env->journal, tid));
	for (i = 0; i < TEST_WAITERS; i++) {
		KUNIT_ASSERT_TRUE(test, test_waiter_finished(&w[i]));
		KUNIT_EXPECT_EQ(test, -EIO, w[i].ret);
	}
	KUNIT_EXPECT_TRUE(test, is_journal_aborted(env->journal));
	/* Requests and waits after the failure get an error as well. */
	KUNIT_EXPECT_EQ(test, -EIO, jbd2_log_wait_commit(env->journal, tid));
	KUNIT_EXPECT_EQ(test, -EIO, jbd2_journal_force_commit(env->journal));
	KUNIT_EXPECT_FALSE(test,
			   jbd2_journal_force_commit_nested(env->journal));
	KUNIT_EXPECT_EQ(test, -EIO,
			jbd2_complete_transaction(env->journal, tid));
	KUNIT_EXPECT_PTR_EQ(test, ERR_PTR(-EROFS),
			    jbd2_journal_start(env->journal, 1));
	WRITE_ONCE(env->td->fail_writes, false);
	/* jbd2_journal_destroy() reports that the journal was aborted. */
	KUNIT_EXPECT_EQ(test, -EIO, jbd2_journal_destroy(env->journal));
	env->journal = NULL;
}

/* Asking twice for the same commit is one request. */
static void test_request_once(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	handle_t *handle;
	tid_t tid, again = 0;

	/* The open handle keeps the requested transaction from committing. */
	handle = jbd2_journal_start(journal, 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	tid = handle->h_transaction->t_tid;
	KUNIT_EXPECT_NE(test, tid, journal->j_commit_request);
	KUNIT_EXPECT_EQ(test, 1, jbd2_journal_start_commit(journal, &again));
	KUNIT_EXPECT_EQ(test, tid, again);
	KUNIT_EXPECT_EQ(test, tid, journal->j_commit_request);
	KUNIT_EXPECT_EQ(test, 1, jbd2_journal_start_commit(journal, &again));
	KUNIT_EXPECT_EQ(test, tid, again);
	KUNIT_EXPECT_FALSE(test, jbd2_transaction_committed(journal, tid));
	KUNIT_EXPECT_EQ(test, 0, test_write_block(journal, handle, 0, 1));
	/*
	 * A restart lets the commit go on; if it is quick the handle joins the
	 * same transaction again, so stop it before waiting.
	 */
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_restart(handle, 2));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_EXPECT_EQ(test, 0, jbd2_log_wait_commit(journal, tid));
	KUNIT_EXPECT_TRUE(test, jbd2_transaction_committed(journal, tid));
}

static int test_barrier_fn(void *data)
{
	struct test_waiter *w = data;

	jbd2_journal_lock_updates(w->journal);
	jbd2_journal_unlock_updates(w->journal);
	kthread_complete_and_exit(&w->done, 0);
}

/* The last handle to stop wakes a task that waits for updates to drain. */
static void test_barrier_drain(struct kunit *test)
{
	struct test_env *env = test->priv;
	struct test_waiter *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct task_struct *t;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->journal = env->journal;

	for (i = 0; i < 90; i++) {
		handle_t *handle = jbd2_journal_start(env->journal, 1);

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
		init_completion(&w->done);
		t = kthread_run(test_barrier_fn, w, "jbd2-test-barrier");
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t);
		/* Stop before, while and after the barrier task blocks. */
		while (i % 3 && !READ_ONCE(env->journal->j_barrier_count))
			cond_resched();
		if (i % 3 == 2)
			schedule_timeout_uninterruptible(1);
		KUNIT_EXPECT_FALSE(test, completion_done(&w->done));
		KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
		KUNIT_ASSERT_TRUE(test, test_waiter_finished(w));
	}
}

/* Freeing a reservation wakes a task that waits for reserved credits. */
static void test_reserved_wakeup(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	struct test_waiter *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct task_struct *t;
	handle_t *handle, *rsv;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->journal = journal;

	for (i = 0; i < 50; i++) {
		handle = jbd2__journal_start(journal, 1, 20, 0, GFP_NOFS, 0, 0);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
		KUNIT_EXPECT_EQ(test, 20,
				atomic_read(&journal->j_reserved_credits));
		rsv = handle->h_rsv_handle;
		handle->h_rsv_handle = NULL;
		KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
		init_completion(&w->done);
		t = kthread_run(test_barrier_fn, w, "jbd2-test-barrier");
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t);
		if (i & 1)
			while (!READ_ONCE(journal->j_barrier_count))
				cond_resched();
		KUNIT_EXPECT_FALSE(test, completion_done(&w->done));
		jbd2_journal_free_reserved(rsv);
		KUNIT_ASSERT_TRUE(test, test_waiter_finished(w));
		KUNIT_EXPECT_EQ(test, 0,
				atomic_read(&journal->j_reserved_credits));
	}
}

/* A synchronous handle waits for the time of a commit, within limits. */
static void test_batch_delay(struct kunit *test)
{
	static const struct {
		u64 age, average;
		u32 min, max;
		u64 delay;
	} cases[] = {
		{ 0, 2000000, 0, 15000, 2000000 },
		{ 1999999, 2000000, 0, 15000, 2000000 },
		{ 2000000, 2000000, 0, 15000, 0 },
		{ 0, 0, 0, 15000, 0 },
		{ 0, 1, 100, 15000, 100000 },
		{ 100000, 1, 100, 15000, 0 },
		{ 0, 80000000, 0, 15000, 15000000 },
		{ 15000000, 80000000, 0, 15000, 0 },
		{ 0, 2000000, 20000, 15000, 15000000 },
		{ 0, 2000000, 0, 0, 0 },
		/* 5000000 us in ns do not fit into 32 bits. */
		{ 0, 1, 5000000, 5000000, 5000000000 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(
			test, cases[i].delay,
			jbd2_batch_delay(cases[i].age, cases[i].average,
					 cases[i].min, cases[i].max),
			"case %u", i);
}

static int test_sync_fn(void *data)
{
	struct test_waiter *w = data;
	handle_t *handle = jbd2_journal_start(w->journal, 1);

	w->ret = PTR_ERR_OR_ZERO(handle);
	if (!w->ret) {
		w->tid = handle->h_transaction->t_tid;
		handle->h_sync = 1;
		w->ret = jbd2_journal_stop(handle);
	}
	kthread_complete_and_exit(&w->done, 0);
}

static u32 test_handles_started(journal_t *journal)
{
	u32 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += jbd2_slot(percpu_gate_slot(&journal->j_gate,
						  cpu))->started;
	return sum;
}

static int test_handles_open(journal_t *journal)
{
	int cpu, sum = 0;

	for_each_possible_cpu(cpu)
		sum += atomic_read(&percpu_gate_slot(&journal->j_gate,
						     cpu)->inside);
	return sum;
}

/*
 * A synchronous handle is closed before jbd2_journal_stop() waits for joiners,
 * and the wait ends with the commit.
 */
static void test_batch_sleeps_outside(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	struct test_waiter *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	u32 started = test_handles_started(journal);
	unsigned long end = jiffies + 10 * HZ;
	tid_t tid;

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->journal = journal;
	init_completion(&w->done);
	/* Longer than the loop below, shorter than test_waiter_finished(). */
	journal->j_min_batch_time = 30 * USEC_PER_SEC;
	journal->j_max_batch_time = 30 * USEC_PER_SEC;
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(test_sync_fn, w,
						       "jbd2-test-sync"));
	while ((test_handles_started(journal) == started ||
		test_handles_open(journal)) &&
	       time_before(jiffies, end))
		cond_resched();
	KUNIT_EXPECT_NE(test, started, test_handles_started(journal));
	KUNIT_EXPECT_EQ(test, 0, test_handles_open(journal));
	KUNIT_EXPECT_FALSE(test, completion_done(&w->done));
	tid = journal->j_running_transaction->t_tid;
	KUNIT_EXPECT_FALSE(test, jbd2_commit_requested(journal, tid));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_TRUE(test, test_waiter_finished(w));
	KUNIT_EXPECT_EQ(test, 0, w->ret);
	KUNIT_EXPECT_EQ(test, tid, w->tid);
	KUNIT_EXPECT_TRUE(test, jbd2_transaction_committed(journal, tid));
	journal->j_max_batch_time = 0;
}

struct test_trigger {
	struct jbd2_buffer_trigger_type type;
	int frozen;
};

static void test_trigger_frozen(struct jbd2_buffer_trigger_type *type,
				struct buffer_head *bh, void *data, size_t size)
{
	container_of(type, struct test_trigger, type)->frozen++;
	memset(data, 0x5a, size);
}

/* The trigger set last is the one that sees the block on its way to the log. */
static void test_triggers(struct kunit *test)
{
	struct test_env *env = test->priv;
	struct test_trigger a = { .type.t_frozen = test_trigger_frozen };
	struct test_trigger b = { .type.t_frozen = test_trigger_frozen };
	u8 *want = kunit_kzalloc(test, TEST_FS_BLOCKS, GFP_KERNEL);
	struct buffer_head *bh;
	handle_t *handle;

	KUNIT_ASSERT_NOT_NULL(test, want);
	bh = __bread(env->td->bdev, TEST_FS_START, TEST_BLOCKSIZE);
	KUNIT_ASSERT_NOT_NULL(test, bh);
	handle = jbd2_journal_start(env->journal, 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_get_write_access(handle, bh));
	jbd2_journal_set_triggers(bh, &a.type);
	jbd2_journal_set_triggers(bh, &b.type);
	jbd2_journal_set_triggers(bh, &b.type);
	memset(bh->b_data, 1, TEST_BLOCKSIZE);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_dirty_metadata(handle, bh));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_force_commit(env->journal));
	KUNIT_EXPECT_EQ(test, 0, a.frozen);
	KUNIT_EXPECT_EQ(test, 1, b.frozen);
	want[0] = 0x5a;
	test_power_cut(test, want);

	/* Cleared in the next transaction: no trigger is called any more. */
	handle = jbd2_journal_start(env->journal, 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_get_write_access(handle, bh));
	jbd2_journal_set_triggers(bh, NULL);
	memset(bh->b_data, 2, TEST_BLOCKSIZE);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_dirty_metadata(handle, bh));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_force_commit(env->journal));
	KUNIT_EXPECT_EQ(test, 1, b.frozen);
	want[0] = 2;
	test_power_cut(test, want);
	brelse(bh);
}

/* Revoke block @nr, as freeing it would. */
static void test_revoke_block(struct kunit *test, handle_t *handle,
			      unsigned int nr)
{
	struct test_env *env = test->priv;
	struct buffer_head *bh;

	bh = __bread(env->td->bdev, TEST_FS_START + nr, TEST_BLOCKSIZE);
	KUNIT_ASSERT_NOT_NULL(test, bh);
	/* drops the reference */
	KUNIT_EXPECT_EQ(test, 0,
			jbd2_journal_revoke(handle, TEST_FS_START + nr, bh));
}

/*
 * A revoked block is not replayed unless it was journaled again. Once it was,
 * a revoke in a later transaction takes effect again.
 */
static void test_revoke_cancel(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	u8 *want = kunit_kzalloc(test, TEST_FS_BLOCKS, GFP_KERNEL);
	handle_t *handle;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, want);
	test_write_range(test, 0, 6, 1);
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));

	handle = jbd2__journal_start(journal, 20, 0, 6, GFP_NOFS, 0, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	for (i = 0; i < 6; i++)
		test_revoke_block(test, handle, i);
	/* 0..2 are reused as metadata at once; 3..5 stay free */
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, __test_write_block(journal, handle, i,
							    2, true));
	/* a second access finds nothing left to cancel */
	KUNIT_EXPECT_EQ(test, 0, test_write_block(journal, handle, 0, 2));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	memset(want, 2, 3);
	/* never written home, and its only copy in the log is revoked */
	memset(want + 3, 0, 3);
	test_power_cut(test, want);

	/* 1 is freed again, 4 is reused one transaction after its revoke */
	handle = jbd2__journal_start(journal, 20, 0, 1, GFP_NOFS, 0, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	test_revoke_block(test, handle, 1);
	KUNIT_EXPECT_EQ(test, 0,
			__test_write_block(journal, handle, 4, 3, true));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	want[1] = 0;
	want[4] = 3;
	test_power_cut(test, want);
}

/* The gate is open only while every handle may start. */
static void test_gate(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	struct percpu_gate *gate = &journal->j_gate;
	handle_t *handle;

	KUNIT_EXPECT_PTR_EQ(test, gate->token, NULL);
	test_write_range(test, 0, 1, 1);
	KUNIT_EXPECT_PTR_EQ(test, gate->token,
			    (void *)journal->j_running_transaction);

	jbd2_journal_lock_updates(journal);
	KUNIT_EXPECT_PTR_EQ(test, gate->token, NULL);
	jbd2_journal_unlock_updates(journal);
	test_write_range(test, 0, 1, 2);
	KUNIT_EXPECT_PTR_EQ(test, gate->token,
			    (void *)journal->j_running_transaction);

	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_PTR_EQ(test, gate->token, NULL);
	test_write_range(test, 0, 1, 3);
	KUNIT_EXPECT_PTR_EQ(test, gate->token,
			    (void *)journal->j_running_transaction);

	jbd2_journal_abort(journal, -EIO);
	KUNIT_EXPECT_PTR_EQ(test, gate->token, NULL);
	handle = jbd2_journal_start(journal, 1);
	KUNIT_EXPECT_EQ(test, -EROFS, PTR_ERR_OR_ZERO(handle));
	KUNIT_EXPECT_PTR_EQ(test, gate->token, NULL);
}

struct test_reserved {
	struct test_waiter	w;
	handle_t		*rsv;
};

static int test_reserved_fn(void *data)
{
	struct test_reserved *r = data;

	r->w.ret = jbd2_journal_start_reserved(r->rsv, 0, 0);
	if (!r->w.ret) {
		r->w.tid = r->rsv->h_transaction->t_tid;
		r->w.ret = jbd2_journal_stop(r->rsv);
	}
	kthread_complete_and_exit(&r->w.done, 0);
}

static int test_start_fn(void *data)
{
	struct test_waiter *w = data;
	handle_t *handle = jbd2_journal_start(w->journal, 1);

	w->ret = PTR_ERR_OR_ZERO(handle);
	if (!w->ret) {
		w->tid = handle->h_transaction->t_tid;
		w->ret = jbd2_journal_stop(handle);
	}
	kthread_complete_and_exit(&w->done, 0);
}

/* A T_LOCKED transaction accepts reserved handles only. */
static void test_locked(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	struct test_waiter *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct test_reserved *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	handle_t *handle;
	transaction_t *t;
	tid_t tid;

	KUNIT_ASSERT_NOT_NULL(test, w);
	KUNIT_ASSERT_NOT_NULL(test, r);
	handle = jbd2__journal_start(journal, 1, 5, 0, GFP_NOFS, 0, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	r->rsv = handle->h_rsv_handle;
	handle->h_rsv_handle = NULL;
	t = handle->h_transaction;
	tid = t->t_tid;
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_extend(handle, 1, 0));
	KUNIT_EXPECT_EQ(test, 1, jbd2_journal_start_commit(journal, NULL));
	while (READ_ONCE(t->t_state) != T_LOCKED)
		cond_resched();
	KUNIT_EXPECT_GT(test, jbd2_journal_extend(handle, 1, 0), 0);

	w->journal = journal;
	init_completion(&w->done);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(test_start_fn, w,
						       "jbd2-test-start"));
	init_completion(&r->w.done);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(test_reserved_fn, r,
						       "jbd2-test-rsv"));
	KUNIT_EXPECT_TRUE(test, test_waiter_finished(&r->w));
	KUNIT_EXPECT_EQ(test, 0, r->w.ret);
	KUNIT_EXPECT_EQ(test, tid, r->w.tid);
	KUNIT_EXPECT_FALSE(test, completion_done(&w->done));

	KUNIT_EXPECT_EQ(test, T_LOCKED, READ_ONCE(t->t_state));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_EXPECT_TRUE(test, test_waiter_finished(w));
	KUNIT_EXPECT_EQ(test, 0, w->ret);
	KUNIT_EXPECT_EQ(test, tid + 1, w->tid);
	KUNIT_EXPECT_EQ(test, 0, jbd2_log_wait_commit(journal, tid));
}

static int test_next_bmap(journal_t *journal, sector_t *block)
{
	struct test_env *env = journal->j_private;

	/* The first log block: the commit has just woken blocked handles. */
	if (!env->token)
		env->token = READ_ONCE(journal->j_gate.token) ?:
			     ERR_PTR(-ENOENT);
	return 0;
}

/* Handles that a commit has blocked find a transaction and an open gate. */
static void test_publish(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	struct test_waiter *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	transaction_t *t;
	handle_t *handle;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->journal = journal;
	journal->j_private = env;
	journal->j_bmap = test_next_bmap;
	for (i = 0; i < 20; i++) {
		handle = jbd2_journal_start(journal, 1);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
		KUNIT_EXPECT_EQ(test, 0,
				test_write_block(journal, handle, 0, i));
		t = handle->h_transaction;
		env->token = NULL;
		KUNIT_EXPECT_EQ(test, 1,
				jbd2_journal_start_commit(journal, NULL));
		while (READ_ONCE(t->t_state) != T_LOCKED)
			cond_resched();
		init_completion(&w->done);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(
			test, kthread_run(test_start_fn, w, "jbd2-test-start"));
		/* Needs no barrier: polled until the task is queued. */
		while (!waitqueue_active(&journal->j_wait_transaction_locked))
			cond_resched();
		KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
		KUNIT_ASSERT_TRUE(test, test_waiter_finished(w));
		KUNIT_EXPECT_EQ(test, 0, w->ret);
		KUNIT_EXPECT_EQ(test, 0,
				jbd2_log_wait_commit(journal, w->tid - 1));
		KUNIT_EXPECT_NOT_ERR_OR_NULL(test, env->token);

		/* No handle waits now, so no transaction is published. */
		KUNIT_EXPECT_EQ(test, 0, jbd2_journal_force_commit(journal));
		KUNIT_EXPECT_NULL(test, journal->j_running_transaction);
	}
	journal->j_bmap = NULL;
}

/* Turn pools on regardless of the journal size and the number of CPUs. */
static void test_pools_on(transaction_t *t, int max)
{
	/* jbd2_empty_pools() stores both fields under this lock. */
	spin_lock(&t->t_journal->j_pools_lock);
	WRITE_ONCE(t->t_pool_max, max);
	WRITE_ONCE(t->t_pools_on, true);
	spin_unlock(&t->t_journal->j_pools_lock);
}

/* Threads that start handles while the test locks updates or commits. */
struct test_crowd {
	journal_t		*journal;
	atomic_t		open;	/* handles */
	atomic_t		done;	/* rounds */
	atomic_t		wrong;
	unsigned int		min;	/* credits that a handle starts with */
	unsigned int		max;	/* how many more there may be */
	int			pool;	/* of pools; 0: as set, no writes */
	tid_t			pools;	/* last transaction with pools */
	unsigned int		nr;
	struct task_struct	*task[TEST_WAITERS];
};

static int test_crowd_fn(void *data)
{
	struct test_crowd *c = data;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, current->pid);
	while (!kthread_should_stop()) {
		unsigned int what = prandom_u32_state(&rnd);
		handle_t *handle = jbd2__journal_start(c->journal,
						       c->min + what % c->max,
						       what & BIT(19) ? 3 : 0,
						       0, GFP_NOFS, 0, 0);
		handle_t *rsv;
		transaction_t *t;
		int err = 0;

		if (IS_ERR(handle)) {
			atomic_inc(&c->wrong);
			break;
		}
		rsv = handle->h_rsv_handle;
		handle->h_rsv_handle = NULL;
		atomic_inc(&c->open);
		t = handle->h_transaction;
		/*
		 * Turn pools on as in a larger journal, once per transaction:
		 * after jbd2_empty_pools() they stay off.
		 */
		if (c->pool && xchg(&c->pools, t->t_tid) != t->t_tid)
			test_pools_on(t, c->pool);
		if (c->pool && (what & BIT(16)))
			err = test_write_block(c->journal, handle, what >> 24,
					       what);
		if (!err && c->pool && (what & BIT(17)))
			err = jbd2_journal_extend(handle,
						  what >> 20 & 15, 0) < 0;
		if (what & BIT(18))
			cond_resched();
		if (err || t != READ_ONCE(c->journal->j_running_transaction))
			atomic_inc(&c->wrong);
		atomic_dec(&c->open);
		/*
		 * A barrier waits for reservations and a restart may wait for
		 * the barrier, so do not restart with a reservation.
		 */
		if (!(what >> 26) && !rsv && c->pool &&
		    jbd2_journal_restart(handle, 2))
			atomic_inc(&c->wrong);
		if (jbd2_journal_stop(handle))
			atomic_inc(&c->wrong);
		if (rsv && (what & BIT(15))) {
			jbd2_journal_free_reserved(rsv);
		} else if (rsv) {
			if (jbd2_journal_start_reserved(rsv, 0, 0)) {
				atomic_inc(&c->wrong);
				break;
			}
			atomic_inc(&c->open);
			if (what & BIT(14))
				cond_resched();
			atomic_dec(&c->open);
			if (jbd2_journal_stop(rsv))
				atomic_inc(&c->wrong);
		}
		atomic_inc(&c->done);
	}
	return 0;
}

static void test_crowd_halt(void *data)
{
	struct test_crowd *c = data;

	while (c->nr)
		kthread_stop_put(c->task[--c->nr]);
}

static struct test_crowd *test_crowd_start(struct kunit *test, unsigned int nr,
					   unsigned int min, unsigned int max,
					   int pool)
{
	struct test_env *env = test->priv;
	struct test_crowd *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->journal = env->journal;
	c->min = min;
	c->max = max;
	c->pool = pool;
	/* If the test aborts, stop the tasks before the journal goes. */
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, test_crowd_halt, c));
	for (i = 0; i < nr; i++) {
		struct task_struct *task =
			kthread_create(test_crowd_fn, c, "jbd2-test-crowd");

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
		c->task[c->nr++] = get_task_struct(task);
	}
	for (i = 0; i < nr; i++)
		wake_up_process(c->task[i]);
	return c;
}

static void test_crowd_stop(struct kunit *test, struct test_crowd *c)
{
	kunit_release_action(test, test_crowd_halt, c);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&c->wrong));
}

/* Wait until the tasks have done two more rounds each, on average. */
static bool test_crowd_busy(struct test_crowd *c)
{
	unsigned long end = jiffies + 10 * HZ;
	unsigned int before = atomic_read(&c->done);

	while (atomic_read(&c->done) - before < 2 * c->nr) {
		if (atomic_read(&c->wrong) || time_after(jiffies, end))
			return false;
		cond_resched();
	}
	return true;
}

static void test_barrier_rounds(struct kunit *test, unsigned int nr,
				unsigned int rounds)
{
	struct test_env *env = test->priv;
	struct test_crowd *c = test_crowd_start(test, nr, 2, 8, 16);
	unsigned long end = jiffies + 20 * HZ;
	unsigned int i, j;
	bool busy = false;
	int open = 0;

	for (i = 0; i < rounds && time_before(jiffies, end); i++) {
		busy = test_crowd_busy(c);
		if (!busy)
			break;
		/* Let some handles meet a transaction that is committing. */
		if (nr > 1 && i % 2)
			jbd2_journal_start_commit(env->journal, NULL);
		/* Vary the point at which the barrier hits the tasks. */
		for (j = 0; j < i % 128; j++)
			cpu_relax();
		jbd2_journal_lock_updates(env->journal);
		for (j = 0; j < 10; j++) {
			open += atomic_read(&c->open);
			open += atomic_read(&env->journal->j_reserved_credits);
			cond_resched();
		}
		/* Let blocked tasks run, and the commit get on. */
		if (nr > 1 && i % 8 < 2)
			schedule_timeout_uninterruptible(1);
		open += atomic_read(&c->open);
		open += atomic_read(&env->journal->j_reserved_credits);
		jbd2_journal_unlock_updates(env->journal);
	}
	test_crowd_stop(test, c);
	KUNIT_EXPECT_TRUE(test, busy);
	KUNIT_EXPECT_EQ(test, 0, open);
}

/* No handle is open while updates are locked, however many tasks try. */
static void test_barrier_alone(struct kunit *test)
{
	struct kunit_interrupts *in;

	test_barrier_rounds(test, TEST_WAITERS, 300);
	if (num_online_cpus() == 1)
		return;
	/*
	 * A single task has the only reservation, so j_reserved_credits is
	 * often 0 until it has entered the gate.
	 */
	in = kunit_start_interrupts(test);
	test_barrier_rounds(test, 1, 5000);
	kunit_stop_interrupts(test, in);
}

/* Only CPUs that the last transaction used share the pools, not all used. */
static void test_pool_share(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	int all = journal->j_max_transaction_buffers / 4;
	transaction_t *t;

	if (num_possible_cpus() == 1)
		kunit_skip(test, "there is only one CPU");
	migrate_disable();
	test_write_range(test, 0, 1, 1);
	migrate_enable();
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_EQ(test, 1, journal->j_pool_cpus);

	test_write_range(test, 0, 1, 2);
	t = journal->j_running_transaction;
	KUNIT_EXPECT_EQ(test, all < JBD2_POOL_MIN ? 0 : all, t->t_pool_max);
	KUNIT_EXPECT_EQ(test, t->t_pool_max > 0, t->t_pools_on);
	jbd2_empty_pools(journal, t);
	KUNIT_EXPECT_EQ(test, 0, t->t_pool_max);
	KUNIT_EXPECT_FALSE(test, t->t_pools_on);
}

/* Credits that a handle did not use are there for the next one on its CPU. */
static void test_pool(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	transaction_t *t;
	handle_t *handle;
	int before;

	test_write_range(test, 0, 1, 1);
	t = journal->j_running_transaction;
	migrate_disable();
	/* Independent of the journal size and the number of CPUs. */
	jbd2_empty_pools(journal, t);
	before = atomic_read(&t->t_outstanding_credits);
	test_pools_on(t, 20);

	handle = jbd2_journal_start(journal, 10);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	/* The start also charged t_pool_max / 2 credits for the pool. */
	KUNIT_EXPECT_EQ(test, 10, test_pooled(journal));
	KUNIT_EXPECT_EQ(test, before + 20,
			atomic_read(&t->t_outstanding_credits));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_extend(handle, 7, 0));
	KUNIT_EXPECT_EQ(test, 3, test_pooled(journal));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_EXPECT_EQ(test, 20, test_pooled(journal));
	KUNIT_EXPECT_EQ(test, before + 20,
			atomic_read(&t->t_outstanding_credits));

	/* More credits than a pool may keep. */
	handle = jbd2_journal_start(journal, 30);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	KUNIT_EXPECT_EQ(test, before + 30, test_charged(journal));
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_EXPECT_LE(test, test_pooled(journal), 20);
	KUNIT_EXPECT_EQ(test, before, test_charged(journal));

	jbd2_empty_pools(journal, t);
	KUNIT_EXPECT_EQ(test, 0, test_pooled(journal));
	KUNIT_EXPECT_EQ(test, before, atomic_read(&t->t_outstanding_credits));
	handle = jbd2_journal_start(journal, 10);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
	KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	KUNIT_EXPECT_EQ(test, 0, test_pooled(journal));
	migrate_enable();
}

/* A handle gets the credits that another CPU keeps, not a new transaction. */
static void test_pool_of_others(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	struct percpu_gate_slot *slot;
	unsigned int i, other;
	transaction_t *t;
	handle_t *handle;
	int left;
	tid_t tid;

	if (num_possible_cpus() == 1)
		kunit_skip(test, "there is only one CPU");

	/* Start with an open gate, start with a closed gate, extend. */
	for (i = 0; i < 3; i++) {
		test_write_range(test, 0, 1, 1);
		t = journal->j_running_transaction;
		tid = t->t_tid;
		jbd2_empty_pools(journal, t);
		left = journal->j_max_transaction_buffers -
		       atomic_read(&t->t_outstanding_credits);

		handle = NULL;
		if (i == 2) {
			handle = jbd2_journal_start(journal, 1);
			KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
			left--;
		}

		/* Put all remaining credits into the pool of another CPU. */
		migrate_disable();
		other = cpumask_any_but(cpu_possible_mask,
					raw_smp_processor_id());
		slot = percpu_gate_slot(&journal->j_gate, other);
		cpumask_set_cpu(other, journal->j_gate.used);
		test_pools_on(t, left);
		atomic_add(left, &t->t_outstanding_credits);
		atomic_set(jbd2_pool(slot), left);

		if (i == 1) {
			jbd2_journal_lock_updates(journal);
			jbd2_journal_unlock_updates(journal);
		}
		if (i == 2) {
			KUNIT_EXPECT_EQ(test, 0,
					jbd2_journal_extend(handle, left / 2,
							    0));
		} else {
			handle = jbd2_journal_start(journal, left / 2);
			KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
		}
		KUNIT_EXPECT_EQ(test, tid, handle->h_transaction->t_tid);
		KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
		migrate_enable();
		KUNIT_EXPECT_EQ(test, 0, test_pooled(journal));
		KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	}
}

/* After any mix of handles the transaction has promised what it needs. */
static void test_credits_conserved(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	unsigned int i, pooled = 0;

	for (i = 0; i < 40; i++) {
		unsigned int max = journal->j_max_transaction_buffers / 6;
		struct test_crowd *c =
			test_crowd_start(test, TEST_WAITERS, 2, max, 16);
		transaction_t *t;
		handle_t *handle;

		schedule_timeout_uninterruptible(1);
		test_crowd_stop(test, c);
		KUNIT_EXPECT_EQ(test, 0,
				atomic_read(&journal->j_reserved_credits));

		/* An open handle keeps the commit from emptying the pools. */
		handle = jbd2_journal_start(journal, 1);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
		t = handle->h_transaction;
		/* Until then the previous commit holds some of the buffers. */
		KUNIT_EXPECT_EQ(test, 0,
				jbd2_log_wait_commit(journal, t->t_tid - 1));
		KUNIT_EXPECT_EQ(test, test_charged(journal),
				journal->j_transaction_overhead_buffers +
				t->t_nr_buffers + 1);
		pooled += test_pooled(journal);
		KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	}
	KUNIT_EXPECT_GT(test, pooled, 0);
	KUNIT_ASSERT_EQ(test, 0, jbd2_journal_force_commit(journal));
	KUNIT_EXPECT_EQ(test, 0, test_pooled(journal));
}

/* After jbd2_empty_pools() a handle that gives back credits pools none. */
static void test_pools_emptied(struct kunit *test)
{
	struct test_env *env = test->priv;
	journal_t *journal = env->journal;
	struct test_crowd *c = test_crowd_start(test, TEST_WAITERS, 20, 10, 0);
	struct kunit_interrupts *in = kunit_start_interrupts(test);
	unsigned int i, j, k, kept = 0;
	int left = 0;

	for (i = 0; i < 400 && !left; i++) {
		/* An open handle keeps its transaction the running one. */
		handle_t *handle = jbd2_journal_start(journal, 1);
		transaction_t *t;

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, handle);
		t = handle->h_transaction;
		for (j = 0;
		     j < 200 && !left && READ_ONCE(t->t_state) == T_RUNNING;
		     j++) {
			unsigned int patience = 200;

			test_pools_on(t, 16);
			for (k = 0; k < i % 64; k++)
				cpu_relax();
			cond_resched();
			kept += test_pooled(journal) > 0;
			jbd2_empty_pools(journal, t);
			/*
			 * A handle that was adding credits takes them back.
			 * None uses them up: each asks for more than a pool
			 * may keep.
			 */
			while ((left = test_pooled(journal)) && --patience) {
				if (patience < 100)
					schedule_timeout_uninterruptible(1);
				else
					cond_resched();
			}
		}
		KUNIT_EXPECT_EQ(test, 0, jbd2_journal_stop(handle));
	}
	kunit_stop_interrupts(test, in);
	test_crowd_stop(test, c);
	KUNIT_EXPECT_EQ(test, 0, left);
	KUNIT_EXPECT_GT(test, kept, 0);
	kunit_info(test,
		   "%u transactions, emptied %u times with something in them\n",
		   i, kept);
}

static struct kunit_case journal_test_cases[] = {
	KUNIT_CASE(test_handle_accounting),
	KUNIT_CASE_SLOW(test_commit_blocks),
	KUNIT_CASE(test_log_blocks),
	KUNIT_CASE_SLOW(test_wrap_and_recover),
	KUNIT_CASE(test_log_tail),
	KUNIT_CASE(test_under_writeback),
	KUNIT_CASE(test_flush_error),
	KUNIT_CASE(test_flush_error_at_end),
	KUNIT_CASE(test_uncommitted_is_lost),
	KUNIT_CASE(test_fc_replay_full),
	KUNIT_CASE_SLOW(test_wait_commit),
	KUNIT_CASE(test_wait_commit_error),
	KUNIT_CASE(test_request_once),
	KUNIT_CASE_SLOW(test_barrier_drain),
	KUNIT_CASE_SLOW(test_reserved_wakeup),
	KUNIT_CASE(test_batch_delay),
	KUNIT_CASE(test_batch_sleeps_outside),
	KUNIT_CASE_SLOW(test_triggers),
	KUNIT_CASE(test_revoke_cancel),
	KUNIT_CASE(test_gate),
	KUNIT_CASE(test_locked),
	KUNIT_CASE(test_publish),
	KUNIT_CASE_SLOW(test_barrier_alone),
	KUNIT_CASE(test_pool_share),
	KUNIT_CASE(test_pool),
	KUNIT_CASE(test_pool_of_others),
	KUNIT_CASE_SLOW(test_credits_conserved),
	KUNIT_CASE_SLOW(test_pools_emptied),
	{}
};

static struct kunit_suite journal_test_suite = {
	.name = "jbd2_journal",
	.init = journal_test_init,
	.test_cases = journal_test_cases,
};

kunit_test_suites(&journal_test_suite);

MODULE_DESCRIPTION("KUnit tests for jbd2 on a memory-backed journal");
MODULE_LICENSE("GPL");
