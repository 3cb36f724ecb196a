# SPDX-License-Identifier: GPL-2.0
"""What the matrix makes of KCSAN's reports, and of what torture says."""

import io
import os
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import program  # noqa: E402

matrix = program.load("tools/testing/matrix/matrix")

LOG = """\
[    1.000001] ==================================================================
[    1.000002] BUG: KCSAN: data-race in jbd2_journal_stop.part.0 / start_this_handle.isra.0
[    1.000003] write to 0xffff888003a40058 of 4 bytes by task 99 on cpu 1:
[    1.000004]  jbd2_journal_stop.part.0+0x12/0x40
[    1.000005] BUG: KCSAN: data-race in ext4_writepages+0x10/0x200
[    1.000006] BUG: KCSAN: data-race in jbd2_journal_stop / start_this_handle
BUG: KCSAN: data-race in what a program prints / has no time stamp
[    2.000001] BUG: KASAN: slab-use-after-free in jbd2_journal_stop
"""


class Races(unittest.TestCase):
    def test_names_without_what_builds_differ_in(self):
        self.assertEqual(matrix.races(LOG), {"data-race in jbd2_journal_stop / start_this_handle",
                                             "data-race in ext4_writepages"})

    def test_functions(self):
        self.assertEqual(matrix.functions("data-race in a / b"), {"a", "b"})
        self.assertEqual(matrix.functions("assert: race in a"), {"a"})

    def test_only_kcsan_is_ignored(self):
        left = matrix.console.find_reports(LOG, matrix.RACE)
        self.assertEqual([m for _, m in left],
                         ["BUG: KASAN: slab-use-after-free in jbd2_journal_stop"])

    def test_known_keeps_its_head(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("# Why.\ndata-race in b\n")
            file.flush()
            matrix.save_known(file.name, {"data-race in a"})
            self.assertEqual(matrix.read(file.name), "# Why.\ndata-race in a\ndata-race in b\n")

    def test_known_names_no_twice(self):
        """What is written to kcsan.known is what races() would say."""
        for entry in matrix.load_known(matrix.KNOWN):
            self.assertEqual(matrix.race("BUG: KCSAN: " + entry), entry)


class Cells(unittest.TestCase):
    def test_select(self):
        self.assertEqual(matrix.select([]), matrix.CELLS)
        self.assertEqual(matrix.select(["debug", "x86_64-rt/4"]),
                         ["debug/2", "debug/4", "debug/16", "x86_64-rt/4"])
        with self.assertRaises(SystemExit), redirect_stderr(io.StringIO()) as said:
            matrix.select(["debug/3"])
        self.assertIn("no cell 'debug/3'", said.getvalue())

    def test_report(self):
        with redirect_stdout(io.StringIO()) as said:
            matrix.report({"cell": "debug/2", "findings": ["ext4/freeze: here: this\nand more"],
                           "counts": {"operations": 5, "cuts": 3, "cuts while recovering": 4}})
        self.assertRegex(said.getvalue(), r"debug/2 +5 +7 +0 +1")
        self.assertIn("FOUND ext4/freeze: here: this\n", said.getvalue())


if __name__ == "__main__":
    unittest.main()
