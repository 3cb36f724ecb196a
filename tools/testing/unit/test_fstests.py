# SPDX-License-Identifier: GPL-2.0
"""Tests of tools/testing/fstests: verdicts, what is said to differ, whole runs without guests."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
TESTING = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTING / "fstests")]
import fstestslib  # noqa: E402

# In place of tools/testing/vm/boot: a guest whose tests end as world.json says.
BOOT = f"#!{sys.executable} -SE" + '''
import itertools, json, os, sys, time
top = os.path.dirname(os.path.realpath(sys.argv[0]))
option = {a: b for a, b in zip(sys.argv, sys.argv[1:]) if a.startswith("--")}
out, log = option["--out"], option["--log"]
guest = os.path.basename(out)
side = guest.partition("-")[0]
world = json.load(open(top + "/world.json"))
open(f"{top}/boots-{side}", "a").write("boot\\n")
open(log, "w").write("")
if "broken" in world[side]:
    sys.exit("error: no memory")

def put(name, text):
    with open(f"{out}/{name}.new", "w") as file:
        file.write(text)
    os.rename(f"{out}/{name}.new", f"{out}/{name}")

put("ready", "")
for number in itertools.count():
    while not os.path.exists(f"{out}/todo-{number}"):
        time.sleep(0.01)
    test = open(f"{out}/todo-{number}").read()
    with open(f"{top}/ran-{side}", "a+") as file:
        file.write(test + "\\n")
        file.seek(0)
        turn = file.read().splitlines().count(test) - 1
    plan = world[side].get(test, world["all"])
    kind, _, rest = plan[min(turn, len(plan) - 1)].partition(" ")
    if kind == "mounted":
        found = json.load(open(out + "/job.json"))["mount_options"]
        kind, rest = ("pass", "3") if found == rest else ("fail", found)
    if kind == "gone":
        sys.exit(126)
    if kind == "panic":
        open(log, "w").write("[    1.000000] Kernel panic - not syncing: " + rest)
        sys.exit(125)
    if kind == "stuck":
        time.sleep(60)
    result = {"verdict": kind.replace("_", " "), "seconds": None, "why": rest, "elapsed": 1}
    if kind == "pass":
        result.update(seconds=int(rest), why="")
    else:
        os.mkdir(f"{out}/keep-{number}")
        open(f"{out}/keep-{number}/check", "w").write(rest)
    put(f"result-{number}.json", json.dumps(result))
    if kind in ("hung", "report"):
        sys.exit(0)
'''
# The script with short times, and programs that are there wherever the tests run.
RUN = '''
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
sys.dont_write_bytecode = True
path, programs = sys.argv[1:3]
sys.argv[:3] = [path]
loader = SourceFileLoader("fstests_script", path)
script = module_from_spec(spec_from_loader("fstests_script", loader))
loader.exec_module(script)
script.PATH, script.GRACE, script.FREE_MIB, script.POLL = programs, 0, 0, 0.01
sys.exit(script.main())
'''


class Config(unittest.TestCase):
    def test_programs_found(self):
        """Only what names a program is replaced; one that is missing stays empty."""
        config = ('export A_PROG="$(type -P sh)"\nexport B_PROG=$(type -P no-such.program)\n'
                  'local p=$(type -P mkfs.$fstyp)\n')
        self.assertEqual(fstestslib.programs_found(config),
                         f'export A_PROG="{shutil.which("sh")}"\nexport B_PROG=""\n'
                         'local p=$(type -P mkfs.$fstyp)\n')


class Verdict(unittest.TestCase):
    TEST = "generic/001"
    PASS = "Ran: generic/001\nPassed all 1 tests\n"
    FAIL = "Ran: generic/001\nFailures: generic/001\nFailed 1 of 1 tests\n"
    NOT_RUN = "Ran: generic/001\nNot run: generic/001\nPassed all 1 tests\n"

    def of(self, log, status=0, output="", **files):
        with tempfile.TemporaryDirectory() as top:
            os.mkdir(f"{top}/generic")
            pathlib.Path(f"{top}/check.log").write_text(log, encoding="utf-8")
            for name, text in files.items():
                name = {"time": "check.time"}.get(name, "generic/001." + name.replace("_", "."))
                pathlib.Path(f"{top}/{name}").write_text(text, encoding="utf-8")
            return fstestslib.verdict(self.TEST, top, status, output)

    def test_pass(self):
        self.assertEqual(self.of(self.PASS, time="generic/001 7\n"), ("pass", 7, ""))

    def test_fail(self):
        output = ("generic/001       - output mismatch (see /tmp/x)\n"
                  "    --- tests/generic/001.out\t2026\n    +++ /tmp/001.out.bad\t2026\n"
                  "    @@ -1,2 +1,3 @@\n     QA output created by 001\n    +cp failed\n")
        self.assertEqual(self.of(self.FAIL, 1, output, out_bad="x"), ("fail", None, "cp failed"))

    def test_fail_of_check(self):
        output = "_check_generic_filesystem: filesystem on /dev/ubda is inconsistent\n(see /x)\n"
        self.assertEqual(self.of(self.FAIL, 1, output)[2],
                         "_check_generic_filesystem: filesystem on /dev/ubda is inconsistent")

    def test_fail_of_kernel_log(self):
        output = "_check_dmesg: something found in dmesg (see /tmp/001.dmesg)\n"
        self.assertEqual(self.of(self.FAIL, 1, output, dmesg="[ 1.0] WARNING: at x.c:1\n")[2],
                         "kernel log: WARNING: at x.c:1")

    def test_missing_line(self):
        output = "    --- a\n    +++ b\n    @@ -1 +0 @@\n    -wrote 1/1\n"
        self.assertEqual(self.of(self.FAIL, 1, output)[2], "missing: wrote 1/1")

    def test_not_run(self):
        self.assertEqual(self.of(self.NOT_RUN, notrun="needs\nreflink\n"),
                         ("not run", None, "needs reflink"))

    def test_no_verdict(self):
        """Nothing is taken from what is not there, nor from what contradicts itself."""
        for log, status, files in (
                ("", 0, {}),
                ("", 1, {}),
                (self.PASS, 0, {}),                                         # no time
                ("Ran: generic/001\n", 0, {"time": "generic/001 7\n"}),
                (self.PASS, 1, {"time": "generic/001 7\n"}),
                (self.PASS, None, {"time": "generic/001 7\n"}),
                (self.PASS, 0, {"time": "generic/001 7\n", "out_bad": "x"}),
                (self.PASS, 0, {"time": "generic/001 7\n", "notrun": "x"}),
                (self.PASS.replace("001", "002"), 0, {"time": "generic/001 7\n"}),
                ("Passed all 0 tests\n", 0, {"time": "generic/001 7\n"}),   # unknown to check
                (self.FAIL, 0, {}),
                (self.NOT_RUN, 0, {}),
                (self.PASS + self.PASS, 0, {"time": "generic/001 7\n"})):
            with self.subTest(log=log, status=status, files=files):
                self.assertEqual(self.of(log, status, "oops\n", **files),
                                 ("no verdict", None, f"check ended with {status}: oops"))


class Classify(unittest.TestCase):
    @staticmethod
    def of(base, stack):
        """From lists of verdicts, or of seconds of tests that pass."""
        def result(item):
            if isinstance(item, int):
                return {"verdict": "pass", "seconds": item}
            return {"verdict": item, "seconds": 1 if item == "pass" else None}
        return fstestslib.classify([{"base": result(b), "stack": result(s)}
                                    for b, s in zip(base, stack)])

    def test_verdicts(self):
        for base, stack, kind in (
                (["pass"], ["pass"], None),
                (["fail"], ["fail"], None),
                (["not run"], ["not run"], None),
                (["pass"] * 2, ["fail"] * 2, "newly failing"),
                (["pass"] * 2, ["fail", "hung"], "newly failing"),
                (["not run"] * 2, ["report"] * 2, "newly failing"),
                (["pass"] * 2, ["fail", "pass"], "unstable"),
                (["pass", "fail"], ["fail", "fail"], "unstable"),
                (["fail"] * 2, ["pass"] * 2, "newly passing"),
                (["hung", "lost"], ["pass"] * 2, "newly passing"),
                (["fail"] * 2, ["pass", "fail"], "unstable"),
                (["pass"] * 2, ["not run"] * 2, "different"),
                (["fail"] * 2, ["not run"] * 2, "different"),
                (["fail"] * 2, ["hung"] * 2, "different"),
                (["pass"], ["no verdict"], "no verdict"),
                (["no verdict"], ["no verdict"], "no verdict")):
            with self.subTest(base=base, stack=stack):
                self.assertEqual(self.of(base, stack), kind)

    def test_slow(self):
        """Both the ratio and the seconds, in each run."""
        for base, stack, kind in (([10, 10], [16, 16], "newly slow"), ([10, 10], [16, 15], None),
                                  ([10, 10], [15, 15], None), ([100, 100], [140, 140], None),
                                  ([1, 1], [6, 6], None), ([0, 0], [6, 6], "newly slow"),
                                  ([16, 16], [10, 10], None)):
            with self.subTest(base=base, stack=stack):
                self.assertEqual(self.of(base, stack), kind)


class WholeRun(unittest.TestCase):
    TESTS = "001 auto quick\n002 auto\n003 auto quick  # comment\n"

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = pathlib.Path(directory.name)
        self.world = {"all": ["pass 3"], "base": {}, "stack": {}}
        self.tree = self.top / "xfstests"
        self.put("xfstests/check")
        for name in ("ltp/fsstress", "ltp/fsx", "src/lstat64"):
            self.put(f"xfstests/{name}")
        self.put("xfstests/tests/generic/group.list", self.TESTS)
        self.put("xfstests/tests/ext4/group.list", "001 auto quick log\n")
        self.put("boot", BOOT).chmod(0o755)
        for program in ("xfs_io", "attr", "setfacl", "quota", "bc", "gawk", "perl", "dmsetup",
                        "mkfs.ext4", "e2fsck"):
            self.put(f"bin/{program}").chmod(0o755)
        for name in ("uml-torture-base", "uml-torture"):
            self.put(f"build/obj/{name}/.stamp", f"{name[-5:].encode().hex():0<40} uml\n")
            self.put(f"build/obj/{name}/linux", name)
            self.put(f"build/obj/{name}/.config")

    def put(self, name, text=""):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, *options, **env):
        self.put("world.json", json.dumps(self.world))
        env = {"FSTESTS": str(self.tree), "O": str(self.top / "build"), "PATH": os.environ["PATH"],
               **env}
        command = [sys.executable, "-c", RUN, str(TESTING / "fstests/fstests"),
                   str(self.top / "bin"), "--boot", str(self.top / "boot"), "--disk-mib", "1",
                   *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                encoding="utf-8", env=env)

    def run_it(self, *options, status=0, **env):
        with self.start(*options, **env) as process:
            out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, out + err)
        return out, err

    def ran(self, side):
        return (self.top / f"ran-{side}").read_text(encoding="utf-8").split()

    def boots(self, side):
        return len((self.top / f"boots-{side}").read_text(encoding="utf-8").split())

    def state(self, name):
        return (self.top / "build/fstests" / name).read_text(encoding="utf-8")

    def assert_clean(self):
        """No disk and no guest is left."""
        left = set(os.listdir(self.top / "build/fstests"))
        self.assertLessEqual(left, {".lock", "files", "results.json", "results.json.part",
                                    "report.txt"})

    def test_no_difference(self):
        out, _ = self.run_it()
        self.assertIn("newly failing: none\nnewly passing: none\nnewly slow: none\n", out)
        self.assertRegex(out, r"pass +3 +3\n")
        for side in fstestslib.SIDES:
            self.assertEqual(self.ran(side), ["ext4/001", "generic/001", "generic/003"])
            self.assertEqual(self.boots(side), 1)
        result = json.loads(self.state("results.json"))
        self.assertEqual(result["setup"]["kernels"]["stack"]["name"], "uml-torture")
        self.assertEqual(result["setup"]["fstests"], "unknown")
        self.assert_clean()

    def test_selection(self):
        for env, tests in (({"GROUP": "log"}, "ext4/001"),
                           ({"GROUP": "generic/auto"}, "generic/001 generic/002 generic/003"),
                           ({"GROUP": "all"}, "ext4/001 generic/001 generic/002 generic/003"),
                           ({"GROUP": "all", "EXCLUDE": "log"},
                            "generic/001 generic/002 generic/003"),
                           ({"TESTS": "ext4/*", "EXCLUDE": "log"}, "ext4/001"),
                           ({"TESTS": "generic/00[23] ext4/001"},
                            "ext4/001 generic/002 generic/003")):
            with self.subTest(env=env):
                self.assertEqual(self.run_it("--list", **env)[0].split(), tests.split())

    def test_mount_options(self):
        self.world["base"]["all"] = ["mounted -o acl"]
        self.world["stack"]["all"] = ["mounted -o acl -o inactivate=all"]
        out, _ = self.run_it(MOUNT_OPTIONS="-o acl", STACK_MOUNT="inactivate=all")
        self.assertRegex(out, r"pass +3 +3\n")
        self.assertRegex(out, r"stack: .*, mounted with inactivate=all\n")
        self.world["base"]["all"] = ["mounted -o noacl"]
        self.run_it(BASE_MOUNT="noacl", MOUNT_OPTIONS="-o acl", STACK_MOUNT="inactivate=all")

    def test_newly_failing(self):
        self.world["stack"]["generic/001"] = ["fail data is lost"]
        out, _ = self.run_it(status=1)
        self.assertIn("newly failing: 1\n    generic/001   base: pass, pass; stack: fail, fail\n"
                      "        data is lost\n", out)
        self.assertEqual(self.ran("base").count("generic/001"), 2)
        self.assertEqual(self.ran("base").count("generic/003"), 1)
        self.assertIn("data is lost", self.state("files/stack/generic-001/check"))

    def test_stack_first(self):
        self.world["stack"].update({"generic/001": ["fail data is lost"],
                                    "generic/002": ["not_run no device"],
                                    "generic/003": ["gone"]})
        self.world["base"].update({"generic/002": ["not_run no device"]})
        out, _ = self.run_it("--stack-first", GROUP="all", status=1)
        self.assertIn("newly failing: 2\n    generic/001   base: pass, pass; stack: fail, fail\n"
                      "        data is lost\n", out)
        self.assertRegex(out, r"generic/003 +base: pass, pass; stack: lost, lost\n")
        self.assertIn("not run on base, as they pass on the stack: 1\n", out)
        self.assertEqual(sorted(self.ran("base")),
                         sorted(["generic/001", "generic/003"] * 2 + ["generic/002"]))
        self.assertEqual(self.ran("stack").count("ext4/001"), 1)
        self.assertIn("no device\n        generic/002", self.state("report.txt"))
        self.assert_clean()

    def test_stack_first_ends_with_an_error(self):
        self.world["stack"]["broken"] = True
        _, err = self.run_it("--stack-first", status=1)
        self.assertIn("did not get ready", err)

    def test_not_confirmed(self):
        self.world["stack"].update({"generic/001": ["fail once", "pass 3"],
                                    "generic/003": ["pass 30", "pass 3"]})
        out, _ = self.run_it()
        self.assertIn("newly failing: none", out)
        self.assertIn("newly slow: none", out)
        self.assertIn("unstable: 1\n    generic/001   base: pass, pass; stack: fail, pass\n", out)

    def test_newly_slow_and_passing(self):
        self.world["stack"]["generic/003"] = ["pass 30", "pass 31"]
        self.world["base"]["generic/001"] = ["fail here"]
        out, _ = self.run_it()
        self.assertIn("newly slow: 1\n    generic/003   base: 3 s, 3 s; stack: 30 s, 31 s\n", out)
        self.assertIn("newly passing: 1\n    generic/001   base: fail, fail; stack: pass, pass",
                      out)

    def test_guests_that_end(self):
        """A test that takes its guest along takes no other test along."""
        for plan, kind in (("hung by the test", "hung"), ("report WARNING", "report"),
                           ("gone", "lost"), ("panic here", "report"), ("stuck", "hung")):
            with self.subTest(plan=plan):
                for name in ("ran-base", "ran-stack", "boots-base", "boots-stack"):
                    (self.top / name).unlink(missing_ok=True)
                self.world["stack"]["generic/001"] = [plan]
                out, _ = self.run_it("--timeout", "2", status=1)
                self.assertIn(f"stack: {kind}, {kind}\n", out)
                self.assertRegex(out, r"pass +3 +2\n")
                self.assertEqual(self.boots("base"), 1)
                # The second run of generic/001 is the last of all.
                self.assertEqual(self.boots("stack"), 2)
                self.assertTrue((self.top / "build/fstests/files/stack/generic-001/console")
                                .exists())
                self.assert_clean()

    def test_no_verdict(self):
        self.world["base"]["generic/001"] = self.world["stack"]["generic/001"] = ["no_verdict x"]
        out, err = self.run_it(status=1)
        self.assertIn("no verdict: 1\n", out)
        self.assertIn("error: tests without a verdict\n  next: ", err)

    def test_same_on_both(self):
        for side in fstestslib.SIDES:
            self.world[side].update({"generic/001": ["fail an old bug"],
                                     "generic/003": ["not_run no reflink"]})
        out, _ = self.run_it()
        self.assertNotIn("generic/001", out)
        self.assertEqual(self.ran("base").count("generic/001"), 1)
        report = self.state("report.txt")
        self.assertIn("fails on both: 1\n    generic/001   fail: an old bug\n", report)
        self.assertIn("    no reflink\n        generic/003\n", report)

    def test_batches(self):
        self.run_it("--batch", "2", GROUP="all")
        self.assertEqual(self.boots("base"), 2)

    def test_resume(self):
        self.world["stack"]["generic/003"] = ["stuck", "pass 3"]
        process = self.start("--timeout", "50")
        for _ in range(1000):
            path = self.top / "ran-stack"
            if path.exists() and "generic/003" in path.read_text(encoding="utf-8"):
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assert_clean()
        err = self.run_it(status=1, RESUME="1", MOUNT_OPTIONS="-o dax")[1]
        self.assertIn("error: the interrupted run is of other kernels or options\n  next: ", err)
        _, err = self.run_it("--timeout", "50", RESUME="1")
        self.assertIn("2 tests are done", err)
        for test, times in (("ext4/001", 1), ("generic/001", 1), ("generic/003", 2)):
            self.assertEqual(self.ran("stack").count(test), times)
        self.assertFalse((self.top / "build/fstests/results.json.part").exists())
        err = self.run_it(status=1, RESUME="1")[1]
        self.assertIn("error: there is no interrupted run", err)

    def test_errors(self):
        """Each says what is wrong and what to do."""
        for what, env, change in (
                ("FSTESTS is not set", {"FSTESTS": ""}, None),
                ("FS=minix is not known", {"FS": "minix"}, None),
                ("is no checkout of fstests", {"FSTESTS": str(self.top)}, None),
                ("has no tests of ext4 or generic: nothing/at-all", {"GROUP": "nothing/at-all"},
                 None),
                ("has no tests of ext4 or generic: cloned", {"EXCLUDE": "log,cloned"}, None),
                ("has no tests of ext4 or generic: generic/999",
                 {"TESTS": "generic/001 generic/999"}, None),
                ("there is no finished kernel uml-torture", {}, "build/obj/uml-torture/.stamp"),
                ("programs that are missing: setfacl", {}, "bin/setfacl"),
                ("fstests is not built: ", {}, "xfstests/ltp/fsstress"),
                ("fstests is not built: ", {}, "xfstests/tests/generic/group.list")):
            with self.subTest(what=what, change=change):
                if change:
                    os.rename(self.top / change, self.top / "away")
                _, err = self.run_it(status=1, **env)
                self.assertIn(what, err)
                self.assertRegex(err, r"error: .*\n  next: .")
                if change:
                    os.rename(self.top / "away", self.top / change)

    def test_guest_does_not_boot(self):
        self.world["stack"]["broken"] = []
        _, err = self.run_it(status=1)
        self.assertIn("error: no memory\nerror: the guest of uml-torture did not get ready for "
                      "tests\n  next: see ", err)
        self.assert_clean()

    def test_kernel_changes(self):
        kernel = self.top / "build/obj/uml-torture/linux"
        self.put("boot", BOOT + f"    open({str(kernel)!r}, 'w').write('another')\n")
        _, err = self.run_it("--batch", "1", status=1)
        self.assertIn("error: uml-torture was built anew while it was being tested\n", err)

    def test_one_at_a_time(self):
        self.world["stack"]["ext4/001"] = ["stuck"]
        process = self.start("--timeout", "50")
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        for _ in range(1000):
            if (self.top / "ran-stack").exists():
                break
            time.sleep(0.02)
        self.assertIn("is being run", self.run_it(status=1)[1])


if __name__ == "__main__":
    unittest.main()
