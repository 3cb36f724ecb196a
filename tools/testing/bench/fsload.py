# SPDX-License-Identifier: GPL-2.0
"""tools/testing/workloads/fsload from a recipe."""

import contextlib
import time

import benchlib


def run(context, op, workers, ms=None, watch=contextlib.nullcontext(), age=0, **options):
    """Run an operation: (what fsload said, what was counted, operations).

    Only the operations are counted, not what is set up for them and removed after; the
    context manager watch is entered for these only, too. What was set up is let get age
    seconds old before. Options are fsload's; True stands for one without a value.
    """
    words = [op, "--workers", workers, "--dir", context.fs.new_dir(), "--hold"]
    if ms:
        words += ["--ms", ms // 10 if context.quick else ms]
    for name, value in options.items():
        words += [f"--{name}"] if value is True else [f"--{name}", value]
    with context.hold("fsload", *words) as held:
        time.sleep(age)
        context.begin()
        with watch:
            said = held.go()
        counted = context.end()
    if said["op"] != op or len(said["ops"]) != workers or sum(said["ops"]) <= 0:
        raise benchlib.BenchError(f"fsload {op}: operations {said['ops']}")
    if min(said["ns"]) <= 0:
        raise benchlib.BenchError(f"fsload {op}: times {said['ns']}")
    return said, counted, sum(said["ops"])


def rate(said):
    """Operations of all workers per second, from the first begin to the last end."""
    return sum(said["ops"]) * 1e9 / said["wall_ns"]
