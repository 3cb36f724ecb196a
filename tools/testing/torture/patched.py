# SPDX-License-Identifier: GPL-2.0
"""A kernel of branch stack with patches that are for tests only."""

import collections
import os
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import workbench

NAME = "uml-torture-patched"
MUTANTS = os.path.join(workbench.TOP, "tools/testing/mutants/mutants")
KBUILD = os.path.join(workbench.TOP, "scripts/kbuild")

Patch = collections.namedtuple("Patch", "path name what")


def mutants():
    """The program that makes commits without a checkout."""
    loader = SourceFileLoader("mutants_program", MUTANTS)
    module = module_from_spec(spec_from_loader("mutants_program", loader))
    loader.exec_module(module)
    return module


def commit(paths):
    """The stack with these diffs on top, one commit each; none has a branch."""
    maker = mutants()
    tip = maker.git("rev-parse", "-q", "--verify", "stack^{commit}")
    with tempfile.TemporaryDirectory(prefix="index-") as directory:
        for path in paths:
            path = os.path.abspath(path)
            slug = os.path.basename(path).removesuffix(".diff")
            patch = Patch(path, f"torture/{slug}", "For torture only.")
            index = maker.Index(tip, directory)
            trouble = index.applies(patch)
            if trouble:
                workbench.die(f"{path} does not apply: {trouble.splitlines()[0]}",
                              "adapt it to branch stack")
            tip = index.commit(patch)
    return tip


def build(paths):
    """Build that for user-mode Linux; returns its name, that of a build in O/obj."""
    tip = commit(paths)
    status = subprocess.call([KBUILD, "--like", "uml-torture", NAME, tip, "uml", "torture"],
                             stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if status:
        workbench.die("the stack with these patches does not build", "see above")
    return NAME
