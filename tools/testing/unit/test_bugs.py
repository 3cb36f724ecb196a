# SPDX-License-Identifier: GPL-2.0
"""tools/testing/bugs: heads, the list made from them, and what the driver makes of a console."""

import os
import subprocess
import sys
import unittest

from program import TOP, load

bugs = load("tools/testing/bugs/bugs")
PROGRAM = TOP / "tools/testing/bugs/bugs"
LINE = "[    1.000000] bugs: {}\n"


class Heads(unittest.TestCase):
    def test_fields(self):
        found = bugs.all_bugs()
        self.assertTrue(found)
        for bug in found:
            with self.subTest(bug.name):
                status = bug.text("Status")
                self.assertIn(status, ("fixed", "open"))
                # "Fixed by:" is what distinguishes the two.
                wanted = [field for field in bugs.FIELDS
                          if field != "Fixed by" or status == "fixed"]
                self.assertEqual(list(bug.fields), wanted)
                for field in wanted:
                    self.assertTrue(bug.text(field))
                self.assertTrue(os.access(bugs.HERE / bug.name, os.X_OK), "not executable")

    def test_patches_exist(self):
        patches = bugs.subjects()
        for bug in bugs.all_bugs():
            for fix in bug.fixes():
                with self.subTest(bug.name):
                    self.assertIn(fix, patches)

    def test_readme_names_patches(self):
        subjects = {subject for _, subject in bugs.subjects()}
        text = " ".join((bugs.HERE / "README").read_text(encoding="utf-8").split())
        for subject in text.split('"')[1::2]:
            if subject.startswith(("ext4: ", "jbd2: ", "xfs: ", "um: ")):
                self.assertIn(subject, subjects)

    def test_list(self):
        made = subprocess.run([sys.executable, PROGRAM, "--list-rst"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        with open(TOP / "Documentation/mainline-bugs.rst", encoding="utf-8") as file:
            self.assertEqual(file.read(), made, "next: tools/testing/bugs/bugs --list-rst > "
                                                "Documentation/mainline-bugs.rst")

    def test_unknown(self):
        done = subprocess.run([sys.executable, PROGRAM, "--list", "no-such-bug"], check=False,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no-such-bug", done.stderr)


class Console(unittest.TestCase):
    def judge(self, *records, more=""):
        return bugs.judge("".join(map(LINE.format, records)) + more, ["one", "two"])

    def test_results(self):
        self.assertEqual(
            self.judge("one: begins", "one: no bug", "two: begins", "two: bug: it is lost"),
            {"one": ("no bug", ""), "two": ("bug", "it is lost")})
        self.assertEqual(self.judge("one: begins", "one: cannot tell: line 3: a: b failed"),
                         {"one": ("cannot tell", "line 3: a: b failed")})

    def test_early_end(self):
        self.assertEqual(self.judge("one: begins", "one: no bug", "two: begins")["two"][0], "hang")
        self.assertEqual(self.judge("one: begins", more="[    2.000000] kernel BUG at fs/a.c:1!\n"),
                         {"one": ("panic", "kernel BUG at fs/a.c:1!")})
        self.assertEqual(self.judge(), {})

    def test_reports(self):
        warning = "[    2.000000] WARNING: fs/a.c:1 at f+0x1/0x2\n"
        text = "".join(map(LINE.format, ("one: begins", "one: no bug")))
        self.assertEqual(bugs.judge(text + warning, ["one"])["one"][0], "report")
        text = LINE.format("one: begins") + warning
        self.assertEqual(bugs.judge(text + LINE.format("one: no bug"), ["one"])["one"][0], "report")
        self.assertEqual(bugs.judge(text + LINE.format("one: bug: lost"), ["one"])["one"][0], "bug")


class Table(unittest.TestCase):
    def test_columns(self):
        found = [bug for bug in bugs.all_bugs() if bug.name == "ext4-rename-enospc"]
        text = bugs.table(found, {"base": {found[0].name: ("bug", "why")}, "stack": {}})
        self.assertEqual(text.split("\n")[1].split(), [found[0].name, "bug", "-", "ext4-namei"])


if __name__ == "__main__":
    unittest.main()
