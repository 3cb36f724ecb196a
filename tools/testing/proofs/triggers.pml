/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Looking at b_triggers under RCU, without a reference to the journal_head.
 *
 * Two handles set the triggers of block 0. On a sound filesystem their transaction
 * holds the journal_head. On a corrupted one nothing does: it may be freed, given
 * to block 1, which has triggers of its own, and given back, and its page may leave
 * the slab after a grace period. What is in order here is so by triggers-owner.litmus;
 * triggers.litmus is about what a handle must see.
 *
 * Holds: no handle reads a page that left the slab, or through a NULL pointer, nor
 * changes the triggers of block 1. On a sound filesystem block 0 has the triggers
 * asked for when the call returns. On a corrupted one a "yes" only says that the
 * journal_head was that of block 0 at the last look: it may have been away between
 * the two looks and have come back without triggers.
 *
 * Commit: jbd2: set unchanged triggers without a journal_head reference
 * Code: fs/jbd2/transaction.c jbd2_triggers_are_set: rcu_read_lock(); jh = READ_ONCE(bh->b_private); ret = buffer_jbd(bh) && jh && READ_ONCE(jh->b_triggers) == type; smp_rmb(); ret = ret && READ_ONCE(jh->b_bh) == bh; rcu_read_unlock();
 * Code: fs/jbd2/transaction.c jbd2_journal_set_triggers: if (jbd2_triggers_are_set(bh, type)) return; jh = jbd2_journal_grab_journal_head(bh); ... WRITE_ONCE(jh->b_triggers, type); jbd2_journal_put_journal_head(jh);
 * Code: fs/jbd2/journal.c jbd2_journal_grab_journal_head: jbd_lock_bh_journal_head(bh); if (buffer_jbd(bh)) { jh = bh2jh(bh); jh->b_jcount++; } jbd_unlock_bh_journal_head(bh);
 * Code: fs/jbd2/journal.c __journal_remove_journal_head: bh->b_private = NULL; jh->b_bh = NULL; ... clear_buffer_jbd(bh);
 * Code: fs/jbd2/journal.c jbd2_journal_init_journal_head_cache: SLAB_TYPESAFE_BY_RCU
 *
 * BREAK_rcu (assert): the look is not in an RCU read section
 * BREAK_typesafe (assert): the slab returns its page without a grace period
 * BREAK_null (assert): b_private is not compared with NULL
 * BREAK_owner (assert): b_bh is not compared with the block
 * BREAK_store (assert): the triggers are stored without a reference
 * BREAK_reread (assert): b_private is read once more for the second look
 * BREAK_type (assert): any triggers are taken for those asked for
 */
#define NONE	2		/* no block */
#define MINE	1		/* triggers; 0 are none */
#define OTHERS	2

bool sound, ready;
bool has_jh[2];			/* b_private of blocks 0 and 1; there is one journal_head */
byte owner = NONE;		/* its b_bh */
byte triggers;			/* its b_triggers */
byte count;			/* its b_jcount */
bool bh_locked;			/* BH_JournalHead of both blocks */
bool in_slab = true;		/* its page can be allocated from */
bool page = true;		/* its page is the slab's */
byte reading, awaited;		/* tasks in an RCU section; those a grace period waits for */

#define ME	(1 << _pid)

inline bh_lock()
{
	atomic { !bh_locked -> bh_locked = true }
}

#ifdef BREAK_rcu
#define rcu_read_lock()		skip
#define rcu_read_unlock()	skip
#else
#define rcu_read_lock()		reading = reading | ME
#define rcu_read_unlock()	atomic { reading = reading & (255 - ME); \
					 awaited = awaited & (255 - ME) }
#endif

active [2] proctype set_triggers()
{
	bool jh, yes, owned;

	ready;
	/* jbd2_triggers_are_set() */
	rcu_read_lock();
	jh = has_jh[0];
#ifndef BREAK_null
	if
	:: !jh -> goto looked
	:: else
	fi;
#endif
	atomic {
		assert(jh && page);
#ifdef BREAK_type
		yes = triggers != 0
#else
		yes = triggers == MINE
#endif
	};
	if
	:: !yes -> goto looked
	:: else
	fi;
#ifdef BREAK_reread
	jh = has_jh[0];
#endif
	atomic {
		assert(jh && page);
		owned = owner == 0;
#ifndef BREAK_owner
		yes = owned
#endif
	};
looked:
	rcu_read_unlock();
	if
	:: yes -> assert(owned); goto out
	:: else
	fi;

#ifdef BREAK_store
	if
	:: !jh -> goto out
	:: else
	fi;
#else
	/* jbd2_journal_grab_journal_head() */
	bh_lock();
	jh = has_jh[0];
	if
	:: jh -> count++
	:: else
	fi;
	bh_locked = false;
	if
	:: !jh -> goto out		/* WARN_ON_ONCE() */
	:: else
	fi;
#endif
	atomic {
		assert(page && owner == 0);
		triggers = MINE
	};
#ifndef BREAK_store
	atomic { !bh_locked -> count-- };	/* jbd2_journal_put_journal_head() */
#endif
out:
	assert(!sound || triggers == MINE);
	jh = false; yes = false; owned = false
}

/* journal_heads come and go on a corrupted filesystem. */
active proctype others()
{
	byte block;

end:	do
	:: atomic { ready && !sound && owner == 0 && !count && !bh_locked ->
		bh_locked = true; block = 0 }
free:	   has_jh[block] = false;	/* __journal_remove_journal_head() */
	   owner = NONE;
	   bh_locked = false;
	   block = 0
	:: atomic { ready && !sound && owner == 1 && !bh_locked ->
		bh_locked = true; block = 1; goto free }
	:: atomic { ready && !sound && owner == NONE && in_slab && !bh_locked ->
		bh_locked = true;
		triggers = 0;		/* kmem_cache_zalloc() */
		if
		:: block = 0
		:: block = 1
		fi
	   };
	   has_jh[block] = true;	/* jbd2_journal_add_journal_head() */
	   owner = block;
	   bh_locked = false;
	   block = 0
	:: atomic { owner == 1 && !bh_locked -> triggers = MINE }
	:: atomic { owner == 1 && !bh_locked -> triggers = OTHERS }
	:: atomic { owner == NONE && in_slab && !bh_locked && !has_jh[0] && !has_jh[1] && ready ->
		in_slab = false;
#ifndef BREAK_typesafe
		awaited = reading
#endif
	   };
	   atomic { !awaited -> page = false }
	od
}

init {
	atomic {
		if
		:: sound = true; has_jh[0] = true; owner = 0; count = 1
		:: sound = false
		:: sound = false; has_jh[0] = true; owner = 0
		fi;
		if
		:: owner == 0 -> triggers = MINE
		:: owner == 0 -> triggers = OTHERS
		:: true
		fi;
		ready = true
	}
}
