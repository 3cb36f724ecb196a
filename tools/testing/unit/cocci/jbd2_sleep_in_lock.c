// SPDX-License-Identifier: GPL-2.0
/* For test_check_cocci.py: the lines marked BAD, and no others, are reported. */

void sleep_in_list_lock(journal_t *journal)
{
	spin_lock(&journal->j_list_lock);
	cond_resched();	/* BAD */
	spin_unlock(&journal->j_list_lock);
}

void sleep_in_read_lock(journal_t *journal)
{
	read_lock(&journal->j_state_lock);
	if (journal->j_flags)
		mutex_lock(&journal->j_barrier);	/* BAD */
	read_unlock(&journal->j_state_lock);
}

void *alloc_in_lock(journal_t *journal)
{
	void *p;

	write_lock(&journal->j_state_lock);
	p = kzalloc(16, GFP_NOFS);	/* BAD */
	write_unlock(&journal->j_state_lock);
	return p;
}

void *alloc_nofail_in_lock(struct journal_head *jh)
{
	void *p;

	spin_lock(&jh->b_state_lock);
	p = jbd2_alloc(16, GFP_NOFS | __GFP_NOFAIL);	/* BAD */
	spin_unlock(&jh->b_state_lock);
	return p;
}

void *atomic_in_lock(journal_t *journal)
{
	void *p;

	write_lock(&journal->j_state_lock);
	p = kzalloc(16, GFP_ATOMIC);
	write_unlock(&journal->j_state_lock);
	return p;
}

void sleep_after_unlock(journal_t *journal)
{
	spin_lock(&journal->j_list_lock);
	journal->j_free--;
	spin_unlock(&journal->j_list_lock);
	cond_resched();
}

void dropped_on_one_path(journal_t *journal, int again)
{
	spin_lock(&journal->j_list_lock);
	if (again) {
		spin_unlock(&journal->j_list_lock);
		schedule();
		spin_lock(&journal->j_list_lock);
	}
	spin_unlock(&journal->j_list_lock);
}

void other_lock(struct foo *foo)
{
	spin_lock(&foo->lock);
	cond_resched();
	spin_unlock(&foo->lock);
}
