/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A buffer with journalled data leaves the log: fs/jbd2/checkpoint.c, fs/ext4/page-io.c.
 *
 * One buffer. Three versions of it are committed, one after another; writeback writes its folio
 * twice, without the buffer's lock; a checkpoint empties the log, again and again; memory reclaim
 * looks whether the buffer is in place. A write may take as long as it likes; one may fail.
 *
 * Holds: what the log has given up is in place, or something newer, also when all writes have
 * ended; or jbd2 knows that a write has failed, and aborts. What is in place is committed.
 * No task waits for ever.
 *
 * What holds j_list_lock sees the two bits of b_state change, as writeback does not take that.
 * What a write puts in place is what is in memory when the device looks. The barriers are those of
 * checkpoint-wait.litmus and checkpoint-error.litmus.
 *
 * Commit: ext4: start folio writeback before marking buffers for write
 * Commit: jbd2: keep buffers under writeback on the checkpoint list
 * Commit: jbd2: abort when a checkpoint cannot write journalled data
 * Commit: ext4: abort when writeback cannot write journalled data
 * Commit: ext4: require stable pages for inodes with journalled data
 * Code: fs/jbd2/checkpoint.c jbd2_checkpoint_place: unsigned long state = READ_ONCE(bh->b_state); if (state & BIT(BH_Async_Write)) return JBD2_UNDER_WAY; ... return state & BIT(BH_Dirty) ? JBD2_TO_BE_WRITTEN : JBD2_IN_PLACE;
 * Code: fs/jbd2/checkpoint.c jbd2_checkpoint_write: lock_buffer(bh); if (!buffer_async_write(bh) && test_clear_buffer_dirty(bh)) bh_submit(bh, REQ_OP_WRITE | JBD2_JOURNAL_REQ_FLAGS, jbd2_checkpoint_end_write); else unlock_buffer(bh);
 * Code: fs/jbd2/checkpoint.c jbd2_checkpoint_end_write: mapping_set_error( ... bh_end_write(bio);
 * Code: fs/jbd2/checkpoint.c jbd2_journal_try_remove_checkpoint: if (!trylock_buffer(bh)) return -EBUSY; if (jbd2_checkpoint_place(bh) != JBD2_IN_PLACE) {
 * Code: fs/ext4/page-io.c ext4_bio_write_folio: __folio_start_writeback(folio, keep_towrite); ... set_buffer_async_write(bh); ... if (!nr_to_submit) { folio_end_writeback(folio); ... clear_buffer_dirty(bh); io_submit_add_bh(io, inode, folio, bh);
 * Code: fs/ext4/page-io.c ext4_finish_bio: ext4_keep_log(folio, bio); ... clear_buffer_async_write(bh); ... folio_end_writeback(folio);
 * Code: fs/ext4/inode.c ext4_set_aops: case EXT4_INODE_JOURNAL_DATA_MODE: ... mapping_set_stable_writes(inode->i_mapping);
 * Code: fs/ext4/inode.c ext4_write_begin: folio_wait_stable(folio);
 * Code: fs/jbd2/transaction.c do_get_write_access: lock_buffer(bh); ... test_clear_buffer_dirty(bh) ... set_buffer_jbddirty(bh);
 *
 * BREAK_dirty_only (assert): whether it is being written is not looked at
 * BREAK_two_looks (assert): first whether it is being written, then whether it is dirty
 * BREAK_clean_first (assert): writeback clears the dirty bit, then says that it writes
 * BREAK_reclaim_unlocked (assert): reclaim does not ask for the buffer's lock
 * BREAK_change_unlocked (assert): the buffer is changed without its lock
 * BREAK_folio_unlocked (assert): the buffer is changed without the lock of its folio
 * BREAK_unstable (assert): the buffer is changed without waiting for its folio
 * BREAK_error_late (assert): jbd2 is told of an error after the write is said to have ended
 * BREAK_error_of_file (assert): jbd2 is not told of an error of writeback
 * BREAK_error_unlocked (assert): a checkpoint unlocks the buffer before jbd2 is told of an error
 * BREAK_writeback_kept (hang): with nothing left to write, writeback of the folio does not end
 */
#define VERSIONS	3

bool locked;			/* the buffer */
bool list_locked;		/* j_list_lock */
bool dirty, async;		/* the buffer's b_state */
bool folio_locked, writeback;	/* its folio */
bool changing;			/* it is in a transaction that has not been committed */
byte memory, place;		/* the version that is there */
byte committed;
byte cp;			/* it is on the checkpoint list with this one, 0: it is not */
byte given_up;			/* the log has this one, and those before it, no more */
bool failed, told;		/* a write has failed; jbd2 can see that */
bool all_committed;

inline lock(l)
{
	atomic { !l -> l = true }
}

inline write(error)
{
	/* whenever the device likes */
	if
	:: place = memory; assert(place <= committed)
	:: atomic { !failed -> failed = true; error = true }
	fi;
	assert(told || place >= given_up)
}

/* With j_list_lock. Whether jbd2 was told of an error is looked at later, under that lock. */
inline give_up()
{
	given_up = cp; cp = 0;
	assert(told || place >= given_up)
}

proctype change()
{
	do
	:: memory == VERSIONS -> break
	:: memory < VERSIONS ->
#ifndef BREAK_folio_unlocked
		lock(folio_locked);
#endif
#ifndef BREAK_unstable
		/* folio_wait_stable() */
		!writeback;
#endif
		/* do_get_write_access() */
#ifndef BREAK_change_unlocked
		lock(locked);
#endif
		lock(list_locked);
		dirty = false; changing = true;
		list_locked = false;
#ifndef BREAK_change_unlocked
		locked = false;
#endif
		memory++;
#ifndef BREAK_folio_unlocked
		folio_locked = false;
#endif
		/* the commit */
		committed = memory;
		lock(list_locked);
		cp = memory; changing = false; dirty = true;
		list_locked = false
	od;
	all_committed = true
}

proctype write_back()
{
	byte times = 2;
	bool error;

	do
	:: times == 0 -> break
	:: times ->
		times--;
		lock(folio_locked);
		/* for the write before */
		!writeback;
		writeback = true;
#ifdef BREAK_clean_first
		if
		:: atomic { dirty -> dirty = false }; async = true
#else
		if
		:: dirty -> async = true; dirty = false
#endif
			folio_locked = false;
			write(error);
#if !defined(BREAK_error_late) && !defined(BREAK_error_of_file)
			told = told || error;
#endif
			async = false;
#ifdef BREAK_error_late
			told = told || error;
#endif
			writeback = false
		:: !dirty ->
#ifndef BREAK_writeback_kept
			writeback = false;
#endif
			folio_locked = false
		fi;
		error = false
	od
}

#define IN_PLACE	0
#define UNDER_WAY	1
#define TO_BE_WRITTEN	2

/* With the lock of the buffer, and j_list_lock. */
inline look(to)
{
#if defined(BREAK_dirty_only)
	to = (dirty -> TO_BE_WRITTEN : IN_PLACE)
#elif defined(BREAK_two_looks)
	to = (async -> UNDER_WAY : IN_PLACE);
	to = (to == IN_PLACE && dirty -> TO_BE_WRITTEN : to)
#else
	to = (async -> UNDER_WAY : (dirty -> TO_BE_WRITTEN : IN_PLACE))
#endif
}

proctype checkpoint()
{
	byte is;
	bool error;

	do
	:: all_committed && cp == 0 -> break
	:: cp ->
		lock(list_locked);
		if
		:: cp == 0 -> list_locked = false
		:: cp && changing -> list_locked = false; !changing
		:: cp && !changing ->
			if
			:: locked -> list_locked = false; !locked
			:: atomic { !locked -> locked = true };
				look(is); locked = false;
				if
				:: is == IN_PLACE -> give_up(); list_locked = false
				:: is == UNDER_WAY -> list_locked = false; !writeback
				:: is == TO_BE_WRITTEN -> list_locked = false;
					/* jbd2_checkpoint_write() */
					lock(locked);
					if
					:: async
					:: !async ->
						if
						:: atomic { dirty -> dirty = false };
							write(error);
#ifdef BREAK_error_unlocked
							locked = false;
#endif
							told = told || error;
							error = false
						:: !dirty
						fi
					fi;
					locked = false
				fi
			fi
		fi
	od
}

/* jbd2_journal_try_remove_checkpoint() */
proctype reclaim()
{
	byte is;

	lock(list_locked);
	if
#ifdef BREAK_reclaim_unlocked
	:: cp && !changing -> look(is);
#else
	:: atomic { cp && !changing && !locked -> locked = true }; look(is); locked = false;
	:: cp && !changing && locked -> is = UNDER_WAY
#endif
	:: cp == 0 || changing -> is = UNDER_WAY
	fi;
	if
	:: is == IN_PLACE -> give_up()
	:: else
	fi;
	list_locked = false
}

init {
	atomic { run change(); run write_back(); run checkpoint(); run reclaim() }
}
