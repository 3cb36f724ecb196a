#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of tools/testing/bench."""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
BENCH = os.path.realpath(os.path.join(HERE, "../bench"))
sys.path[:0] = [HERE, BENCH, os.path.join(HERE, "../lib")]
import benchlib  # noqa: E402
import counters  # noqa: E402
import dbench  # noqa: E402
import driver  # noqa: E402
import program  # noqa: E402

JBD2_INFO = """\
45 transactions (44 requested), each up to 5461 blocks
average:
  0ms waiting for transaction
  0ms request delay
  70ms running transaction
  0ms transaction was being locked
  0ms flushing data (in ordered mode)
  0ms logging transaction
  805us average transaction commit time
  32317 handles per transaction
  11 blocks per transaction
  13 logged blocks per transaction
"""
JBD2_TOTALS = {"transactions": 45, "requested": 44, "handles": 1454289, "blocks": 499,
               "logged": 589}
JBD2_NOTHING = "0 transactions (0 requested), each up to 5461 blocks\n"
XFS_STAT = """\
extent_alloc 245 1320 244 1312
trans 0 346119 0
log 160 4568 0 167 173
push_ail 54 1 0 0 0 0 0 0 0 0
icluster 5 6 7
fibt2 10 2 30 4 5 6 7 8 9 1 2 3 4 5 6
xpc 2621440 9175040 0
defer_relog 0
gc xpc 0
"""


class Recipe:
    """A recipe of two cases, as a module would be."""

    NAME = "test"
    METRICS = {"ops/s": "more", "ms": "less"}

    @staticmethod
    def cases(quick):
        del quick
        yield {"label": "first", "fs": "ext4"}
        yield {"label": "second", "fs": "xfs", "core": False}


def samples(scale=1.0):
    return [{"case": label, "values": {"ops/s": [100 * scale, 110 * scale], "ms": 5 / scale},
             "raw": {}} for label in ("first", "second")]


def whole_run(scales):
    boots = [{"recipe": "jbench", "round": number, "side": side, "busy_cpus": 0.0,
              "samples": samples(scale)}
             for number, pair in enumerate(scales)
             for side, scale in zip(benchlib.SIDES, pair)]
    kernel = {"name": "k", "commit": "0" * 40, "platform": "uml", "config_sha256": "0" * 64}
    return {"machine": {"cpu": "CPU", "cores": 2, "memory_mib": 1}, "seconds": 1.0,
            "base_note": "what base is", "boots": boots, "options": {"quick": False},
            "kernels": {"base": {**kernel, "image_sha256": "1"},
                        "stack": {**kernel, "image_sha256": "2"}},
            "rows": [{**row, "recipe": "jbench"} for row in benchlib.summarise(Recipe, boots)]}


class Parsing(unittest.TestCase):
    def test_jbd2_info(self):
        info = counters.parse_jbd2_info(JBD2_INFO)
        self.assertEqual((info["transactions"], info["requested"]), (45, 44))
        self.assertEqual(info["running transaction"], 70)
        self.assertEqual(info["average transaction commit time"], 805)
        self.assertEqual(info["logged blocks per transaction"], 13)

    def test_jbd2_info_before_the_first_commit(self):
        info = counters.parse_jbd2_info(JBD2_NOTHING)
        self.assertEqual(info, {"transactions": 0, "requested": 0, "max_blocks": 5461})

    def test_xfs_stat(self):
        stat = counters.parse_xfs_stat(XFS_STAT)
        self.assertEqual(stat["log"], [160, 4568, 0, 167, 173])
        self.assertEqual(stat["xpc"], [2621440, 9175040, 0])
        self.assertEqual(stat["gc xpc"], [0])

    def test_disk_stat(self):
        stat = counters.parse_disk_stat("1 2 3 4 50 6 700 8 9 10 11 12 13 14 15 16 17\n")
        self.assertEqual(stat, {"disk_reads": 1, "disk_writes": 50, "disk_sectors": 700,
                                "disk_flushes": 16})

    def test_ctxt(self):
        self.assertEqual(counters.parse_ctxt("cpu 1 2\nctxt 345\nbtime 1\n"), 345)

    def test_cpu(self):
        text = "cpu  1 20 300 4000 50000 7 8 9 10 11\ncpu0 1 20 300 4000 50000 7 8 9 10 11\n"
        self.assertEqual(counters.parse_cpu(text), 10 * (1 + 20 + 300 + 7 + 8))

    def test_garbage(self):
        for parse in (counters.parse_jbd2_info, counters.parse_xfs_stat,
                      counters.parse_disk_stat, counters.parse_ctxt,
                      counters.parse_cpu):
            with self.assertRaises(counters.CounterError):
                parse("no counters here\n")


class Counters(unittest.TestCase):
    def test_jbd2(self):
        self.assertEqual(counters.jbd2_counters(JBD2_INFO, JBD2_TOTALS), JBD2_TOTALS)

    def test_jbd2_totals_that_disagree_with_proc(self):
        for name in ("transactions", "handles", "blocks", "logged"):
            with self.subTest(name), self.assertRaisesRegex(counters.CounterError, name):
                counters.jbd2_counters(JBD2_INFO, {**JBD2_TOTALS, name: 7})

    def test_xfs(self):
        found = counters.xfs_counters(XFS_STAT)
        self.assertEqual((found["log_writes"], found["logged"]), (160, 571))
        self.assertEqual((found["try_logspace"], found["icluster_flushes"]), (54, 6))
        self.assertEqual(found["finobt_ops"], 10 + 30 + 4)

    def test_delta(self):
        self.assertEqual(counters.delta({"a": 1, "b": 2}, {"a": 5, "b": 2}), {"a": 4, "b": 0})
        with self.assertRaisesRegex(counters.CounterError, "a went down by 1"):
            counters.delta({"a": 1}, {"a": 0})
        with self.assertRaisesRegex(counters.CounterError, "different"):
            counters.delta({"a": 1}, {"b": 1})


class Checks(unittest.TestCase):
    def check(self, found):
        benchlib.check_samples(Recipe, found, ["first", "second"])

    def test_good(self):
        self.check(samples())

    def test_bad(self):
        for pattern, change in (
                ("not the cases.*second", lambda s: s.pop(1)),
                ("not the cases", lambda s: s.append(s[0])),
                ("no value 'typo'", lambda s: s[0]["values"].update(typo=1)),
                ("ms is nan", lambda s: s[1]["values"].update(ms=float("nan"))),
                ("ops/s is -1", lambda s: s[1]["values"].update({"ops/s": [1, -1]})),
                ("nothing was measured", lambda s: s[0].update(values={}))):
            found = samples()
            change(found)
            with self.subTest(pattern), self.assertRaisesRegex(benchlib.BenchError, pattern):
                self.check(found)


class Recipes(unittest.TestCase):
    def test_all(self):
        for name in benchlib.recipe_names():
            with self.subTest(name):
                recipe = benchlib.load_recipe(name)
                self.assertTrue(set(recipe.METRICS.values()) <= {"more", "less"})
                self.assertTrue(recipe.__doc__.splitlines()[0])
                for quick in (False, True):
                    labels = [case["label"] for case in recipe.cases(quick)]
                    self.assertTrue(labels)
                    self.assertEqual(len(labels), len(set(labels)))

    def test_cases_on_a_device(self):
        recipe = benchlib.load_recipe("fsync-16k")
        models = {case["device"] for case in recipe.cases(False)}
        self.assertGreater(len(models), 3)
        found = benchlib.cases(recipe, False, "/dev/sdz")
        self.assertEqual({case["device"] for case in found}, {"/dev/sdz"})
        self.assertFalse([case["label"] for case in found
                          if any(f" on {model}" in case["label"] for model in models)])
        self.assertIn("ext4, fsync, one file, 16 jobs", [case["label"] for case in found])
        self.assertEqual(benchlib.cases(recipe, False), list(recipe.cases(False)))

    def test_fsync_files_suffice(self):
        recipe = benchlib.load_recipe("fsync-16k")
        for case in recipe.kind_cases():
            with self.subTest(case["label"]):
                blocks = recipe.files_needed(case, 1500) * case["mib"] * 64
                each = blocks if case["private"] else blocks // case["jobs"]
                if case["kind"] != "overwrites":
                    self.assertGreater(each * case["jobs"], 5 * 1.5 * recipe.IOPS)
        ceilings = {case["label"]: recipe.ceiling(case) for case in recipe.kind_cases()}
        self.assertEqual(ceilings["ext4 on iops500, holes, one file of 8 MiB, 16 jobs"],
                         500 * 16 / 18)
        self.assertEqual(ceilings["xfs on iops500, append, private files, 4 jobs"], 400)

    def test_mwcm_adds_up_waits(self):
        recipe = benchlib.load_recipe("mwcm")
        buf = "dev 1:0 daddr 0x8 bbcount 0x8 hold 1 pincount 0 lock 1 flags X bufops a caller b"
        lines = ["# tracer: nop",
                 f"          fsload-12      [000] .....     7.999990: xfs_buf_lock: {buf}",
                 f"          fsload-13      [001] .....     8.000000: xfs_buf_lock: {buf}",
                 f"          fsload-13      [001] .....     8.000002: xfs_buf_lock_done: {buf}",
                 f"          fsload-12      [000] .....     8.000015: xfs_buf_lock_done: {buf}",
                 f"          fsload-12      [000] .....     8.000016: xfs_buf_trylock: {buf}",
                 "          fsload-12      [000] .....     8.1: xfs_alloc_vextent_finish: dev 1:0",
                 "     my task-1-12      [000] d..1.     8.100001: "
                 "xfs_alloc_vextent_finish: dev 1:0"
                 " agno 0x1"]
        found = recipe.add_up(lines, {8: "AGF", 16: "AGI"})
        self.assertEqual(found["AGF", "us"], 27)
        self.assertEqual((found["AGF", "xfs_buf_lock"], found["AGF", "xfs_buf_trylock"]), (2, 1))
        self.assertEqual(found["xfs_alloc_vextent_finish"], 1)

    def test_buffer_waits_by_kind(self):
        recipe = benchlib.load_recipe("buffer-waits")
        lines = []

        def wait(task, micros, took, address, ops):
            for event, when in (("xfs_buf_lock", micros), ("xfs_buf_lock_done", micros + took)):
                lines.append(f"  {task}  [001] .....     1.{when:06}: {event}: dev 1:0 daddr "
                             f"{address:#x} bbcount 0x8 lock 0 flags X bufops {ops}+0x0/0x40 x")
        wait("storm-1", 10, 5, 8, "xfs_agf_buf_ops")
        wait("storm-2", 20, 7, 16, "xfs_agi_buf_ops")
        wait("storm-2", 40, 11, 64, "xfs_inode_buf_ops")
        wait("storm-1", 60, 13, 72, "xfs_dir3_data_buf_ops")
        wait("kworker/0:1-9", 80, 100, 64, "xfs_inode_buf_ops")
        # Taken without a wait.
        lines.append(lines[1].replace("1.000015", "1.000200"))
        found, waits = recipe.add_up(lines, {8: "AGF", 16: "AGI"}, "storm")
        self.assertEqual(dict(found), {"AGF": 5, "AGI": 7, "inodes": 11, "others": 13})
        self.assertEqual(waits, [5, 7, 11, 13, 100])
        # Two loops of twenty wait for longer than 11; all five waits are not one in two loops.
        self.assertEqual([recipe.one_in(10, waits, loops) for loops in (20, 9, 60)], [11, 100, 0])

    def test_inodegc_waits(self):
        recipe = benchlib.load_recipe("inodegc-wait")
        lines = [f"  {task}  [001] .....     1.{when:06}: {event}: dev 1:0 ino {ino:#x} iflags 0x0"
                 for task, when, event, ino in (
                     ("rm-1", 10, recipe.QUEUED, 131), ("rm-1", 20, recipe.QUEUED, 132),
                     ("gc/1:0-2", 100, recipe.TAKEN, 132), ("gc/1:0-2", 110, recipe.TAKEN, 131),
                     ("gc/1:0-2", 120, recipe.TAKEN, 133))]
        self.assertEqual(recipe.waits(lines), [80, 100])

    def test_fsync_account(self):
        recipe = benchlib.load_recipe("fsync-account")
        lines = []

        def event(micros, name, words, task="fsload-1"):
            lines.append(f"  {task}  [001] .....     1.{micros:06}: block_{name}: {words}")

        def request(issued, completed, flags, sector, sectors, dev="251,0"):
            event(issued, "rq_issue",
                  f"{dev} {flags} {512 * sectors} () {sector} + {sectors} none,0,0 [x]")
            event(completed, "rq_complete",
                  f"{dev} {flags} () {sector} + {sectors} none,0,0 [0]")
        event(90, "bio_queue", "251,0 WS 64 + 32 [fsload]")
        request(100, 300, "WS", 64, 32)
        event(310, "bio_queue", "251,0 WSM 8 + 8 [jbd2/bench-8]", "jbd2/bench-8-7")
        request(350, 450, "WSM", 8, 8)
        request(440, 470, "FF", 18446744073709551615, 0)
        request(470, 480, "WSM", 200, 8)
        request(100, 900, "WS", 64, 32, dev="7,0")
        event(500, "bio_queue", "251,0 WS 96 + 32 [fsload]")
        request(530, 600, "WS", 96, 32)
        account = recipe.Account(lines, "251,0")
        self.assertEqual(dict(account.shares()), {
            "data": 270, "log": 100, "flush": 20, "others": 10, "idle": 100,
            "idle, then log": 50, "idle, then data": 50})
        self.assertEqual(account.count("data"), (2, 32))
        self.assertEqual(list(account.phases("fsload")), [(210, 50, 100)])
        # The same on XFS, whose log may be written by any task.
        account = recipe.Account(lines, "251,0", range(200, 208))
        self.assertEqual(account.shares()["log"], 110)

    def test_lock_stat_adds_readers_and_writers(self):
        recipe = benchlib.load_recipe("lock-stat")
        numbers = " ".join(str(n) for n in range(12))
        text = ("lock_stat version 0.4\n----\n"
                f"       &journal->j_state_lock-W:  {numbers}\n"
                "       ------------\n       &journal->j_state_lock   5  [<0000>] f+0x1/0x2\n"
                f"       &journal->j_state_lock-R:  {numbers}\n"
                f"       &jh->b_state_lock: {numbers}\n")
        found = recipe.parse(text)
        self.assertEqual(found["&journal->j_state_lock"], [2.0 * n for n in range(12)])
        self.assertEqual(found["&jh->b_state_lock"][7], 7)
        self.assertEqual(len(found), 2)

    def test_dbench_load(self):
        if not os.path.exists(dbench.CLIENT):
            self.skipTest("no dbench")
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
            dbench.cut_load(file.name)
            lines = file.read().splitlines()
        self.assertLess(2000, len(lines))
        self.assertLess(len(lines), 6000)
        self.assertFalse([line for line in lines if "filler.0" in line])
        self.assertTrue(lines[0].startswith("Deltree") and lines[-1].startswith("Deltree"))

    def test_jbench_checks(self):
        recipe = benchlib.load_recipe("jbench")
        good = {"threads": 2, "ops": [9, 9], "ns": [10**8] * 2, "cpus": [0, 1]}
        recipe.check(good, 100)
        for pattern, change in (("no operation", {"ops": [1000, 0]}), ("1 value", {"ops": [1]}),
                                ("measured for 5 ms", {"ns": [5 * 10**6, 10**8]}),
                                ("shared a CPU", {"cpus": [1, 1]})):
            with self.subTest(pattern), self.assertRaisesRegex(Exception, pattern):
                recipe.check({**good, **change}, 100)

    def test_jbench_scaling_is_measured_against_null(self):
        recipe = benchlib.load_recipe("jbench")
        rows = [{"recipe": "jbench", "metric": "kops/s", "case": f"{name}, {cpus}",
                 **{side: {"median": value} for side in benchlib.SIDES}}
                for name, cpus, value in (("null (control)", "1 CPU", 100),
                                          ("null (control)", "2 CPUs", 160),
                                          ("ext4 handle", "1 CPU", 100),
                                          ("ext4 handle", "2 CPUs", 80))]
        self.assertEqual(recipe.scaling(rows)["ext4 handle"]["stack"], (0.8, 0.5))
        self.assertIn("ext4 handle", recipe.extra(rows)[-2])


class Host(unittest.TestCase):
    def test_a_round_is_a_boot(self):
        host = program.load("tools/testing/bench/host")
        boots = [{"side": "base", "boot_id": "a"}, {"side": "base", "boot_id": "a"},
                 {"side": "stack", "boot_id": "b"}, {"side": "base", "boot_id": "c"}]
        found = [host.round_of(boots, side, boot) for side, boot in
                 (("base", "a"), ("base", "c"), ("base", "d"), ("stack", "b"), ("stack", "e"))]
        self.assertEqual(found, [0, 1, 2, 0, 1])


class Statistics(unittest.TestCase):
    def test_mad_ignores_an_outlier(self):
        self.assertEqual(benchlib.mad([10, 11, 12, 13, 1000]), 1)

    def test_summary(self):
        result = benchlib.summary([8, 10, 14])
        self.assertEqual((result["median"], result["mad"], result["spread"]), (10, 2, 20))
        self.assertEqual((result["min"], result["max"], result["n"]), (8, 14, 3))
        self.assertEqual(benchlib.summary([0, 0])["spread"], 0)

    def test_compare(self):
        result = benchlib.compare({"base": [[100, 102], [200]], "stack": [[202], [300]]})
        self.assertEqual(result["round_ratios"], [2.0, 1.5])
        self.assertAlmostEqual(result["ratio"], 251 / 102)

    def test_ratio_of_nothing(self):
        result = benchlib.compare({"base": [[0]], "stack": [[0]]})
        self.assertEqual(result["ratio"], 1)
        self.assertEqual(benchlib.ratio_text(
            benchlib.compare({"base": [[0]], "stack": [[1]]})["ratio"]), ">99")

    def test_verdict(self):
        for better, ratios, expect in (
                ("more", [1.1, 1.2, 1.3], "better"), ("more", [0.9, 1.2, 1.3], ""),
                ("more", [0.9, 0.8, 0.9], "worse"), ("less", [0.9] * 3, "better"),
                ("less", [1.5, 1.1, 1.2], "worse"), ("less", [1.0] * 3, ""),
                ("more", [1.1, 1.2], "")):
            self.assertEqual(benchlib.verdict({"better": better, "round_ratios": ratios}), expect)

    def test_summarise(self):
        rows = benchlib.summarise(Recipe, whole_run([(1.0, 1.5), (1.0, 2.0)])["boots"])
        self.assertEqual([(r["case"], r["metric"]) for r in rows],
                         [(c, m) for c in ("first", "second") for m in ("ops/s", "ms")])
        self.assertEqual(rows[0]["base"]["median"], 105)
        self.assertEqual(rows[0]["base"]["n"], 4)
        self.assertEqual(rows[0]["round_ratios"], [1.5, 2.0])
        self.assertEqual((rows[1]["better"], rows[1]["base"]["n"]), ("less", 2))

    def test_rounds_of_one_side_are_left_out(self):
        boots = [{"recipe": "jbench", "round": number, "side": side,
                  "samples": samples(2 ** number)}
                 for side, numbers in (("base", (0, 1, 2)), ("stack", (1, 2, 3)))
                 for number in numbers]
        for row in benchlib.summarise(Recipe, boots):
            self.assertEqual(row["round_ratios"], [1, 1])

    def test_one_side_only(self):
        boots = whole_run([(1.0, 1.0)])["boots"]
        del boots[0]["samples"][0]["values"]["ms"]
        self.assertEqual([(r["case"], r["metric"]) for r in benchlib.summarise(Recipe, boots)],
                         [("first", "ops/s"), ("second", "ops/s"), ("second", "ms")])


class Report(unittest.TestCase):
    def test_number(self):
        self.assertEqual([benchlib.number(v) for v in (0.1236, 12.346, 123.46, 12345.6)],
                         ["0.124", "12.35", "123.5", "12346"])

    def test_fits_a_terminal(self):
        for scale in (1e-3, 1.0, 1e4):
            lines = benchlib.report(whole_run([(scale, scale), (scale, 2 * scale)]))
            self.assertEqual([line for line in lines if len(line) > benchlib.WIDTH], [])

    def test_columns_line_up(self):
        lines = benchlib.table(whole_run([(1.0, 1000.0), (1000.0, 1.0)])["rows"])
        self.assertEqual(len({len(line) for line in lines if line.startswith("    ")}), 1, lines)

    def test_ratio_rounds_verdict(self):
        text = "\n".join(benchlib.report(whole_run([(1.0, 1.1), (1.0, 1.2), (1.0, 1.3)])))
        self.assertRegex(text, r"ops/s +105\.0 .* 1\.20 +1\.10\.\.1\.30 better")
        self.assertRegex(text, r" ms +5\.000 .* 0\.83 +0\.77\.\.0\.91 better")
        self.assertIn("what base is", text)
        self.assertIn("3 rounds, 6 boots", text)
        self.assertIn("one row of 4.", text)

    def test_one_value_a_case_takes_one_line(self):
        rows = [row for row in whole_run([(1.0, 1.0)])["rows"] if row["metric"] == "ms"]
        self.assertTrue(benchlib.table(rows)[1].startswith("first: ms"))

    def test_same_kernel_is_said(self):
        run = whole_run([(1.0, 1.0)])
        run["kernels"]["stack"]["image_sha256"] = run["kernels"]["base"]["image_sha256"]
        text = "\n".join(benchlib.report(run))
        self.assertIn("same kernel: every difference below is noise.", text)
        self.assertNotIn("what base is", text)
        run["options"].update(stack_mount="inactivate=all", setup="Journal of 4 MiB.")
        text = "\n".join(benchlib.report(run))
        self.assertIn("what inactivate=all makes, or noise.\nJournal of 4 MiB.\n", text)

    def test_quick_and_retries_are_said(self):
        run = whole_run([(1.0, 1.0)])
        run["options"]["quick"] = True
        run["boots"][0]["samples"][0]["raw"] = {"jbench": [{"retries": 0}, {"retries": 2}]}
        text = "\n".join(benchlib.report(run))
        self.assertIn("a quick run", text)
        self.assertIn("2 measurement(s)", text)

    def test_spoilt_samples_are_left_out_and_counted(self):
        tries = []

        def measure():
            tries.append(1)
            if len(tries) < 3:
                raise benchlib.Spoilt("measured for 1 ms, asked for 150 ms")
            return {"ms": 1.0}, {}

        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(benchlib.measured(measure), (({"ms": 1.0}, {}), None))
            self.assertEqual(len(tries), 3)
            values, why = benchlib.measured(mock.Mock(side_effect=benchlib.Spoilt("noise")))
        self.assertEqual((values, why), (({}, {}), "noise"))
        self.assertIn("noise: left out", said.getvalue())
        found = samples()
        found[1] = {"case": "second", "values": {}, "raw": {}, "spoilt": "noise"}
        benchlib.check_samples(Recipe, found, ["first", "second"])
        boots = [{"recipe": "test", "round": 0, "side": side, "busy_cpus": 0, "samples": found}
                 for side in benchlib.SIDES]
        self.assertEqual({row["case"] for row in benchlib.summarise(Recipe, boots)}, {"first"})
        lines = list(benchlib.left_out({"boots": boots, "failed": [
            {"recipe": "test", "round": 1, "side": "base", "why": "twice"}], "ended": "x"}))
        self.assertIn("2 of 4 samples left out", lines[0])
        self.assertIn("test, round 2, base: left out, twice", lines[1])
        self.assertIn("not all was measured: x", lines[2])

    def test_busy_machine_is_said(self):
        run = whole_run([(1.0, 1.0)])
        self.assertNotIn("warning", "\n".join(benchlib.report(run)))
        run["boots"][1]["busy_cpus"] = 1.4
        self.assertIn("jbench: other programs used up to 1.4 CPUs", "\n".join(benchlib.report(run)))


class Driver(unittest.TestCase):
    """The driver with a script in place of tools/testing/vm/boot."""

    @classmethod
    def setUpClass(cls):
        cls.bench = program.load("tools/testing/bench/bench")

    def boot(self, script, **ext4):
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(os.path.join(build, "bench"))
            program = os.path.join(build, "boot")
            with open(program, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nwords=$*\nwhile [ \"$1\" != --out ]; do shift; done\n"
                           + script)
            os.chmod(program, 0o755)
            args = argparse.Namespace(boot=program, timeout=1, cpus=2, quick=False, core=False,
                                      case=None, wander=False)
            self.bench.BUILD = build
            return self.bench.boot(args, Recipe, {"name": "kernel", "image": "image"}, "module",
                                   "tools", "1-base", ext4)

    def assert_dies(self, pattern, script, kind=None):
        with self.assertRaisesRegex(self.bench.Wrong, pattern) as end:
            self.boot(script)
        self.assertIs(type(end.exception), kind or self.bench.Wrong)
        self.assertIn("bench-test-1-base.log", end.exception.args[1])

    @staticmethod
    def leave(found, cpus=2):
        return f"cat > \"$2/samples.json\" <<'END'\n" \
            f"{json.dumps({'cpus': cpus, 'samples': found})}\nEND\n"

    def test_resume(self):
        with tempfile.TemporaryDirectory() as build:
            path = os.path.join(build, "run.json")
            args = argparse.Namespace(json=path, rounds=2, resume=False, features="",
                                      log_mib=None, stack_mount="inactivate=all")
            measured, order = {"cases": {"jbench": ["ext4 op"]}}, []

            def boot(_args, _recipe, kernel, _module, _tools, name, ext4):
                self.assertEqual(ext4, {"mount": "inactivate=all"} if "stack" in name else {})
                if len(order) == 3:
                    raise KeyboardInterrupt
                order.append(name)
                return samples(1.0 if kernel["name"] == "base" else 2.0)

            kernels = {(side, ""): {"name": side} for side in ("base", "stack")}

            def run():
                with mock.patch.multiple(self.bench, boot=boot, busy_cpus=lambda: 0,
                                         step=lambda text: None), \
                        contextlib.redirect_stdout(io.StringIO()):
                    part = self.bench.resumed(args, measured)
                    self.bench.run_rounds(args, [Recipe], kernels, {"base": "", "stack": ""}, "",
                                          part)
                return part["boots"]

            self.assertRaises(KeyboardInterrupt, run)
            self.assertEqual(order, ["1-base", "1-stack", "2-stack"])
            args.resume, order[:] = True, []
            boots = run()
            self.assertEqual(order, ["2-base"])
            self.assertEqual([(b["round"], b["side"]) for b in boots],
                             [(0, "base"), (0, "stack"), (1, "stack"), (1, "base")])
            measured["cases"] = {"jbench": []}
            with contextlib.redirect_stderr(io.StringIO()) as errors:
                self.assertRaises(SystemExit, run)
            self.assertIn("of other kernels or options", errors.getvalue())
            os.unlink(path + ".part")
            for ended, rounds, resume, finished in (
                    ("", 2, True, True), ("interrupted", 2, True, False), ("", 3, True, False),
                    ("", 2, False, False)):
                self.bench.save({"measured": measured, "ended": ended,
                                 "options": {"rounds": rounds}}, path)
                args.resume = resume
                self.assertEqual(self.bench.is_finished(args, measured), finished)
            args.resume = True
            self.assertFalse(self.bench.is_finished(args, {"cases": {}}))

    def test_good(self):
        self.assertEqual(self.boot(self.leave(samples())), samples())

    def test_ext4_options(self):
        # A guest that is not told of them fails.
        script = 'case "$words" in *"--features=quota --mount=sync") ;; *) exit 1 ;; esac\n'
        options = {"features": "quota", "mount": "sync"}
        self.assertEqual(self.boot(script + self.leave(samples()), **options), samples())
        self.assert_dies("status 1", script + self.leave(samples()))

    def test_failures(self):
        for pattern, script in (("status 125", self.leave(samples()) + "exit 125"),
                                ("status 1", "exit 1"),
                                ("no usable samples", "exit 0"),
                                ("no usable samples", "echo '{' > \"$2/samples.json\""),
                                ("no usable samples", "echo '{}' > \"$2/samples.json\""),
                                ("1 CPU", self.leave(samples(), cpus=1)),
                                ("not the cases", self.leave(samples()[:1]))):
            with self.subTest(pattern):
                self.assert_dies(pattern, script)
        for status in 124, 126:
            self.assert_dies(f"status {status}", f"exit {status}", self.bench.Lost)

    def rounds(self, outcomes, rounds=1):
        """run_rounds() with boots that end like this; what it leaves, and what it prints."""
        args = argparse.Namespace(json="", rounds=rounds, features="", log_mib=None,
                                  stack_mount="")
        part, left = {"boots": [], "failed": [], "seconds": 0}, list(outcomes)

        def boot(*_):
            outcome = left.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        said = io.StringIO()
        kernels = {(side, ""): {"name": side} for side in ("base", "stack")}
        with mock.patch.multiple(self.bench, boot=boot, busy_cpus=lambda: 0, step=print,
                                 save=lambda *_: None), contextlib.redirect_stdout(said):
            self.bench.run_rounds(args, [Recipe], kernels, {"base": "", "stack": ""}, "", part)
        self.assertEqual(left, [])
        return part, said.getvalue()

    def test_a_lost_boot_is_repeated_once(self):
        lost = self.bench.Lost("status 124", "x.log")
        part, said = self.rounds([lost, samples(), samples()])
        self.assertEqual([boot["side"] for boot in part["boots"]], ["base", "stack"])
        self.assertEqual(part["failed"], [])
        self.assertIn("once more", said)
        part, _ = self.rounds([lost, lost, samples()] + [samples()] * 2, rounds=2)
        self.assertEqual(len(part["boots"]), 3)
        self.assertEqual([(f["round"], f["side"]) for f in part["failed"]], [(0, "base")])
        self.assertIn("twice; see x.log", part["failed"][0]["why"])

    def test_a_wrong_boot_is_not_repeated(self):
        with self.assertRaises(self.bench.Wrong):
            self.rounds([samples(), self.bench.Wrong("status 125", "x.log")])

    def test_first_numbers_come_after_the_first_round(self):
        _, said = self.rounds([samples()] * 4, rounds=2)
        self.assertIn("first", said)
        self.assertEqual(said.count("ratio"), 1)

    def test_core_and_chosen_cases(self):
        def labels(**options):
            return driver.labels_of(Recipe, argparse.Namespace(
                **{"quick": False, "core": False, "case": None, **options}))

        self.assertEqual(labels(), ["first", "second"])
        self.assertEqual(labels(core=True), ["first"])
        self.assertEqual(labels(case=["second"]), ["second"])
        self.assertEqual(labels(stack_mount="sync"), ["first"])

    def test_result_file_is_whole_or_absent(self):
        with tempfile.TemporaryDirectory() as build:
            path = os.path.join(build, "deep", "bench.json")
            driver.save({"a": 1}, path)
            with self.assertRaises(TypeError):
                driver.save({"a": object()}, path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), {"a": 1})


if __name__ == "__main__":
    unittest.main()
