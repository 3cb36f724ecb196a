# SPDX-License-Identifier: GPL-2.0
"""Tests of the proofs' driver: what ties models to code, BREAKs, Spin's and herd7's answers."""

import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
PROOFS = os.path.join(HERE, "../proofs")
sys.path.insert(0, HERE)
import program  # noqa: E402

proofs = program.load("tools/testing/proofs/proofs")
ProofError = proofs.ProofError

SOURCE = """
int done(struct journal *j);
static struct journal *other(int done(int))
{
    return done(j);
}
/* done() { */
static inline bool done(struct journal *j)
    __must_hold(&j->lock)
{
    /* Pairs with the release. */
    if (smp_load_acquire(&j->sequence) &&
        more)
        return true;
    return j->aborted;
}
"""
HEADER = """/*
 * Commit: jbd2: a subject
 * Code: fs/a.c done: smp_load_acquire(&j->sequence) ... return j->aborted
 *"""
PML = HEADER + """ BREAK_store (assert): the store is left out
 */
byte x;
active proctype main()
{
#ifndef BREAK_store
    x = 1;
#endif
    assert(x == 1)
}
"""
LITMUS = """C mp
(*
 * Commit: jbd2: a subject
 * Code: fs/a.c done: return true
 *)
{}
P0(int *x)
{
    smp_wmb();    // BREAK_wmb:
    smp_store_release(x, 1);    // BREAK_release: WRITE_ONCE(*x, 1);
}
exists (x=0)
"""
PAN = """pan:1: {}
State-vector 88 byte, depth reached 138, errors: {}
    825538 states, stored
unreached in proctype main
{}\tmp.pml:62, state 13, "-end-"
\t(1 of 13 states)
"""


class Scratch(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="test_proofs.")
        self.addCleanup(shutil.rmtree, self.dir)

    def model(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return proofs.Model(path)


class TestCode(Scratch):
    def test_function(self):
        text = proofs.function(SOURCE, "done")
        self.assertTrue(text.startswith("done(struct journal *j) __must_hold"))
        self.assertNotIn("Pairs", text)
        self.assertIsNone(proofs.function(SOURCE, "smp_load_acquire"))
        self.assertIsNone(proofs.function(SOURCE, "don"))

    def test_quote(self):
        text = proofs.function(SOURCE, "done")
        for quote in ("if (smp_load_acquire(&j->sequence) && more)",
                      "{ ... more ... return true; return j->aborted"):
            self.assertTrue(proofs.has_quote(text, quote), quote)
        for quote in ("READ_ONCE(j->sequence)", "return j->aborted ... more", "more ... more"):
            self.assertFalse(proofs.has_quote(text, quote), quote)

    def test_tie(self):
        model = self.model("a.pml", PML)
        subjects = {"jbd2: a subject"}
        model.check_code(subjects, lambda path: SOURCE)
        for complaint, known, source in (
                ("no commit", {"jbd2: another"}, SOURCE),
                ("no function done", subjects, SOURCE.replace("bool done", "bool is_done")),
                ("does not do", subjects, SOURCE.replace("smp_load_acquire(&", "READ_ONCE("))):
            with self.assertRaisesRegex(ProofError, complaint):
                model.check_code(known, lambda path, text=source: text)

    def test_incomplete(self):
        for complaint, text in (
                ("BREAK_more", PML + "#ifdef BREAK_more\n#endif\n"),
                ("BREAK_store", PML.replace("#ifndef BREAK_store", "#if 1")),
                ("BREAK_store", PML.replace("(assert)", "(other)")),
                ("any BREAK", PML.replace(" BREAK_store (assert): the", "").replace(
                    "#ifndef BREAK_store", "#if 1")),
                ("no code", PML.replace("Code:", "Cod:")),
                ("no commit", PML.replace("Commit:", "Commits:"))):
            with self.assertRaisesRegex(ProofError, complaint):
                self.model("a.pml", text)

    def test_models(self):
        """Each of the repository's is complete and has one for each protocol."""
        names = [file for file in os.listdir(PROOFS) if file.endswith((".pml", ".litmus"))]
        self.assertGreater(len(names), 1)
        for name in names:
            self.assertTrue(proofs.Model(os.path.join(PROOFS, name)).breaks)


class TestVariants(Scratch):
    def test_litmus(self):
        model = self.model("mp.litmus", LITMUS)
        self.assertEqual(sorted(model.breaks), ["BREAK_release", "BREAK_wmb"])
        self.assertIn("    smp_wmb();\n    smp_store_release(x, 1);\n", model.variant(None))
        self.assertIn("    smp_wmb();\n    WRITE_ONCE(*x, 1);\n", model.variant("BREAK_release"))
        self.assertIn("{\n    \n    smp_store_release(x, 1);\n", model.variant("BREAK_wmb"))
        self.assertNotIn("BREAK", model.variant("BREAK_wmb"))

    def test_pan(self):
        missed = '\tmp.pml:61, state 12, "x = 1"\n'
        for answer, text in (
                (("holds", 825538, []), PAN.format("", 0, "")),
                (("holds", 825538, ["mp.pml:61"]), PAN.format("", 0, missed)),
                (("assert", 825538, []), PAN.format("assertion violated x", 1, "")),
                (("hang", 825538, []), PAN.format("invalid end state", 1, "")),
                ((None, 825538, []), PAN.format("no idea", 1, "")),
                ((None, 825538, []), PAN.format("Search not completed", 0, "")),
                ((None, 0, []), PAN.format("max search depth too small", 0, "")),
                ((None, 0, []), "sh: pan: not found\n")):
            self.assertEqual(proofs.read_pan(text), answer)

    def test_judge(self):
        model = self.model("a.pml", PML)
        line, complaints = proofs.judge(model, {None: ("holds", 5), "BREAK_store": ("assert", 2)})
        self.assertIn("holds, 5 states; 1 of 1 breaks", line)
        self.assertEqual(complaints, [])
        for whole, broken, complaint in (("hang", "assert", "does not hold"),
                                         ("holds", "holds", "with BREAK_store: holds"),
                                         ("holds", "hang", "with BREAK_store: hang")):
            _, complaints = proofs.judge(model, {None: (whole, 5), "BREAK_store": (broken, 2)})
            self.assertEqual(len(complaints), 1)
            self.assertIn(complaint, complaints[0])


class TestRun(Scratch):
    """The whole run, with a tree of one file and tools that are there, stand in or miss."""

    def prove(self, *models, herd=False, tools=None):
        answers = {"log": "jbd2: a subject\n", "show": SOURCE, "ls-tree": ""}
        out, err = io.StringIO(), io.StringIO()
        path = os.environ["PATH"] if tools is None else tools
        with mock.patch.multiple(proofs, git=lambda *args: answers[args[0]],
                                 OUT=os.path.join(self.dir, "out"),
                                 LKMM=os.path.join(self.dir, "out/lkmm")), \
                mock.patch.dict(os.environ, PATH=path), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = proofs.prove(list(models), herd)
        return status, out.getvalue() + err.getvalue()

    def tool(self, name, script):
        path = os.path.join(self.dir, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return os.path.dirname(path)

    @unittest.skipUnless(shutil.which("spin"), "spin is not installed")
    def test_spin(self):
        shutil.copy(os.path.join(PROOFS, "weak.h"), self.dir)
        status, said = self.prove(self.model("a.pml", PML))
        self.assertEqual((status, "1 Spin models hold, 1 breaks caught" in said), (0, True), said)
        for complaint, old, new in (
                ("BREAK_store: holds", "x == 1", "x < 2"),
                ("BREAK_store: hang", "assert(x == 1)", "x == 1"),
                ("a.pml does not hold: assert", "x == 1", "x == 2"),
                ("never reached: a.pml:13", "assert(x == 1)",
                 "if :: x == 1 :: x == 2 ->\nx = 3 fi"),
                ("spin failed", "byte x", "bite x")):
            status, said = self.prove(self.model("a.pml", PML.replace(old, new)))
            self.assertEqual((status, complaint in said), (1, True), said)

    def test_no_herd(self):
        tools = self.tool("spin", "") and self.tool("cc", "")
        model = self.model("mp.litmus", LITMUS)
        status, said = self.prove(model, tools=tools)
        self.assertEqual(status, 0)
        self.assertRegex(said, r"(?s)mp.litmus +not run.*herd7 is not installed\n +next:")
        self.assertNotIn("litmus tests hold", said)
        with self.assertRaisesRegex(ProofError, "herd7 is not installed"):
            self.prove(model, herd=True, tools=tools)

    def test_herd(self):
        # The answer is in the test that herd7 is given: a barrier or none.
        for script, complaint in (
                ('a=Sometimes; grep -q smp_wmb "$3" && grep -q release "$3" && a=Never\n', ""),
                ("a=Never\n", "with BREAK_wmb: Never"),
                ("a=Sometimes\n", "mp.litmus does not hold: Sometimes"),
                ("a=\n", "herd7 failed")):
            self.tool("spin", "")
            self.tool("cc", "")
            tools = self.tool("herd7", f"PATH=/bin:/usr/bin\n{script}"
                              '[ "$a" ] && echo "Observation mp $a 0 3"\n')
            status, said = self.prove(self.model("mp.litmus", LITMUS), tools=tools)
            if complaint:
                self.assertEqual((status, complaint in said), (1, True), said)
            else:
                self.assertEqual((status, "1 litmus tests hold, 2 breaks caught" in said),
                                 (0, True), said)


if __name__ == "__main__":
    unittest.main()
