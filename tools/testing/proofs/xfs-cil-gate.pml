/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commits into the CIL and pushes of it: a commit is in the context that it got from the gate.
 *
 * Three tasks commit an item each. The first is below the soft limit of a context, unless it
 * is not alone in it, the second is over that, and queues a push, and the third is over the
 * hard limit, and is throttled until the push has begun. The first may then force the log up
 * to the sequence that it got, and another task forces all of the log. Two workers push, as many contexts as it takes, and
 * checkpoints complete and are freed at any time. A push may have been queued for
 * nothing in the beginning: no task does that, but the work has a path for it.
 *
 * The gate itself (counts, barriers, the wait for tasks inside) is proven in percpu-gate.pml,
 * and is sequentially consistent here, as are sequences that are read without a lock: a
 * task does that inside, and what changes them then is the push of its own context.
 * A shutdown is not modelled, nor is flush_workqueue() at unmount.
 *
 * Holds: an item is inserted only into the current context, not into one that is being
 * pushed or was freed, and is pushed once, with that. Work is queued only for the
 * current context, which no push has taken, and never runs for one that was freed. A force
 * returns only when its item was pushed, and the context has a commit LSN. A task that the
 * gate has refused gets in when it has xc_ctx_lock. No task sleeps for ever.
 *
 * Commit: xfs: enter the CIL through a per-CPU gate
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_enter: ctx = percpu_gate_enter(&cil->xc_gate, slot); if (likely(ctx)) return ctx; ... down_read(&cil->xc_ctx_lock); ctx = percpu_gate_enter(&cil->xc_gate, slot); up_read(&cil->xc_ctx_lock); ... return ctx;
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_close: down_write(&cil->xc_ctx_lock); percpu_gate_close(&cil->xc_gate); percpu_gate_wait(&cil->xc_gate);
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_open: percpu_gate_open(&cil->xc_gate, cil->xc_ctx); up_write(&cil->xc_ctx_lock);
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_ctx_switch: set_bit(XLOG_CIL_EMPTY, &cil->xc_flags); ... ctx->sequence = ++cil->xc_current_sequence; ... cil->xc_ctx = ctx;
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_commit: ctx = xlog_cil_enter(cil, &slot); ... xlog_cil_insert_items(log, ctx, tp, released_space); ... *commit_seq = ctx->sequence; ... xlog_cil_push_background(log, ctx, slot);
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_push_background: if (space_used < XLOG_CIL_SPACE_LIMIT(log) || (cil->xc_push_seq == cil->xc_current_sequence && space_used < XLOG_CIL_BLOCKING_SPACE_LIMIT(log) && !waitqueue_active(&cil->xc_push_wait))) { xlog_cil_leave(cil, slot); return; } spin_lock(&cil->xc_push_lock); if (cil->xc_push_seq < cil->xc_current_sequence) { cil->xc_push_seq = cil->xc_current_sequence; queue_work(cil->xc_push_wq, &ctx->push_work); } ... xlog_cil_leave(cil, slot); ... if (xlog_cil_over_hard_limit(log, space_used)) { trace_xfs_log_cil_wait(log, ctx->ticket); ... xlog_wait(&cil->xc_push_wait, &cil->xc_push_lock); return; } spin_unlock(&cil->xc_push_lock);
 * Code: fs/xfs/xfs_log_priv.h xlog_wait: add_wait_queue_exclusive(wq, &wait); __set_current_state(TASK_UNINTERRUPTIBLE); spin_unlock(lock); schedule(); remove_wait_queue(wq, &wait);
 * Commit: xfs: wait for a checkpoint's commit record, not for the push workqueue
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_push_now: if (test_bit(XLOG_CIL_EMPTY, &cil->xc_flags) || push_seq <= cil->xc_push_seq) return; cil->xc_push_seq = push_seq; queue_work(cil->xc_push_wq, &cil->xc_ctx->push_work);
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_force_seq: spin_lock(&cil->xc_push_lock); restart: ... xlog_cil_push_now(cil, sequence); ... list_for_each_entry(ctx, &cil->xc_committing, committing) { ... if (ctx->sequence > sequence) continue; ... if (!ctx->commit_lsn) goto wait; ... if (sequence == cil->xc_current_sequence && sequence == cil->xc_push_seq && !test_bit(XLOG_CIL_EMPTY, &cil->xc_flags)) goto wait; ... spin_unlock(&cil->xc_push_lock); return commit_lsn; ... xlog_wait(&cil->xc_commit_wait, &cil->xc_push_lock); spin_lock(&cil->xc_push_lock); ... goto restart;
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_push_work: xlog_cil_close(cil); ... spin_lock(&cil->xc_push_lock); push_seq = cil->xc_push_seq; ASSERT(push_seq <= ctx->sequence); ... if (waitqueue_active(&cil->xc_push_wait)) wake_up_all(&cil->xc_push_wait); xlog_cil_push_pcp_aggregate(cil, ctx); ... if (test_bit(XLOG_CIL_EMPTY, &cil->xc_flags)) { cil->xc_push_seq = 0; spin_unlock(&cil->xc_push_lock); goto out_skip; } ... list_add(&ctx->committing, &cil->xc_committing); spin_unlock(&cil->xc_push_lock); ... spin_lock(&cil->xc_push_lock); xlog_cil_ctx_switch(cil, new_ctx); spin_unlock(&cil->xc_push_lock); xlog_cil_open(cil); ... error = xlog_cil_write_chain( ... error = xlog_cil_write_commit_record(ctx); ... out_skip: xlog_cil_open(cil);
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_order_write: if (ctx->sequence >= sequence) continue; ... if (!ctx->commit_lsn) { xlog_wait(&cil->xc_commit_wait, &cil->xc_push_lock); goto restart; }
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_set_ctx_write_state: ctx->commit_lsn = lsn; wake_up_all(&cil->xc_commit_wait); spin_unlock(&cil->xc_push_lock);
 * Code: fs/xfs/xfs_log_cil.c xlog_cil_committed: spin_lock(&ctx->cil->xc_push_lock); list_del(&ctx->committing); spin_unlock(&ctx->cil->xc_push_lock); ... kfree(ctx);
 *
 * BREAK_open_early (assert): the gate is opened before the contexts are switched
 * BREAK_open_unlocked (assert): xc_ctx_lock is dropped before the gate is open
 * BREAK_drain (assert): the push does not wait for tasks inside
 * BREAK_skip_open (hang): a push that has nothing to do neither opens the gate nor drops the lock
 * BREAK_skip_unlock (assert): a push that has nothing to do drops the lock, but does not open
 * BREAK_list_late (assert): the context is on the committing list only after the switch
 * BREAK_wake_early (hang): throttled tasks are woken before the gate is closed
 * BREAK_refused_lock (assert): a task that was refused tries again without xc_ctx_lock
 * BREAK_refused_unlock (assert): it drops xc_ctx_lock before it tries again
 * BREAK_leave_token (assert): a task leaves before it queues the push of the context that it got
 * BREAK_leave_ctx (hang): a task leaves before it queues the push of the context that is current
 * BREAK_leave_late (hang): a task is throttled inside the gate
 * BREAK_throttle_unlocked (assert): a task leaves and is throttled without xc_push_lock
 * BREAK_force_unlocked (hang): a force drops xc_push_lock between looking and going to sleep
 * BREAK_force_begun (assert): a force does not wait for a push that has not begun
 * BREAK_force_unqueued (hang): a force waits for a push that it has not queued, as the CIL was empty
 * BREAK_record_no_wake (hang): a commit record wakes no task
 */

#define TASKS	3
#define LAST	4		/* the context that no task can fill */
#define SOFT	2		/* space of a context from which on a task queues a push */
#define HARD	4		/* and from which on it waits for that */
#define BIT(n)	(1 << (n))
#define NOT(n)	(255 - BIT(n))

/* struct xfs_cil. Contexts are their sequence numbers. */
byte ctx = 1;			/* xc_ctx */
byte sequence = 1;		/* xc_current_sequence */
byte push_seq;
bool no_items = true;		/* XLOG_CIL_EMPTY */
byte token = 1, inside;		/* the gate */
bool writer;			/* xc_ctx_lock */
byte readers;
bool locked;			/* xc_push_lock */
byte push_wait;			/* tasks in that queue */
byte push_asleep;		/* those that were not woken */
byte commit_asleep;		/* tasks and workers in xc_commit_wait */

/* Contexts */
byte queued, running;		/* push_work */
byte committing, has_lsn, released, freed;
byte space[LAST + 1];

/* Items: each task commits one */
byte items;			/* on the lists of the CPUs */
byte pushed;
byte item_seq[TASKS];

inline queue_push(what)
{
	assert(what == ctx && !((committing | freed) & BIT(what)));
	queued = queued | BIT(what)
}

inline enter()
{
	atomic {
		mine = token;
		if
		:: mine -> inside++
		:: else
		fi
	}
}

/* xlog_cil_enter() */
inline cil_enter()
{
	enter();
	if
	:: !mine ->
#ifndef BREAK_refused_lock
		atomic { !writer -> readers++ };
#ifdef BREAK_refused_unlock
		readers--;
#endif
#endif
		enter();
		assert(mine);
#if !defined(BREAK_refused_lock) && !defined(BREAK_refused_unlock)
		readers--
#endif
	:: else
	fi
}

inline leave()
{
	inside--
}

inline insert()
{
	atomic {
		assert(mine == ctx && !((committing | freed) & BIT(mine)));
		items = items | BIT(me);
		item_seq[me] = mine;
		no_items = false;
		space[mine] = space[mine] + BIT(me)
	};
	/* iop_committing() and commit_seq */
	assert(mine == ctx && !((committing | freed) & BIT(mine)))
}

#ifdef BREAK_leave_ctx
#define THE_CTX	ctx
#else
#define THE_CTX	mine
#endif

/* xlog_cil_push_background() */
inline push_background()
{
	atomic {
		assert(!no_items && !(freed & BIT(mine)));
		used = space[mine];
		if
		:: used < SOFT -> leave(); goto committed
		:: else
		fi
	};
	atomic {
		if
		:: push_seq == sequence && used < HARD && !push_wait -> leave(); goto committed
		:: else
		fi
	};
#if defined(BREAK_leave_token) || defined(BREAK_leave_ctx)
	leave();
#endif
	atomic { !locked ->
		locked = true;
		if
		:: push_seq < sequence ->
			push_seq = sequence;
			queue_push(THE_CTX)
		:: else
		fi
	};
#ifdef BREAK_throttle_unlocked
	locked = false;
#endif
#if !defined(BREAK_leave_token) && !defined(BREAK_leave_ctx) && !defined(BREAK_leave_late)
	leave();
#endif
	/* xlog_cil_over_hard_limit() */
	atomic {
#ifndef BREAK_throttle_unlocked
		locked = false;
#endif
		if
		:: push_wait || used >= HARD ->
			assert(THE_CTX == ctx && !(freed & BIT(THE_CTX)));
			push_wait = push_wait | BIT(me);
			push_asleep = push_asleep | BIT(me)
		:: else -> goto not_throttled
		fi
	};
	!(push_asleep & BIT(me));
	push_wait = push_wait & NOT(me);
not_throttled:
#ifdef BREAK_leave_late
	leave();
#endif
committed:
	skip
}

/*
 * xlog_cil_force_seq(), with xc_push_lock. That does not keep commits from adding to an empty CIL
 * between the two looks.
 */
#ifdef BREAK_force_unqueued
#define QUEUED	true
#else
#define QUEUED	(mine == push_seq)
#endif
inline force()
{
	skip;
restart:
	atomic { !locked ->
		locked = true;
		/* xlog_cil_push_now() */
		if
		:: no_items || mine <= push_seq
		:: else -> push_seq = mine; queue_push(ctx)
		fi
	};
	atomic {
		if
		:: committing & (255 - has_lsn) & (2 * BIT(mine) - 1)
#ifndef BREAK_force_begun
		:: mine == sequence && QUEUED && !no_items
#endif
		:: else -> locked = false; goto forced
		fi;
#ifdef BREAK_force_unlocked
		locked = false
	};
	atomic {
#endif
		commit_asleep = commit_asleep | BIT(me);
		locked = false
	};
	atomic { !(commit_asleep & BIT(me)) -> goto restart };
forced:
	skip
}

/* xlog_cil_commit() and, in one of them, xlog_cil_force_seq() */
proctype commit(byte me)
{
	byte mine, used;

	cil_enter();
	insert();
	push_background();
	if
	:: me == 0
	:: true -> goto out
	fi;
	force();
	assert((pushed & BIT(me)) && (has_lsn & BIT(mine)));
out:	skip
}

/* A task that forces the whole log, as the one that syncs it from time to time. */
proctype force_all(byte me)
{
	byte mine;

	mine = sequence;
	force()
}

inline close()
{
	atomic { !writer && !readers -> writer = true };
	token = 0;
#ifndef BREAK_drain
	!inside
#endif
}

inline open()
{
#ifdef BREAK_open_unlocked
	writer = false;
	token = ctx
#else
	token = ctx;
	writer = false
#endif
}

inline wake_throttled()
{
	atomic { !locked -> push_asleep = 0 }
}

/* xlog_cil_push_work() */
proctype worker(byte me)
{
	byte mine, i;

end:	do
	:: atomic { queued & (255 - running) ->
		mine = 1;
		do
		:: queued & (255 - running) & BIT(mine) -> break
		:: else -> mine++
		od;
		queued = queued & NOT(mine);
		running = running | BIT(mine);
		assert(!(freed & BIT(mine)))
	   };
#ifdef BREAK_wake_early
	   wake_throttled();
#endif
	   close();
	   atomic { !locked ->
#ifndef BREAK_wake_early
		push_asleep = 0;
#endif
		assert(mine == ctx);
		if
		:: no_items -> push_seq = 0; goto skip_push
		:: else
		fi;
		assert(push_seq == mine);
		do
		:: i < TASKS ->
			assert(!(items & BIT(i)) || (item_seq[i] == mine && !(pushed & BIT(i))));
			i++
		:: else -> i = 0; break
		od;
		pushed = pushed | items;
		items = 0;
#ifndef BREAK_list_late
		committing = committing | BIT(mine)
#endif
	   };
#ifdef BREAK_open_early
	   open();
#endif
	   atomic { !locked ->
		assert(!items);
		no_items = true;
		sequence++;
		ctx = sequence
	   };
#ifdef BREAK_list_late
	   atomic { !locked -> committing = committing | BIT(mine) };
#endif
#ifndef BREAK_open_early
	   open();
#endif
	   /* xlog_cil_order_write() */
	   do
	   :: atomic { !locked && !(commit_asleep & BIT(me)) ->
		if
		:: committing & (255 - has_lsn) & (BIT(mine) - 1) -> commit_asleep = commit_asleep | BIT(me)
		:: else -> break
		fi
	      }
	   od;
	   /* xlog_cil_set_ctx_write_state() */
	   atomic { !locked ->
		has_lsn = has_lsn | BIT(mine);
#ifndef BREAK_record_no_wake
		commit_asleep = 0
#endif
	   };
	   atomic { released = released | BIT(mine); running = running & NOT(mine); mine = 0 };
	   goto end;
skip_push:
#if defined(BREAK_skip_unlock)
	   writer = false;
#elif !defined(BREAK_skip_open)
	   open();
#endif
	   atomic { running = running & NOT(mine); mine = 0 }
	od
}

/* xlog_cil_committed(), for the oldest */
active proctype iclog()
{
	byte mine;

end:	do
	:: atomic { released && !locked ->
		mine = 1;
		do
		:: released & BIT(mine) -> break
		:: else -> mine++
		od;
		released = released & NOT(mine);
		committing = committing & NOT(mine)
	   };
	   atomic { freed = freed | BIT(mine); mine = 0 }
	od
}

init {
	byte i;

	atomic {
		if
		:: true
		:: push_seq = 1; queued = BIT(1)	/* for nothing */
		fi;
		for (i : 0 .. TASKS - 1) {
			run commit(i)
		}
		run worker(TASKS);
		run worker(TASKS + 1);
		run force_all(TASKS + 2)
	}
}
