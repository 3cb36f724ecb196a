/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Inode inactivation: the second half of removing an inode, done later by a
 * worker.
 *
 * An inode without links and users is in the orphan file, so the rest (freeing
 * its blocks and its number) can be done any time, even after a crash. Until
 * then ext4 does not keep the inode in memory, only its number, in a struct
 * ext4_inactive_item.
 */

#ifndef _EXT4_INACTIVE_H
#define _EXT4_INACTIVE_H

#include <linux/atomic.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/types.h>
#include <linux/workqueue.h>

/**
 * enum ext4_inactive_mode - mount option "inactivate="
 * @EXT4_INACTIVE_OFF: the task that drops the last reference removes the inode
 * @EXT4_INACTIVE_AUTO: leave it to a worker if that pays off
 * @EXT4_INACTIVE_ALL: leave it to a worker whenever that is possible
 * @EXT4_INACTIVE_SYNC: evict the inode, look its number up again and remove it
 *	at once; runs all of the code without the timing, for tests
 */
enum ext4_inactive_mode {
	EXT4_INACTIVE_OFF,
	EXT4_INACTIVE_AUTO,
	EXT4_INACTIVE_ALL,
	EXT4_INACTIVE_SYNC,
};

/**
 * enum ext4_inactive_verdict - which task removes an inode, and when
 * @EXT4_INACTIVE_NOT_ELIGIBLE: at once, by the task that dropped the last
 *	reference: deferring is off or not possible
 * @EXT4_INACTIVE_LIMIT: the same: queue full, or no memory for the item
 * @EXT4_INACTIVE_LIMITED: the same: the owner may be about to need the space
 * @EXT4_INACTIVE_TIGHT: the same: any task may be about to need the space
 * @EXT4_INACTIVE_YOUNG: the same: creation of the inode is not yet on disk
 * @EXT4_INACTIVE_SPLIT: the same: deferring would log the same blocks twice
 * @EXT4_INACTIVE_PARK: by the worker of a CPU, in a batch
 * @EXT4_INACTIVE_PARK_HEAVY: by one of the workers for heavy inodes
 * @EXT4_INACTIVE_PARK_NOW: the same, without delay
 * @EXT4_INACTIVE_VERDICTS: number of verdicts
 */
enum ext4_inactive_verdict {
	EXT4_INACTIVE_NOT_ELIGIBLE,
	EXT4_INACTIVE_LIMIT,
	EXT4_INACTIVE_LIMITED,
	EXT4_INACTIVE_TIGHT,
	EXT4_INACTIVE_YOUNG,
	EXT4_INACTIVE_SPLIT,
	EXT4_INACTIVE_PARK,
	EXT4_INACTIVE_PARK_HEAVY,
	EXT4_INACTIVE_PARK_NOW,
	EXT4_INACTIVE_VERDICTS,
};

/**
 * struct ext4_inactive_facts - input of ext4_inactive_decide()
 * @mode: mode of the mount
 * @eligible: deferring the second half is safe
 * @must_not_work: the caller is in memory reclaim or in a NOFS context such as
 *	an open handle, or the filesystem is frozen
 * @heavy: removal may take several transactions
 * @limited: a quota limits the owner, and reaching the limit does not process
 *	the queue
 * @tight: few free blocks
 * @over_limit: the limits of deferred inodes or blocks are reached
 * @committed: the transaction that removed the last name is committed
 * @young: created within the last two commit intervals
 * @split: commits are so frequent, or so many deferred inodes missed the
 *	transaction that removed their name, that deferring logs more blocks
 */
struct ext4_inactive_facts {
	enum ext4_inactive_mode mode;
	bool eligible;
	bool must_not_work;
	bool limited;
	bool heavy;
	bool tight;
	bool over_limit;
	bool committed;
	bool young;
	bool split;
};

/**
 * ext4_inactive_decide() - decide whether to defer the removal of an inode
 * @f: state of the inode and the filesystem
 *
 * Context: Any. No side effects.
 * Return: the verdict.
 */
static inline enum ext4_inactive_verdict
ext4_inactive_decide(const struct ext4_inactive_facts *f)
{
	if (f->mode == EXT4_INACTIVE_OFF || !f->eligible)
		return EXT4_INACTIVE_NOT_ELIGIBLE;
	/* No limit: such callers are few, and cannot remove the inode. */
	if (f->must_not_work)
		return f->heavy ? EXT4_INACTIVE_PARK_HEAVY : EXT4_INACTIVE_PARK;
	if (f->over_limit)
		return EXT4_INACTIVE_LIMIT;
	if (f->limited)
		return EXT4_INACTIVE_LIMITED;
	if (f->tight)
		return f->heavy ? EXT4_INACTIVE_PARK_NOW : EXT4_INACTIVE_TIGHT;
	if (f->heavy)
		return EXT4_INACTIVE_PARK_HEAVY;
	/* Once that transaction is on disk, no block is logged twice. */
	if (f->mode != EXT4_INACTIVE_AUTO || f->committed)
		return EXT4_INACTIVE_PARK;
	if (f->young)
		return EXT4_INACTIVE_YOUNG;
	return f->split ? EXT4_INACTIVE_SPLIT : EXT4_INACTIVE_PARK;
}

static inline bool ext4_inactive_is_parked(enum ext4_inactive_verdict verdict)
{
	return verdict >= EXT4_INACTIVE_PARK;
}

struct ext4_free_extent;
struct ext4_inactive;
struct ext4_inactive_batch;
struct ext4_inactive_list;

/**
 * struct ext4_inactive_item - a deferred inode
 * @node: in &ext4_inactive_list.parked or &ext4_inactive_list.taken
 * @list: list that the item belongs to
 * @ino: inode number
 * @generation: detects that the number is used by another inode
 * @orphan_idx: its slot in the orphan file
 * @orphan_tid: transaction that wrote the slot
 * @clusters: number of clusters that will be freed
 * @now: the space is about to be needed
 * @heavy: removal may take several turns
 * @cut: file block of the last cut; 0: none yet
 * @tries: turns without progress since
 * @worked: removed in part in this turn, but not completely
 * @sync: for EXT4_INACTIVE_SYNC
 * @committed: @orphan_tid was committed when the item was created
 */
struct ext4_inactive_item {
	struct llist_node node;
	struct ext4_inactive_list *list;
	u32 ino;
	u32 generation;
	u32 orphan_idx;
	u32 orphan_tid;
	u64 clusters;
	u32 cut;
	u8 tries;
	bool now;
	bool heavy;
	bool worked;
	bool sync;
	bool committed;
};

/**
 * struct ext4_inactive_list - items for one worker
 * @parked: new items, added without a lock
 * @nr: items of this list: about to be added, in @parked or @taken, or being
 *	processed
 * @work: the worker
 * @owner: queue that the list belongs to
 * @lock: held while a batch is processed
 * @taken: from @parked, oldest first; protected by @lock
 * @busy: number of items being processed; written with @lock held
 * @stalled: another task stalls the last of them; written with @lock held
 * @worker: task that removes inodes of this list in a batch, or NULL; written
 *	with @lock held, so if this is current, current holds @lock
 * @batch: inodes that @worker removes
 */
struct ext4_inactive_list {
	struct llist_head parked;
	atomic_t nr;
	struct delayed_work work;
	struct ext4_inactive *owner;
	struct mutex lock;
	struct llist_node *taken;
	unsigned int busy;
	bool stalled;
	struct task_struct *worker;
	struct ext4_inactive_batch *batch;
};

#define EXT4_INACTIVE_HEAVY	2	/* lists of inodes with many extents */
#define EXT4_INACTIVE_BATCH_MAX	64
#define EXT4_INACTIVE_TRIES	16	/* to lock a piece that is in use */
/* An inode with fewer blocks is not heavy, whatever its extents are. */
#define EXT4_INACTIVE_HEAVY_BLOCKS	256
/*
 * Do not defer if more than 1 in SPLIT_ODDS inodes is expected to miss its
 * transaction, ...
 */
#define EXT4_INACTIVE_SPLIT_ODDS	64
/*
 * ... or if in a window of WINDOW inodes more than 1 in ODDS_SEEN did; back off
 * for BACK_OFF seconds.
 */
#define EXT4_INACTIVE_WINDOW		8192
#define EXT4_INACTIVE_ODDS_SEEN		20
#define EXT4_INACTIVE_BACK_OFF		10
/* Deferred inodes are removed if no more inodes than this are free. */
#define EXT4_INACTIVE_FEW_INODES	256
/* Maximum number of times an allocation processes the queue on ENOSPC. */
#define EXT4_INACTIVE_RETRIES		4096

/**
 * struct ext4_inactive_ops - filesystem callbacks of the queue
 * @begin: check if a worker may start now. If so, keep the filesystem mounted
 *	and writable until @end. Does not sleep for long.
 * @end: a worker has finished its batch
 * @process: remove the inodes of @nr items, in any order, and return the number
 *	of items that are done, which are moved to the front of the array. The
 *	rest is retried: at once if any item is done, or if the first has
 *	&ext4_inactive_item.worked set. The queue keeps ownership of the items.
 *	They are of one list, and its lock is held.
 */
struct ext4_inactive_ops {
	bool (*begin)(struct ext4_inactive *q);
	void (*end)(struct ext4_inactive *q);
	unsigned int (*process)(struct ext4_inactive *q,
				struct ext4_inactive_item **items,
				unsigned int nr);
};

/**
 * struct ext4_inactive - queue of the deferred inodes of a filesystem
 * @ops: see &struct ext4_inactive_ops
 * @light: per-CPU lists; the CPU only selects the cache line to write to
 * @heavy: lists for inodes that take long to remove
 * @next_heavy: selects the next of them, round-robin
 * @clusters: clusters of queued items, without those being processed
 * @done: number of batches that made progress
 * @max_nr: maximum number of items in a list
 * @max_clusters: maximum number of clusters
 * @batch: maximum number of items in a batch
 * @delay_ms: from the first item of a batch to its processing
 */
struct ext4_inactive {
	const struct ext4_inactive_ops *ops;
	struct ext4_inactive_list __percpu *light;
	struct ext4_inactive_list heavy[EXT4_INACTIVE_HEAVY];
	atomic_t next_heavy;
	struct percpu_counter clusters;
	atomic_long_t done;
	unsigned int max_nr;
	unsigned long max_clusters;
	unsigned int batch;
	unsigned int delay_ms;
};

/**
 * struct ext4_inactive_stats - statistics for /proc/fs/ext4/<dev>/inactive
 * @verdicts: how often each verdict was reached
 * @batches: number of batches, including pieces of large inodes
 * @split: inodes that missed the transaction that removed their name
 */
struct ext4_inactive_stats {
	unsigned long verdicts[EXT4_INACTIVE_VERDICTS];
	unsigned long batches;
	unsigned long split;
};

int ext4_inactive_queue_init(struct ext4_inactive *q,
			     const struct ext4_inactive_ops *ops);
void ext4_inactive_queue_destroy(struct ext4_inactive *q);
bool ext4_inactive_full(struct ext4_inactive *q, bool heavy);
struct ext4_inactive_item *ext4_inactive_get_item(struct ext4_inactive *q,
						  u64 clusters, bool heavy,
						  bool limits);
void ext4_inactive_add(struct ext4_inactive_item *item, bool now);
unsigned long ext4_inactive_nr(struct ext4_inactive *q, bool busy);
void ext4_inactive_kick(struct ext4_inactive *q);
bool ext4_inactive_progress(struct ext4_inactive *q);
bool ext4_inactive_flush(struct ext4_inactive *q, bool heavy);
int ext4_inactive_bitmap_credits(const struct ext4_free_extent *extents,
				 unsigned int nr, unsigned int next,
				 bool first);
int ext4_init_inactive(void);
void ext4_exit_inactive(void);

#endif /* _EXT4_INACTIVE_H */
