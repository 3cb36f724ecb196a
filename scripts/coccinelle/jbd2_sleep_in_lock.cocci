// SPDX-License-Identifier: GPL-2.0
/// A call that may sleep between taking and dropping one of jbd2's spinning
/// locks.
//
// Confidence: Moderate.
// Options: --no-includes --include-headers

virtual report

@held exists@
expression E;
identifier lock = {j_list_lock, j_revoke_lock, j_state_lock, j_history_lock, b_state_lock,
	t_handle_lock};
identifier sleeps = {mutex_lock, mutex_lock_io, mutex_lock_interruptible, down_read,
	down_write, schedule, schedule_timeout, schedule_timeout_uninterruptible, io_schedule,
	msleep, cond_resched, might_sleep, wait_event, wait_event_killable, wait_on_buffer,
	lock_buffer, wait_on_bit, wait_on_bit_io, sb_bread, __bread, bread, sync_dirty_buffer,
	blkdev_issue_flush, submit_bio_wait, filemap_fdatawait_range_keep_errors,
	filemap_fdatawrite, jbd2_log_wait_commit, jbd2_log_do_checkpoint,
	jbd2_journal_start, jbd2_journal_get_descriptor_buffer, iput, kvmalloc, vmalloc,
	kthread_stop, synchronize_rcu};
position p;
@@
(
 spin_lock(&E->lock);
|
 read_lock(&E->lock);
|
 write_lock(&E->lock);
)
... when != spin_unlock(&E->lock)
    when != read_unlock(&E->lock)
    when != write_unlock(&E->lock)
sleeps@p(...)

@alloc exists@
expression E;
identifier lock = {j_list_lock, j_revoke_lock, j_state_lock, j_history_lock, b_state_lock,
	t_handle_lock};
identifier get =~ "alloc|strdup|jbd2_journal_add_journal_head";
position p;
@@
(
 spin_lock(&E->lock);
|
 read_lock(&E->lock);
|
 write_lock(&E->lock);
)
... when != spin_unlock(&E->lock)
    when != read_unlock(&E->lock)
    when != write_unlock(&E->lock)
(
get@p(..., \(GFP_KERNEL\|GFP_NOFS\|GFP_NOIO\), ...)
|
get@p(..., \(GFP_KERNEL\|GFP_NOFS\|GFP_NOIO\) | ..., ...)
)

@script:python depends on report@
p << held.p;
lock << held.lock;
sleeps << held.sleeps;
@@
coccilib.report.print_report(p[0], "ERROR: %s() may sleep, %s is held" % (sleeps, lock))

@script:python depends on report@
p << alloc.p;
lock << alloc.lock;
get << alloc.get;
@@
coccilib.report.print_report(p[0], "ERROR: %s() may sleep, %s is held" % (get, lock))
