# SPDX-License-Identifier: GPL-2.0
"""Tests of tools/testing/mutants: headers, verdicts, stale results, controls, the score."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TESTING = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTING / name) for name in ("mutants", "lib", "vm")]
import mutantlib  # noqa: E402
from mutantlib import CAUGHT, ERROR, MISSED, Bad, Mutant  # noqa: E402

HEAD = "What: a flush is forgotten.\nHarm: the last second.\nNet: {net}\n\n"
DIFF = """diff --git a/{file} b/{file}
--- a/{file}
+++ b/{file}
@@ -1,3 +1,3 @@
 one
-two
+{line}
 three
"""
REPORT = "[    1.000000] BUG: KASAN: slab-use-after-free in jbd2_x+0x1/0x2\n"
KTAP = "[    0.1] KTAP version 1\n[    0.1]     # Subtest: jbd2_journal\n"

# In place of scripts/kbuild and the nets. What the kernel does is the second line of the file
# that the mutants change: "two" is the stack.
FAKE = f"#!{sys.executable} -SE" + r'''
import os, subprocess, sys
name, args, build = os.path.basename(sys.argv[0]), sys.argv[1:], os.environ["O"]
world = os.environ["WORLD"]
call = open(os.path.join(os.path.dirname(build), "calls"), "a")

def line(commit):
    return subprocess.run(["git", "-C", build + "/linux", "show", commit + ":fs/jbd2/a.c"],
                          stdout=subprocess.PIPE, check=True).stdout.decode().split()[1]

if name == "kbuild" and args[0] == "--at":
    what = line(args[1])
    open(args[args.index("--build_dir") + 1] + "/test.log", "w").write(
        "[ 0.1] KTAP version 1\n[ 0.1]     # Subtest: jbd2_journal\n[ 0.1]     %sok 1 %s\n"
        % ("not " * (what == "fish"), args[-1].partition(".")[2]))
    call.write("kunit " + what + "\n")
    sys.exit(what == "fish")
if name == "kbuild":
    args = args[2:] if args[0] == "--like" else args
    what = line(args[1])
    call.write("build " + args[0] + " " + what + "\n")
    log = open(build + "/log/" + args[0] + ".log", "w")
    if what == "broken":
        sys.exit("a.c:2: error: no such thing")
    if what == "warns":
        log.write("/src/fs/jbd2/a.c:2:1: warning: unused variable\n")
    log.write("/src/fs/other.c:2:1: warning: always there\n")
    os.makedirs(build + "/obj/" + args[0], exist_ok=True)
    open(build + "/obj/" + args[0] + "/linux", "w").write(what)
    print(build + "/obj/" + args[0] + "/linux")
    sys.exit(0)
what = open(args[0]).read()
call.write(" ".join([name, what, os.environ.get("CPUS", "")] + args[1:]) + "\n")
if what == "two":
    sys.exit({"torture fails": 1, "torture breaks": 2}.get(world, 0) if name == "torture" else 0)
sys.exit({"fish": 1, "hang": 124, "report": 125, "lost": 126}.get(what, 0))
'''


class World(unittest.TestCase):
    """A kernel tree of two commits, mutants, and nets that always answer the same."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.top = pathlib.Path(holder.name)
        self.env = {"PATH": os.environ["PATH"], "O": str(self.top / "build"), "WORLD": "",
                    "HOME": holder.name}
        for name in ("bin", "diffs", "build/linux/fs/jbd2"):
            (self.top / name).mkdir(parents=True)
        for name in ("kbuild", "torture", "smoke"):
            path = self.top / "bin" / name
            path.write_text(FAKE)
            path.chmod(0o755)
        self.commit("zero\n", "base")
        self.commit("one\ntwo\nthree\n", "stack")

    def git(self, *args):
        return subprocess.run(["git", "-C", self.top / "build/linux", "-c", "user.name=a",
                               "-c", "user.email=a@b", *args], stdout=subprocess.PIPE,
                              encoding="utf-8", check=True).stdout.strip()

    def commit(self, text, branch):
        if not (self.top / "build/linux/.git").exists():
            self.git("init", "-q")
        (self.top / "build/linux/fs/jbd2/a.c").write_text(text)
        self.git("add", ".")
        self.git("commit", "-q", "-m", branch)
        self.git("branch", "-f", branch)

    def mutant(self, number, line, net="torture ext4/fsync", file="fs/jbd2/a.c", series="jbd2-a"):
        path = self.top / f"diffs/{series}/{line}-{number}.diff"
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD.format(net=net) + DIFF.format(file=file, line=line))

    def mutants(self, *lines, **more):
        for number, line in enumerate(lines, 1):
            self.mutant(number, line, **more)

    def run_it(self, *args, world=""):
        """(exit status, stdout, what the fakes were called with)"""
        calls = self.top / "calls"
        calls.write_text("")
        bin_dir = self.top / "bin"
        done = subprocess.run(
            [sys.executable, TESTING / "mutants/mutants", "--diffs", self.top / "diffs",
             *(word for name in ("kbuild", "torture", "smoke")
               for word in ("--" + name, bin_dir / name)), *args],
            env={**self.env, "WORLD": world}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            encoding="utf-8", check=False)
        self.stderr = done.stderr
        # How long it took is not for a test.
        out = re.sub(r" in \d+ s", "", done.stdout)
        return done.returncode, out, calls.read_text().splitlines()

    def test_caught(self):
        self.mutants("fish", "fish", "fish")
        # Names differ, the text of the diff does not: a result counts for its text.
        status, out, calls = self.run_it("--seed", "7", "--seconds", "9")
        self.assertEqual(status, 0, out + self.stderr)
        self.assertIn("caught      jbd2-a/fish-1: torture ext4/fsync", out)
        self.assertIn("jbd2: 3 of 3 caught", out)
        self.assertIn("total: 3 of 3 caught, 100 %", out)
        more = ("--only ext4/fsync --seed 7 --seconds 9 --out "
                f"{self.top}/build/mutants/torture --first")
        self.assertEqual(calls[:4], [
            "build uml-torture two", f"torture two  {more}",
            "build uml-mutant fish", f"torture fish  {more}"])

    def test_missed_and_errors(self):
        self.mutants("fish", "frog", "broken", "warns", "lost")
        status, out, _ = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("NOT caught  jbd2-a/frog-2", out)
        self.assertIn("error       jbd2-a/broken-3: does not build: a.c:2: error: no such", out)
        self.assertIn("error       jbd2-a/warns-4: the compiler warns: /src/fs/jbd2/a.c", out)
        self.assertIn("error       jbd2-a/lost-5: not judged, exit status 126", out)
        self.assertIn("total: 1 of 5 caught, 20 %", out)

    def test_diff_that_does_not_apply(self):
        self.mutants("fish", "frog", "newt")
        path = self.top / "diffs/jbd2-a/frog-2.diff"
        path.write_text(path.read_text().replace(" three", " four"))
        status, out, calls = self.run_it("--apply-only")
        self.assertEqual((status, calls), (1, []))
        self.assertIn("jbd2-a/frog-2 does not apply", out)
        status, out, calls = self.run_it("a/frog")
        self.assertIn("error       jbd2-a/frog-2: does not apply", out)
        self.assertEqual(calls, [])
        path.unlink()
        self.mutant(2, "frog")
        self.assertEqual(self.run_it("--apply-only")[:2], (0, "3 mutants apply\n"))

    def test_failing_control(self):
        """Nothing is caught, or even built, that the stack itself does not pass."""
        self.mutants("fish", "fish", "fish")
        self.mutant(4, "fish", net="smoke 3")
        for world in ("torture fails", "torture breaks"):
            status, out, calls = self.run_it(world=world)
            self.assertEqual(status, 1)
            self.assertIn("error: the control of torture ext4/fsync does not pass", out)
            self.assertIn("error       jbd2-a/fish-1: the control does not pass", out)
            self.assertIn("caught      jbd2-a/fish-4: smoke 3", out)
            self.assertIn("total: 1 of 4 caught, 25 %", out)
            self.assertEqual(len([c for c in calls if c.startswith("build uml-mutant ")]), 0)
        # It is tried again, and not remembered as passed.
        self.assertEqual(self.run_it("--resume")[0], 0)

    def test_resume(self):
        self.mutants("fish", "frog", "broken", "lost")
        first = self.run_it()
        status, out, calls = self.run_it("--resume")
        self.assertEqual((status, out), first[:2])
        # Errors are not kept.
        self.assertEqual(calls[:2], ["build uml-mutant broken", "build uml-mutant lost"])
        self.assertEqual(len(calls), 3)
        self.assertEqual(len(self.run_it()[2]), 9)      # without --resume, all over again

    def test_stale_results(self):
        """A result counts for its diff, stack, net, seed and tools only."""
        self.mutants("fish")
        self.run_it()
        self.assertEqual(self.run_it("--resume")[2], [])
        again = ["build uml-torture two", "build uml-mutant fish"]

        def built(*args):
            return [c for c in self.run_it("--resume", *args)[2] if c.startswith("build")]

        self.assertEqual(built("--seed", "2"), again)
        self.assertEqual(built("--seconds", "2"), again)
        self.mutant(1, "fish", net="torture ext4/unlink")
        self.assertEqual(built(), again)
        self.mutant(1, "fish")
        self.assertEqual(built(), [])
        (self.top / "bin/more").write_text("the net has changed")
        self.assertEqual(built(), again)
        path = self.top / "diffs/jbd2-a/fish-1.diff"
        text = path.read_text().replace("+fish", "+fish\n+more")
        path.write_text(text.replace("1,3 @", "1,4 @"))
        self.assertEqual(built(), again[1:])
        self.mutant(1, "fish")
        self.commit("one\ntwo\nthree\nfour\n", "stack")
        self.assertEqual(built(), again)

    def test_damaged_results(self):
        self.mutants("fish")
        self.run_it()
        path = self.top / "build/mutants/results.json"
        self.assertEqual(json.loads(path.read_text())["version"], 1)
        path.write_text("{")
        self.assertEqual(len(self.run_it("--resume")[2]), 4)

    def test_same_commit_each_time(self):
        self.mutants("fish", "frog")
        self.run_it()
        first = self.git("for-each-ref", "refs/mutants/")
        self.assertEqual(len(first.splitlines()), 2)
        self.run_it()
        self.assertEqual(self.git("for-each-ref", "refs/mutants/"), first)
        # The trees that others work in are left alone.
        self.assertEqual(self.git("status", "--short"), "")
        (self.top / "diffs/jbd2-a/frog-2.diff").unlink()
        self.run_it()
        self.assertEqual(self.git("for-each-ref", "refs/mutants/"), first.splitlines()[0])

    def test_kunit_and_smoke(self):
        self.mutants("fish", "frog", net="kunit test_barrier_drain")
        self.mutant(3, "report", net="smoke")
        self.mutant(4, "hang", net="smoke 4")
        self.mutant(5, "lost", net="smoke 4")
        status, out, calls = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("caught      jbd2-a/fish-1: kunit test_barrier_drain: the test", out)
        self.assertIn("NOT caught  jbd2-a/frog-2", out)
        self.assertIn("caught      jbd2-a/report-3: smoke 2: kernel report", out)
        self.assertIn("caught      jbd2-a/hang-4: smoke 4: the guest hung", out)
        self.assertIn("error       jbd2-a/lost-5: not judged, exit status 126", out)
        self.assertIn("smoke hang 4", calls)
        self.assertIn("build uml-mutant-debug hang", calls)

    def test_too_few(self):
        self.mutants("fish", "fish")
        status, out, _ = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("the stack touches jbd2, which has 2 mutants, not 3", out)
        self.assertEqual(self.run_it("--apply-only")[0], 1)

    def test_names(self):
        self.mutants("fish", "frog", "newt")
        self.mutant(1, "fish-eats", series="jbd2-a-b")

        def listed(*names):
            status, out, _ = self.run_it("-l", *names)
            self.assertEqual(status, 0)
            return [line.split()[0] for line in out.splitlines()]

        every = ["jbd2-a/fish-1", "jbd2-a/frog-2", "jbd2-a/newt-3", "jbd2-a-b/fish-eats-1"]
        self.assertEqual(listed(), every)
        # A whole series, a whole name, or else a part of names.
        self.assertEqual(listed("jbd2-a"), every[:3])
        self.assertEqual(listed("jbd2-a-b"), every[3:])
        self.assertEqual(listed("fish"), [every[0], every[3]])
        self.assertEqual(listed("a/f"), every[:2])
        self.assertEqual(listed("frog", "newt"), every[1:3])
        self.assertEqual(listed("jbd2-a/fish-1"), every[:1])
        self.mutant(12, "frog")
        self.mutant(2, "frog-12", series="b")
        self.assertEqual(listed("jbd2-a/frog-12"), ["jbd2-a/frog-12"])
        status, out, _ = self.run_it("4", "fish")
        self.assertEqual(status, 1)
        self.assertIn("there is no mutant '4'", self.stderr)
        self.assertIn("total: 1 of 1 caught", self.run_it("a/fish")[1])
        # The same mistake in two series: two commits, two logs.
        self.mutant(1, "fish", series="b")
        self.assertIn("total: 2 of 2 caught", self.run_it("/fish-1")[1])
        self.assertEqual(len(self.git("for-each-ref", "refs/mutants/jbd2-a/fish-1",
                                      "refs/mutants/b/fish-1").splitlines()), 2)
        logs = {path.name for path in (self.top / "build/log").glob("mutant-*")}
        self.assertTrue(logs >= {"mutant-jbd2-a.fish-1.log", "mutant-b.fish-1.log"}, logs)


class Parsing(unittest.TestCase):
    def parse(self, text, name="jbd2-errors/no-flush.diff"):
        with tempfile.TemporaryDirectory() as top:
            path = pathlib.Path(top, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return Mutant(str(path))

    def test_headers(self):
        diff = DIFF.format(file="fs/ext4/a.c", line="x")
        mutant = self.parse(HEAD.format(net="torture ext4-1k/fsync") + diff)
        self.assertEqual((mutant.name, mutant.series, mutant.slug),
                         ("jbd2-errors/no-flush", "jbd2-errors", "no-flush"))
        self.assertEqual((mutant.kind, mutant.argument), ("torture", "ext4-1k/fsync"))
        self.assertEqual((mutant.what, mutant.harm), ("a flush is forgotten.", "the last second."))
        self.assertEqual((mutant.subsystem, mutant.files), ("ext4", ["fs/ext4/a.c"]))
        self.assertEqual(mutant.diff, diff)
        self.assertEqual(self.parse(HEAD.format(net="smoke") + diff).net, "smoke 2")

    def test_refused(self):
        good = HEAD.format(net="smoke") + DIFF.format(file="fs/ext4/a.c", line="x")
        for bad in (good.replace("Harm: ", "Hurt: "), good.replace("Harm: the last second.\n", ""),
                    good.replace("the last second.", ""), good.replace("\n\n", "\n"),
                    good.replace("smoke", "smoke many"), good.replace("smoke", "prayer"),
                    good.replace("smoke", "torture ext4"), good.replace("smoke", "kunit"),
                    HEAD.format(net="smoke"),
                    good + DIFF.format(file="fs/jbd2/b.c", line="y")):
            with self.assertRaises(Bad, msg=bad):
                self.parse(bad)
        for name in ("jbd2_errors/flush.diff", "jbd2-errors/Flush.diff", "jbd2-errors/a.b.diff"):
            with self.assertRaises(Bad):
                self.parse(good, name)
        with tempfile.TemporaryDirectory() as top:
            pathlib.Path(top, "flush.diff").write_text(good, encoding="utf-8")
            with self.assertRaisesRegex(Bad, "flush.diff: not in the directory of a series"):
                mutantlib.load(top)

    def test_subsystem(self):
        for path, name in (("fs/jbd2/commit.c", "jbd2"), ("include/linux/jbd2.h", "jbd2"),
                           ("drivers/md/dm-log-writes.c", "dm"), ("arch/um/Kconfig", "um"),
                           ("arch/x86/um/asm/barrier.h", "um"),
                           ("fs/xfs/libxfs/x.c", "xfs"), ("fs/iomap/buffered-io.c", "fs/iomap")):
            self.assertEqual(mutantlib.subsystem_of(path), name)


class Verdicts(unittest.TestCase):
    def test_torture(self):
        self.assertEqual([mutantlib.judge_torture(status, "x")[0] for status in
                          (0, 1, 2, 126, 143, -9)], [MISSED, CAUGHT, ERROR, ERROR, ERROR, ERROR])
        self.assertEqual(mutantlib.judge_torture(1, "x\n  FOUND at y:\n    it is lost\nz\n")[1],
                         "it is lost")

    def test_smoke(self):
        self.assertEqual([mutantlib.judge_smoke(status, "x")[0] for status in
                          (0, 1, 124, 125, 126, 127, 143, -9)],
                         [MISSED, CAUGHT, CAUGHT, CAUGHT, ERROR, ERROR, ERROR, ERROR])

    def test_kunit(self):
        def judge(log, status=0):
            return mutantlib.judge_kunit(status, log, "test_a")[0]

        good, bad = ("[    0.2]     %sok 3 test_a\n" % word for word in ("", "not "))
        self.assertEqual(judge(KTAP + good), MISSED)
        self.assertEqual(judge(KTAP + bad, 1), CAUGHT)
        self.assertEqual(judge((KTAP + bad).replace("[    0.1] ", "").replace("[    0.2] ", ""), 1),
                         CAUGHT)
        self.assertEqual(judge(KTAP + good + REPORT), CAUGHT)
        self.assertEqual(judge(KTAP, 1), CAUGHT)                   # it began and did not end
        self.assertEqual(judge(KTAP), ERROR)                       # another name
        self.assertEqual(judge("", 1), ERROR)                      # no kernel
        self.assertEqual(judge(KTAP + good.replace("\n", " # SKIP\n")), ERROR)
        # Another test with a name that begins alike says nothing about this one.
        self.assertEqual(judge(KTAP + bad.replace("test_a", "test_a_long") + good, 1), MISSED)

    def test_warnings(self):
        log = "/s/fs/jbd2/a.c:1:2: warning: x\n/s/fs/jbd2/b.c:1: warning: y\n/s/fs/jbd2/a.c:3: z\n"
        self.assertEqual(len(mutantlib.new_warnings(log, ["fs/jbd2/a.c"])), 1)
        self.assertEqual(mutantlib.new_warnings(log, ["fs/jbd2/c.c"]), [])


class Score(unittest.TestCase):
    def test_score(self):
        class Fish:
            def __init__(self, name, subsystem):
                self.name, self.subsystem = name, subsystem

        fish = [Fish("a", "jbd2"), Fish("b", "jbd2"), Fish("c", "xfs")]
        lines, percent = mutantlib.score(fish, {"a": CAUGHT, "b": ERROR, "c": CAUGHT})
        self.assertEqual(lines, ["jbd2: 1 of 2 caught", "xfs: 1 of 1 caught",
                                 "total: 2 of 3 caught, 67 %"])
        self.assertAlmostEqual(percent, 200 / 3)
        self.assertEqual(mutantlib.score([], {})[1], 0)
        self.assertEqual(mutantlib.too_few(fish, ["fs/jbd2/a.c", "fs/jbd2/b.c", "drivers/md/x.c"]),
                         {"dm": 0, "jbd2": 2})
        self.assertEqual(mutantlib.too_few(fish * 3, ["fs/xfs/a.c"]), {})


class Ours(unittest.TestCase):
    """The mutants that are there."""

    def test_ours(self):
        mutants = mutantlib.load(TESTING / "mutants")
        self.assertGreaterEqual(len(mutants), 30)
        for subsystem in ("dm", "ext4", "jbd2", "um", "xfs"):
            self.assertGreaterEqual(sum(m.subsystem == subsystem for m in mutants), 3)
        patches = TESTING.parents[1] / "patches"
        for series in {mutant.series for mutant in mutants}:
            self.assertTrue(list((patches / series).glob("*.patch")),
                            f"{series} is not a series of the stack")


if __name__ == "__main__":
    unittest.main()
