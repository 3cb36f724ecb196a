# SPDX-License-Identifier: GPL-2.0
"""Tests of the scale model: mean value analysis, transfers, fit, files."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
MODEL = os.path.join(HERE, "../model")
sys.path.insert(0, MODEL)
import modellib  # noqa: E402
from modellib import ModelError  # noqa: E402


def line(station="a", reads=0.0, writes=0.0, atomics=1.0, written_ops=1.0):
    return {"object": station, "fields": [{"name": "lock", "a": atomics}], "station": (station, 1),
            "reads": reads, "writes": writes, "atomics": atomics, "written_ops": written_ops}


LINES = [line("a", atomics=3.0), line("b", reads=2.0)]
FOUND = modellib.stations(LINES)


def transfers(each, *args):
    """modellib's, given a line of the microscope."""
    (((counts,), _),) = modellib.stations([each])
    return modellib.transfers(counts, *args)


class TestMva(unittest.TestCase):
    def test_one_customer(self):
        rate, queues = modellib.mva(100.0, [10.0, 40.0], 1)
        self.assertAlmostEqual(rate, 1 / 150)
        self.assertAlmostEqual(queues[1], 40 / 150)

    def test_balanced(self):
        # Equal stations without think time: N / (D (N + K - 1)).
        for stations, customers in ((1, 7), (3, 1), (3, 5), (8, 64)):
            rate, queues = modellib.mva(0.0, [20.0] * stations, customers)
            self.assertAlmostEqual(rate, customers / (20 * (customers + stations - 1)))
            self.assertAlmostEqual(sum(queues), customers)

    def test_machine_repairman(self):
        # M/M/1//N from its birth and death equations.
        for think, service, customers in ((100, 10, 2), (100, 10, 20), (5, 10, 9)):
            weights = [math.perm(customers, n) * (service / think) ** n
                       for n in range(customers + 1)]
            rate, queues = modellib.mva(think, [service], customers)
            self.assertAlmostEqual(rate, (1 - weights[0] / sum(weights)) / service)
            self.assertAlmostEqual(queues[0], sum(n * w for n, w in enumerate(weights))
                                   / sum(weights))

    def test_product_form(self):
        # Two unequal stations: G(N - 1) / G(N), summed over all states.
        def constant(n):
            return sum(100 ** (n - i - j) / math.factorial(n - i - j) * 10 ** i * 30 ** j
                       for i in range(n + 1) for j in range(n + 1 - i))
        for customers in (1, 2, 5, 12):
            self.assertAlmostEqual(modellib.mva(100, [10, 30], customers)[0],
                                   constant(customers - 1) / constant(customers))

    def test_asymptotes(self):
        for customers in range(1, 60):
            rate = modellib.mva(100, [10, 30], customers)[0]
            self.assertLess(rate, min(customers / 140, 1 / 30) + 1e-12)
        self.assertAlmostEqual(modellib.mva(100, [10, 30], 256)[0], 1 / 30)


class TestTransfers(unittest.TestCase):
    def test_one_cpu(self):
        for end in modellib.ENDS:
            self.assertEqual(transfers(line(reads=5.0), 1, end), (0, 0))

    def test_written_by_each_operation(self):
        busy = line(reads=4.0, atomics=3.0)
        self.assertEqual(transfers(busy, 2, "one"), (1, 0))
        self.assertEqual(transfers(busy, 2, "each"), (7, 0))

    def test_seldom_written(self):
        flag = line(reads=2.0, atomics=0.0, writes=0.1, written_ops=0.1)
        for cpus, gone in ((2, 0.1), (3, 0.19)):
            queued, delayed = transfers(flag, cpus, "one")
            self.assertAlmostEqual(queued, 0.1 * gone)
            self.assertAlmostEqual(delayed, 0.9 * gone)
            self.assertAlmostEqual(transfers(flag, cpus, "each")[0], 2.1 * gone)

    def test_delay_is_no_queue(self):
        flag = line(reads=2.0, atomics=0.0, writes=0.1, written_ops=0.1)
        think, demands = modellib.network(100, modellib.stations([flag]), 50, 2, "one")
        self.assertAlmostEqual(think, 100 + 50 * 0.9 * 0.1)
        self.assertAlmostEqual(demands[0], 50 * 0.1 * 0.1)

    def test_operations_not_told_apart(self):
        self.assertEqual(transfers(line(atomics=3.0, written_ops=0.0), 2, "one"), (1, 0))

    def test_cost_of_pairs(self):
        # All pairs, one by one.
        domains = [[4, 20.0], [8, 50.0], [None, 90.0]]
        for cpus in (2, 3, 4, 5, 8, 11, 16, 23):
            costs = [next(ns for size, ns in domains if size is None or i // size == j // size)
                     for i in range(cpus) for j in range(cpus) if i != j]
            self.assertAlmostEqual(modellib.transfer_cost(domains, cpus), sum(costs) / len(costs))
        self.assertEqual(modellib.transfer_cost(domains, 1), 0)


class TestScale(unittest.TestCase):
    def test_no_lines_is_linear(self):
        for cpus in modellib.CPUS:
            self.assertAlmostEqual(modellib.ns_per_op(50.0, [], 100.0, cpus, "each"), 50)

    def test_monotone(self):
        for end in modellib.ENDS:
            ns = [modellib.ns_per_op(500.0, FOUND, 20.0, n, end) for n in modellib.CPUS]
            rates = [n / t for n, t in zip(modellib.CPUS, ns)]
            self.assertEqual(ns, sorted(ns))
            self.assertEqual(rates, sorted(rates))
            self.assertLess(ns[1], modellib.ns_per_op(500.0, FOUND, 21.0, 2, end))
            more = modellib.stations([*LINES, line("c")])
            self.assertLess(ns[1], modellib.ns_per_op(500.0, more, 20.0, 2, end))

    def test_ends(self):
        for cpus in modellib.CPUS[1:]:
            self.assertLess(modellib.ns_per_op(500.0, FOUND, 20.0, cpus, "one"),
                            modellib.ns_per_op(500.0, FOUND, 20.0, cpus, "each"))

    def test_same_station(self):
        # The same line in two parts of an operation is one queue, not two.
        found = modellib.stations([line("a"), line("a")])
        self.assertEqual(modellib.network(0, found, 10, 2, "one"), (0, [20]))

    def test_equal_stations_are_counted(self):
        found = modellib.stations([line(name) for name in "abc"])
        self.assertEqual([number for _, number in found], [3])
        self.assertEqual(modellib.network(0, found, 10, 2, "one"), (0, [10, 10, 10]))

    def test_knee(self):
        found = modellib.stations([line()])
        self.assertEqual(modellib.knee(95.0, found, [[None, 10.0]], "one"), 11)
        self.assertEqual(modellib.knee(95.0, [], [[None, 10.0]], "one"), 257)


class TestFit(unittest.TestCase):
    def test_round_trip(self):
        for end in modellib.ENDS:
            times = {1: 129.0, 2: modellib.ns_per_op(129.0, FOUND, 37.5, 2, end)}
            self.assertAlmostEqual(modellib.calibrate(times, FOUND, end), 37.5, places=6)

    def test_impossible(self):
        with self.assertRaisesRegex(ModelError, "not slower"):
            modellib.calibrate({1: 10.0, 2: 10.0}, FOUND, "one")
        with self.assertRaisesRegex(ModelError, "no written line"):
            modellib.calibrate({1: 10.0, 2: 11.0}, [], "one")


class TestReports(unittest.TestCase):
    def test_curve(self):
        curve = [(n, modellib.mva(0.9, [0.1], n)[0]) for n in (1, 4, 8, 40)]
        for _, reported, got in modellib.check_report({"curve": curve, "clients": "x"}):
            self.assertAlmostEqual(got, reported)
        self.assertIn("3.0-fold", modellib.check_report({"curve": [[1, 1], [2, 3], [4, 4]]}))

    def test_locks(self):
        rate, others = modellib.mva(50, [2], 7)
        lock = {"acquisitions": 1000, "hold_us": 2000, "contentions": 1000 * 2 * rate,
                "wait_us": 1000 * 2 * others[0]}
        (_, reported, got), = modellib.check_report({"threads": 8, "locks": {"x": lock}})
        self.assertAlmostEqual(got, reported)

    def test_files(self):
        for machine in modellib.load_machines(os.path.join(MODEL, "machines.json")):
            self.assertLess(machine["domains"][0][1], machine["domains"][-1][1])
        with open(os.path.join(MODEL, "reports.json"), encoding="utf-8") as file:
            for report in json.load(file)["reports"]:
                self.assertEqual(len({"curve", "locks", "because"} & set(report)), 1)
                self.assertTrue(report["author"] and report["date"] and report["subject"])


class TestFiles(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def write(self, name, data):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(data if isinstance(data, str) else json.dumps(data))
        return path

    def counts(self, name, kernel="x86_64-base", op="handle", cpus=2, lines=None, **more):
        lines = [{k: v for k, v in each.items() if k != "station"} for each in lines or LINES]
        return self.write(name, {"kernel": kernel, "commit": "c" * 40, "op": op, "fs": "ext4",
                                 "cpus": cpus, "lines": lines, **more})

    def test_counts_by_cpus(self):
        for cpus in (2, 8):
            self.counts(f"{cpus}.json", cpus=cpus, lines=[line(atomics=cpus)])
        found = modellib.load_counts([self.dir])
        for cpus, used in ((1, 2), (2, 2), (7, 2), (8, 8), (256, 8)):
            (((counted,), number),) = modellib.stations_at(found, "ext4", "handle", "x86_64-base",
                                                           cpus)
            self.assertEqual((counted[2], number), (used, 1))
        self.assertIsNone(modellib.stations_at(found, "ext4", "handle", "other", 2))

    def test_parts(self):
        self.counts("1.json", op="create", lines=[line("a"), line("a")])
        self.counts("2.json", op="unlink", lines=[line("a")])
        found = modellib.stations_at(modellib.load_counts([self.dir]), "ext4", "create_unlink",
                                     "x86_64-base", 2)
        self.assertEqual(sorted(modellib.network(0, found, 10, 2, "one")[1]), [10, 20])

    def test_times(self):
        def medians(*values):
            return {side: {"median": value} for side, value in zip(modellib.SIDES, values)}
        rows = [{"recipe": "jbench", "params": {"fs": "ext4", "op": "chmod", "threads": n},
                 "metric": metric, **medians(n * scale, 5 * n * scale)}
                for n in (1, 2) for metric, scale in (("ns/op", 1), ("kops/s", 9))]
        plain = {"base": {"1": 1, "2": 2}, "stack": {"1": 5, "2": 10}}
        for data in ({"rows": rows}, plain):
            got = modellib.read_times(self.write("t.json", data), ("ext4", "chmod"))
            self.assertEqual(got, {("ext4", "chmod"): {"base": {1: 1, 2: 2},
                                                       "stack": {1: 5, 2: 10}}})

    def test_errors_name_file_and_next_step(self):
        def counts(data):
            return lambda: modellib.load_counts([self.write("bad.json", data)])

        def times(data):
            return lambda: modellib.read_times(self.write("bad.json", data), ("", "x"))

        def machines(data):
            return lambda: modellib.load_machines(self.write("bad.json", {"machines": [data]}))
        good = {"kernel": "k", "commit": "c", "op": "x", "fs": None, "cpus": 2, "lines": []}
        negative = {k: v for k, v in line(reads=-1.0).items() if k != "station"}
        for call in (counts("{"), counts([]), counts({**good, "lines": [{}]}),
                     counts({**good, "lines": [negative]}), counts({**good, "cpus": "x"}),
                     counts({k: v for k, v in good.items() if k != "kernel"}),
                     times(""), times({}), times({"base": {"1": 1}}), times({"rows": []}),
                     times({"base": {"1": 0}, "stack": {"1": 1}}), times({"rows": [{"fs": 1}]}),
                     machines({}), machines({"name": "m", "cpus": 2, "domains": [[None, 1]]}),
                     machines({"name": "m", "cpus": 2, "domains": [[2, 1]], "source": "s"})):
            with self.assertRaises(ModelError) as caught:
                call()
            self.assertIn("bad.json", str(caught.exception))
            self.assertTrue(caught.exception.next_step)
        modellib.load_counts([self.write("good.json", good)])

    def test_same_counts_twice(self):
        self.counts("1.json")
        self.counts("2.json")
        with self.assertRaisesRegex(ModelError, "2.json"):
            modellib.load_counts([self.dir])

    def run_model(self, *words):
        return subprocess.run([os.path.join(MODEL, "model"), *words], check=False,
                              capture_output=True, encoding="utf-8")

    def test_program(self):
        os.mkdir(os.path.join(self.dir, "counts"))
        for side in modellib.SIDES:
            self.counts(f"counts/{side}.json", kernel=f"x86_64-{side}")
        bench = self.write("bench.json", {"base": {"1": 100, "2": 150},
                                          "stack": {"1": 80, "2": 130}})
        out = os.path.join(self.dir, "out.json")
        done = self.run_model(os.path.join(self.dir, "counts"), "--bench", bench, "--json", out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for text in done.stdout.splitlines():
            self.assertTrue(text.startswith("model:"), text)
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        # What was fitted is not also validated.
        self.assertEqual([row["side"] for row in result["validation"]], ["stack"])
        for row in result["predictions"]:
            self.assertAlmostEqual(row["ops_per_s"]["1"][0], 1e9 / row["measured_ns"]["1"])

    def test_program_says_what_is_missing(self):
        path = self.counts("handle.json", kernel="x86_64-other")
        bench = self.write("bench.json", {"base": {"1": 1, "2": 2}, "stack": {"1": 1, "2": 2}})
        done = self.run_model(path, "--bench", bench)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"error: .*ext4 handle on x86_64-base\n  next: .+\n")


if __name__ == "__main__":
    unittest.main()
