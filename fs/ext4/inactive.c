// SPDX-License-Identifier: GPL-2.0
/*
 * Inode inactivation by workers: the queue.
 *
 * Items are queued without a lock on the list of the current CPU, or on one of
 * a few lists for heavy inodes, which take long to remove. A list is processed
 * with its mutex held, a batch of the oldest items at a time, by its worker or
 * by a task that cannot wait for the worker (ENOSPC, remount, umount, freeze).
 * Such a task never waits for the work, which may be blocked itself: it
 * processes the items, and waits at most for a batch that has begun. Only queue
 * teardown, when no item can be added, waits for the work itself.
 *
 * No item is lost. An item is in its list before the work is queued.
 * queue_delayed_work() orders the two even if the work is already pending, and
 * the work is no longer pending when it empties the list. So either the worker
 * finds the item, or the work is queued once more.
 */

#include <kunit/visibility.h>
#include <linux/cleanup.h>
#include <linux/jbd2.h>
#include <linux/quotaops.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string_choices.h>

#include "ext4.h"
#include "ext4_extents.h"
#include "ext4_jbd2.h"
#include "inactive.h"
#include "mballoc.h"

#include <trace/events/ext4.h>

static struct kmem_cache *ext4_inactive_cachep;
static struct workqueue_struct *ext4_inactive_wq;

/* Each list of @q, light ones first, as they take less time. */
#define for_each_inactive_list(q, l, i) \
	for (i = 0; (l = ext4_inactive_list(q, &i)); i++)

static struct ext4_inactive_list *ext4_inactive_list(struct ext4_inactive *q,
						     unsigned int *i)
{
	/*
	 * Not set up yet, or already destroyed. Pairs with
	 * ext4_inactive_queue_init().
	 */
	if (!smp_load_acquire(&q->ops))
		return NULL;
	while (*i < nr_cpu_ids && !cpu_possible(*i))
		(*i)++;
	if (*i < nr_cpu_ids)
		return per_cpu_ptr(q->light, *i);
	if (*i < nr_cpu_ids + EXT4_INACTIVE_HEAVY)
		return &q->heavy[*i - nr_cpu_ids];
	return NULL;
}

static bool ext4_inactive_is_heavy(const struct ext4_inactive_list *l)
{
	const struct ext4_inactive *q = l->owner;

	return l >= q->heavy && l < q->heavy + EXT4_INACTIVE_HEAVY;
}

static void ext4_inactive_free(struct ext4_inactive_item *item)
{
	atomic_dec(&item->list->nr);
	kmem_cache_free(ext4_inactive_cachep, item);
}

/*
 * Called before processing lists or waiting for that, even if they are empty:
 * processing may need log space, and so wait for a handle to stop.
 */
static void ext4_inactive_assert_may_work(void)
{
	might_sleep();
	WARN_ON_ONCE(journal_current_handle());
}

/*
 * Process a batch of the oldest items of @l.
 *
 * Context: Sleeps, takes the lock of @l. The caller keeps the filesystem
 *	mounted and writable, and has no handle.
 * Return: number of items that are done, or -EAGAIN if nothing could be done.
 *	@more is set if items are left; with 0, part of one item was done.
 */
static int ext4_inactive_run(struct ext4_inactive_list *l, bool *more)
{
	struct ext4_inactive_item *items[EXT4_INACTIVE_BATCH_MAX];
	struct ext4_inactive *q = l->owner;
	unsigned int i, nr = 0, done = 0, max = 1;
	int ret = 0;

	if (!ext4_inactive_is_heavy(l))
		max = clamp(READ_ONCE(q->batch), 1U, EXT4_INACTIVE_BATCH_MAX);
	guard(mutex)(&l->lock);
	while (nr < max) {
		if (!l->taken)
			l->taken =
				llist_reverse_order(llist_del_all(&l->parked));
		if (!l->taken)
			break;
		items[nr] =
			llist_entry(l->taken, struct ext4_inactive_item, node);
		l->taken = l->taken->next;
		items[nr]->worked = false;
		percpu_counter_sub(&q->clusters, items[nr++]->clusters);
	}
	if (nr) {
		WRITE_ONCE(l->busy, nr);
		done = q->ops->process(q, items, nr);
		WRITE_ONCE(l->busy, 0);
		ret = done || items[0]->worked ? done : -EAGAIN;
		WRITE_ONCE(l->stalled, !done && items[0]->tries);
	}
	if (nr && ret >= 0)
		atomic_long_inc(&q->done);
	for (i = 0; i < done; i++)
		ext4_inactive_free(items[i]);
	while (nr > done) {
		/* The rest of a partly removed inode is already counted. */
		if (!items[--nr]->worked)
			percpu_counter_add(&q->clusters, items[nr]->clusters);
		items[nr]->node.next = l->taken;
		l->taken = &items[nr]->node;
	}
	*more = l->taken || !llist_empty(&l->parked);
	return ret;
}

static void ext4_inactive_work(struct work_struct *work)
{
	struct ext4_inactive_list *l =
		container_of(to_delayed_work(work),
			     struct ext4_inactive_list, work);
	struct ext4_inactive *q = l->owner;
	unsigned long delay = HZ / 10;
	bool more = true;

	if (q->ops->begin(q)) {
		/*
		 * On failure, retry after a thaw or when memory is free. If
		 * another task stalls an item, let it run for a jiffy.
		 */
		delay = ext4_inactive_run(l, &more) < 0 ? HZ :
			READ_ONCE(l->stalled) ? 1 : 0;
		q->ops->end(q);
	}
	/* One batch at a time, to bound the time ->begin() locks are held. */
	if (more)
		queue_delayed_work(ext4_inactive_wq, &l->work, delay);
}

static void ext4_inactive_list_init(struct ext4_inactive *q,
				    struct ext4_inactive_list *l)
{
	init_llist_head(&l->parked);
	atomic_set(&l->nr, 0);
	INIT_DELAYED_WORK(&l->work, ext4_inactive_work);
	l->owner = q;
	mutex_init(&l->lock);
	l->taken = NULL;
	l->busy = 0;
	l->stalled = false;
	l->worker = NULL;
	l->batch = NULL;
}

/**
 * ext4_inactive_queue_init() - make an empty queue
 * @q: the queue, zeroed
 * @ops: see &struct ext4_inactive_ops
 *
 * The caller sets the limits.
 *
 * Context: May sleep.
 * Return: 0 or -ENOMEM.
 */
int ext4_inactive_queue_init(struct ext4_inactive *q,
			     const struct ext4_inactive_ops *ops)
{
	unsigned int i, cpu;

	if (percpu_counter_init(&q->clusters, 0, GFP_KERNEL))
		return -ENOMEM;
	q->light = alloc_percpu(struct ext4_inactive_list);
	if (!q->light) {
		percpu_counter_destroy(&q->clusters);
		return -ENOMEM;
	}
	for_each_possible_cpu(cpu)
		ext4_inactive_list_init(q, per_cpu_ptr(q->light, cpu));
	for (i = 0; i < EXT4_INACTIVE_HEAVY; i++)
		ext4_inactive_list_init(q, &q->heavy[i]);
	/* Pairs with ext4_inactive_list(), which statfs may call any time. */
	smp_store_release(&q->ops, ops);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_queue_init);

/**
 * ext4_inactive_queue_destroy() - stop the workers and free a queue
 * @q: the queue, or zeroed; no items may be added
 *
 * Items that are still queued are dropped: their inodes stay in the orphan
 * file.
 *
 * Context: May sleep, waits for the workers. They only try to get locks that
 *	the caller may hold (s_umount, freeze protection), so they finish.
 */
void ext4_inactive_queue_destroy(struct ext4_inactive *q)
{
	struct ext4_inactive_item *item, *next;
	struct ext4_inactive_list *l;
	unsigned int i;

	for_each_inactive_list(q, l, i)
		disable_delayed_work_sync(&l->work);
	for_each_inactive_list(q, l, i) {
		llist_for_each_entry_safe(item, next, l->taken, node)
			ext4_inactive_free(item);
		l->taken = llist_del_all(&l->parked);
		llist_for_each_entry_safe(item, next, l->taken, node)
			ext4_inactive_free(item);
		WARN_ON_ONCE(atomic_read(&l->nr));
	}
	free_percpu(q->light);
	percpu_counter_destroy(&q->clusters);
	memset(q, 0, sizeof(*q));
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_queue_destroy);

static struct ext4_inactive_list *ext4_inactive_pick(struct ext4_inactive *q,
						     bool heavy)
{
	/* Any list will do, so migration is harmless. */
	if (!heavy)
		return raw_cpu_ptr(q->light);
	return &q->heavy[(unsigned int)atomic_inc_return(&q->next_heavy) %
			 EXT4_INACTIVE_HEAVY];
}

/**
 * ext4_inactive_full() - check if ext4_inactive_get_item() is likely to fail
 * @q: the queue
 * @heavy: check for an item that takes long to remove
 *
 * An estimate; ext4_inactive_get_item() is exact.
 *
 * Context: Any.
 * Return: true if the limits are reached.
 */
bool ext4_inactive_full(struct ext4_inactive *q, bool heavy)
{
	struct ext4_inactive_list *l = heavy ? q->heavy : raw_cpu_ptr(q->light);

	return atomic_read(&l->nr) >= READ_ONCE(q->max_nr) ||
	       percpu_counter_read_positive(&q->clusters) >=
		       READ_ONCE(q->max_clusters);
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_full);

/**
 * ext4_inactive_get_item() - reserve an item for an inode
 * @q: the queue
 * @clusters: clusters of the inode
 * @heavy: its removal takes long
 * @limits: fail if the limits of the queue are reached
 *
 * With @limits the number of items in a list does not exceed its limit. The
 * number of clusters may, by the error of percpu_counter_read() and by one
 * inode per CPU.
 *
 * Context: Does not sleep for long. Does not use memory reserves, so a task in
 *	memory reclaim may call it.
 * Return: the item, to be passed to ext4_inactive_add(), or NULL if the queue
 *	is full or no memory is available.
 */
struct ext4_inactive_item *ext4_inactive_get_item(struct ext4_inactive *q,
						  u64 clusters, bool heavy,
						  bool limits)
{
	struct ext4_inactive_list *l = ext4_inactive_pick(q, heavy);
	struct ext4_inactive_item *item;

	if (atomic_inc_return(&l->nr) > READ_ONCE(q->max_nr) && limits)
		goto full;
	if (limits && percpu_counter_read_positive(&q->clusters) >=
			      READ_ONCE(q->max_clusters))
		goto full;
	item = kmem_cache_zalloc(ext4_inactive_cachep,
				 GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN);
	if (!item)
		goto full;
	item->list = l;
	item->clusters = clusters;
	percpu_counter_add(&q->clusters, clusters);
	return item;
full:
	atomic_dec(&l->nr);
	return NULL;
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_get_item);

static unsigned long ext4_inactive_delay(const struct ext4_inactive *q)
{
	return msecs_to_jiffies(min(READ_ONCE(q->delay_ms), 10000U));
}

/**
 * ext4_inactive_add() - queue an item
 * @item: from ext4_inactive_get_item(); owned by the queue from now on
 * @now: start the worker without delay
 *
 * Context: Any that may take workqueue locks. The inode of the item is no
 *	longer hashed.
 */
void ext4_inactive_add(struct ext4_inactive_item *item, bool now)
{
	struct ext4_inactive_list *l = item->list;
	struct ext4_inactive *q = l->owner;
	unsigned int batch =
		clamp(READ_ONCE(q->batch), 1U, EXT4_INACTIVE_BATCH_MAX);

	/*
	 * Fully ordered: the task that takes the item sees all earlier changes
	 * of the inode.
	 */
	llist_add(&item->node, &l->parked);
	if (now || atomic_read(&l->nr) % batch == 0)
		mod_delayed_work(ext4_inactive_wq, &l->work, 0);
	else
		queue_delayed_work(ext4_inactive_wq, &l->work,
				   ext4_inactive_delay(q));
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_add);

/**
 * ext4_inactive_nr() - number of deferred inodes
 * @q: the queue
 * @busy: include inodes that are being removed; some may already be free
 *
 * Context: Any. Reads a cache line of each CPU.
 * Return: the number.
 */
unsigned long ext4_inactive_nr(struct ext4_inactive *q, bool busy)
{
	struct ext4_inactive_list *l;
	long nr = 0;
	unsigned int i;

	for_each_inactive_list(q, l, i)
		nr += (long)atomic_read(&l->nr) -
		      (busy ? 0 : (long)READ_ONCE(l->busy));
	/* The counters are not read atomically. */
	return max(nr, 0L);
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_nr);

/**
 * ext4_inactive_kick() - start the workers without delay
 * @q: the queue
 *
 * Context: As ext4_inactive_add().
 */
void ext4_inactive_kick(struct ext4_inactive *q)
{
	struct ext4_inactive_list *l;
	unsigned int i;

	for_each_inactive_list(q, l, i)
		if (atomic_read(&l->nr))
			mod_delayed_work(ext4_inactive_wq, &l->work, 0);
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_kick);

/**
 * ext4_inactive_progress() - remove some deferred inodes to free space
 * @q: the queue
 *
 * Context: Sleeps. As for &ext4_inactive_ops.process; the caller keeps the
 *	filesystem mounted and writable.
 * Return: true if there is more space than before the call, or will be with the
 *	next commit; false if the queue is empty, or nothing can be done now.
 */
bool ext4_inactive_progress(struct ext4_inactive *q)
{
	long before = atomic_long_read(&q->done);
	struct ext4_inactive_list *l;
	unsigned int i;
	bool more;
	int ret;

	ext4_inactive_assert_may_work();
	for_each_inactive_list(q, l, i) {
		if (!atomic_read(&l->nr))
			continue;
		ret = ext4_inactive_run(l, &more);
		if (ret > 0 || (!ret && more))
			return true;
	}
	return atomic_long_read(&q->done) != before;
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_progress);

/**
 * ext4_inactive_flush() - remove all deferred inodes
 * @q: the queue
 * @heavy: include the heavy ones
 *
 * Items queued concurrently may be missed.
 *
 * Context: As ext4_inactive_progress().
 * Return: false if they cannot be removed now.
 */
bool ext4_inactive_flush(struct ext4_inactive *q, bool heavy)
{
	struct ext4_inactive_list *l;
	unsigned int i;

	ext4_inactive_assert_may_work();
	for_each_inactive_list(q, l, i) {
		int done, left = atomic_read(&l->nr);
		bool more = left;

		if (ext4_inactive_is_heavy(l) && !heavy)
			continue;
		for (; more && left > 0; left -= done) {
			done = ext4_inactive_run(l, &more);
			if (done < 0)
				return false;
			if (READ_ONCE(l->stalled))
				schedule_timeout_uninterruptible(1);
			else
				cond_resched();
		}
	}
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_flush);

/*
 * Inode inactivation, using the queue.
 *
 * The first half of removing an inode is the same as for any inode evicted from
 * memory: all that is left are its raw inode and its slot in the orphan file.
 * The second half works like orphan cleanup at mount: read the inode by its
 * number, and drop the only reference. So no task sees a partly removed inode:
 * its bit in the inode bitmap is set until the number can be reused, and a
 * lookup by file handle finds no links and returns ESTALE.
 */

static bool ext4_inactive_begin(struct ext4_inactive *q)
{
	struct super_block *sb =
		container_of(q, struct ext4_sb_info, s_inactive)->s_sb;

	/*
	 * Keeps out umount, and a remount that would fail because an inode
	 * without links is in memory. A writer flushes the queue itself, so
	 * backing off here cannot stall it.
	 */
	return down_read_trylock(&sb->s_umount);
}

static void ext4_inactive_end(struct ext4_inactive *q)
{
	up_read(&container_of(q, struct ext4_sb_info,
			      s_inactive)->s_sb->s_umount);
}

static int ext4_inactive_cmp(const void *a, const void *b)
{
	const struct ext4_inactive_item *x = *(struct ext4_inactive_item **)a;
	const struct ext4_inactive_item *y = *(struct ext4_inactive_item **)b;

	return cmp_int(x->ino, y->ino);
}

/*
 * Look up the inode of @item.
 *
 * Return: the inode; NULL if it has to be left to fsck or the next mount;
 *	-ENOMEM.
 */
static struct inode *ext4_inactive_iget(struct super_block *sb,
					const struct ext4_inactive_item *item)
{
	struct inode *ret = NULL;
	struct inode *inode = ext4_iget(sb, item->ino, EXT4_IGET_INACTIVE);

	if (IS_ERR(inode))
		return PTR_ERR(inode) == -ENOMEM ? inode : NULL;
	if (!ext4_test_inode_state(inode, EXT4_STATE_INACTIVE) ||
	    inode->i_nlink || inode->i_generation != item->generation) {
		ext4_error_inode(inode, __func__, __LINE__, 0,
				 "parked inode is in use");
		if (ext4_test_inode_state(inode, EXT4_STATE_INACTIVE) &&
		    !inode->i_nlink)
			goto keep;
		/* Other references may exist. */
		iput(inode);
		return NULL;
	}
	EXT4_I(inode)->i_orphan_idx = item->orphan_idx;
	EXT4_I(inode)->i_orphan_tid = item->orphan_tid;
	EXT4_I(inode)->i_inactive = NULL;
	ext4_set_inode_state(inode, EXT4_STATE_ORPHAN_FILE);
	/* Ignore other errors, as ext4_evict_inode() does. */
	if (dquot_initialize(inode) != -ENOMEM)
		return inode;
	ext4_orphan_forget(inode);
	ret = ERR_PTR(-ENOMEM);
keep:
	make_bad_inode(inode);
	iput(inode);
	return ret;
}

/*
 * Prepare to truncate the range of the last leaf of the extent tree, so that
 * the removal of a large inode proceeds in short steps. The final iput() does
 * it, if no other task holds a reference.
 */
static void ext4_inactive_cut(struct inode *inode,
			      struct ext4_inactive_item *item)
{
	struct ext4_sb_info *sbi = EXT4_SB(inode->i_sb);
	struct ext4_inode_info *ei = EXT4_I(inode);
	struct ext4_extent_header *leaf;
	struct ext4_ext_path *path;
	struct ext4_extent *ex;
	u64 blocks = 0, left;
	u32 cut = 0;

	/* Left from the last turn if a file handle kept the inode in memory. */
	ext4_clear_inode_state(inode, EXT4_STATE_INACTIVE_KEEP);
	if (!ext4_can_truncate(inode) ||
	    !ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS) ||
	    !ext_depth(inode))
		return;
	down_read(&ei->i_data_sem);
	path = ext4_find_extent(inode, EXT_MAX_BLOCKS - 1, NULL,
				EXT4_EX_NOFAIL);
	up_read(&ei->i_data_sem);
	/* The full removal finds the error, too. */
	if (IS_ERR(path))
		return;
	leaf = path[ext_depth(inode)].p_hdr;
	if (leaf->eh_entries)
		cut = le32_to_cpu(EXT_FIRST_EXTENT(leaf)->ee_block);
	for (ex = EXT_FIRST_EXTENT(leaf);
	     leaf->eh_entries && ex <= EXT_LAST_EXTENT(leaf); ex++)
		blocks += ext4_ext_get_actual_len(ex);
	ext4_free_ext_path(path);
	if (!cut)
		return;
	/*
	 * If the cut is not below the last one, either that failed, or a file
	 * handle lookup held a reference, and may hold it still, but not for
	 * long.
	 */
	if (!item->cut || cut < item->cut)
		item->tries = 0;
	else if (sbi->s_mount_state & EXT4_ERROR_FS ||
		 ++item->tries > EXT4_INACTIVE_TRIES)
		return;
	left = inode->i_blocks >> (inode->i_blkbits - 9);
	left -= min(left, blocks);
	item->clusters = left >> sbi->s_cluster_bits;
	percpu_counter_add(&sbi->s_inactive.clusters, item->clusters);
	item->cut = cut;
	item->worked = true;
	inode->i_size = (loff_t)cut << inode->i_blkbits;
	ext4_set_inode_state(inode, EXT4_STATE_INACTIVE_KEEP);
}

/*
 * Account a batch. Back off if too many of the inodes missed the transaction
 * that removed their name.
 */
static void ext4_inactive_batch_done(struct super_block *sb, unsigned int nr,
				     unsigned int split)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	unsigned int seen = atomic_add_return(nr, &sbi->s_inactive_seen);

	trace_ext4_inactive_batch(sb, nr, split);
	this_cpu_inc(sbi->s_inactive_stats->batches);
	this_cpu_add(sbi->s_inactive_stats->split, split);
	split = atomic_add_return(split, &sbi->s_inactive_split);
	if (seen < EXT4_INACTIVE_WINDOW)
		return;
	if (split * EXT4_INACTIVE_ODDS_SEEN > seen)
		WRITE_ONCE(sbi->s_inactive_back_off,
			   (jiffies + EXT4_INACTIVE_BACK_OFF * HZ) | 1);
	/* A concurrent reset loses part of the next window. */
	atomic_set(&sbi->s_inactive_split, 0);
	atomic_set(&sbi->s_inactive_seen, 0);
}

/*
 * Maximum number of extents, split at block group boundaries, of an inode that
 * is removed in a batch.
 */
#define EXT4_INACTIVE_EXTENTS	8

/*
 * Files with few extents that are removed together. Each is removed except for
 * its bits: those of its blocks and its inode number are cleared for the whole
 * batch at the end, so a shared bitmap is locked and checksummed only once.
 *
 * A file is removed in one transaction: after a crash the next mount could not
 * free the blocks and the number of an inode without its extents or its orphan
 * slot. So the handle always has credits for ext4_inactive_finish(), and is
 * neither stopped nor restarted before it.
 */
struct ext4_inactive_batch {
	struct ext4_free_extent extents[2 * EXT4_INACTIVE_BATCH_MAX];
	u32 inos[EXT4_INACTIVE_BATCH_MAX];
	unsigned int nr_extents;
	unsigned int nr_inos;
	int credits;		/* to finish with */
	/* Of the next inode. */
	unsigned int next_extents;
	int next_credits;
};

/*
 * Append the extents of @inode to those of @b.
 *
 * Return: false if its removal takes more than freeing them.
 */
static bool ext4_inactive_extents(struct inode *inode,
				  struct ext4_inactive_batch *b)
{
	struct ext4_extent_header *eh = ext_inode_hdr(inode);
	struct super_block *sb = inode->i_sb;
	struct ext4_extent *ex;
	unsigned int nr = 0;
	blkcnt_t blocks = 0;

	if (!S_ISREG(inode->i_mode) ||
	    !ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS) ||
	    ext4_has_inline_data(inode) || ext_depth(inode) ||
	    EXT4_I(inode)->i_file_acl || ext4_should_journal_data(inode) ||
	    ext4_has_feature_bigalloc(sb) ||
	    ext4_test_inode_state(inode, EXT4_STATE_INACTIVE_KEEP))
		return false;
	/* The attributes may have their values in EA inodes. */
	if (ext4_has_feature_ea_inode(sb) &&
	    ext4_test_inode_state(inode, EXT4_STATE_XATTR))
		return false;
	for (ex = EXT_FIRST_EXTENT(eh); ex <= EXT_LAST_EXTENT(eh); ex++) {
		ext4_fsblk_t block = ext4_ext_pblock(ex);
		int len = ext4_ext_get_actual_len(ex);

		/* Removing the inode on its own reports the error. */
		if (!ext4_inode_block_valid(inode, block, len))
			return false;
		blocks += len;
		while (len) {
			struct ext4_free_extent *free =
				&b->extents[b->nr_extents + nr];

			if (nr == EXT4_INACTIVE_EXTENTS)
				return false;
			ext4_get_group_no_and_offset(sb, block, &free->fe_group,
						     &free->fe_start);
			free->fe_len = min_t(int, len,
					     EXT4_BLOCKS_PER_GROUP(sb) -
						     free->fe_start);
			block += free->fe_len;
			len -= free->fe_len;
			nr++;
		}
	}
	b->next_extents = nr;
	return inode->i_blocks == blocks << (inode->i_blkbits - 9);
}

static ext4_group_t ext4_inactive_group(struct super_block *sb, u32 ino)
{
	return (ino - 1) / EXT4_INODES_PER_GROUP(sb);
}

/**
 * ext4_inactive_bitmap_credits() - credits for the bits of one more inode
 * @extents: those of the previous inodes, followed by those of the new inode;
 *	each is in one group
 * @nr: number of extents of the previous inodes
 * @next: number of extents of the new inode
 * @first: no previous inode has its number in the same group
 *
 * A group has a bitmap and a descriptor, for blocks as for inodes.
 *
 * Context: Any.
 * Return: the additional credits.
 */
int ext4_inactive_bitmap_credits(const struct ext4_free_extent *extents,
				 unsigned int nr, unsigned int next, bool first)
{
	unsigned int i, j;
	int groups = first;

	for (i = nr; i < nr + next; i++) {
		for (j = 0; j < i; j++)
			if (extents[j].fe_group == extents[i].fe_group)
				break;
		groups += j == i;
	}
	return 2 * groups;
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_bitmap_credits);

/*
 * Prepare to remove @inode in a batch, in the order of inode numbers.
 *
 * Return: credits for that and for finishing the batch after it; -1 if the
 *	inode has to be removed on its own.
 */
static int ext4_inactive_next(struct inode *inode,
			      struct ext4_inactive_batch *b)
{
	struct super_block *sb = inode->i_sb;
	bool first;

	if (!ext4_inactive_extents(inode, b))
		return -1;
	first = !b->nr_inos ||
		ext4_inactive_group(sb, b->inos[b->nr_inos - 1]) !=
			       ext4_inactive_group(sb, inode->i_ino);
	b->next_credits = ext4_inactive_bitmap_credits(b->extents,
						       b->nr_extents,
						       b->next_extents, first);
	/* The inode, its slot and quota, and the credits to finish. */
	return 2 + EXT4_MAXQUOTAS_DEL_BLOCKS(sb) + b->credits + b->next_credits;
}

/* Clear the bits of all inodes of @b and of their blocks. */
static void ext4_inactive_finish(handle_t *handle, struct super_block *sb,
				 struct ext4_inactive_batch *b)
{
	unsigned int i, end;

	ext4_free_extents(handle, sb, b->extents, b->nr_extents);
	/* The inodes are evicted, and their inode table entries updated. */
	for (i = 0; i < b->nr_inos; i = end) {
		ext4_group_t group = ext4_inactive_group(sb, b->inos[i]);

		for (end = i + 1; end < b->nr_inos; end++)
			if (ext4_inactive_group(sb, b->inos[end]) != group)
				break;
		ext4_free_inode_bits(handle, sb, b->inos + i, end - i, 0);
	}
	b->nr_extents = 0;
	b->nr_inos = 0;
	b->credits = 0;
}

/**
 * ext4_inactive_remove() - remove an inode as part of a batch
 * @inode: without links, users and pages
 *
 * Context: ->evict_inode(). Acts only on an inode dropped by
 *	ext4_inactive_together(), in that task.
 * Return: false if the caller has to remove the inode; otherwise it is removed,
 *	or stays an orphan.
 */
bool ext4_inactive_remove(struct inode *inode)
{
	struct ext4_extent_header *eh = ext_inode_hdr(inode);
	struct ext4_inode_info *ei = EXT4_I(inode);
	handle_t *handle = ext4_journal_current_handle();
	struct ext4_inactive_list *l = NULL;
	struct super_block *sb = inode->i_sb;
	struct ext4_free_extent *free, *end;
	struct ext4_inactive_batch *b;
	struct ext4_iloc iloc;
	qsize_t blocks = 0;

	if (ext4_test_inode_state(inode, EXT4_STATE_INACTIVE) &&
	    ext4_test_inode_state(inode, EXT4_STATE_ORPHAN_FILE))
		l = ei->i_inactive;
	/* A file handle lookup in another task may drop the last reference. */
	if (!l || READ_ONCE(l->worker) != current)
		return false;
	lockdep_assert_held(&l->lock);
	b = l->batch;
	/* First the step that may fail: the orphan slot is kept then. */
	if (ext4_reserve_inode_write(handle, inode, &iloc)) {
		ext4_orphan_del(NULL, inode);
		ext4_clear_inode(inode);
		return true;
	}
	free = &b->extents[b->nr_extents];
	for (end = free + b->next_extents; free < end; free++) {
		trace_ext4_mballoc_free(sb, inode, free->fe_group,
					free->fe_start, free->fe_len);
		blocks += free->fe_len;
	}
	trace_ext4_free_inode(inode);

	memset(EXT_FIRST_EXTENT(eh), 0,
	       le16_to_cpu(eh->eh_entries) * sizeof(struct ext4_extent));
	eh->eh_entries = 0;
	inode->i_size = 0;
	ei->i_disksize = 0;
	ext4_set_inode_state(inode, EXT4_STATE_NO_EXPAND);
	dquot_free_space_nodirty(inode, blocks << inode->i_blkbits);
	dquot_free_inode(inode);
	ei->i_dtime = (__u32)ktime_get_real_seconds();
	/* On failure the inode on disk may still have the blocks. */
	if (ext4_mark_iloc_dirty(handle, inode, &iloc)) {
		ext4_orphan_del(NULL, inode);
	} else {
		ext4_orphan_del(handle, inode);
		b->nr_extents += b->next_extents;
		b->inos[b->nr_inos++] = inode->i_ino;
		b->credits += b->next_credits;
	}
	ext4_clear_inode(inode);
	return true;
}

/*
 * Remove those of @nr inodes that can be removed in a batch, and clear them in
 * @inodes.
 *
 * Return: a handle to continue with, NULL, or an error.
 */
static handle_t *ext4_inactive_together(struct super_block *sb,
					struct ext4_inactive_item **items,
					struct inode **inodes, unsigned int nr,
					unsigned int *split)
{
	struct ext4_inactive_list *l = items[0]->list;
	struct ext4_inactive_batch *b;
	handle_t *handle = NULL;
	unsigned int i;
	int credits;

	lockdep_assert_held(&l->lock);
	b = kmalloc_obj(*b, GFP_NOFS | __GFP_NOWARN);
	if (!b)
		return NULL;
	b->nr_extents = 0;
	b->nr_inos = 0;
	b->credits = 0;
	l->batch = b;
	WRITE_ONCE(l->worker, current);
	for (i = 0; i < nr; i++) {
		if (!inodes[i])
			continue;
		if (b->nr_extents + EXT4_INACTIVE_EXTENTS >
		    ARRAY_SIZE(b->extents))
			ext4_inactive_finish(handle, sb, b);
		credits = ext4_inactive_next(inodes[i], b);
		if (credits < 0)
			continue;
		if (handle && __ext4_journal_ensure_credits(handle, credits,
							    credits, 0)) {
			ext4_inactive_finish(handle, sb, b);
			ext4_journal_stop(handle);
			handle = NULL;
			credits = ext4_inactive_next(inodes[i], b);
			if (credits < 0)
				continue;
		}
		if (!handle)
			handle = ext4_journal_start_sb(sb, EXT4_HT_TRUNCATE,
						       credits);
		if (IS_ERR(handle))
			break;
		if (!items[i]->committed &&
		    items[i]->orphan_tid != handle->h_transaction->t_tid)
			(*split)++;
		/*
		 * Visible to the task that drops the last reference:
		 * atomic_add_unless() in this iput() is fully ordered, and
		 * pairs with atomic_dec_and_test() in the final one.
		 */
		EXT4_I(inodes[i])->i_inactive = l;
		iput(inodes[i]);
		inodes[i] = NULL;
	}
	if (!IS_ERR_OR_NULL(handle))
		ext4_inactive_finish(handle, sb, b);
	WRITE_ONCE(l->worker, NULL);
	l->batch = NULL;
	kfree(b);
	return handle;
}

static unsigned int ext4_inactive_process(struct ext4_inactive *q,
					  struct ext4_inactive_item **items,
					  unsigned int nr)
{
	struct super_block *sb =
		container_of(q, struct ext4_sb_info, s_inactive)->s_sb;
	unsigned int i, done, split = 0, nofs = memalloc_nofs_save();
	struct inode *inodes[EXT4_INACTIVE_BATCH_MAX];
	int revokes = ext4_trans_default_revoke_credits(sb);
	int credits, extra_credits;
	handle_t *handle;

	WARN_ON_ONCE(ext4_journal_current_handle());
	/* The inodes stay in the orphan file. */
	if (ext4_emergency_state(sb) || sb_rdonly(sb)) {
		done = nr;
		goto out;
	}
	/* Do not block here: the thaw may need a lock we hold. */
	done = 0;
	if (!sb_start_intwrite_trylock(sb))
		goto out;

	/* Neighbours share inode table blocks and bitmaps. */
	sort(items, nr, sizeof(*items), ext4_inactive_cmp, NULL);
	while (done < nr) {
		inodes[done] = ext4_inactive_iget(sb, items[done]);
		if (IS_ERR(inodes[done]))
			break;
		if (inodes[done] && items[done]->heavy)
			ext4_inactive_cut(inodes[done], items[done]);
		done++;
	}

	handle = ext4_inactive_together(sb, items, inodes, done, &split);
	for (i = 0; i < done && !IS_ERR(handle); i++) {
		if (!inodes[i])
			continue;
		credits = ext4_evict_credits(inodes[i], &extra_credits);
		/* A failure of one inode need not affect the next. */
		if (handle && (is_handle_aborted(handle) ||
			       ext4_journal_ensure_credits(handle, credits,
							   revokes) < 0)) {
			ext4_journal_stop(handle);
			handle = NULL;
		}
		if (!handle)
			handle = ext4_journal_start_sb(sb, EXT4_HT_TRUNCATE,
						       credits);
		if (IS_ERR(handle))
			break;
		if (!items[i]->committed &&
		    items[i]->orphan_tid != handle->h_transaction->t_tid)
			split++;
		iput(inodes[i]);
	}
	if (!IS_ERR_OR_NULL(handle))
		ext4_journal_stop(handle);
	sb_end_intwrite(sb);
	/*
	 * Without a handle each eviction takes its own freeze protection, and
	 * fails on its own.
	 */
	for (; i < done; i++)
		iput(inodes[i]);
	/* A heavy inode is the only one in its batch. */
	if (items[0]->worked) {
		done = 0;
		split = 0;
	}
	ext4_inactive_batch_done(sb, done, split);
out:
	memalloc_nofs_restore(nofs);
	return done;
}

static const struct ext4_inactive_ops ext4_inactive_ops = {
	.begin = ext4_inactive_begin,
	.end = ext4_inactive_end,
	.process = ext4_inactive_process,
};

/**
 * ext4_inactive_setup() - set the limits of the queue of a filesystem
 * @sb: filesystem that is being mounted
 *
 * There is no queue before ext4_inactive_enable().
 */
void ext4_inactive_setup(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	q->max_nr = 128;
	q->max_clusters = div_u64(ext4_blocks_count(sbi->s_es) >>
				  sbi->s_cluster_bits, 20);
	q->batch = 32;
	q->delay_ms = 4;
	init_rwsem(&sbi->s_inactive_change);
	sbi->s_inactive_commit = jiffies;
}

/**
 * ext4_inactive_enable() - allocate the queue of a filesystem
 * @sb: filesystem that is being mounted or remounted
 *
 * The queue stays until umount, even if the mode is changed to off.
 *
 * Context: May sleep. Holds s_umount for writing; called before the mode is
 *	set.
 * Return: 0, also if the queue exists, or -ENOMEM.
 */
int ext4_inactive_enable(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	if (q->ops)
		return 0;
	if (!sbi->s_inactive_stats)
		sbi->s_inactive_stats =
			alloc_percpu(struct ext4_inactive_stats);
	if (!sbi->s_inactive_stats)
		return -ENOMEM;
	return ext4_inactive_queue_init(q, &ext4_inactive_ops);
}

/**
 * ext4_inactive_clusters() - number of clusters of deferred inodes
 * @sb: filesystem
 *
 * Context: Any. Reads a cache line of each CPU if there is a queue.
 * Return: the number.
 */
s64 ext4_inactive_clusters(struct super_block *sb)
{
	struct ext4_inactive *q = &EXT4_SB(sb)->s_inactive;

	/* Pairs with ext4_inactive_queue_init(). */
	return smp_load_acquire(&q->ops) ?
		percpu_counter_sum_positive(&q->clusters) : 0;
}

/**
 * ext4_inactive_teardown() - remove all deferred inodes and free the queue
 * @sb: filesystem that is being unmounted, or failed to mount
 *
 * Inodes that cannot be removed stay in the orphan file for the next mount.
 */
void ext4_inactive_teardown(struct super_block *sb)
{
	struct ext4_inactive *q = &EXT4_SB(sb)->s_inactive;

	ext4_inactive_flush(q, true);
	ext4_inactive_queue_destroy(q);
	free_percpu(EXT4_SB(sb)->s_inactive_stats);
	EXT4_SB(sb)->s_inactive_stats = NULL;
}

/**
 * ext4_inactive_settle() - remove deferred inodes and commit
 * @sb: filesystem
 *
 * For callers that look at the free blocks.
 *
 * Context: Takes s_umount.
 */
void ext4_inactive_settle(struct super_block *sb)
{
	struct ext4_inactive *q = &EXT4_SB(sb)->s_inactive;

	down_read(&sb->s_umount);
	/*
	 * Not while frozen: the work below waits for the thaw, and the thaw
	 * for s_umount.
	 */
	if (sb->s_writers.frozen != SB_FREEZE_COMPLETE && !sb_rdonly(sb) &&
	    ext4_inactive_nr(q, true) && ext4_inactive_flush(q, true)) {
		/* Deferred inodes may have EA inodes. */
		flush_delayed_work(&EXT4_SB(sb)->s_ea_inode_work);
		/* Their blocks cannot be reused before the commit. */
		ext4_force_commit(sb);
	}
	up_read(&sb->s_umount);
}

/* Check if removal may take too long for other inodes to wait for it. */
static bool ext4_inactive_heavy(struct inode *inode)
{
	u64 blocks = inode->i_blocks >> (inode->i_blkbits - 9);

	if (blocks < EXT4_INACTIVE_HEAVY_BLOCKS || !ext4_can_truncate(inode))
		return false;
	/* Each data block is revoked. */
	if (ext4_should_journal_data(inode))
		return true;
	if (ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS))
		return ext_depth(inode) > 0;
	return true;
}

/*
 * Check if a quota limits the owner. A task that reaches its quota limit does
 * not process deferred inodes.
 */
static bool ext4_inactive_limited(struct inode *inode)
{
	bool limited = false;
#ifdef CONFIG_QUOTA
	int type;

	/* No longer on s_inodes: quotaoff cannot drop the dquots. */
	for (type = 0; type < EXT4_MAXQUOTAS && !limited; type++) {
		struct dquot *dquot =
			rcu_access_pointer(EXT4_I(inode)->i_dquot[type]);
		struct mem_dqblk *d;

		if (!dquot)
			continue;
		d = &dquot->dq_dqb;
		spin_lock(&dquot->dq_dqb_lock);
		limited = d->dqb_bsoftlimit || d->dqb_bhardlimit ||
			  d->dqb_isoftlimit || d->dqb_ihardlimit;
		spin_unlock(&dquot->dq_dqb_lock);
	}
#endif
	return limited;
}

/* Clusters reserved for root and metadata, and 5% of the filesystem. */
static s64 ext4_inactive_reserve(struct ext4_sb_info *sbi)
{
	return (ext4_r_blocks_count(sbi->s_es) >> sbi->s_cluster_bits) +
	       atomic64_read(&sbi->s_resv_clusters) +
	       div_u64(ext4_blocks_count(sbi->s_es) >> sbi->s_cluster_bits, 20);
}

/*
 * Check if free space is tight. The counters are approximate, so with many CPUs
 * this may notice it late.
 */
static bool ext4_inactive_tight(struct ext4_sb_info *sbi)
{
	return percpu_counter_read_positive(&sbi->s_freeclusters_counter) -
	       percpu_counter_read_positive(&sbi->s_dirtyclusters_counter) <
	       ext4_inactive_reserve(sbi);
}

/*
 * Check if blocks or inodes are scarce. Called after an allocation failed, when
 * the approximate cluster counters may not show it yet.
 */
static bool ext4_inactive_scarce(struct ext4_sb_info *sbi)
{
	return percpu_counter_compare(&sbi->s_freeinodes_counter,
				      EXT4_INACTIVE_FEW_INODES) <= 0 ||
	       percpu_counter_sum_positive(&sbi->s_freeclusters_counter) -
	       percpu_counter_sum_positive(&sbi->s_dirtyclusters_counter) <
	       ext4_inactive_reserve(sbi);
}

/*
 * Check if the orphan file block of @inode has few free slots. They are left
 * for new orphans then.
 */
static bool ext4_inactive_slots_full(struct inode *inode)
{
	struct ext4_orphan_info *oi = &EXT4_SB(inode->i_sb)->s_orphan_info;
	int slots = ext4_inodes_per_orphan_block(inode->i_sb);

	return atomic_read(&oi->of_binfo[EXT4_I(inode)->i_orphan_idx /
					 slots].ob_free_entries) <
	       slots / 4;
}

/* Time between commits: the average, or longer if the last was long ago. */
static unsigned long ext4_inactive_gap(struct ext4_sb_info *sbi)
{
	return max(READ_ONCE(sbi->s_inactive_gap) / 8,
		   jiffies - READ_ONCE(sbi->s_inactive_commit));
}

/* Check if too many inodes missed their transaction recently. */
static bool ext4_inactive_backs_off(struct ext4_sb_info *sbi)
{
	unsigned long until = READ_ONCE(sbi->s_inactive_back_off);

	if (!until)
		return false;
	if (time_before(jiffies, until))
		return true;
	WRITE_ONCE(sbi->s_inactive_back_off, 0);
	return false;
}

/**
 * ext4_inactive_committed() - update the average time between commits
 * @sb: filesystem
 *
 * Context: Commit callback of the journal.
 */
void ext4_inactive_committed(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	unsigned long now = jiffies, gap = sbi->s_inactive_gap;

	WRITE_ONCE(sbi->s_inactive_gap,
		   gap - gap / 8 + (now - sbi->s_inactive_commit));
	WRITE_ONCE(sbi->s_inactive_commit, now);
}

/*
 * Decide whether to defer the removal of @inode, which has no links, users or
 * pages.
 *
 * Return: an item if so. The item then owns the orphan slot instead of the
 *	inode, which may be evicted from memory.
 */
static struct ext4_inactive_item *ext4_inactive_prepare(struct inode *inode)
{
	struct ext4_inode_info *ei = EXT4_I(inode);
	struct super_block *sb = inode->i_sb;
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive_facts f = {
		/* Pairs with ext4_apply_options(): the queue is there. */
		.mode = smp_load_acquire(&sbi->s_inactive_mode),
	};
	struct ext4_inactive *q = &sbi->s_inactive;
	struct ext4_inactive_item *item = NULL;
	enum ext4_inactive_verdict verdict;
	journal_t *journal = sbi->s_journal;
	bool frozen;
	u64 clusters;

	/* Without SB_ACTIVE, at mount and umount, there may be no queue. */
	if (f.mode == EXT4_INACTIVE_OFF || !journal ||
	    !(sb->s_flags & SB_ACTIVE) ||
	    ext4_test_inode_state(inode, EXT4_STATE_INACTIVE))
		return NULL;
	/*
	 * Orphan list: removing an inode needs the previous one in memory. EA
	 * inodes: xattr code waits for them with a handle open. Orphan cleanup
	 * and fast commit replay expect the inodes they drop to be gone. After
	 * an error the inode in memory may be newer than the one read back. A
	 * dquot dropped while the filesystem is frozen is retried until the
	 * thaw. A large inode without extents cannot be truncated in steps, and
	 * would block s_umount until it is removed. A holder of
	 * s_inactive_change for writing may wait for writeback, which cannot
	 * remove deferred inodes then; checking for readers, too, is harmless.
	 */
	frozen = READ_ONCE(sb->s_writers.frozen) != SB_UNFROZEN;
	f.heavy = ext4_inactive_heavy(inode);
	f.eligible = ext4_test_inode_state(inode, EXT4_STATE_ORPHAN_FILE) &&
		     !(ei->i_flags & EXT4_EA_INODE_FL) && !IS_SYNC(inode) &&
		     !(sbi->s_mount_state &
		       (EXT4_FC_REPLAY | EXT4_ORPHAN_FS | EXT4_ERROR_FS)) &&
		     !ext4_emergency_state(sb) && !sb_rdonly(sb) &&
		     !(frozen && sb_any_quota_loaded(sb)) &&
		     !rwsem_is_locked(&sbi->s_inactive_change) &&
		     !(f.heavy &&
		       !ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS));
	/* jbd2 sets PF_MEMALLOC_NOFS for a task with a handle. */
	f.must_not_work = current->flags & (PF_MEMALLOC | PF_MEMALLOC_NOFS) ||
			  frozen;
	f.limited = ext4_inactive_limited(inode);
	f.tight = ext4_inactive_tight(sbi);
	f.over_limit = ext4_inactive_full(q, f.heavy) ||
		       (f.eligible && ext4_inactive_slots_full(inode));
	f.committed = tid_geq(READ_ONCE(journal->j_commit_sequence),
			      ei->i_orphan_tid);
	f.young = ei->i_crtime.tv_sec +
			  2 * (time64_t)sbi->s_commit_interval / HZ >=
		  ktime_get_real_seconds();
	f.split = ext4_inactive_backs_off(sbi) ||
		  ext4_inactive_gap(sbi) <
			  EXT4_INACTIVE_SPLIT_ODDS * ext4_inactive_delay(q);
	verdict = ext4_inactive_decide(&f);
	if (ext4_inactive_is_parked(verdict)) {
		clusters = (inode->i_blocks >> (inode->i_blkbits - 9)) >>
			   sbi->s_cluster_bits;
		item = ext4_inactive_get_item(q, clusters, f.heavy,
					      !f.must_not_work);
		if (!item)
			verdict = EXT4_INACTIVE_LIMIT;
	}
	this_cpu_inc(sbi->s_inactive_stats->verdicts[verdict]);
	trace_ext4_inactive_prepare(inode, verdict);
	if (!item)
		return NULL;
	item->ino = inode->i_ino;
	item->generation = inode->i_generation;
	item->orphan_idx = ei->i_orphan_idx;
	item->orphan_tid = ei->i_orphan_tid;
	item->committed = f.committed;
	item->heavy = f.heavy;
	item->now = verdict == EXT4_INACTIVE_PARK_NOW;
	item->sync = f.mode == EXT4_INACTIVE_SYNC && !f.must_not_work;
	ext4_orphan_forget(inode);
	return item;
}

/**
 * ext4_inactive_park() - defer the removal of an inode, if that pays off
 * @inode: without links, users and pages
 *
 * Context: ->evict_inode(), while the inode can still be found: remount and
 *	umount find either the inode or the item. With inactivate=sync it takes
 *	the lock of a list, and the locks that nest outside of it.
 * Return: false if the caller has to remove the inode; otherwise the caller
 *	must not touch it.
 */
bool ext4_inactive_park(struct inode *inode)
{
	struct ext4_inactive *q = &EXT4_SB(inode->i_sb)->s_inactive;
	struct ext4_inactive_item *item = ext4_inactive_prepare(inode);

	if (!item)
		return false;
	/*
	 * Changes made after the last name was removed are in no fast commit
	 * once the inode is gone.
	 */
	if (!list_empty(&EXT4_I(inode)->i_fc_list) &&
	    READ_ONCE(EXT4_I(inode)->i_sync_tid) != item->orphan_tid)
		ext4_fc_mark_ineligible(inode->i_sb, EXT4_FC_REASON_ORPHAN,
					NULL);
	ext4_clear_inode(inode);
	/* Like a worker: s_umount keeps out a freeze until the item is done. */
	while (item->sync && ext4_inactive_begin(q)) {
		unsigned int done;

		item->worked = false;
		percpu_counter_sub(&q->clusters, item->clusters);
		scoped_guard(mutex, &item->list->lock)
			done = ext4_inactive_process(q, &item, 1);
		ext4_inactive_end(q);
		if (done) {
			ext4_inactive_free(item);
			return true;
		}
		if (!item->worked) {
			percpu_counter_add(&q->clusters, item->clusters);
			break;
		}
	}
	ext4_inactive_add(item, item->now);
	return true;
}

/**
 * ext4_inactive_make_space() - remove some deferred inodes after ENOSPC
 * @sb: filesystem
 * @retries: of ext4_should_retry_alloc()
 *
 * The number of retries is limited: ENOSPC may have other reasons than lack of
 * space, and inodes may be deferred all the time.
 *
 * Context: Sleeps. The caller has write access to the filesystem. If it has a
 *	handle, only the workers are woken.
 * Return: true if there is more space than before, or will be with the next
 *	commit.
 */
bool ext4_inactive_make_space(struct super_block *sb, int *retries)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	/* Both sum up per-CPU data, which is fine here: callers are rare. */
	if (!ext4_inactive_nr(q, true) || !ext4_inactive_scarce(sbi))
		return false;
	if (ext4_journal_current_handle()) {
		ext4_inactive_kick(q);
		return false;
	}
	if (*retries <= -EXT4_INACTIVE_RETRIES * EXT4_RETRIES_PARKED ||
	    fatal_signal_pending(current) || !ext4_inactive_progress(q))
		return false;
	*retries -= EXT4_RETRIES_PARKED;
	return true;
}

/**
 * ext4_inactive_writeback() - remove deferred inodes for writeback on ENOSPC
 * @sb: filesystem
 *
 * The workers may be blocked: a task holds s_umount for writing, or waits for
 * it while readers wait for writeback. Writeback keeps the filesystem mounted,
 * but neither writable nor its quotas unchanged. s_inactive_change does that.
 *
 * Context: Sleeps. As for &ext4_inactive_ops.process.
 */
void ext4_inactive_writeback(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	if (!ext4_inactive_nr(q, true))
		return;
	/* A writer flushes the queue itself, and may wait for writeback. */
	if (down_read_trylock(&sbi->s_inactive_change)) {
		ext4_inactive_progress(q);
		up_read(&sbi->s_inactive_change);
	}
}

/* /proc/fs/ext4/<dev>/inactive */
int ext4_seq_inactive_show(struct seq_file *m, void *v)
{
	static const char * const names[EXT4_INACTIVE_VERDICTS] = {
		[EXT4_INACTIVE_NOT_ELIGIBLE] = "not eligible",
		[EXT4_INACTIVE_LIMIT] = "limit",
		[EXT4_INACTIVE_LIMITED] = "quota",
		[EXT4_INACTIVE_TIGHT] = "space is tight",
		[EXT4_INACTIVE_YOUNG] = "young",
		[EXT4_INACTIVE_SPLIT] = "commits too close",
		[EXT4_INACTIVE_PARK] = "parked",
		[EXT4_INACTIVE_PARK_HEAVY] = "parked, heavy",
		[EXT4_INACTIVE_PARK_NOW] = "parked, heavy, no delay",
	};
	struct super_block *sb = m->private;
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive_stats sum = {};
	unsigned int cpu, i;

	for_each_possible_cpu(cpu) {
		struct ext4_inactive_stats *stats;

		/*
		 * The queue was never enabled. Pairs with
		 * ext4_inactive_queue_init().
		 */
		if (!smp_load_acquire(&sbi->s_inactive.ops))
			break;
		stats = per_cpu_ptr(sbi->s_inactive_stats, cpu);
		for (i = 0; i < EXT4_INACTIVE_VERDICTS; i++)
			sum.verdicts[i] += READ_ONCE(stats->verdicts[i]);
		sum.batches += READ_ONCE(stats->batches);
		sum.split += READ_ONCE(stats->split);
	}
	seq_printf(m, "inodes pending: %lu\n",
		   ext4_inactive_nr(&sbi->s_inactive, true));
	seq_printf(m, "clusters pending: %lld\n",
		   ext4_inactive_clusters(sb));
	for (i = 0; i < EXT4_INACTIVE_VERDICTS; i++)
		seq_printf(m, "%s%s: %lu\n",
			   ext4_inactive_is_parked(i) ? "" : "at once, ",
			   names[i], sum.verdicts[i]);
	seq_printf(m, "batches: %lu\n", sum.batches);
	seq_printf(m, "missed their transaction: %lu\n", sum.split);
	seq_printf(m, "between commits: %u ms\n",
		   jiffies_to_msecs(ext4_inactive_gap(sbi)));
	seq_printf(m, "backing off: %s\n",
		   str_yes_no(ext4_inactive_backs_off(sbi)));
	return 0;
}

int __init ext4_init_inactive(void)
{
	ext4_inactive_cachep = KMEM_CACHE(ext4_inactive_item, 0);
	if (!ext4_inactive_cachep)
		return -ENOMEM;
	/*
	 * Not bound to a CPU: the worker would compete for the CPU of the task
	 * that queues the item.
	 * Freezable: the filesystem must not change behind the back of a
	 * hibernation image.
	 * MEM_RECLAIM: writeback may wait for space that only the workers free.
	 */
	ext4_inactive_wq = alloc_workqueue("ext4-inactive",
					   WQ_UNBOUND | WQ_MEM_RECLAIM |
					   WQ_FREEZABLE, 0);
	if (!ext4_inactive_wq) {
		kmem_cache_destroy(ext4_inactive_cachep);
		return -ENOMEM;
	}
	return 0;
}

void ext4_exit_inactive(void)
{
	destroy_workqueue(ext4_inactive_wq);
	kmem_cache_destroy(ext4_inactive_cachep);
}
