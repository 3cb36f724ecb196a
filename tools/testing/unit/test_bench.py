#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of tools/testing/bench."""

import argparse
import contextlib
import copy
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
BENCH = os.path.realpath(os.path.join(HERE, "../bench"))
sys.path.insert(0, BENCH)
import benchlib  # noqa: E402

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
JBD2_START = {"ctxt": 100, "jbd2_info": "0 transactions (0 requested), each up to 5461 blocks\n",
              "jbd2_totals": dict.fromkeys(JBD2_TOTALS, 0)}
JBD2_END = {"ctxt": 500, "jbd2_info": JBD2_INFO, "jbd2_totals": JBD2_TOTALS}
XFS_STAT = """\
extent_alloc 245 1320 244 1312
trans 0 346119 0
log 160 4568 0 167 173
xpc 2621440 9175040 0
defer_relog 0
gc xpc 0
"""


def stress(fs, fsync, before, after, ops=800, ns=10**9):
    return {"fs": fs, "fsync": fsync, "procs": 8, "loops": 100, "files": 1, "ops": ops,
            "ns": ns, "before": before, "after": after}


def xfs_counters(ctxt, blocks):
    return {"ctxt": ctxt, "xfs_stat": XFS_STAT.replace("4568", str(blocks))}


def guest(scale=1.0):
    """The samples of a boot whose jbench rates are scaled."""
    jbench = []
    for fs, op in benchlib.OPS:
        for threads in (1, 2):
            jbench.append({"fs": fs, "op": op, "threads": threads, "cpus": list(range(threads)),
                           "ops": [int(1000 * scale)] * threads, "ns": [10**8] * threads})
    return {"cpus": 2, "jbench": jbench, "fsck": {"ext4": "", "xfs": ""},
            "stress": [stress("ext4", False, JBD2_START, JBD2_END),
                       stress("ext4", True, JBD2_START, JBD2_END),
                       stress("xfs", False, xfs_counters(0, 0), xfs_counters(800, 12800)),
                       stress("xfs", True, xfs_counters(0, 0), xfs_counters(800, 6400))]}


def whole_run(scales):
    boots = [{"round": number, "side": side, "busy_cpus": 0.0, "samples": guest(scale)}
             for number, pair in enumerate(scales)
             for side, scale in zip(benchlib.SIDES, pair)]
    kernel = {"name": "k", "commit": "0" * 40, "platform": "uml", "config_sha256": "0" * 64}
    return {"machine": {"cpu": "CPU", "cores": 2, "memory_mib": 1}, "seconds": 1.0,
            "base_note": "what base is", "boots": boots,
            "kernels": {"base": {**kernel, "image_sha256": "1"},
                        "stack": {**kernel, "image_sha256": "2"}},
            "summary": benchlib.summarise(boots)}


class Parsing(unittest.TestCase):
    def test_jbd2_info(self):
        info = benchlib.parse_jbd2_info(JBD2_INFO)
        self.assertEqual((info["transactions"], info["requested"]), (45, 44))
        self.assertEqual(info["running transaction"], 70)
        self.assertEqual(info["average transaction commit time"], 805)
        self.assertEqual(info["logged blocks per transaction"], 13)

    def test_jbd2_info_before_the_first_commit(self):
        info = benchlib.parse_jbd2_info(JBD2_START["jbd2_info"])
        self.assertEqual(info, {"transactions": 0, "requested": 0, "max_blocks": 5461})

    def test_xfs_stat(self):
        stat = benchlib.parse_xfs_stat(XFS_STAT)
        self.assertEqual(stat["log"], [160, 4568, 0, 167, 173])
        self.assertEqual(stat["xpc"], [2621440, 9175040, 0])
        self.assertEqual(stat["gc xpc"], [0])

    def test_garbage(self):
        for parse in (benchlib.parse_jbd2_info, benchlib.parse_xfs_stat):
            with self.assertRaises(benchlib.BenchError):
                parse("no counters here\n")


class Counters(unittest.TestCase):
    def test_ext4(self):
        delta = benchlib.counter_deltas(stress("ext4", True, JBD2_START, JBD2_END))
        self.assertEqual(delta, {"ctxt": 400, "logged": 589, "transactions": 45,
                                 "requested": 44, "handles": 1454289, "blocks": 499})

    def test_xfs_blocks_are_of_4_kib(self):
        delta = benchlib.counter_deltas(
            stress("xfs", True, xfs_counters(0, 80), xfs_counters(9, 160)))
        self.assertEqual((delta["logged"], delta["log_blocks"], delta["ctxt"]), (10, 80, 9))

    def test_counter_that_goes_down(self):
        with self.assertRaisesRegex(benchlib.BenchError, "went down"):
            benchlib.counter_deltas(stress("xfs", True, xfs_counters(0, 160), xfs_counters(9, 80)))

    def test_totals_that_disagree_with_proc(self):
        for name in ("transactions", "handles", "blocks", "logged"):
            end = {**JBD2_END, "jbd2_totals": {**JBD2_TOTALS, name: 7}}
            with self.subTest(name), self.assertRaisesRegex(benchlib.BenchError, name):
                benchlib.counter_deltas(stress("ext4", True, JBD2_START, end))


class Checks(unittest.TestCase):
    def check(self, samples):
        benchlib.check_guest(samples, (1, 2), 100)

    def assert_refused(self, pattern, change):
        samples = copy.deepcopy(guest())
        change(samples)
        with self.assertRaisesRegex(benchlib.BenchError, pattern):
            self.check(samples)

    def test_good(self):
        self.check(guest())

    def test_bad(self):
        def sample(number, **fields):
            return lambda samples: samples["jbench"][number].update(fields)

        def run(number, **fields):
            return lambda samples: samples["stress"][number].update(fields)

        for pattern, change in (
                ("no operation", sample(1, ops=[1000, 0])),
                ("1 value", sample(1, ops=[1000])),
                ("measured for 5 ms", sample(0, ns=[5 * 10**6])),
                ("shared a CPU", sample(3, cpus=[1, 1])),
                (r"jbench.*'chmod', 2", lambda s: s["jbench"].pop(5)),
                (r"jbench.*'null', 1", lambda s: s["jbench"].pop(0)),
                ("jbench.*'new'", lambda s: s["jbench"].append({**s["jbench"][0], "op": "new"})),
                ("stress-unlink: not.*'xfs', True", lambda s: s["stress"].pop(3)),
                ("fsck.*xfs", lambda s: s["fsck"].pop("xfs")),
                ("1 CPU", lambda s: s.update(cpus=1)),
                ("799 operations", run(0, ops=799)),
                ("0 operations", run(0, ops=0, loops=0)),
                ("took 0 ns", run(1, ns=0)),
                ("nothing was logged", run(0, after=JBD2_START))):
            with self.subTest(pattern):
                self.assert_refused(pattern, change)


class Statistics(unittest.TestCase):
    def test_rate_adds_threads_and_cost_does_not(self):
        sample = {"ops": [100, 300], "ns": [10**9, 10**9]}
        self.assertEqual(benchlib.rate(sample), 400)
        self.assertEqual(benchlib.cost(sample), 5 * 10**6)

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

    def test_collect_keeps_rounds_apart(self):
        boots = [{"round": r, "side": s, "samples": v}
                 for r, s, v in ((1, "base", 3), (0, "stack", 2), (0, "base", 1), (1, "stack", 4))]
        result = benchlib.collect(boots, lambda samples: [("key", samples)])
        self.assertEqual(result, {"key": {"base": [[1], [3]], "stack": [[2], [4]]}})

    def test_summarise(self):
        result = benchlib.summarise(whole_run([(1.0, 1.5), (1.0, 2.0)])["boots"])
        rows = {(r["op"], r["threads"]): r for r in result["jbench"]}
        self.assertEqual(rows["create_unlink", 2]["ops_per_s"]["base"]["median"], 20000)
        self.assertEqual(rows["create_unlink", 2]["ops_per_s"]["round_ratios"], [1.5, 2.0])
        self.assertEqual(rows["null", 1]["ns_per_op"]["base"]["median"], 10**5)
        values = {(r["fs"], r["fsync"], r["value"]): r["stack"]["median"]
                  for r in result["stress"]}
        self.assertEqual(values["ext4", True, "logged blocks/loop"], 589 / 800)
        self.assertEqual(values["xfs", False, "logged blocks/loop"], 2)
        self.assertEqual(values["xfs", True, "logged blocks/loop"], 1)
        self.assertEqual(values["xfs", True, "context switches/loop"], 1)
        self.assertEqual(values["xfs", True, "loops/s"], 800)

    def test_scaling_is_measured_against_null(self):
        rows = []
        for fs, op, two in (("", "null", 160), ("ext4", "handle", 80)):
            for threads, value in ((2, two), (1, 100)):
                rows.append({"fs": fs, "op": op, "threads": threads, "ops_per_s":
                             {side: {"median": value} for side in benchlib.SIDES}})
        null, handle = benchlib.scaling(rows)
        self.assertEqual((null["base"], null["of_null"]["base"]), (1.6, 1.0))
        self.assertEqual((handle["stack"], handle["of_null"]["stack"]), (0.8, 0.5))


class Report(unittest.TestCase):
    def test_number(self):
        self.assertEqual([benchlib.number(v) for v in (0.1236, 12.346, 123.46, 12345.6)],
                         ["0.124", "12.35", "123.5", "12346"])

    def test_fits_a_terminal(self):
        for scale in (1e-3, 1.0, 1e4):
            lines = benchlib.report(whole_run([(scale, scale), (scale, 2 * scale)]))
            self.assertEqual([line for line in lines if len(line) > 100], [])

    def test_columns_line_up(self):
        run = whole_run([(1.0, 1000.0), (1000.0, 1.0)])
        for table in (benchlib.jbench_table(run["summary"]["jbench"]),
                      benchlib.scaling_table(run["summary"]["scaling"]),
                      benchlib.stress_table(run["summary"]["stress"])):
            self.assertEqual(len({len(line) for line in table[-3:]}), 1, table)
            self.assertEqual(len({len(line.split()) for line in table[-2:]}), 1, table)

    def test_ratio_and_rounds(self):
        text = "\n".join(benchlib.report(whole_run([(1.0, 1.1), (1.0, 0.9), (1.0, 1.0)])))
        self.assertRegex(text, r"ext4 create_unlink +2 +20\.00 .* 1\.00 +0\.90\.\.1\.10")
        self.assertIn("what base is", text)
        self.assertIn("3 rounds, 6 boots", text)
        self.assertIn("one row of 4.", text)

    def test_same_kernel_is_said(self):
        run = whole_run([(1.0, 1.0)])
        run["kernels"]["stack"]["image_sha256"] = run["kernels"]["base"]["image_sha256"]
        text = "\n".join(benchlib.report(run))
        self.assertIn("same kernel", text)
        self.assertNotIn("what base is", text)

    def test_busy_machine_is_said(self):
        run = whole_run([(1.0, 1.0)])
        self.assertNotIn("warning", "\n".join(benchlib.report(run)))
        run["boots"][1]["busy_cpus"] = 1.4
        self.assertIn("up to 1.4 CPUs", "\n".join(benchlib.report(run)))


class Driver(unittest.TestCase):
    """The driver with a script in place of tools/testing/vm/boot."""

    @classmethod
    def setUpClass(cls):
        loader = importlib.machinery.SourceFileLoader("bench_driver",
                                                      os.path.join(BENCH, "bench"))
        spec = importlib.util.spec_from_loader(loader.name, loader)
        cls.bench = importlib.util.module_from_spec(spec)
        dont_write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        loader.exec_module(cls.bench)
        sys.dont_write_bytecode = dont_write

    def boot(self, script):
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(os.path.join(build, "bench"))
            program = os.path.join(build, "boot")
            with open(program, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nwhile [ \"$1\" != --out ]; do shift; done\n" + script)
            os.chmod(program, 0o755)
            args = argparse.Namespace(boot=program, timeout=1, ms=100, passes=1, loops=1,
                                      fsync_loops=1, stress_passes=1)
            self.bench.BUILD = build
            return self.bench.boot(args, {"name": "kernel", "image": "image"}, "module",
                                   "stress", "1-base")

    def assert_dies(self, pattern, script):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as end:
            self.boot(script)
        self.assertEqual(end.exception.code, 1)
        self.assertRegex(errors.getvalue(), pattern)

    @staticmethod
    def leave(samples):
        return f"cat > \"$2/samples.json\" <<'END'\n{json.dumps(samples)}\nEND\n"

    def test_good(self):
        self.assertEqual(self.boot(self.leave(guest())), guest())

    def test_failures(self):
        dead = guest()
        dead["jbench"][1]["ops"][0] = 0
        for pattern, script in (("status 125", self.leave(guest()) + "exit 125"),
                                ("status 1", "exit 1"),
                                ("no usable samples", "exit 0"),
                                ("no usable samples", "echo '{' > \"$2/samples.json\""),
                                ("no usable samples", self.leave({})),
                                ("a thread completed no operation", self.leave(dead))):
            with self.subTest(pattern):
                self.assert_dies(pattern, script)

    def test_result_file_is_whole_or_absent(self):
        with tempfile.TemporaryDirectory() as build:
            path = os.path.join(build, "deep", "bench.json")
            self.bench.save({"a": 1}, path)
            with self.assertRaises(TypeError):
                self.bench.save({"a": object()}, path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), {"a": 1})


if __name__ == "__main__":
    unittest.main()
