/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A truncation of a file with journalled data, and writeback: ext4_setattr(), fs/ext4/inode.c.
 *
 * One folio behind the new end, with data that is committed and not in place. It is written
 * back twice, the truncation is committed whenever that is possible, and the log is given up
 * as soon as the folio looks as if it was in place.
 *
 * Holds: when the log is given up the data is in place, or the truncation is committed. Blocks
 * are not freed while they are written, nor written when they have been freed. No task waits
 * for ever.
 *
 * The store of the state may reach memory late, until smp_wmb(). What of a folio that has been
 * removed is not in place stays in the log until the truncation is committed: that is jbd2's,
 * journal_unmap_buffer(), and taken for granted here.
 *
 * Commit: ext4: write back journalled data beyond i_size during truncate
 * Code: fs/ext4/inode.c ext4_setattr: ext4_set_inode_state(inode, EXT4_STATE_TRUNCATING); smp_wmb(); } i_size_write(inode, attr->ia_size); ... ext4_journal_stop(handle); ... truncate_pagecache(inode, inode->i_size); ext4_clear_inode_state(inode, EXT4_STATE_TRUNCATING); ... rc = ext4_truncate(inode);
 * Code: fs/ext4/inode.c mpage_submit_folio: size = i_size_read(mpd->inode); smp_rmb(); ... if (folio_pos(folio) + len > size && !ext4_test_inode_state(mpd->inode, EXT4_STATE_TRUNCATING) && ... ext4_bio_write_folio(&mpd->io_submit, folio, len);
 *
 * BREAK_state_late (assert): without smp_wmb()
 * BREAK_state_early (assert): without smp_rmb()
 * BREAK_no_state (assert): writeback goes by the size alone
 * BREAK_cleared_before (assert): the state ends before the folio is removed
 * BREAK_not_waited (assert): the truncation does not wait for writeback of the folio
 * BREAK_freed_before (assert): blocks are freed before the folio is removed
 */
bool state_late;		/* the store of the state has not reached memory */
bool state, small;		/* EXT4_STATE_TRUNCATING; i_size is the new one */
bool folio_locked, writeback, present = true;
bool dirty = true, writing, place;
bool stopped, committed;	/* the handle of the truncation; its transaction */
bool freed;

active proctype hardware()
{
end:	do
	:: atomic { state_late -> state_late = false; state = true }
	od
}

inline lock()
{
	atomic { !folio_locked -> folio_locked = true }
}

inline clear_state()
{
	atomic { state_late = false; state = false }
}

inline free_blocks()
{
	freed = true;
	assert(!writing)
}

active proctype truncate()
{
	state_late = true;
#ifndef BREAK_state_late
	!state_late;
#endif
	small = true;
	stopped = true;
#ifdef BREAK_cleared_before
	clear_state();
#endif
#ifdef BREAK_freed_before
	free_blocks();
#endif
	lock();
#ifndef BREAK_not_waited
	!writeback;
#endif
	present = false;
	folio_locked = false;
	clear_state();
#ifndef BREAK_freed_before
	free_blocks()
#endif
}

active proctype commit()
{
	stopped;
	committed = true
}

active proctype write_back()
{
	byte times = 2;
	bool is_small, is_truncating;

	do
	:: times == 0 -> break
	:: times ->
		times--;
		lock();
		if
		:: !present -> folio_locked = false
		:: present ->
			!writeback;
#ifdef BREAK_state_early
			is_truncating = state;
			is_small = small;
#else
			is_small = small;
			is_truncating = state;
#endif
#ifdef BREAK_no_state
			is_truncating = false;
#endif
			writeback = true;
			if
			:: dirty ->
				/* or is it cleaned, without having been written? */
				writing = !is_small || is_truncating;
				dirty = false;
				folio_locked = false;
				assert(!writing || !freed);
				place = place || writing;
				writing = false; writeback = false
			:: !dirty -> writeback = false; folio_locked = false
			fi
		fi
	od
}

active proctype give_up()
{
end:	atomic { present && !dirty && !writing -> assert(place || committed) }
}
