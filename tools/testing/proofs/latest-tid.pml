/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading the latest transaction id without j_state_lock.
 *
 * An inode that is changed and evicted twice, by two tasks, each time under a
 * handle of a transaction that they or a third one started; a task that reads it
 * from disk again after each, may be moved to another CPU then, and calls fsync;
 * another one that does so with an inode that no task changed; a journal thread
 * that commits what it is asked to. A new id is in the store buffer of the CPU
 * that took it until something orders it.
 *
 * Holds: an fsync returns only when the last change of the inode is committed, and
 * it does return.
 *
 * Commit: jbd2: read the latest transaction id without j_state_lock
 * Commit: ext4: read the latest transaction ID without j_state_lock in iget
 * Code: fs/jbd2/transaction.c jbd2_get_transaction: transaction->t_tid = journal->j_transaction_sequence; ... WRITE_ONCE(journal->j_transaction_sequence, transaction->t_tid + 1); ... journal->j_running_transaction = transaction;
 * Code: fs/jbd2/transaction.c start_this_handle: write_lock(&journal->j_state_lock); ... jbd2_get_transaction(journal, new_transaction); ... write_unlock(&journal->j_state_lock);
 * Code: include/linux/jbd2.h jbd2_get_latest_transaction: return READ_ONCE(journal->j_transaction_sequence) - 1;
 * Code: fs/ext4/inode.c __ext4_iget: iget_locked(sb, ino) ... tid = jbd2_get_latest_transaction(journal); ... ei->i_sync_tid = tid;
 * Code: fs/inode.c iget_locked: spin_lock(&inode_hash_lock); ... spin_unlock(&inode_hash_lock);
 * Code: fs/inode.c __remove_inode_hash: spin_lock(&inode_hash_lock); ... spin_unlock(&inode_hash_lock);
 * Code: fs/jbd2/journal.c jbd2_complete_transaction: read_lock(&journal->j_state_lock); if (journal->j_running_transaction && journal->j_running_transaction->t_tid == tid) { ... } else if (!(journal->j_committing_transaction && journal->j_committing_transaction->t_tid == tid)) need_to_wait = 0; read_unlock(&journal->j_state_lock);
 *
 * BREAK_iget_lock (assert): the id is read before the inode hash lock is taken
 * BREAK_switch_mb (assert): the scheduler has no barrier when a task moves to another CPU
 * BREAK_publish_late (assert): the id goes up after the lock of the new transaction is dropped
 * BREAK_unlock (assert): the unlock behind a new transaction does not order its stores
 * BREAK_own_section (assert): the id goes up in a locked section of its own
 * BREAK_next (assert): the next id is taken for the latest
 * BREAK_committed (assert): the newest id that was committed is taken for the latest
 */
#include "weak.h"

#define LAST	3
#define READER	0		/* CPUs that read the id */
#define OTHER	1
#define UNCHANGED	2

byte next_id = 1;		/* j_transaction_sequence */
bool id_pending;		/* the next one, in the store buffer of the CPU that took it */
byte old;			/* CPUs that may see the id before next_id */
byte running, committing, request, sequence;
byte handles;			/* that are open */
bool locked, hash_locked;	/* j_state_lock, inode_hash_lock */
bool in_memory = true, in_use;	/* the inode is in the hash; a changer has it */
byte changed_by;		/* transaction of its last change */

#define NEW_ID	next_id++; CHANGED(old, 7)

active proctype hardware()
{
end:	do
	:: atomic { id_pending -> id_pending = false; NEW_ID }
	od
}

inline lock()
{
	atomic { !locked -> locked = true }
}

inline hash_lock()
{
	atomic { !hash_locked -> hash_locked = true }
}

/* jbd2_get_latest_transaction(): the id may be as it was */
inline latest_id(to, cpu)
{
	atomic {
#if defined(BREAK_next)
		to = next_id;
#elif defined(BREAK_committed)
		to = sequence;
#else
		to = next_id - 1;
		if
		:: old & CPU(cpu) -> to--
		:: true
		fi;
#endif
		FRESH(old, cpu)
	}
}

/* jbd2_complete_transaction() */
inline complete(tid)
{
	if
	:: sequence >= tid
	:: sequence < tid ->
	   atomic { !locked ->
		wait = true;
		if
		:: running == tid -> request = tid
		:: committing == tid
		:: else -> wait = false
		fi
	   };
	   !wait || sequence >= tid;
	   wait = false
	fi
}

/* start_this_handle() */
inline start_handle()
{
	do
	:: atomic { !locked && !running -> locked = true };
#ifdef BREAK_own_section
	   atomic { NEW_ID };
	   locked = false;
	   lock();
	   running = next_id - 1;
#else
	   id = next_id;
#ifndef BREAK_publish_late
	   id_pending = true;
#endif
	   running = id;
#ifndef BREAK_unlock
	   !id_pending;
#endif
#endif
	   locked = false;
#ifdef BREAK_publish_late
	   atomic { NEW_ID }
#endif
	:: atomic { !locked && running -> handles++; break }
	od
}

active proctype third()
{
	byte id;

	start_handle();
	handles--
}

active [2] proctype changer()
{
	byte id;

	atomic { in_memory && !in_use -> in_use = true };
	start_handle();
	changed_by = running;
	handles--;
	hash_lock();
	atomic { in_memory = false; in_use = false };	/* evicted */
	hash_locked = false
}

active proctype reader()
{
	byte id, cpu = READER, round;
	bool wait;

	do
	:: round < 2 ->
#ifdef BREAK_iget_lock
	   latest_id(id, cpu);
#endif
	   atomic { !in_memory && !hash_locked -> hash_locked = true; FRESH(old, cpu) };
	   hash_locked = false;
	   if
	   :: atomic { cpu == READER ->
		cpu = OTHER;	/* moved by the scheduler */
#ifndef BREAK_switch_mb
		FRESH(old, OTHER)
#endif
	      }
	   :: true
	   fi;
#ifndef BREAK_iget_lock
	   latest_id(id, cpu);		/* i_sync_tid */
#endif
	   complete(id);		/* fsync */
	   assert(sequence >= changed_by);
	   atomic { in_memory = true; round++; id = 0 }
	:: round == 2 -> break
	od
}

/* The same for an inode that no task changed: nothing orders its look at the id. */
active proctype unchanged()
{
	byte id;
	bool wait;

	latest_id(id, UNCHANGED);
	complete(id)
}

active proctype kjournald2()
{
end:	do
	:: atomic { !locked && request != sequence && !handles ->
		assert(running == request);
		committing = running;
		running = 0
	   };
	   atomic { !locked -> sequence = committing; committing = 0 }
	od
}
