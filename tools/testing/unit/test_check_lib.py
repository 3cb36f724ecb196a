#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of the check runner and of what the checks compare."""

import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../.."))


class Scratch(unittest.TestCase):
    """A copy of the check runner with checks of its own."""

    def setUp(self):
        self.tmp = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.tmp)
        self.check = os.path.join(self.tmp, "tools/testing/check")
        os.makedirs(os.path.join(self.check, "checks"))
        os.makedirs(os.path.join(self.tmp, "scripts"))
        shutil.copy(os.path.join(TOP, "scripts/lib.sh"), os.path.join(self.tmp, "scripts"))
        for name in ("run", "lib.sh"):
            shutil.copy(os.path.join(TOP, "tools/testing/check", name), self.check)

    def bash(self, *args, stdin=None):
        env = {key: value for key, value in os.environ.items()
               if key not in ("O", "V", "START_TIME", "MAKEFLAGS")}
        return subprocess.run(["bash", *args], env=env, cwd=self.tmp, input=stdin, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


class Run(Scratch):
    def add(self, name, body):
        path = os.path.join(self.check, "checks", name)
        with open(path, "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\n# {name}: what it does\n{body}\n")
        os.chmod(path, 0o755)

    def run_checks(self, *names):
        result = self.bash(os.path.join(self.check, "run"), *names)
        return result.returncode, result.stdout.splitlines()

    def test_goes_on_after_a_failure(self):
        self.add("one", "exit 0")
        self.add("two", "echo the reason; exit 3")
        self.add("three", "echo '    progress'; exit 0")
        status, lines = self.run_checks("one", "two", "three")
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "2 passed, 1 failed")
        self.assertIn("  | the reason", lines)
        self.assertIn("    progress", lines)
        fails = [line for line in lines if line.startswith("FAIL two ")]
        self.assertTrue(fails and "check-two.log" in fails[0] and "run two" in fails[0], lines)

    def test_all_pass(self):
        self.add("one", "exit 0")
        status, lines = self.run_checks("one")
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed"))

    def test_unknown_check(self):
        status, lines = self.run_checks("nothing")
        self.assertEqual(status, 1)
        self.assertIn("nothing", lines[0])


class Lib(Scratch):
    def lib(self, script, stdin=None):
        result = self.bash("-c", f". {self.check}/lib.sh\n{script}", stdin=stdin)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout.splitlines()

    def test_moved_warning_is_the_same(self):
        old = f"{self.tmp}/build/src/fs/a.c:10:3: warning: unused 'x'\n"
        new = f"{self.tmp}/build/src/fs/a.c:99:7: warning: unused 'x'\n"
        self.assertEqual(self.lib("normalise", old), self.lib("normalise", new))
        self.assertEqual(self.lib("normalise", old), ["fs/a.c:: warning: unused 'x'"])

    def test_unit_of_an_included_file(self):
        files = {"fs/a.c": '#include "a_test.c"\n', "fs/a_test.c": "int x;\n", "fs/b.c": "int y;\n",
                 "lib/a_test.c": "int z;\n"}
        tree = os.path.join(self.tmp, "linux")
        for path, text in files.items():
            os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as out:
                out.write(text)
        git = f"git -C {tree} -c user.name=a -c user.email=a@b"
        self.lib(f"{git} init -q; {git} add .; {git} commit -q -m 1")
        units = f"LINUX={tree}; units HEAD"
        self.assertEqual(self.lib(units, "fs/a_test.c\nfs/b.c\n"), ["fs/a.c", "fs/b.c"])
        self.assertEqual(self.lib(units, "lib/a_test.c\nfs/a.c\nfs/a_test.c\n"),
                         ["fs/a.c", "lib/a_test.c"])
        self.assertEqual(self.lib(units, ""), [])

    def new(self, old, new):
        for name, lines in (("old", old), ("new", new)):
            with open(os.path.join(self.tmp, name), "w", encoding="utf-8") as out:
                out.writelines(line + "\n" for line in sorted(lines))
        return self.lib(f"only_new {self.tmp}/old {self.tmp}/new")

    def test_only_new(self):
        self.assertEqual(self.new(["a", "b"], ["a", "b"]), [])
        self.assertEqual(self.new(["a", "b"], ["b"]), [])
        self.assertEqual(self.new(["a"], ["a", "c"]), ["c"])

    def test_one_more_of_the_same_is_new(self):
        self.assertEqual(self.new(["a"], ["a", "a"]), ["a"])

    def test_compiler_warnings(self):
        log = os.path.join(self.tmp, "log")
        with open(log, "w", encoding="utf-8") as out:
            out.write("  CC      fs/a.o\n"
                      "fs/a.c:1:2: warning: w1\n"
                      "WARNING: modpost: missing\n"
                      "fs/a.c:1:2: note: n\n")
        self.assertEqual(self.lib(f"compiler_warnings {log}"),
                         ["WARNING: modpost: missing", "fs/a.c:: warning: w1"])

    def test_is_done_only_with_the_same_key(self):
        self.lib("set_done x key1")
        self.assertEqual(self.lib("is_done x key1 && echo same; is_done x key2 || echo other"),
                         ["same", "other"])


if __name__ == "__main__":
    unittest.main()
