// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the chain of log vectors that a push makes of the CIL. Part of
 * xfs_log_cil.c.
 */
#include <kunit/test.h>
#include <linux/prandom.h>

#define CIL_TEST_ROUNDS		2000
#define CIL_TEST_LISTS		XLOG_CIL_WALK_LISTS
#define CIL_TEST_ITEMS		7	/* of a list, at most */

struct cil_test_item {
	struct xfs_log_item	item;
	struct xfs_log_vec	vec;
	uint32_t		number;
};

struct cil_test {
	struct cil_test_item	items[CIL_TEST_LISTS * CIL_TEST_ITEMS];
	unsigned int		nr;
	struct list_head	lists[CIL_TEST_LISTS];
	struct rnd_state	random;
};

/* Add an item of a random kind to a list. */
static void
cil_test_add(
	struct cil_test		*t,
	struct list_head	*list)
{
	struct cil_test_item	*i = &t->items[t->nr++];
	struct xfs_log_item	*item = &i->item;

	memset(i, 0, sizeof(*i));
	INIT_LIST_HEAD(&i->vec.lv_list);
	item->li_type = XFS_LI_INODE;
	item->li_lv = &i->vec;
	i->vec.lv_item = item;
	i->vec.lv_niovecs = 1 + t->nr;
	i->vec.lv_bytes = 100 * t->nr;
	switch (prandom_u32_state(&t->random) % 8) {
	case 0:
	case 1:
		item->li_type = XFS_LI_CUI;
		i->number = 1 + prandom_u32_state(&t->random) % 3;
		item->li_order_id = i->number;
		break;
	case 2:
		item->li_type = XFS_LI_ICREATE;
		break;
	case 3:
		item->li_type = XFS_LI_BUF;
		set_bit(XFS_LI_FIRST, &item->li_flags);
		break;
	case 4:
		item->li_type = XFS_LI_CUI;
		set_bit(XFS_LI_WHITEOUT, &item->li_flags);
		break;
	case 5:
		i->vec.lv_buf_used = XFS_LOG_VEC_ORDERED;
		break;
	}
	list_add_tail(&item->li_cil, list);
}

static bool
cil_test_first(
	struct xfs_log_item	*item)
{
	return test_bit(XFS_LI_FIRST, &item->li_flags);
}

/* Where in the chain an item belongs. */
static struct list_head *
cil_test_place(
	struct xfs_log_item	*item,
	struct xlog_cil_chain	*chain)
{
	if (test_bit(XFS_LI_WHITEOUT, &item->li_flags))
		return &chain->whiteouts;
	if (item->li_type == XFS_LI_CUI)
		return &chain->numbered;
	if (item->li_type == XFS_LI_ICREATE || cil_test_first(item))
		return &chain->early;
	return &chain->unordered;
}

/*
 * What is in a part of the chain has to be there, once. In parts that have an
 * order, that is the order of t->items, or the order of the numbers before it.
 */
static void
cil_test_check_part(
	struct kunit		*test,
	struct xlog_cil_chain	*chain,
	struct list_head	*part,
	bool			in_order,
	bool			by_number)
{
	struct cil_test		*t = test->priv;
	struct cil_test_item	*prev = NULL, *i;
	unsigned int		nr = 0, expected = 0;

	for (i = t->items; i < t->items + t->nr; i++)
		expected += cil_test_place(&i->item, chain) == part;
	list_for_each_entry(i, part, vec.lv_list) {
		KUNIT_ASSERT_PTR_EQ(test, part,
				cil_test_place(&i->item, chain));
		KUNIT_EXPECT_TRUE(test, list_empty(&i->item.li_cil));
		KUNIT_EXPECT_NULL(test, i->item.li_lv);
		KUNIT_EXPECT_EQ(test, 0, i->item.li_order_id);
		KUNIT_EXPECT_EQ(test, i->number, i->vec.lv_order_id);
		if (prev && by_number)
			KUNIT_EXPECT_LE(test, prev->vec.lv_order_id,
					i->vec.lv_order_id);
		if (prev && in_order &&
		    prev->vec.lv_order_id == i->vec.lv_order_id)
			KUNIT_EXPECT_LT(test, prev - t->items, i - t->items);
		KUNIT_ASSERT_LE(test, ++nr, expected);
		prev = i;
	}
	KUNIT_EXPECT_EQ(test, nr, expected);
}

static void
cil_test_check(
	struct kunit		*test,
	struct xlog_cil_chain	*chain)
{
	struct cil_test		*t = test->priv;
	struct xfs_log_item	*item;
	struct cil_test_item	*i;
	unsigned int		whiteouts = 0, num_items = 0, num_iovecs = 0;
	unsigned int		num_bytes = 0;
	bool			first = true;

	cil_test_check_part(test, chain, &chain->unordered, true, false);
	list_sort(NULL, &chain->numbered, xlog_cil_order_cmp);
	cil_test_check_part(test, chain, &chain->numbered, true, true);
	cil_test_check_part(test, chain, &chain->early, false, false);
	list_for_each_entry(i, &chain->early, vec.lv_list) {
		if (cil_test_first(&i->item))
			KUNIT_EXPECT_TRUE(test, first);
		else
			first = false;
	}

	for (i = t->items; i < t->items + t->nr; i++) {
		if (test_bit(XFS_LI_WHITEOUT, &i->item.li_flags)) {
			whiteouts++;
			continue;
		}
		num_items++;
		num_iovecs += i->vec.lv_niovecs;
		if (i->vec.lv_buf_used != XFS_LOG_VEC_ORDERED)
			num_bytes += i->vec.lv_bytes;
	}
	KUNIT_EXPECT_EQ(test, num_items, chain->num_items);
	KUNIT_EXPECT_EQ(test, num_iovecs, chain->num_iovecs);
	KUNIT_EXPECT_EQ(test, num_bytes, chain->num_bytes);
	list_for_each_entry(item, &chain->whiteouts, li_cil) {
		KUNIT_EXPECT_TRUE(test,
				test_bit(XFS_LI_WHITEOUT, &item->li_flags));
		whiteouts--;
	}
	KUNIT_EXPECT_EQ(test, 0, whiteouts);
}

/* Lists of all lengths, walked together, give what walking them in turn does. */
static void
test_cil_walk_lists(
	struct kunit		*test)
{
	struct cil_test		*t = test->priv;
	struct xlog_cil_walk	walks[CIL_TEST_LISTS];
	struct xlog_cil_chain	chain;
	unsigned int		round, nr, list, len;

	for (round = 0; round < CIL_TEST_ROUNDS; round++) {
		nr = prandom_u32_state(&t->random) % (CIL_TEST_LISTS + 1);
		t->nr = 0;
		for (list = 0; list < nr; list++) {
			INIT_LIST_HEAD(&t->lists[list]);
			len = prandom_u32_state(&t->random) %
				(CIL_TEST_ITEMS + 1);
			while (len--)
				cil_test_add(t, &t->lists[list]);
			xlog_cil_init_walk(&walks[list], &t->lists[list]);
		}
		xlog_cil_init_chain(&chain);
		xlog_cil_walk_lists(walks, nr, &chain);
		for (list = 0; list < nr; list++)
			KUNIT_ASSERT_TRUE(test, list_empty(&t->lists[list]));
		cil_test_check(test, &chain);
		if (test->status == KUNIT_FAILURE)
			break;
	}
}

/* The lists of all CPUs of the context are walked, however many these are. */
static void
test_cil_build_lv_chain(
	struct kunit		*test)
{
	struct cil_test		*t = test->priv;
	struct xfs_cil		*cil;
	struct xfs_cil_ctx	*ctx;
	struct xlog_cil_pcp	*cilpcp;
	struct xlog_cil_chain	chain;
	int			cpu;

	cil = kunit_kzalloc(test, sizeof(*cil), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cil);
	ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ctx);
	cil->xc_pcp = alloc_percpu(struct xlog_cil_pcp);
	KUNIT_ASSERT_NOT_NULL(test, cil->xc_pcp);
	ctx->cil = cil;
	for_each_possible_cpu(cpu) {
		cilpcp = per_cpu_ptr(cil->xc_pcp, cpu);
		INIT_LIST_HEAD(&cilpcp->log_items);
		if (t->nr == ARRAY_SIZE(t->items))
			continue;
		cil_test_add(t, &cilpcp->log_items);
		cpumask_set_cpu(cpu, &ctx->cil_pcpmask);
	}
	xlog_cil_init_chain(&chain);
	xlog_cil_build_lv_chain(ctx, &chain);
	cil_test_check(test, &chain);
	free_percpu(cil->xc_pcp);
}

static int
cil_test_init(
	struct kunit		*test)
{
	struct cil_test		*t;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	prandom_seed_state(&t->random, 43);
	test->priv = t;
	return 0;
}

static struct kunit_case cil_test_cases[] = {
	KUNIT_CASE(test_cil_walk_lists),
	KUNIT_CASE(test_cil_build_lv_chain),
	{}
};

static struct kunit_suite cil_test_suite = {
	.name		= "xfs_log_cil",
	.init		= cil_test_init,
	.test_cases	= cil_test_cases,
};

kunit_test_suite(cil_test_suite);
