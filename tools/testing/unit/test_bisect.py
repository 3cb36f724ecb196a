# SPDX-License-Identifier: GPL-2.0
"""Tests of tools/testing/bisect: whole searches in a tiny history, and the decision rule."""

import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TESTING = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTING / "bisect"), str(TESTING / "lib")]
import bisectlib  # noqa: E402

COMMITS = 12

# In place of scripts/kbuild, bench and boot: what a commit does stands in world.json.
FAKE = f"#!{sys.executable} -SE" + '''
import json, os, random, signal, sys, time
top = os.path.dirname(os.path.realpath(sys.argv[0]))
name, args = os.path.basename(sys.argv[0]), sys.argv[1:]
world = json.load(open(top + "/world.json"))
number = {commit: i for i, commit in enumerate(world["commits"])}

def call(text):
    with open(top + "/calls", "a+") as file:
        file.write(name + " " + text + "\\n")
        file.seek(0)
        return file.read().splitlines()

def of(kernel):
    return number[open(top + "/build/obj/" + kernel + "/.stamp").read().split()[0]]

def kbuild(like, other, kernel, commit, platform):
    call(str(number[commit]))
    os.makedirs(top + "/build/obj/" + kernel, exist_ok=True)
    if number[commit] in world["broken"]:
        open(top + "/build/log/" + kernel + ".log", "w").write("a.c:1: error: no such thing\\n")
        return 1
    open(top + "/build/obj/" + kernel + "/.stamp", "w").write(commit + " uml\\n")
    print(top + "/build/obj/" + kernel + "/linux")

def bench(base, stack, *options):
    pair = "%d %d" % (of(base), of(stack))
    if pair == world["interrupt"]:
        os.kill(os.getppid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    if pair == world["terminate"]:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(call("terminated") and 143))
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(30)
    count = call(pair).count("bench " + pair)
    for kernel in base, stack:
        if of(kernel) in world["crash"]:
            print("error: the boot of %s ended with status 125" % kernel)
            return 1
    chance = random.Random(f"{pair} {count}")
    drift = chance.lognormvariate(0, 0.01)
    def figure(kernel):
        value = world["levels"][of(kernel)] * drift * chance.lognormvariate(0, world["noise"])
        if of(kernel) in world["wild"]:
            value *= 0.5 + count % 2
        return {"median": value}
    rows = [{"recipe": "micro", "case": "ext4 " + case, "metric": metric, "better": "more",
             "base": figure(base), "stack": figure(stack)}
            for case in ("chmod, 1 CPU", "chmod, 2 CPUs") for metric in ("ops/s", "ns/op")]
    for row in rows[:2] + rows[3:]:
        row["base"], row["stack"] = {"median": 1}, {"median": 1}
    json.dump({"rows": rows}, open(options[options.index("--json") + 1], "w"))

def boot(kernel, *options):
    commit = of(os.path.basename(os.path.dirname(kernel)))
    call(str(commit))
    if commit in world["unbootable"]:
        return 126
    if options[-1] == "true":
        return 0
    out, log = (options[options.index(o) + 1] for o in ("--out", "--log"))
    open(out + "/booted", "w")
    with open(log, "w") as file:
        if commit in world["reports"]:
            file.write("[    1.000000] WARNING: fs/jbd2/journal.c:1 at f+0x1/0x2\\n")
            return 125
    return world["status"][commit]

sys.exit(globals()[name](*args))
'''


def setUpModule():
    # A shell's background job ignores it, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Searches(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="test_bisect."))
        self.addCleanup(shutil.rmtree, self.dir)
        self.linux = self.dir / "build/linux"
        for name in ("bench", "bisect", "lib", "vm"):
            shutil.copytree(TESTING / name, self.dir / "tools/testing" / name)
        (self.dir / "patches/jbd2").mkdir(parents=True)
        (self.dir / "build/log").mkdir(parents=True)
        for number in range(1, COMMITS + 1):
            (self.dir / f"patches/jbd2/{number:04}-jbd2-change-{number}.patch").write_text("")
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith("GIT_") and key not in
                    ("O", "WORKLOAD", "METRIC", "TEST", "GOOD", "BAD", "KSRC", "PLATFORM",
                     "QUICK", "FRESH")}
        self.env.update(HOME=str(self.dir), GIT_CONFIG_NOSYSTEM="1")
        (self.dir / ".gitconfig").write_text("[user]\nname = A U Thor\nemail = a@example.org\n")
        commits = self.make_tree(self.linux, "jbd2: change", COMMITS)
        self.git(self.linux, "branch", "base", commits[0])
        for name in ("kbuild", "bench", "boot"):
            (self.dir / name).write_text(FAKE)
            (self.dir / name).chmod(0o755)
        self.world = {"commits": commits, "levels": [100] * 13, "noise": 0.02, "wild": [],
                      "broken": [], "crash": [], "unbootable": [], "reports": [],
                      "status": [0] * 13, "interrupt": None,
                      "terminate": None}

    def git(self, tree, *args):
        return subprocess.run(["git", "-C", tree, *args], env=self.env, check=True,
                              capture_output=True, text=True).stdout.strip()

    def make_tree(self, tree, subject, count):
        """A repository with a linear history on branch stack; its commits, oldest first."""
        tree.mkdir(parents=True)
        self.git(tree, "init", "-q", "-b", "stack")
        for number in range(count + 1):
            self.git(tree, "commit", "-q", "--allow-empty", "-m", f"{subject} {number}")
        return self.git(tree, "rev-list", "--reverse", "stack").split()

    def bisect(self, *args, status=0):
        (self.dir / "world.json").write_text(json.dumps(self.world))
        before = self.state()
        result = subprocess.run(
            [self.dir / "tools/testing/bisect/bisect", *args,
             *(f"--{name}={self.dir / name}" for name in ("boot", "bench", "kbuild"))],
            env=self.env, check=False, capture_output=True, text=True, cwd=self.dir, timeout=120)
        self.output = result.stdout + result.stderr
        self.assertEqual(result.returncode, status, self.output)
        self.assertNotIn("Traceback", self.output)
        self.assertEqual(self.state(), before)
        return result.stdout

    def metric(self, *args, status=0):
        return self.bisect("--metric", "chmod, 2 CPUs: ops/s", "--workload", "micro", *args,
                           status=status)

    def state(self):
        """All that a search must leave alone in O/linux."""
        return (self.git(self.linux, "for-each-ref", "refs/heads"),
                self.git(self.linux, "for-each-ref", "refs/bisect"),
                self.git(self.linux, "symbolic-ref", "HEAD"),
                self.git(self.linux, "worktree", "list"), (self.dir / "build/bisect/tree").exists())

    def calls(self, name):
        text = (self.dir / "calls").read_text() if (self.dir / "calls").exists() else ""
        return [line[len(name) + 1:] for line in text.splitlines() if line.startswith(name)]

    def saved(self):
        (path,) = (self.dir / "build/bisect").glob("*-*.json")
        return json.loads(path.read_text())

    def slow_from(self, number, level=90):
        self.world["levels"] = [100] * number + [level] * (13 - number)

    def assert_found(self, output, number):
        self.assertIn(f"    {self.world['commits'][number][:12]} jbd2: change {number}\n"
                      f"    patches/jbd2/{number:04}-jbd2-change-{number}.patch\n", output)
        self.assertEqual(self.saved()["result"]["commit"], self.world["commits"][number])

    def test_every_commit_can_be_found(self):
        for number in (1, 7, 12):
            with self.subTest(number):
                self.slow_from(number, 100 + 10 * (-1) ** number)
                self.assert_found(self.metric("--fresh"), number)

    def test_report(self):
        self.slow_from(5)
        output = self.metric()
        result, commits = self.saved()["result"], self.world["commits"]
        self.assertTrue(result["separates"])
        self.assertAlmostEqual(result["before"]["median"], 100, delta=6)
        self.assertAlmostEqual(result["after"]["median"], 90, delta=6)
        self.assertRegex(output, r"ratio 0\.[89]\d\d; ext4 chmod, 2 CPUs: ops/s, more")
        built, boots = len(self.calls("kbuild")), len(self.calls("boot"))
        boots += 2 * len(self.calls("bench"))
        self.assertIn(f"{built} kernels built, {boots} boots", output)
        self.assertRegex(output, rf"kbuild uml-bisect-0 {commits[4]} uml\n.*"
                                 rf"kbuild uml-bisect-1 {commits[5]} uml\n.*"
                                 r"bench uml-bisect-0 uml-bisect-1 --workload micro --rounds \d\n")
        self.assertIn("step 1 of about 4", self.output)

    def test_rounds_alternate(self):
        self.slow_from(7)
        self.metric()
        self.assertEqual(self.calls("bench")[:6], ["0 12", "12 0"] * 3)
        self.assertEqual(self.calls("bench")[6:10], ["0 6", "6 12", "12 6", "6 0"])

    def test_no_kernel_is_built_twice(self):
        self.slow_from(5)
        self.metric()
        built = self.calls("kbuild")
        self.assertEqual(len(built), len(set(built)))

    def test_broken_commit_elsewhere(self):
        self.world["broken"] = [6]
        self.slow_from(9)
        output = self.metric()
        self.assert_found(output, 9)
        self.assertRegex(output, r"skipped: \w+ jbd2: change 6\n.*does not build: "
                                 "a.c:1: error: no such thing")

    def test_broken_commit_next_to_the_slow_one(self):
        self.slow_from(7)
        for broken, left in (([6], (6, 7)), ([7], (7, 8)), ([6, 7], (6, 7, 8))):
            with self.subTest(broken):
                self.world["broken"] = broken
                output = self.metric("--fresh", status=3)
                self.assertEqual({self.world["commits"][i] for i in left},
                                 set(self.saved()["result"]["left"]))
                commits = [self.world["commits"][i][:12] for i in (min(left) - 1, max(left))]
                self.assertIn(f"The range left: {commits[0]}..{commits[1]}\n", output)

    def test_unbootable_and_crashing_commits(self):
        self.slow_from(9)
        self.world.update(unbootable=[6], crash=[4, 5, 7])
        output = self.metric()
        self.assert_found(output, 9)
        self.assertIn("does not boot", output)
        self.assertNotIn("does not build", output)
        self.slow_from(2)
        # Which one git tries after a skipped one depends on the commit ids.
        self.world["crash"] = [3, 4, 5, 7, 8, 9, 10, 11]
        self.assertIn("fails in bench: error: the boot of", self.metric("--fresh"))

    def test_broken_end(self):
        self.world["broken"] = [0]
        self.metric(status=1)
        self.assertRegex(self.output, "error: a comparison was not possible: .* does not build")

    def test_no_difference(self):
        output = self.metric(status=3)
        self.assertIn("GOOD and BAD do not separate after 14 rounds", output)
        self.assertIn("; ext4 chmod, 2 CPUs: ops/s, more is better", output)
        self.assertRegex(output, r"(?s)before +\w+ +1?\d\d\.?\d? .*14 boots.*after .*14 boots")
        self.assertEqual(len(self.calls("bench")), 14)
        self.assertEqual(self.saved()["result"]["kind"], "no difference")

    def test_noise_hides_the_difference(self):
        self.world["noise"] = 0.5
        self.slow_from(7)
        self.assertIn("do not separate", self.metric(status=3))

    def test_undecided_is_skipped(self):
        self.slow_from(7)
        self.world["wild"] = [6]  # now far above, now far below
        output = self.metric("--max-rounds", "9", status=3)
        self.assertRegex(output, "skipped: .* change 6\n    undecided: good .* after 9 rounds")
        self.assertEqual(set(self.saved()["result"]["left"]), set(self.world["commits"][6:8]))

    def test_between_good_and_bad(self):
        self.slow_from(7)
        self.world["levels"][3:7] = [97] * 4
        self.world["noise"] = 0.001
        self.assert_found(self.metric(), 7)  # the larger of the two
        self.world["levels"][3:7] = [93] * 4
        self.assert_found(self.metric("--fresh"), 3)

    def test_interrupted_and_resumed(self):
        self.slow_from(5)
        self.metric()
        whole, result = self.calls("bench"), self.saved()["result"]
        for at in (whole[1], whole[7], whole[-1]):
            with self.subTest(at):
                (self.dir / "calls").unlink()
                self.world["interrupt"] = at
                self.metric("--fresh", status=130)
                self.assertIn("goes on from here", self.output)
                self.assertEqual(self.calls("bench"), whole[:whole.index(at)])
                self.world["interrupt"] = None
                self.metric()
                self.assertEqual(self.calls("bench"), whole)
                self.assertEqual(self.saved()["result"], result)
        (self.dir / "calls").unlink()
        self.metric()
        self.assertEqual(self.calls("bench"), [])

    def test_what_runs_is_terminated_too(self):
        self.slow_from(5)
        self.world["terminate"] = "12 0"
        self.metric(status=143)
        self.assertEqual(self.calls("bench")[-1], "terminated")

    def test_metric_needs_a_workload(self):
        self.bisect("--metric", "x", status=1)
        self.assertIn("next: choose one of: ", self.output)
        self.bisect("--metric", "x", "--workload", "mwcm", status=1)
        self.assertIn("needs kernels that are not built here", self.output)

    def test_metric_matches_none_or_two(self):
        for text, count in (("fsync", "none"), ("chmod, 2", "2"), ("ops/s", "2")):
            with self.subTest(text):
                self.bisect("--metric", text, "--workload", "micro", status=1)
                self.assertIn(f"error: METRIC '{text}' matches {count} of the rows", self.output)
                for row in ("chmod, 1 CPU: ops/s", "chmod, 2 CPUs: ns/op"):
                    self.assertIn(f"    micro: ext4 {row}\n", self.output)

    def test_script(self):
        self.world["status"] = [0] * 4 + [125] + [0] * 3 + [1] * 5
        script = self.dir / "t.sh"
        script.write_text("#!/bin/sh\n")
        output = self.bisect("--test", f"{script} --flag")
        self.assertIn("The first bad commit (exit status 1)", output)
        self.assert_found(output, 8)
        self.assertRegex(output, r"vm/boot|boot .*uml-bisect-0/linux -- .*t.sh --flag")
        count = len(self.calls("boot"))
        self.bisect("--test", f"{script} --flag")
        self.assertEqual(len(self.calls("boot")), count)
        script.write_text("#!/bin/sh\n# another test\n")
        (path,) = (self.dir / "build/bisect").glob("*-*.json")
        self.bisect("--test", f"{script} --flag")
        self.assertGreater(len(self.calls("boot")), count)

    def test_script_skips(self):
        self.world["status"] = [0] * 6 + [125] + [1] * 6
        output = self.bisect("--test", "true-ish", status=3)
        self.assertRegex(output, "skipped: .* change 6\n    exit status 125")

    def test_kernel_report_is_bad_although_125(self):
        self.world["reports"] = list(range(3, 13))
        output = self.bisect("--test", "anything")
        self.assertIn("(kernel report: WARNING: fs/jbd2/journal.c:1", output)
        self.assert_found(output, 3)

    def test_commit_that_does_not_boot(self):
        self.world.update(unbootable=[6], status=[0] * 9 + [1] * 4)
        output = self.bisect("--test", "anything")
        self.assert_found(output, 9)
        self.assertIn("does not boot (status 126)", output)

    def test_boot_failure_itself(self):
        self.world["unbootable"] = list(range(4, 13))
        output = self.bisect("--test", "anything")
        self.assertIn("does not boot", output)
        self.assert_found(output, 4)

    def test_ends_that_do_not_differ_in_the_test(self):
        self.bisect("--test", "anything", status=1)
        self.assertIn("error: BAD is good: exit status 0", self.output)
        self.world["status"] = [127] * 13
        self.bisect("--test", "anything", "--fresh", status=1)
        self.assertIn("error: GOOD is bad: exit status 127", self.output)

    def test_user_bisection_is_left_alone(self):
        commits = self.world["commits"]
        self.git(self.linux, "bisect", "start", "--no-checkout", commits[12], commits[0])
        self.slow_from(5)
        self.assert_found(self.metric(), 5)

    def test_other_tree(self):
        other = self.dir / "other"
        commits = self.make_tree(other, "xfs: change", 20)
        before = self.git(other, "for-each-ref"), self.git(other, "status")
        self.world.update(commits=commits[5:18])
        self.slow_from(5)
        output = self.metric("--ksrc", other, "--good", commits[5], "--bad", commits[17])
        self.assertIn(f"    {commits[10][:12]} xfs: change 10\n    before", output)
        self.assertEqual((self.git(other, "for-each-ref"), self.git(other, "status")), before)
        history = self.git(self.linux, "rev-list", "refs/ksrc/bad").split()
        self.assertEqual(len(history), 13)  # the range, not all of it

    def test_other_tree_with_the_stack_in_it(self):
        other = self.dir / "other"
        self.git(self.dir, "clone", "-q", self.linux, other)
        for number in range(3):
            self.git(other, "commit", "-q", "--allow-empty", "-m", f"mine {number}")
        commits = self.git(other, "rev-list", "--reverse", "HEAD").split()[-13:]
        self.world.update(commits=commits, levels=[100] * 11 + [90] * 2)
        self.metric("--ksrc", other, "--good", commits[9], "--bad", commits[12])
        self.assertEqual(self.saved()["result"]["commit"], commits[11])
        self.assertEqual(len(self.git(self.linux, "rev-list", "stack").split()), COMMITS + 1)

    def test_bad_arguments(self):
        for args, text in (((), "one of METRIC and TEST"),
                           (("--metric=a", "--test=b"), "one of METRIC and TEST"),
                           (("--test=a", "--ksrc=build/linux", "--bad=x"), "no commit 'x'"),
                           (("--test=a", "--good=nobody"), "no commit 'nobody'"),
                           (("--test=a", "--good=stack", "--bad=base"), "no ancestor")):
            with self.subTest(text):
                self.bisect(*args, status=1)
                self.assertRegex(self.output, f"error: .*{text}")
                self.assertIn("  next: ", self.output)

    def test_variables_of_make(self):
        self.world["status"] = [0] * 8 + [1] * 5
        self.env.update(TEST="anything", GOOD=self.world["commits"][2], BAD="stack~1")
        self.assert_found(self.bisect(), 8)
        self.assertEqual(self.calls("boot")[:2], ["2", "11"])


class Decision(unittest.TestCase):
    def test_looks(self):
        self.assertEqual(bisectlib.looks(14), ([4, 6, 9, 14], 0.0025))
        self.assertEqual(bisectlib.looks(6), ([4, 6], 0.005))
        self.assertEqual(bisectlib.looks(30)[0], [4, 6, 9, 14, 21, 30])

    def test_p_counts_every_order(self):
        chance = random.Random(3)
        for low, high, values in ((3, 4, 99), (4, 2, 5), (3, 5, 3), (4, 4, 2)):
            for _ in range(5):
                both = [chance.randrange(values) / 4 for _ in range(low + high)]
                rank = {v: sum(w < v for w in both) + sum(w <= v for w in both) for v in both}
                sums = [sum(rank[v] for v in subset) for subset in
                        itertools.combinations(both, high)]
                seen = sum(rank[v] for v in both[low:])
                self.assertAlmostEqual(bisectlib.p_greater(both[:low], both[low:]),
                                       sum(s >= seen for s in sums) / len(sums))
        self.assertAlmostEqual(bisectlib.p_greater([1] * 4, [2] * 8), 1 / 495)
        self.assertEqual(bisectlib.p_greater([7] * 5, [7] * 5), 1)

    def test_side(self):
        def side(good, candidate, bad, sign=1):
            return bisectlib.side(sign, [good] * 4, [candidate] * 4, [candidate] * 4, [bad] * 4,
                                  0.0025)

        self.assertEqual([side(1, c, 9) for c in (0, 1, 2, 8, 9, 10)],
                         ["good", "good", "good", "bad", "bad", "bad"])
        self.assertEqual([side(9, c, 1, -1) for c in (10, 9, 8, 2, 1, 0)],
                         ["good", "good", "good", "bad", "bad", "bad"])

    @staticmethod
    def figures(chance, noise, drift, levels):
        """One round: the machine drifts, and a boot in twenty is far off."""
        drift = chance.lognormvariate(0, drift)
        return [level * drift * chance.lognormvariate(0, noise) *
                (0.7 if chance.random() < 0.05 else 1) for level in levels]

    def decide(self, decide, chance, noise, drift, levels):
        plan, limit = bisectlib.looks(14)
        rounds = []
        for count in plan:
            while len(rounds) < count:
                rounds.append(self.figures(chance, noise, drift, levels))
            decision = decide(*zip(*rounds), limit)
            if decision:
                break
        return decision, count

    def assert_error_rate(self, decide, levels, wrong):
        # 800 runs at a rate of 1 % show more than 2 % once in 250 times; the seed is fixed.
        for drift in (0, 0.02):
            chance = random.Random(7)
            with self.subTest(levels=levels, drift=drift):
                errors = [self.decide(decide, chance, 0.03, drift, levels)[0] == wrong
                          for _ in range(800)]
                self.assertLess(sum(errors) / len(errors), 0.02)

    def test_error_rate_without_a_difference(self):
        self.assert_error_rate(lambda *args: abs(bisectlib.direction(*args)), (100, 100), 1)

    def test_error_rate_of_a_candidate(self):
        def side(*args):
            return bisectlib.side(-1, *args)

        for bad in (90, 98):
            self.assert_error_rate(side, (100, 100, 100, bad), "bad")
            self.assert_error_rate(side, (100, bad, bad, bad), "good")

    def test_a_clear_difference_takes_few_rounds(self):
        chance = random.Random(7)
        rounds = [self.decide(lambda *args: bisectlib.side(-1, *args), chance, 0.01, 0.01, levels)
                  for levels in ((100, 100, 100, 70), (100, 70, 70, 70)) for _ in range(200)]
        self.assertLess(sum(count for _, count in rounds) / len(rounds), 6)
        self.assertEqual([verdict for verdict, _ in rounds], ["good"] * 200 + ["bad"] * 200)


if __name__ == "__main__":
    unittest.main()
