// SPDX-License-Identifier: GPL-2.0
/*
 * Leave the removal of inodes to workers: the queue.
 *
 * Whoever parks an item adds it to the list of the CPU he runs on, or to one of a few lists for
 * what takes long, without a lock. Whoever works on a list holds its mutex and takes a batch of
 * the oldest items; that is the worker of the list, or somebody who cannot wait for it (ENOSPC,
 * remount, umount, freeze). A worker is never waited for, as it may be waiting itself: who needs
 * what is parked does it himself, and only waits for a batch that has been begun. Only when the
 * lists are empty and nobody can add to them, at umount, is the work itself waited for.
 *
 * Nothing is forgotten. An item is in its list before the work is queued. queue_delayed_work()
 * orders the two even if the work is pending already, and the worker is no longer pending
 * when it empties the list; so either the worker finds the item, or it is queued once more.
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

/* Each list of @q; the light ones first, as they are done sooner. */
#define for_each_inactive_list(q, l, i)						\
	for (i = 0; (l = ext4_inactive_list(q, &i)); i++)

static struct ext4_inactive_list *ext4_inactive_list(struct ext4_inactive *q, unsigned int *i)
{
	/* Not yet set up, or no longer. Pairs with ext4_inactive_queue_init(). */
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
 * For who is about to work on lists, or to wait for who does, also if they are empty: that may
 * need space in the log, and so wait for a handle to end.
 */
static void ext4_inactive_assert_may_work(void)
{
	might_sleep();
	WARN_ON_ONCE(journal_current_handle());
}

/*
 * Work on the oldest items of @l.
 *
 * Context: Sleeps until nobody else does that. The caller keeps the filesystem mounted and
 *	writable, and has no handle.
 * Return: number of items that are done, or -EAGAIN if nothing could be done. @more: there is
 *	more to do; if none is done, part of one was.
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
			l->taken = llist_reverse_order(llist_del_all(&l->parked));
		if (!l->taken)
			break;
		items[nr] = llist_entry(l->taken, struct ext4_inactive_item, node);
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
		/* What is left of one that was worked on is counted already. */
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
		container_of(to_delayed_work(work), struct ext4_inactive_list, work);
	struct ext4_inactive *q = l->owner;
	unsigned long delay = HZ / 10;
	bool more = true;

	if (q->ops->begin(q)) {
		/* Only a thaw, or memory, helps; or that another task may run for a jiffy. */
		delay = ext4_inactive_run(l, &more) < 0 ? HZ : READ_ONCE(l->stalled) ? 1 : 0;
		q->ops->end(q);
	}
	/* One batch at a time: who waits for what ->begin() holds does not wait for long. */
	if (more)
		queue_delayed_work(ext4_inactive_wq, &l->work, delay);
}

static void ext4_inactive_list_init(struct ext4_inactive *q, struct ext4_inactive_list *l)
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
int ext4_inactive_queue_init(struct ext4_inactive *q, const struct ext4_inactive_ops *ops)
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
	/* Pairs with ext4_inactive_list(), which statfs, say, calls at any time. */
	smp_store_release(&q->ops, ops);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_queue_init);

/**
 * ext4_inactive_queue_destroy() - stop the workers and free a queue
 * @q: the queue, or zeroed; nobody parks
 *
 * What is still parked is forgotten: it stays in the orphan file.
 *
 * Context: May sleep, waits for the workers. As these only try to get what the caller may
 *	hold (s_umount, freeze protection), they end.
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

static struct ext4_inactive_list *ext4_inactive_pick(struct ext4_inactive *q, bool heavy)
{
	/* Any list will do. */
	if (!heavy)
		return raw_cpu_ptr(q->light);
	return &q->heavy[(unsigned int)atomic_inc_return(&q->next_heavy) % EXT4_INACTIVE_HEAVY];
}

/**
 * ext4_inactive_full() - is it of no use to ask for an item?
 * @q: the queue
 * @heavy: an item whose work takes long
 *
 * A first look; ext4_inactive_get_item() is exact.
 *
 * Context: Any.
 * Return: true if it is.
 */
bool ext4_inactive_full(struct ext4_inactive *q, bool heavy)
{
	struct ext4_inactive_list *l = heavy ? q->heavy : raw_cpu_ptr(q->light);

	return atomic_read(&l->nr) >= READ_ONCE(q->max_nr) ||
	       percpu_counter_read_positive(&q->clusters) >= READ_ONCE(q->max_clusters);
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_full);

/**
 * ext4_inactive_get_item() - make room for an inode
 * @q: the queue
 * @clusters: that the inode has
 * @heavy: its removal takes long
 * @limits: fail if as many are parked as may be
 *
 * With @limits the number of items in a list is not above its limit; that of clusters may be
 * by what percpu_counter_read() does not see, and by an inode for each CPU.
 *
 * Context: Does not sleep for long; memory is not taken from the reserves, so a task that
 *	reclaims memory may call it.
 * Return: the item, to be given to ext4_inactive_add(); NULL if there is no room for it.
 */
struct ext4_inactive_item *ext4_inactive_get_item(struct ext4_inactive *q, u64 clusters,
						  bool heavy, bool limits)
{
	struct ext4_inactive_list *l = ext4_inactive_pick(q, heavy);
	struct ext4_inactive_item *item;

	if (atomic_inc_return(&l->nr) > READ_ONCE(q->max_nr) && limits)
		goto full;
	if (limits && percpu_counter_read_positive(&q->clusters) >= READ_ONCE(q->max_clusters))
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
 * ext4_inactive_add() - park an item
 * @item: from ext4_inactive_get_item(); the queue's from now on
 * @now: do not wait for others
 *
 * Context: Any that may take the locks of a workqueue. The inode that the item is for is no
 *	longer hashed.
 */
void ext4_inactive_add(struct ext4_inactive_item *item, bool now)
{
	struct ext4_inactive_list *l = item->list;
	struct ext4_inactive *q = l->owner;
	unsigned int batch = clamp(READ_ONCE(q->batch), 1U, EXT4_INACTIVE_BATCH_MAX);

	/* Fully ordered: what was done to the inode before is seen by who takes the item. */
	llist_add(&item->node, &l->parked);
	if (now || atomic_read(&l->nr) % batch == 0)
		mod_delayed_work(ext4_inactive_wq, &l->work, 0);
	else
		queue_delayed_work(ext4_inactive_wq, &l->work, ext4_inactive_delay(q));
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_add);

/**
 * ext4_inactive_nr() - how many inodes are parked
 * @q: the queue
 * @busy: count those that are being removed, too; some of them may be free already
 *
 * Context: Any. Reads a line of each CPU.
 * Return: the number.
 */
unsigned long ext4_inactive_nr(struct ext4_inactive *q, bool busy)
{
	struct ext4_inactive_list *l;
	long nr = 0;
	unsigned int i;

	for_each_inactive_list(q, l, i)
		nr += (long)atomic_read(&l->nr) - (busy ? 0 : (long)READ_ONCE(l->busy));
	/* Not all of it was read at the same time. */
	return max(nr, 0L);
}
EXPORT_SYMBOL_IF_KUNIT(ext4_inactive_nr);

/**
 * ext4_inactive_kick() - have the workers start now
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
 * ext4_inactive_progress() - free some of what is parked, for somebody who needs it
 * @q: the queue
 *
 * Context: Sleeps. As for &ext4_inactive_ops.process; the caller keeps the filesystem mounted
 *	and writable.
 * Return: true if there is more space than before the call, or will be with the next commit;
 *	false if nothing is parked, or nothing can be done now.
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
 * ext4_inactive_flush() - remove all that is parked
 * @q: the queue
 * @heavy: what takes long, too
 *
 * What is parked meanwhile may be left.
 *
 * Context: As ext4_inactive_progress().
 * Return: false if it cannot be done now.
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
 * What the queue is for.
 *
 * The first half of the removal of an inode is that of any inode that leaves memory: nothing
 * of it is left but what is in its raw inode, and the slot in the orphan file. The second
 * half is what orphan cleanup does at a mount: read the inode by its number, and drop the
 * only reference. So nobody ever sees an inode that is half there; until the number is free
 * for others, its bit in the inode bitmap is set, and whoever asks for it by a file handle
 * finds no links and gets ESTALE.
 */

static bool ext4_inactive_begin(struct ext4_inactive *q)
{
	struct super_block *sb = container_of(q, struct ext4_sb_info, s_inactive)->s_sb;

	/*
	 * Keeps out umount, and a remount that would have to refuse because an inode without
	 * links is in memory. Who holds it for writing does our work himself if he needs it.
	 */
	return down_read_trylock(&sb->s_umount);
}

static void ext4_inactive_end(struct ext4_inactive *q)
{
	up_read(&container_of(q, struct ext4_sb_info, s_inactive)->s_sb->s_umount);
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
 * Return: the inode; NULL if it has to be left to fsck or the next mount; -ENOMEM.
 */
static struct inode *ext4_inactive_iget(struct super_block *sb,
					const struct ext4_inactive_item *item)
{
	struct inode *ret = NULL, *inode = ext4_iget(sb, item->ino, EXT4_IGET_INACTIVE);

	if (IS_ERR(inode))
		return PTR_ERR(inode) == -ENOMEM ? inode : NULL;
	if (!ext4_test_inode_state(inode, EXT4_STATE_INACTIVE) ||
	    inode->i_nlink || inode->i_generation != item->generation) {
		ext4_error_inode(inode, __func__, __LINE__, 0, "parked inode is in use");
		if (ext4_test_inode_state(inode, EXT4_STATE_INACTIVE) && !inode->i_nlink)
			goto keep;
		/* Others may have it. */
		iput(inode);
		return NULL;
	}
	EXT4_I(inode)->i_orphan_idx = item->orphan_idx;
	EXT4_I(inode)->i_orphan_tid = item->orphan_tid;
	EXT4_I(inode)->i_inactive = NULL;
	ext4_set_inode_state(inode, EXT4_STATE_ORPHAN_FILE);
	/* Any other error is as good as none, as it is for who removes an inode at once. */
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
 * Cut off what the last leaf of the extent tree has, so that the removal of a large inode
 * does not take long. That is done when it is dropped, if nobody else has it.
 */
static void ext4_inactive_cut(struct inode *inode, struct ext4_inactive_item *item)
{
	struct ext4_sb_info *sbi = EXT4_SB(inode->i_sb);
	struct ext4_inode_info *ei = EXT4_I(inode);
	struct ext4_extent_header *leaf;
	struct ext4_ext_path *path;
	struct ext4_extent *ex;
	u64 blocks = 0, left;
	u32 cut = 0;

	/* From the last turn, if a file handle has kept it in memory. */
	ext4_clear_inode_state(inode, EXT4_STATE_INACTIVE_KEEP);
	if (!ext4_can_truncate(inode) || !ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS) ||
	    !ext_depth(inode))
		return;
	down_read(&ei->i_data_sem);
	path = ext4_find_extent(inode, EXT_MAX_BLOCKS - 1, NULL, EXT4_EX_NOFAIL);
	up_read(&ei->i_data_sem);
	/* Who removes all of it finds the error, too. */
	if (IS_ERR(path))
		return;
	leaf = path[ext_depth(inode)].p_hdr;
	if (leaf->eh_entries)
		cut = le32_to_cpu(EXT_FIRST_EXTENT(leaf)->ee_block);
	for (ex = EXT_FIRST_EXTENT(leaf); leaf->eh_entries && ex <= EXT_LAST_EXTENT(leaf); ex++)
		blocks += ext4_ext_get_actual_len(ex);
	ext4_free_ext_path(path);
	if (!cut)
		return;
	/*
	 * If this is no less than the last time, that has failed, or somebody with a file handle
	 * had the inode, and may have it still. He does not keep it for long.
	 */
	if (!item->cut || cut < item->cut)
		item->tries = 0;
	else if (sbi->s_mount_state & EXT4_ERROR_FS || ++item->tries > EXT4_INACTIVE_TRIES)
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

/* Is what is parked in time for the transaction that removed its name? */
static void ext4_inactive_batch_done(struct super_block *sb, unsigned int nr, unsigned int split)
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
		WRITE_ONCE(sbi->s_inactive_back_off, (jiffies + EXT4_INACTIVE_BACK_OFF * HZ) | 1);
	/* Two who do this at once lose some of the next window. */
	atomic_set(&sbi->s_inactive_split, 0);
	atomic_set(&sbi->s_inactive_seen, 0);
}

/* The most extents, cut at the borders of block groups, of an inode that goes with others. */
#define EXT4_INACTIVE_EXTENTS	8

/*
 * Files with few extents that are removed together. Each is removed but for its bits: those of
 * its blocks and of its number are cleared for all of them at the end, so a bitmap that several
 * share is locked, and has its checksum computed, once.
 *
 * All that is done to a file is in one transaction, or an orphan would have lost what makes the
 * next mount remove the rest of it. So the handle always has credits for ext4_inactive_finish(),
 * and is neither stopped nor restarted before that.
 */
struct ext4_inactive_batch {
	struct ext4_free_extent extents[2 * EXT4_INACTIVE_BATCH_MAX];
	u32 inos[EXT4_INACTIVE_BATCH_MAX];
	unsigned int nr_extents;
	unsigned int nr_inos;
	int credits;		/* to finish with */
	/* Of the inode that is next. */
	unsigned int next_extents;
	int next_credits;
};

/*
 * Write the extents of @inode behind those of @b.
 *
 * Return: false if there is more to its removal than that they become free.
 */
static bool ext4_inactive_extents(struct inode *inode, struct ext4_inactive_batch *b)
{
	struct ext4_extent_header *eh = ext_inode_hdr(inode);
	struct super_block *sb = inode->i_sb;
	struct ext4_extent *ex;
	unsigned int nr = 0;
	blkcnt_t blocks = 0;

	if (!S_ISREG(inode->i_mode) || !ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS) ||
	    ext4_has_inline_data(inode) || ext_depth(inode) || EXT4_I(inode)->i_file_acl ||
	    ext4_should_journal_data(inode) || ext4_has_feature_bigalloc(sb) ||
	    ext4_test_inode_state(inode, EXT4_STATE_INACTIVE_KEEP))
		return false;
	/* The attributes may have their values in other inodes. */
	if (ext4_has_feature_ea_inode(sb) && ext4_test_inode_state(inode, EXT4_STATE_XATTR))
		return false;
	for (ex = EXT_FIRST_EXTENT(eh); ex <= EXT_LAST_EXTENT(eh); ex++) {
		ext4_fsblk_t block = ext4_ext_pblock(ex);
		int len = ext4_ext_get_actual_len(ex);

		/* Whoever removes it alone says what is wrong. */
		if (!ext4_inode_block_valid(inode, block, len))
			return false;
		blocks += len;
		while (len) {
			struct ext4_free_extent *free = &b->extents[b->nr_extents + nr];

			if (nr == EXT4_INACTIVE_EXTENTS)
				return false;
			ext4_get_group_no_and_offset(sb, block, &free->fe_group, &free->fe_start);
			free->fe_len = min_t(int, len,
					     EXT4_BLOCKS_PER_GROUP(sb) - free->fe_start);
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
 * @extents: those of the inodes before it and, behind them, its own; each is in one group
 * @nr: number of the former
 * @next: number of the latter
 * @first: no inode before it has its number in the same group
 *
 * A group has a bitmap and a descriptor, for blocks as for inodes.
 *
 * Context: Any.
 * Return: what it adds to the credits of those before it.
 */
int ext4_inactive_bitmap_credits(const struct ext4_free_extent *extents, unsigned int nr,
				 unsigned int next, bool first)
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
 * Get ready to remove @inode, the next in the order of their numbers, with others.
 *
 * Return: credits for that, and to finish after it; -1 if it has to be removed alone.
 */
static int ext4_inactive_next(struct inode *inode, struct ext4_inactive_batch *b)
{
	struct super_block *sb = inode->i_sb;
	bool first;

	if (!ext4_inactive_extents(inode, b))
		return -1;
	first = !b->nr_inos || ext4_inactive_group(sb, b->inos[b->nr_inos - 1]) !=
			       ext4_inactive_group(sb, inode->i_ino);
	b->next_credits = ext4_inactive_bitmap_credits(b->extents, b->nr_extents,
						       b->next_extents, first);
	/* The inode and its slot, and what is left for the end. */
	return 2 + EXT4_MAXQUOTAS_DEL_BLOCKS(sb) + b->credits + b->next_credits;
}

/* Clear the bits. */
static void ext4_inactive_finish(handle_t *handle, struct super_block *sb,
				 struct ext4_inactive_batch *b)
{
	unsigned int i, end;

	ext4_free_extents(handle, sb, b->extents, b->nr_extents);
	/* Nobody has their inodes any more, and what they had in the inode table is written. */
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
 * ext4_inactive_remove() - remove an inode together with others
 * @inode: without links, users and pages
 *
 * Context: ->evict_inode(). If it is one that ext4_inactive_together() drops, by that task.
 * Return: false if the caller has to remove it; else it is removed, or stays an orphan.
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
	/* If a file handle has kept it in memory, whoever uses that is the last one. */
	if (!l || READ_ONCE(l->worker) != current)
		return false;
	lockdep_assert_held(&l->lock);
	b = l->batch;
	/* First what may fail: then it stays in the orphan file. */
	if (ext4_reserve_inode_write(handle, inode, &iloc)) {
		ext4_orphan_del(NULL, inode);
		ext4_clear_inode(inode);
		return true;
	}
	free = &b->extents[b->nr_extents];
	for (end = free + b->next_extents; free < end; free++) {
		trace_ext4_mballoc_free(sb, inode, free->fe_group, free->fe_start, free->fe_len);
		blocks += free->fe_len;
	}
	trace_ext4_free_inode(inode);

	memset(EXT_FIRST_EXTENT(eh), 0, le16_to_cpu(eh->eh_entries) * sizeof(struct ext4_extent));
	eh->eh_entries = 0;
	inode->i_size = 0;
	ei->i_disksize = 0;
	ext4_set_inode_state(inode, EXT4_STATE_NO_EXPAND);
	dquot_free_space_nodirty(inode, blocks << inode->i_blkbits);
	dquot_free_inode(inode);
	ei->i_dtime = (__u32)ktime_get_real_seconds();
	/* If this fails the inode on disk may still have the blocks. */
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
 * Remove those of @nr inodes for which that is all, and take them out of @inodes.
 *
 * Return: a handle to go on with, NULL, or an error.
 */
static handle_t *ext4_inactive_together(struct super_block *sb, struct ext4_inactive_item **items,
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
		if (b->nr_extents + EXT4_INACTIVE_EXTENTS > ARRAY_SIZE(b->extents))
			ext4_inactive_finish(handle, sb, b);
		credits = ext4_inactive_next(inodes[i], b);
		if (credits < 0)
			continue;
		if (handle && __ext4_journal_ensure_credits(handle, credits, credits, 0)) {
			ext4_inactive_finish(handle, sb, b);
			ext4_journal_stop(handle);
			handle = NULL;
			credits = ext4_inactive_next(inodes[i], b);
			if (credits < 0)
				continue;
		}
		if (!handle)
			handle = ext4_journal_start_sb(sb, EXT4_HT_TRUNCATE, credits);
		if (IS_ERR(handle))
			break;
		if (!items[i]->committed && items[i]->orphan_tid != handle->h_transaction->t_tid)
			(*split)++;
		/*
		 * Whoever drops the last reference sees it: atomic_add_unless() of our iput() is
		 * fully ordered, and pairs with atomic_dec_and_test() of his.
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
					  struct ext4_inactive_item **items, unsigned int nr)
{
	struct super_block *sb = container_of(q, struct ext4_sb_info, s_inactive)->s_sb;
	unsigned int i, done, split = 0, nofs = memalloc_nofs_save();
	struct inode *inodes[EXT4_INACTIVE_BATCH_MAX];
	int credits, extra_credits, revokes = ext4_trans_default_revoke_credits(sb);
	handle_t *handle;

	WARN_ON_ONCE(ext4_journal_current_handle());
	/* They stay in the orphan file. */
	if (ext4_emergency_state(sb) || sb_rdonly(sb)) {
		done = nr;
		goto out;
	}
	/* Whoever thaws the filesystem may have to wait for what we hold. */
	done = 0;
	if (!sb_start_intwrite_trylock(sb))
		goto out;

	/* Neighbours share blocks of the inode table and bitmaps. */
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
		/* What has failed for one does not have to fail for the others. */
		if (handle && (is_handle_aborted(handle) ||
			       ext4_journal_ensure_credits(handle, credits, revokes) < 0)) {
			ext4_journal_stop(handle);
			handle = NULL;
		}
		if (!handle)
			handle = ext4_journal_start_sb(sb, EXT4_HT_TRUNCATE, credits);
		if (IS_ERR(handle))
			break;
		if (!items[i]->committed && items[i]->orphan_tid != handle->h_transaction->t_tid)
			split++;
		iput(inodes[i]);
	}
	if (!IS_ERR_OR_NULL(handle))
		ext4_journal_stop(handle);
	sb_end_intwrite(sb);
	/* Without a handle each inode has its own protection, and fails on its own. */
	for (; i < done; i++)
		iput(inodes[i]);
	/* Heavy ones are alone. */
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
 * @sb: that is being mounted
 *
 * There is no queue before ext4_inactive_enable().
 */
void ext4_inactive_setup(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	q->max_nr = 128;
	q->max_clusters = div_u64(ext4_blocks_count(sbi->s_es) >> sbi->s_cluster_bits, 20);
	q->batch = 32;
	q->delay_ms = 4;
	init_rwsem(&sbi->s_inactive_change);
	sbi->s_inactive_commit = jiffies;
}

/**
 * ext4_inactive_enable() - make the queue of a filesystem
 * @sb: that is being mounted, or remounted
 *
 * Once it is there it stays until umount, whatever becomes of the mode.
 *
 * Context: May sleep. With s_umount for writing, before the mode is set.
 * Return: 0, also if there is one; or -ENOMEM.
 */
int ext4_inactive_enable(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	if (q->ops)
		return 0;
	if (!sbi->s_inactive_stats)
		sbi->s_inactive_stats = alloc_percpu(struct ext4_inactive_stats);
	if (!sbi->s_inactive_stats)
		return -ENOMEM;
	return ext4_inactive_queue_init(q, &ext4_inactive_ops);
}

/**
 * ext4_inactive_clusters() - how many clusters parked inodes have
 * @sb: filesystem
 *
 * Context: Any. Reads a line of each CPU if there is a queue.
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
 * ext4_inactive_teardown() - remove what is parked, and never park again
 * @sb: that is being unmounted, or could not be mounted
 *
 * What cannot be removed stays in the orphan file, for the next mount.
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
 * ext4_inactive_settle() - remove what is parked, for whoever looks at the free blocks
 * @sb: filesystem
 *
 * Context: Takes s_umount.
 */
void ext4_inactive_settle(struct super_block *sb)
{
	struct ext4_inactive *q = &EXT4_SB(sb)->s_inactive;

	down_read(&sb->s_umount);
	/* Whoever thaws the filesystem would wait for us, and what is below for him. */
	if (sb->s_writers.frozen != SB_FREEZE_COMPLETE && !sb_rdonly(sb) &&
	    ext4_inactive_nr(q, true) && ext4_inactive_flush(q, true)) {
		/* They may have had inodes for the values of attributes. */
		flush_delayed_work(&EXT4_SB(sb)->s_ea_inode_work);
		/* Until then their blocks are not free for others. */
		ext4_force_commit(sb);
	}
	up_read(&sb->s_umount);
}

/* May removal take so long that others should not wait for it? */
static bool ext4_inactive_heavy(struct inode *inode)
{
	u64 blocks = inode->i_blocks >> (inode->i_blkbits - 9);

	if (blocks < EXT4_INACTIVE_HEAVY_BLOCKS || !ext4_can_truncate(inode))
		return false;
	/* Each block is revoked. */
	if (ext4_should_journal_data(inode))
		return true;
	if (ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS))
		return ext_depth(inode) > 0;
	return true;
}

/* Does a quota limit the owner? There is nothing that would wait for us if it did not suffice. */
static bool ext4_inactive_limited(struct inode *inode)
{
	bool limited = false;
#ifdef CONFIG_QUOTA
	int type;

	/* The inode is on no list any more, so quotaoff does not take them away. */
	for (type = 0; type < EXT4_MAXQUOTAS && !limited; type++) {
		struct dquot *dquot = rcu_access_pointer(EXT4_I(inode)->i_dquot[type]);
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

/* What is not for everybody, and a twentieth of all. */
static s64 ext4_inactive_reserve(struct ext4_sb_info *sbi)
{
	return (ext4_r_blocks_count(sbi->s_es) >> sbi->s_cluster_bits) +
	       atomic64_read(&sbi->s_resv_clusters) +
	       div_u64(ext4_blocks_count(sbi->s_es) >> sbi->s_cluster_bits, 20);
}

/* Is little free for everybody? With many CPUs this may notice it late. */
static bool ext4_inactive_tight(struct ext4_sb_info *sbi)
{
	return percpu_counter_read_positive(&sbi->s_freeclusters_counter) -
	       percpu_counter_read_positive(&sbi->s_dirtyclusters_counter) <
	       ext4_inactive_reserve(sbi);
}

/* Are blocks or inodes few? For whoever found none: the rough count may not know it yet. */
static bool ext4_inactive_scarce(struct ext4_sb_info *sbi)
{
	return percpu_counter_compare(&sbi->s_freeinodes_counter, EXT4_INACTIVE_FEW_INODES) <= 0 ||
	       percpu_counter_sum_positive(&sbi->s_freeclusters_counter) -
	       percpu_counter_sum_positive(&sbi->s_dirtyclusters_counter) <
	       ext4_inactive_reserve(sbi);
}

/* Are so many slots of the orphan file in use that others may not get one? */
static bool ext4_inactive_slots_full(struct inode *inode)
{
	struct ext4_orphan_info *oi = &EXT4_SB(inode->i_sb)->s_orphan_info;
	int slots = ext4_inodes_per_orphan_block(inode->i_sb);

	return atomic_read(&oi->of_binfo[EXT4_I(inode)->i_orphan_idx / slots].ob_free_entries) <
	       slots / 4;
}

/* The time between commits: the average, or longer if the last one was long ago. */
static unsigned long ext4_inactive_gap(struct ext4_sb_info *sbi)
{
	return max(READ_ONCE(sbi->s_inactive_gap) / 8,
		   jiffies - READ_ONCE(sbi->s_inactive_commit));
}

/* Were too many late, a short time ago? */
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
 * ext4_inactive_committed() - note that a transaction has been committed
 * @sb: filesystem
 *
 * Context: The journal's thread.
 */
void ext4_inactive_committed(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	unsigned long now = jiffies, gap = sbi->s_inactive_gap;

	WRITE_ONCE(sbi->s_inactive_gap, gap - gap / 8 + (now - sbi->s_inactive_commit));
	WRITE_ONCE(sbi->s_inactive_commit, now);
}

/*
 * Shall the removal of @inode, which has no links, users and pages, be left to others?
 *
 * Return: an item if so, and then it is an orphan and not the inode, which may leave memory.
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

	/* There is no queue while the filesystem is mounted or unmounted. */
	if (f.mode == EXT4_INACTIVE_OFF || !journal || !(sb->s_flags & SB_ACTIVE) ||
	    ext4_test_inode_state(inode, EXT4_STATE_INACTIVE))
		return NULL;
	/*
	 * Of those in the orphan list the previous one has to be in memory to take one out. Who
	 * uses inodes for the values of extended attributes waits for them with a handle. What
	 * orphan cleanup and replay drop is to be gone when they look again. After an error the
	 * inode in memory may be newer than what is read back. A dquot that is dropped while
	 * the filesystem is frozen is tried again until the thaw. A large inode without extents
	 * cannot be cut, and who needs s_umount would wait for all of it. Who has
	 * s_inactive_change for writing may wait for writeback, which then cannot remove what
	 * is parked; that others have it for reading does no harm.
	 */
	frozen = READ_ONCE(sb->s_writers.frozen) != SB_UNFROZEN;
	f.heavy = ext4_inactive_heavy(inode);
	f.eligible = ext4_test_inode_state(inode, EXT4_STATE_ORPHAN_FILE) &&
		     !(ei->i_flags & EXT4_EA_INODE_FL) && !IS_SYNC(inode) &&
		     !(sbi->s_mount_state & (EXT4_FC_REPLAY | EXT4_ORPHAN_FS | EXT4_ERROR_FS)) &&
		     !ext4_emergency_state(sb) && !sb_rdonly(sb) &&
		     !(frozen && sb_any_quota_loaded(sb)) &&
		     !rwsem_is_locked(&sbi->s_inactive_change) &&
		     !(f.heavy && !ext4_test_inode_flag(inode, EXT4_INODE_EXTENTS));
	/* jbd2 sets PF_MEMALLOC_NOFS for whoever has a handle. */
	f.must_not_work = current->flags & (PF_MEMALLOC | PF_MEMALLOC_NOFS) ||
			  frozen;
	f.limited = ext4_inactive_limited(inode);
	f.tight = ext4_inactive_tight(sbi);
	f.over_limit = ext4_inactive_full(q, f.heavy) ||
		       (f.eligible && ext4_inactive_slots_full(inode));
	f.committed = tid_geq(READ_ONCE(journal->j_commit_sequence), ei->i_orphan_tid);
	f.young = ei->i_crtime.tv_sec + 2 * (time64_t)sbi->s_commit_interval / HZ >=
		  ktime_get_real_seconds();
	f.split = ext4_inactive_backs_off(sbi) ||
		  ext4_inactive_gap(sbi) < EXT4_INACTIVE_SPLIT_ODDS * ext4_inactive_delay(q);
	verdict = ext4_inactive_decide(&f);
	if (ext4_inactive_is_parked(verdict)) {
		clusters = (inode->i_blocks >> (inode->i_blkbits - 9)) >> sbi->s_cluster_bits;
		item = ext4_inactive_get_item(q, clusters, f.heavy, !f.must_not_work);
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
 * ext4_inactive_park() - leave the removal of an inode to others, if that is better
 * @inode: without links, users and pages
 *
 * Context: ->evict_inode(), before anybody can see that the inode is gone: who remounts or
 *	unmounts the filesystem finds the inode or the item. With inactivate=sync it takes the
 *	lock of a list, and what that is held outside of.
 * Return: false if the caller has to remove the inode; else the caller must not touch it.
 */
bool ext4_inactive_park(struct inode *inode)
{
	struct ext4_inactive *q = &EXT4_SB(inode->i_sb)->s_inactive;
	struct ext4_inactive_item *item = ext4_inactive_prepare(inode);

	if (!item)
		return false;
	/*
	 * What was done to the inode after its last name was removed is in no fast commit once
	 * the inode is gone.
	 */
	if (!list_empty(&EXT4_I(inode)->i_fc_list) &&
	    READ_ONCE(EXT4_I(inode)->i_sync_tid) != item->orphan_tid)
		ext4_fc_mark_ineligible(inode->i_sb, EXT4_FC_REASON_ORPHAN, NULL);
	ext4_clear_inode(inode);
	/* As a worker does, who keeps out a freeze until the item is done. */
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
 * ext4_inactive_make_space() - remove some of what is parked, for somebody who found no space
 * @sb: filesystem
 * @retries: of ext4_should_retry_alloc()
 *
 * ENOSPC has other reasons than that all space is used, and others may park all the time, so
 * this ends sometime.
 *
 * Context: Sleeps. The caller may write to the filesystem. He may have a handle, but then
 *	nothing is done but to wake the workers.
 * Return: true if there is more space than before, or will be with the next commit.
 */
bool ext4_inactive_make_space(struct super_block *sb, int *retries)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	/* Few look, and what they look at has a line for each CPU. */
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
 * ext4_inactive_writeback() - remove some of what is parked, for writeback that found no space
 * @sb: filesystem
 *
 * The workers may not be able to: somebody has s_umount, or waits for it, while others have it
 * who wait for writeback. Whoever writes keeps the filesystem mounted, but not writable, nor
 * does he keep quotas as they are. That is what s_inactive_change is for.
 *
 * Context: Sleeps. As for &ext4_inactive_ops.process.
 */
void ext4_inactive_writeback(struct super_block *sb)
{
	struct ext4_sb_info *sbi = EXT4_SB(sb);
	struct ext4_inactive *q = &sbi->s_inactive;

	if (!ext4_inactive_nr(q, true))
		return;
	/* Who changes that empties the queue, and may be waiting for what we hold. */
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

		/* The queue was never enabled. Pairs with ext4_inactive_queue_init(). */
		if (!smp_load_acquire(&sbi->s_inactive.ops))
			break;
		stats = per_cpu_ptr(sbi->s_inactive_stats, cpu);
		for (i = 0; i < EXT4_INACTIVE_VERDICTS; i++)
			sum.verdicts[i] += READ_ONCE(stats->verdicts[i]);
		sum.batches += READ_ONCE(stats->batches);
		sum.split += READ_ONCE(stats->split);
	}
	seq_printf(m, "inodes pending: %lu\n", ext4_inactive_nr(&sbi->s_inactive, true));
	seq_printf(m, "clusters pending: %lld\n",
		   ext4_inactive_clusters(sb));
	for (i = 0; i < EXT4_INACTIVE_VERDICTS; i++)
		seq_printf(m, "%s%s: %lu\n", ext4_inactive_is_parked(i) ? "" : "at once, ",
			   names[i], sum.verdicts[i]);
	seq_printf(m, "batches: %lu\n", sum.batches);
	seq_printf(m, "missed their transaction: %lu\n", sum.split);
	seq_printf(m, "between commits: %u ms\n", jiffies_to_msecs(ext4_inactive_gap(sbi)));
	seq_printf(m, "backing off: %s\n", str_yes_no(ext4_inactive_backs_off(sbi)));
	return 0;
}

int __init ext4_init_inactive(void)
{
	ext4_inactive_cachep = KMEM_CACHE(ext4_inactive_item, 0);
	if (!ext4_inactive_cachep)
		return -ENOMEM;
	/*
	 * Not bound to a CPU: the task that parks would have to share its own with the worker.
	 * Freezable: the image of a hibernated system does not change behind its back.
	 * MEM_RECLAIM: writeback waits for space that only we can free.
	 */
	ext4_inactive_wq = alloc_workqueue("ext4-inactive",
					   WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_FREEZABLE, 0);
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
