// SPDX-License-Identifier: GPL-2.0
/// A field that j_state_lock protects is read without the lock. Such a read
/// has to say so: READ_ONCE(), or data_race() with a comment.
//
// Confidence: Moderate. A function whose caller holds the lock is reported,
// unless it begins with lockdep_assert_held().
// Options: --no-includes --include-headers

virtual report

// Reads that say so, and what is not a read.
@marked@
expression E, V;
identifier f = {j_commit_sequence, j_commit_request, j_running_transaction,
	j_committing_transaction, j_tail_sequence, j_transaction_sequence,
	j_barrier_count};
position p;
@@
(
 READ_ONCE(E->f@p)
|
 WRITE_ONCE(E->f@p, V)
|
 data_race(E->f@p)
|
 smp_load_acquire(&E->f@p)
|
 smp_store_release(&E->f@p, V)
|
 cmpxchg(&E->f@p, ...)
|
 try_cmpxchg(&E->f@p, ...)
)

// From the start of a function to the read, without the lock.
@unlocked exists@
expression E;
identifier fn;
identifier f = {j_commit_sequence, j_commit_request, j_running_transaction,
	j_committing_transaction, j_tail_sequence, j_transaction_sequence,
	j_barrier_count};
position p != marked.p;
expression L;
@@
fn(...) {
... when != read_lock(&L->j_state_lock)
    when != write_lock(&L->j_state_lock)
    when != lockdep_assert_held(&L->j_state_lock)
    when != lockdep_assert_held_write(&L->j_state_lock)
E->f@p
... when any
}

// From an unlock to the read, without the lock being taken again.
@after exists@
expression E, L, M;
identifier f = {j_commit_sequence, j_commit_request, j_running_transaction,
	j_committing_transaction, j_tail_sequence, j_transaction_sequence,
	j_barrier_count};
position p != marked.p;
@@
(
 read_unlock(&L->j_state_lock);
|
 write_unlock(&L->j_state_lock);
)
... when != read_lock(&M->j_state_lock)
    when != write_lock(&M->j_state_lock)
E->f@p

@script:python depends on report@
p << unlocked.p;
f << unlocked.f;
@@
coccilib.report.print_report(p[0], "WARNING: plain read of %s without j_state_lock" % f)

@script:python depends on report@
p << after.p;
f << after.f;
@@
coccilib.report.print_report(p[0], "WARNING: plain read of %s after j_state_lock was dropped" % f)
