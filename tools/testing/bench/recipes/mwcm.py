# SPDX-License-Identifier: GPL-2.0
"""MWCM, threads that create 4 KiB files in one directory: how long they wait for AGF and AGI.

"xfs: account extra freespace btree splits for multiple allocations" (kernel test robot and
Dave Chinner, November 2022). In kernels with CONFIG_LOCK_STAT, which have the tracepoints:
waits and rates are to be compared with each other only; the rates of fxmark are real.
"""

import re
from collections import Counter

import benchlib
import fsload
import tracing

KERNELS = "-lockstat"
METRICS = {"works/s": "more", "AGF wait us/work": "less", "AGI wait us/work": "less",
           "AGF locks/work": "less", "AGI locks/work": "less", "AGs tried/allocation": "less"}
WORKERS = (1, 2, 8)
MS = 300
BUF_EVENTS = ("xfs_buf_lock", "xfs_buf_lock_done", "xfs_buf_trylock", "xfs_buf_trylock_fail")
ALLOC_EVENTS = ("xfs_alloc_vextent_finish", "xfs_alloc_vextent_noagbp")
ADDRESS = re.compile(r"dev \S+ daddr (?:0x)?(\w+)")
AXIS, AXIS_LABEL = "workers", "workers"
RESULTS = ("works/s",)
PLOTS = ("AGF wait us/work", "AGI wait us/work")


def cases(quick):
    del quick
    for groups in (4, 16):
        for direct in (False, True):
            for workers in WORKERS:
                yield {"label": f"{groups} AGs{', direct' * direct}, "
                       f"{benchlib.count(workers, 'worker')}", "fs": "xfs", "size_mib": 2048,
                       "groups": groups, "direct": direct, "workers": workers}


def add_up(lines, where):
    """Counter of events and, in microseconds, of waits, by the name of the header."""
    found, waits = Counter(), tracing.Waits()
    for _, task, now, event, words in tracing.parse(lines):
        if event in ALLOC_EVENTS:
            found[event] += 1
        if event not in BUF_EVENTS:
            continue
        address = int(ADDRESS.match(words).group(1), 16)
        found[where[address], event] += 1
        took = waits.took(task, now, event, address)
        if took is not None:
            found[where[address], "us"] += took
    return found


def measure(context, case):
    where = tracing.headers(context.fs.device.path)
    options = {"shared": True, "size": 4096, **({"direct": True} if case["direct"] else {})}
    these = " || ".join(f"bno == {address}" for address in where)
    trace = tracing.Trace({f"xfs/{event}": these * (event in BUF_EVENTS)
                           for event in (*BUF_EVENTS, *ALLOC_EVENTS)})
    said, counted, works = fsload.run(context, "create", case["workers"], MS, trace, **options)
    found = add_up(trace.lines, where)
    allocations = found["xfs_alloc_vextent_finish"]
    if not allocations:
        raise benchlib.BenchError("no allocation was traced")
    values = {"works/s": fsload.rate(said), "AGs tried/allocation":
              (allocations + found["xfs_alloc_vextent_noagbp"]) / allocations}
    for name in ("AGF", "AGI"):
        values[f"{name} wait us/work"] = found[name, "us"] / works
        values[f"{name} locks/work"] = (found[name, "xfs_buf_lock"] +
                                        found[name, "xfs_buf_trylock"]) / works
    return values, {"said": said, "counted": counted,
                    "trace": {" ".join(key) if isinstance(key, tuple) else key: count
                              for key, count in found.items()}}
