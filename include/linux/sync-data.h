/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_SYNC_DATA_H
#define _LINUX_SYNC_DATA_H
/*
 * One of the tasks that sync a file submits its data
 *
 * Several tasks that sync the same file write each other's data. If requests
 * take long, the tasks interfere: one sleeps until it can submit a request,
 * holding the first folio of the next extent, while another submits the folios
 * behind it, and one request becomes two. So only one task at a time submits
 * all dirty data, and a caller that came before the submission began has
 * nothing left to submit when it is done.
 *
 * A sequence number in the filesystem's inode is odd during a submission, and
 * advances by two each time one succeeds, like an rcu_seq (kernel/rcu/rcu.h). On
 * failure it goes back, and each waiting task submits for itself: the error was
 * returned to one task only.
 *
 *	fsync caller			submitter
 *	------------			---------
 *	set folios' dirty tags		make the number odd
 *	full barrier (A)		full barrier (B), that of cmpxchg
 *	read the number			look for dirty tags
 *
 * One of the two sees the other's store: either the submitter finds the folios,
 * or the caller reads an odd number and waits for another submission, which
 * begins later.
 *
 * This is only about performance. After SYNC_DATA_WAIT the caller proceeds as if
 * it were alone: the submitter may have a lot to write, or be throttled.
 */
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/wait_bit.h>
#include <linux/writeback.h>

/* The longest time to wait for the submissions of other tasks. */
#define SYNC_DATA_WAIT	HZ

/*
 * Check whether the caller of sync_data_begin() may proceed. If no task is
 * submitting, it may, and *@mine is set to tell that it has taken *@seq.
 */
static inline bool sync_data_go(unsigned int *seq, unsigned int goal,
				unsigned int *mine)
{
	/* The submitted folios are under writeback; pairs with the release. */
	unsigned int now = smp_load_acquire(seq);

	if ((int)(now - goal) >= 0)
		return true;
	if (now & 1 || !try_cmpxchg(seq, &now, now + 1))	/* (B) */
		return false;
	*mine = now + 1;
	return true;
}

/**
 * sync_data_begin() - wait until the caller has to submit data, or another did
 * @seq: number of submissions of the file, zero at first
 * @mine: set for sync_data_end()
 *
 * Context: process, sleeps for SYNC_DATA_WAIT jiffies at most.
 *
 * Return: true if the caller has to submit, and to call sync_data_end() then;
 *	false if another task did, after the call
 */
static inline bool sync_data_begin(unsigned int *seq, unsigned int *mine)
{
	unsigned int goal;

	*mine = 0;
	smp_mb();	/* (A) */
	goal = (READ_ONCE(*seq) + 3) & ~1U;
	return !wait_var_event_timeout(seq, sync_data_go(seq, goal, mine),
				       SYNC_DATA_WAIT) || *mine;
}

/**
 * sync_data_end() - end a submission, and wake tasks that wait for it
 * @seq: as passed to sync_data_begin()
 * @mine: as set by sync_data_begin()
 * @done: all data was submitted
 */
static inline void sync_data_end(unsigned int *seq, unsigned int mine,
				 bool done)
{
	/* Not if the caller had lost patience. */
	if (mine)
		store_release_wake_up(seq, done ? mine + 1 : mine - 1);
}

/**
 * sync_data_submit() - submit all dirty data of a file
 * @mapping: of the file
 * @seq: number of submissions of the file, zero at first
 *
 * When it returns 0, all folios that were dirty at the call have been written or
 * are under writeback. Waits for submissions of other tasks.
 *
 * Context: process, may sleep.
 *
 * Return: 0 or the error of filemap_fdatawrite()
 */
static inline int sync_data_submit(struct address_space *mapping,
				   unsigned int *seq)
{
	unsigned int mine;
	int ret;

	/*
	 * Data without a dirty tag is written or under writeback;
	 * filemap_fdatawrite() checks the tag, too.
	 */
	if (!mapping_tagged(mapping, PAGECACHE_TAG_DIRTY) ||
	    !sync_data_begin(seq, &mine))
		return 0;

	ret = filemap_fdatawrite(mapping);
	sync_data_end(seq, mine, !ret);
	return ret;
}

/**
 * sync_data_write_and_wait() - write all dirty data of a file, and wait for it
 * @file: that is synced
 * @seq: number of submissions, of the file's inode
 *
 * Does what file_write_and_wait_range() does for a whole file. A filesystem
 * should not use it where there are no requests to keep whole, as with DAX, or
 * where submission itself takes the time, as with encryption or a synchronous
 * block device: tasks had better submit in parallel then.
 *
 * Context: process, may sleep.
 *
 * Return: 0 or an error; errors of writeback are returned once to each file
 */
static inline int sync_data_write_and_wait(struct file *file,
					   unsigned int *seq)
{
	struct address_space *mapping = file->f_mapping;
	int ret, err;

	ret = sync_data_submit(mapping, seq);
	/* Errors are checked below; see also filemap_write_and_wait_range(). */
	if (ret != -EIO)
		filemap_fdatawait_keep_errors(mapping);
	err = file_check_and_advance_wb_err(file);
	return ret ?: err;
}

#endif /* _LINUX_SYNC_DATA_H */
