#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Each semantic patch reports the lines marked BAD in its sample, and no others."""

import os
import re
import subprocess
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
RULES = os.path.join(HERE, "../../../scripts/coccinelle")
SAMPLES = os.path.join(HERE, "cocci")


def reported(rule, sample):
    """The lines of sample that rule reports."""
    output = subprocess.run(
        ["spatch", "-D", "report", "--no-show-diff", "--very-quiet", "--no-includes",
         "--cocci-file", rule, sample],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout
    return {int(n) for n in re.findall(r"^\S+\.c:(\d+):", output, re.MULTILINE)}


def marked(sample):
    with open(sample, encoding="utf-8") as lines:
        return {number for number, line in enumerate(lines, 1) if "/* BAD */" in line}


class Rules(unittest.TestCase):
    def test_every_rule_has_a_sample(self):
        rules = {name[:-len(".cocci")] for name in os.listdir(RULES) if name.endswith(".cocci")}
        samples = {name[:-len(".c")] for name in os.listdir(SAMPLES) if name.endswith(".c")}
        self.assertTrue(rules)
        self.assertEqual(rules, samples)

    def test_bad_lines(self):
        for name in sorted(os.listdir(SAMPLES)):
            sample = os.path.join(SAMPLES, name)
            rule = os.path.join(RULES, name.replace(".c", ".cocci"))
            with self.subTest(name):
                self.assertTrue(marked(sample))
                self.assertEqual(reported(rule, sample), marked(sample))


if __name__ == "__main__":
    unittest.main()
