# SPDX-License-Identifier: GPL-2.0
"""MWCM, threads that create 4 KiB files in one directory: how long they wait for AGF and AGI.

"xfs: account extra freespace btree splits for multiple allocations" (kernel test robot and
Dave Chinner, November 2022). In kernels with CONFIG_LOCK_STAT, which have the tracepoints:
waits and rates are to be compared with each other only; the rates of fxmark are real.
"""

import os
import re
import struct
from collections import Counter

import benchlib
import fsload
import guestlib

KERNELS = "-lockstat"
METRICS = {"works/s": "more", "AGF wait us/work": "less", "AGI wait us/work": "less",
           "AGF locks/work": "less", "AGI locks/work": "less", "AGs tried/allocation": "less"}
WORKERS = (1, 2, 8)
MS = 300
TRACING = "/run/tracing"
BUFFER_KIB = 65536
BUF_EVENTS = ("xfs_buf_lock", "xfs_buf_lock_done", "xfs_buf_trylock", "xfs_buf_trylock_fail")
ALLOC_EVENTS = ("xfs_alloc_vextent_finish", "xfs_alloc_vextent_noagbp")
EVENT = re.compile(r"-(\d+)\s+\[\d+\] \S+\s+(\d+)\.(\d{6}): (\w+): dev \S+ (?:daddr (\w+))?")
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


def headers(device):
    """{address of a header of an allocation group, in 512 bytes: its name}"""
    with open(device, "rb") as disk:
        block = disk.read(512)
    magic, block_bytes = struct.unpack(">4sI", block[:8])
    agblocks, agcount = struct.unpack(">II", block[84:92])
    sector_bytes, = struct.unpack(">H", block[102:104])
    if magic != b"XFSB":
        raise benchlib.BenchError(f"{device} has no superblock of XFS")
    return {(group * agblocks * block_bytes + number * sector_bytes) // 512: name
            for group in range(agcount) for number, name in ((1, "AGF"), (2, "AGI"))}


class Trace:
    """The events of the headers' locks and of allocations while this is entered."""

    def __init__(self, where):
        self.lines = []
        if not os.path.isdir(TRACING):
            os.makedirs(TRACING)
            guestlib.run("mount", "-t", "tracefs", "none", TRACING)
        self._set("tracing_on", 0)
        self._set("buffer_size_kb", BUFFER_KIB)
        self._set("trace_clock", "mono")
        self._set("trace", "")
        for event in (*BUF_EVENTS, *ALLOC_EVENTS):
            if event in BUF_EVENTS:
                self._set(f"events/xfs/{event}/filter",
                          " || ".join(f"bno == {address}" for address in where))
            self._set(f"events/xfs/{event}/enable", 1)

    def __enter__(self):
        self._set("tracing_on", 1)

    def __exit__(self, *_):
        self._set("tracing_on", 0)
        self._set("events/enable", 0)
        for cpu in range(os.cpu_count()):
            lost = re.search(r"^overrun: (\d+)$", guestlib.read(
                f"{TRACING}/per_cpu/cpu{cpu}/stats"), re.MULTILINE)
            if not lost or int(lost.group(1)):
                raise benchlib.BenchError("the trace buffer is too small")
        self.lines = guestlib.read(f"{TRACING}/trace").splitlines()

    @staticmethod
    def _set(name, value):
        guestlib.write(f"{TRACING}/{name}", value)


def add_up(lines, where):
    """Counter of events and, in microseconds, of waits, by the name of the header."""
    found, since = Counter(), {}
    for line in lines:
        match = EVENT.search(line)
        if not match:
            continue
        task, seconds, micros, event, address = match.groups()
        now = int(seconds) * 1000000 + int(micros)
        if event in ALLOC_EVENTS:
            found[event] += 1
            continue
        name = where[int(address, 16)]
        found[name, event] += 1
        if event == "xfs_buf_lock":
            since[task, address] = now
        elif event == "xfs_buf_lock_done" and (task, address) in since:
            found[name, "us"] += now - since.pop((task, address))
    return found


def measure(context, case):
    where = headers(context.fs.device.path)
    options = {"shared": True, "size": 4096, **({"direct": True} if case["direct"] else {})}
    trace = Trace(where)
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
