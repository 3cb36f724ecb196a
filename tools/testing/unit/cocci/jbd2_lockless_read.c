// SPDX-License-Identifier: GPL-2.0
/* For test_check_cocci.py: the lines marked BAD, and no others, are reported. */

int plain(journal_t *journal)
{
	return journal->j_commit_sequence;	/* BAD */
}

int marked(journal_t *journal)
{
	return READ_ONCE(journal->j_commit_sequence);
}

int marked_race(journal_t *journal, tid_t tid)
{
	if (data_race(journal->j_commit_request) == tid)
		return 1;
	return 0;
}

int locked(journal_t *journal)
{
	int ret;

	read_lock(&journal->j_state_lock);
	ret = journal->j_commit_request;
	read_unlock(&journal->j_state_lock);
	return ret;
}

int before_lock(journal_t *journal, tid_t tid)
{
	if (journal->j_commit_request == tid)	/* BAD */
		return 0;
	write_lock(&journal->j_state_lock);
	journal->j_commit_request = tid;
	write_unlock(&journal->j_state_lock);
	return 1;
}

void after_unlock(journal_t *journal)
{
	write_lock(&journal->j_state_lock);
	journal->j_barrier_count++;
	write_unlock(&journal->j_state_lock);
	if (journal->j_running_transaction)	/* BAD */
		kick(journal);
}

void taken_again(journal_t *journal)
{
	write_lock(&journal->j_state_lock);
	write_unlock(&journal->j_state_lock);
	read_lock(&journal->j_state_lock);
	if (journal->j_running_transaction)
		kick(journal);
	read_unlock(&journal->j_state_lock);
}

int caller_locked(journal_t *journal)
{
	lockdep_assert_held(&journal->j_state_lock);
	return journal->j_commit_request;
}

int other_field(journal_t *journal)
{
	return journal->j_blocksize;
}
