# SPDX-License-Identifier: GPL-2.0
"""Figures of the README that the repository itself can tell."""

import collections
import re
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]


class Readme(unittest.TestCase):
    def test_patches_of_each_series(self):
        series = (TOP / "patches/series").read_text(encoding="utf-8").split()
        readme = (TOP / "README.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| ([\w, -]+) \| ([\d +]+) \|", readme, re.MULTILINE)
        said = [pair for names, numbers in rows
                for pair in zip(names.split(", "), map(int, numbers.split(" + ")), strict=True)]
        self.assertEqual(dict(said),
                         collections.Counter(patch.partition("/")[0] for patch in series))


if __name__ == "__main__":
    unittest.main()
