# SPDX-License-Identifier: GPL-2.0
"""What the unit tests have in common: programs without .py in their names, as modules."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True


def load(path):
    """The program at this path from the top of the repository, as a module."""
    name = path.replace("/", "_").replace("-", "_")
    loader = SourceFileLoader(name, str(TOP / path))
    module = module_from_spec(spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
