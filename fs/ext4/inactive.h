/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The second half of removing an inode, done later by somebody else.
 *
 * An inode that has lost its last link and its last user is in the orphan file, so what is
 * left to do (give its blocks and its number back) may as well be done after a crash. Until
 * then ext4 keeps no inode for it, just its number, in a struct ext4_inactive_item.
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
 * @EXT4_INACTIVE_OFF: whoever drops the last reference of an inode removes it
 * @EXT4_INACTIVE_AUTO: leave it to a worker where that pays
 * @EXT4_INACTIVE_ALL: leave it to a worker wherever that is possible
 * @EXT4_INACTIVE_SYNC: forget the inode, look its number up again and remove it at once; all
 *	the code and none of the timing, for tests
 */
enum ext4_inactive_mode {
	EXT4_INACTIVE_OFF,
	EXT4_INACTIVE_AUTO,
	EXT4_INACTIVE_ALL,
	EXT4_INACTIVE_SYNC,
};

/**
 * enum ext4_inactive_verdict - who removes an inode, and when
 * @EXT4_INACTIVE_NOT_ELIGIBLE: whoever dropped the last reference, at once: nobody else can
 * @EXT4_INACTIVE_LIMIT: the same: enough is parked, or there is no memory for the item
 * @EXT4_INACTIVE_LIMITED: the same: the owner may be about to need the space
 * @EXT4_INACTIVE_TIGHT: the same: anybody may
 * @EXT4_INACTIVE_YOUNG: the same: what was logged to create the inode is not on disk yet
 * @EXT4_INACTIVE_SPLIT: the same: later would mean to log the same blocks twice
 * @EXT4_INACTIVE_PARK: the worker of a CPU, in a batch
 * @EXT4_INACTIVE_PARK_HEAVY: one of the few workers for what takes long
 * @EXT4_INACTIVE_PARK_NOW: the same, without delay
 * @EXT4_INACTIVE_VERDICTS: how many there are
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
 * struct ext4_inactive_facts - what ext4_inactive_decide() looks at
 * @mode: of the mount
 * @eligible: the second half is safe to leave for later
 * @must_not_work: the caller reclaims memory, has a handle open, or the filesystem is frozen
 * @heavy: removal may take several transactions
 * @limited: a quota limits what the owner may have; nobody who hits it waits for us
 * @tight: few free blocks
 * @over_limit: as many inodes or blocks are parked as may be
 * @committed: the transaction that removed the last name has been committed already
 * @young: created within the last two commit intervals
 * @split: commits follow each other so closely, or so many of the inodes that were parked have
 *	missed the transaction that removed their name, that parking means to log more
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
 * ext4_inactive_decide() - should the removal of an inode be left to a worker?
 * @f: what is known about the inode and the filesystem
 *
 * Context: Any. No side effects: KUnit has the table.
 * Return: the verdict.
 */
static inline enum ext4_inactive_verdict
ext4_inactive_decide(const struct ext4_inactive_facts *f)
{
	if (f->mode == EXT4_INACTIVE_OFF || !f->eligible)
		return EXT4_INACTIVE_NOT_ELIGIBLE;
	/* No limit: there are few of them, and they cannot do the work themselves. */
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
	/* Nothing is logged twice if what was logged with the name is on disk. */
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
 * struct ext4_inactive_item - an inode that has been parked
 * @node: in &ext4_inactive_list.parked or &ext4_inactive_list.taken
 * @list: whose item it is
 * @ino: number
 * @generation: to tell it from whatever has the number by mistake
 * @orphan_idx: its slot in the orphan file
 * @orphan_tid: transaction that wrote the slot
 * @clusters: that will be free
 * @now: somebody is about to need them
 * @heavy: may take several turns
 * @cut: where it has been cut off, a block of the file; 0: not yet
 * @tries: turns that have not cut off anything since
 * @worked: in this turn something was done, if not all
 * @sync: for EXT4_INACTIVE_SYNC
 * @committed: @orphan_tid was, when this was parked
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
 * @parked: added to without lock by whoever parks
 * @nr: items of this list: about to be parked, in @parked or @taken, or being worked on
 * @work: the worker
 * @owner: what the list belongs to
 * @lock: held while a batch is worked on
 * @taken: from @parked, oldest first; protected by @lock
 * @busy: items that are being worked on; written with @lock held
 * @stalled: the last of them is held up by another task; written with @lock held
 * @worker: who removes inodes of this list together, else NULL; written with @lock held, so who
 *	finds himself there holds it
 * @batch: those inodes, of @worker
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

#define EXT4_INACTIVE_HEAVY	2	/* lists of inodes whose removal takes long */
#define EXT4_INACTIVE_BATCH_MAX	64
#define EXT4_INACTIVE_TRIES	16	/* to cut off a piece of an inode that others have */
/* What is less is not heavy, whatever the extents look like. */
#define EXT4_INACTIVE_HEAVY_BLOCKS	256
/* Do not park if more than one of so many is expected to miss its transaction, ... */
#define EXT4_INACTIVE_SPLIT_ODDS	64
/* ... or if of so many more than one in ODDS_SEEN has; not for so many seconds. */
#define EXT4_INACTIVE_WINDOW		8192
#define EXT4_INACTIVE_ODDS_SEEN		20
#define EXT4_INACTIVE_BACK_OFF		10
/* So few inodes are not enough: remove those that are parked. */
#define EXT4_INACTIVE_FEW_INODES	256
/* So often somebody who finds no space looks for something that is parked. */
#define EXT4_INACTIVE_RETRIES		4096

/**
 * struct ext4_inactive_ops - what the queue does not know
 * @begin: may a worker start now? If so, whatever keeps the filesystem as it is (mounted, not
 *	read-only) is held until @end. Does not sleep for long.
 * @end: a worker has done its batch
 * @process: remove the inodes of @nr items, in the order it likes, and return how many it is
 *	done with; these are first in the array then. The others are tried again, at once if
 *	there are such that are done, or if the first has &ext4_inactive_item.worked set. The
 *	items are the queue's. They are of one list, whose lock is held.
 */
struct ext4_inactive_ops {
	bool (*begin)(struct ext4_inactive *q);
	void (*end)(struct ext4_inactive *q);
	unsigned int (*process)(struct ext4_inactive *q, struct ext4_inactive_item **items,
				unsigned int nr);
};

/**
 * struct ext4_inactive - all that is parked of a filesystem
 * @ops: see there
 * @light: lists per CPU; where a task runs only decides whose line it writes to
 * @heavy: lists for what takes long
 * @next_heavy: which of them is next
 * @clusters: that are to be freed by what is parked, not by what is being worked on
 * @done: batches that have been worked on, ever
 * @max_nr: items of a list
 * @max_clusters: clusters
 * @batch: items in a batch
 * @delay_ms: from the first item of a batch to its work
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
 * struct ext4_inactive_stats - what has been decided and done, for people
 * @verdicts: how often each
 * @batches: that have been removed, and pieces of large inodes
 * @split: inodes that missed the transaction that removed their name
 */
struct ext4_inactive_stats {
	unsigned long verdicts[EXT4_INACTIVE_VERDICTS];
	unsigned long batches;
	unsigned long split;
};

int ext4_inactive_queue_init(struct ext4_inactive *q, const struct ext4_inactive_ops *ops);
void ext4_inactive_queue_destroy(struct ext4_inactive *q);
bool ext4_inactive_full(struct ext4_inactive *q, bool heavy);
struct ext4_inactive_item *ext4_inactive_get_item(struct ext4_inactive *q, u64 clusters,
						  bool heavy, bool limits);
void ext4_inactive_add(struct ext4_inactive_item *item, bool now);
unsigned long ext4_inactive_nr(struct ext4_inactive *q, bool busy);
void ext4_inactive_kick(struct ext4_inactive *q);
bool ext4_inactive_progress(struct ext4_inactive *q);
bool ext4_inactive_flush(struct ext4_inactive *q, bool heavy);
int ext4_inactive_bitmap_credits(const struct ext4_free_extent *extents, unsigned int nr,
				 unsigned int next, bool first);
int ext4_init_inactive(void);
void ext4_exit_inactive(void);

#endif /* _EXT4_INACTIVE_H */
