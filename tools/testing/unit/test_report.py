# SPDX-License-Identifier: GPL-2.0
"""Tests of the report: what it shows, leaves out and says when something is missing."""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
REPORT = os.path.join(HERE, "../report/report")
sys.path.insert(0, os.path.join(HERE, "../bench"))
import benchlib  # noqa: E402

COMMIT = {"x86_64-base": "b" * 40, "x86_64-stack": "5" * 40}
VOID = {"meta", "img", "br", "link", "hr"}


class Checker(html.parser.HTMLParser):
    """That tags are closed in order, and nothing is loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.outside, self.counts = [], [], {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not value.startswith(("data:", "#")):
                self.outside.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


def bench_run():
    """A run of jbench with three rounds: handles are twice as fast, with one CPU also null."""
    recipe = benchlib.load_recipe("jbench")
    boots = []
    for number in range(3):
        for side in benchlib.SIDES:
            samples = []
            for case in recipe.cases(False):
                gain = 2 if side == "stack" and case["op"] == "handle" else 1 + 0.01 * number
                samples.append({"case": case["label"], "raw": {}, "values": {
                    "ns/op": [100 / gain], "kops/s": [10 * gain]}})
            boots.append({"recipe": "jbench", "round": number, "side": side, "busy_cpus": 0.0,
                          "samples": samples})
    kernel = {"platform": "uml", "config_sha256": "c" * 64}
    return {"version": 2, "date": "2026-01-01T00:00:00Z", "seconds": 60.0, "boots": boots,
            "machine": {"cpu": "CPU <&>", "cores": 2, "memory_mib": 1}, "base_note": "the base",
            "options": {"rounds": 3, "quick": False, "core": False},
            "kernels": {side: {**kernel, "name": side, "commit": side * 8, "image_sha256": side}
                        for side in benchlib.SIDES},
            "rows": benchlib.summarise(recipe, boots)}


def counts(kernel, commit):
    line = {"object": "journal_s", "fields": [{"name": "j_state_lock", "a": 2.0}], "code": [],
            "cpus": 8, "reads": 1.0, "writes": 0.5, "atomics": 2.0, "written_ops": 1.0}
    return {"kernel": kernel, "commit": commit, "op": "handle", "fs": "ext4", "cpus": 8,
            "summary": {"ops": 800, "lines_written": 1.25, "atomics": 2.0, "writes": 0.5,
                        "reads": 1.0}, "lines": [line]}


class Report(unittest.TestCase):
    def setUp(self):
        build = tempfile.TemporaryDirectory()
        self.addCleanup(build.cleanup)
        self.build = build.name
        self.write("bench/bench.json", bench_run())
        for kernel, commit in COMMIT.items():
            self.write(f"obj/{kernel}/.stamp", f"{commit} x86_64\n")

    def write(self, name, data):
        path = os.path.join(self.build, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(data if isinstance(data, str) else json.dumps(data))

    def report(self, *args):
        done = subprocess.run([REPORT, *args], env={**os.environ, "O": self.build}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "matplotlib is missing" in done.stdout:
            self.skipTest("no matplotlib")
        return done.returncode, done.stdout

    def pages(self):
        status, text = self.report()
        self.assertEqual(status, 0, text)
        found = []
        for name in ("index.html", "report.md"):
            with open(os.path.join(self.build, "report", name), encoding="utf-8") as file:
                found.append(file.read())
        return found

    def test_self_contained(self):
        page, markdown = self.pages()
        checker = Checker()
        checker.feed(page)
        self.assertEqual((checker.open, checker.outside), ([], []))
        self.assertGreaterEqual(checker.counts["svg"], 2)
        self.assertIn("CPU &lt;&amp;&gt;", page)
        for name in re.findall(r"!\[[^]]*\]\(([^)]*)\)", markdown):
            self.assertTrue(os.path.exists(os.path.join(self.build, "report", name)), name)

    def test_says_what_is_missing(self):
        page, markdown = self.pages()
        for text in ("Nothing was counted: make microscope.", "Nothing was predicted: make model."):
            self.assertIn(text, page)
            self.assertIn(text, markdown)

    def test_verdicts(self):
        _, markdown = self.pages()
        rows = [line for line in markdown.splitlines() if line.startswith("| jbench | ext4 handle")]
        self.assertEqual(len(rows), 4)
        self.assertTrue(all(line.endswith("| better |") for line in rows))
        # 18 cases of two values each; the ratio of the others is exactly 1.
        self.assertIn("| jbench | 36 | 4 | 0 | 32 |", markdown)

    def test_microscope(self):
        for kernel, commit in COMMIT.items():
            self.write(f"microscope/{kernel}-ext4-handle-8.json", counts(kernel, commit))
        page, markdown = self.pages()
        self.assertIn("| handle ext4 | 8 | 1.25 | 1.25 | 2.00 | 2.00 |", markdown)
        self.assertIn("microscope-handle-ext4.svg", markdown)
        self.assertIn("journal_s", page)

    def test_what_checks_the_microscope_is_left_out(self):
        for kernel, commit in COMMIT.items():
            self.write(f"microscope/{kernel}-none-planted-8.json",
                       {**counts(kernel, commit), "op": "planted", "fs": None})
        self.assertIn("Nothing was counted", self.pages()[0])

    def test_model(self):
        self.write("model/model.json", {"validation": [
            {"op": "ext4 handle", "side": "base", "measured_ns": 200.4,
             "predicted_ns": {"one": 220.4, "each": 150.3},
             "error_percent": {"one": 10.4, "each": -25.3}}]})
        self.write("model/handle.png", "a picture")
        page, markdown = self.pages()
        self.assertIn("| ext4 handle, base | 220 | 150 | 200 | +10% | -25% |", markdown)
        self.assertIn("model: handle", page)
        checker = Checker()
        checker.feed(page)
        self.assertEqual((checker.outside, checker.counts["img"]), ([], 1))

    def test_counts_of_another_commit_are_left_out(self):
        self.write("microscope/x86_64-base-ext4-handle-8.json", counts("x86_64-base", "0" * 40))
        _, markdown = self.pages()
        self.assertIn("x86_64-base-ext4-handle-8.json is of another commit", markdown)
        self.assertNotIn("handle ext4", markdown)

    def results(self, stack):
        """The status and output of a report with results.rst, counted on a stack."""
        for kernel, commit in (("x86_64-base", "b" * 40), ("x86_64-stack", stack)):
            self.write(f"obj/{kernel}/.stamp", f"{commit} x86_64\n")
            self.write(f"microscope/{kernel}-ext4-handle-8.json", counts(kernel, commit))
        for name in ("fsync", "inactivate"):
            self.write(f"bench/{name}.json", bench_run())
        self.write("model/model.json", {"validation": [
            {"op": "ext4 handle", "side": "base", "measured_ns": 200.4,
             "predicted_ns": {"one": 220.4, "each": 150.3},
             "error_percent": {"one": 10.4, "each": -25.3}}]})
        return self.report("--results", self.build)

    def test_results(self):
        status, text = self.results("stack" * 8)
        self.assertEqual(status, 0, text)
        with open(os.path.join(self.build, "results.rst"), encoding="utf-8") as file:
            page = file.read()
        for line in ("* ext4: all rounds agree in 4 of 16 (25 %) of the rows.",
                     "ext4 handle, 1 CPU              99.01  1.0  50.00  0.0   0.51  0.50..0.51  "
                     "better",
                     "With inactivate=auto\n====================",
                     "fsync on slow devices\n=====================",
                     "handle ext4     8", "ext4 handle, base                220"):
            self.assertIn(line, page)
        # Each rule of a table is as long as the table is wide.
        for table in re.findall(r"(?:^(?:=+  )+.*\n)(?:.+\n)+", page, re.M):
            width = len(table.splitlines()[0])
            self.assertTrue(all(len(line) <= width for line in table.splitlines()), table)
        for name in ("bench.txt", "fsync.txt", "inactivate.txt"):
            with open(os.path.join(self.build, "results", name), encoding="utf-8") as file:
                self.assertEqual(file.read().count("ext4 handle, 1 CPU"), 1)

    def test_results_of_several_commits(self):
        status, text = self.results("5" * 40)
        self.assertEqual(status, 1)
        self.assertIn("the parts are of several commits", text)
        self.assertFalse(os.path.exists(os.path.join(self.build, "results.rst")))

    def page(self):
        with open(os.path.join(self.build, "results.rst"), encoding="utf-8") as file:
            return file.read()

    def test_results_say_what_was_not_measured(self):
        status, text = self.report("--results", self.build)
        self.assertEqual(status, 0, text)
        self.assertIn("not in it: Cache lines that CPUs share", text)
        self.assertEqual(self.page().count("\n\nNot measured on this commit.\n"), 4)

    def test_results_keep_parts_of_the_same_commit(self):
        self.results("stack" * 8)
        whole = self.page()
        for name in ("bench/bench.json", "bench/inactivate.json", "model/model.json"):
            os.unlink(os.path.join(self.build, name))
        status, text = self.report("--results", self.build)
        self.assertEqual((status, self.page()), (0, whole), text)
        os.unlink(os.path.join(self.build, "bench/fsync.json"))
        status, text = self.report("--results", self.build)
        self.assertEqual((status, self.page()), (0, whole), text)
        self.assertTrue(os.path.exists(os.path.join(self.build, "results/inactivate.txt")))

    def test_results_drop_parts_of_another_commit(self):
        self.results("stack" * 8)
        run = bench_run()
        run["kernels"]["stack"]["commit"] = "5" * 40
        self.write("bench/bench.json", run)
        for name in ("bench/fsync.json", "bench/inactivate.json",
                     "microscope/x86_64-stack-ext4-handle-8.json",
                     "microscope/x86_64-base-ext4-handle-8.json"):
            os.unlink(os.path.join(self.build, name))
        status, text = self.report("--results", self.build)
        self.assertEqual(status, 0, text)
        self.assertEqual(self.page().count("Not measured on this commit."), 4)
        self.assertFalse(os.path.exists(os.path.join(self.build, "results/inactivate.txt")))

    def test_results_of_nothing(self):
        os.unlink(os.path.join(self.build, "bench/bench.json"))
        status, text = self.report("--results", self.build)
        self.assertEqual(status, 1)
        self.assertIn("next: make results", text)

    def test_nothing_measured(self):
        os.unlink(os.path.join(self.build, "bench/bench.json"))
        status, text = self.report()
        self.assertEqual(status, 1)
        self.assertIn("next: make bench", text)

    def test_broken_input(self):
        self.write("model/model.json", "{")
        status, text = self.report()
        self.assertEqual(status, 1)
        self.assertIn("remove it, and make it again", text)


if __name__ == "__main__":
    unittest.main()
