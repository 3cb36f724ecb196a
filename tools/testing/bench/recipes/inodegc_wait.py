# SPDX-License-Identifier: GPL-2.0
"""How long a removed inode waits on XFS until a worker inactivates it, by the rate of unlinks.

One process, on one CPU, unlinks empty files, some milliseconds apart. In kernels with
CONFIG_LOCK_STAT, which have the tracepoints. A jiffy is 4 ms there.
"""

import os
import re
import time

import benchlib
import tracing

KERNELS = "-lockstat"
METRICS = {"wait p50 ms": "less", "longest wait ms": "less"}
RESULTS = ("longest wait ms",)
FILES = 200
INODE = re.compile(r"dev \S+ ino 0x(\w+) ")
QUEUED, TAKEN = "xfs_inode_set_need_inactive", "xfs_inode_inactivating"


def cases(quick):
    for gap_ms in (4,) if quick else (1, 2, 4, 8, 20):
        yield {"label": f"an unlink each {gap_ms} ms", "fs": "xfs", "size_mib": 512,
               "gap_ms": gap_ms}


def waits(lines):
    """The microseconds that inodes have waited."""
    since, found = {}, []
    for _, _, now, event, words in tracing.parse(lines):
        match = INODE.match(words)
        if match and event == QUEUED:
            since[match.group(1)] = now
        elif match and event == TAKEN and match.group(1) in since:
            found.append(now - since.pop(match.group(1)))
    return sorted(found)


def measure(context, case):
    files = FILES // 10 if context.quick else FILES
    directory = context.fs.new_dir()
    for number in range(files):
        os.close(os.open(f"{directory}/{number}", os.O_CREAT | os.O_WRONLY, 0o600))
    context.fs.settle()
    cpus = os.sched_getaffinity(0)
    trace = tracing.Trace({f"xfs/{QUEUED}": "", f"xfs/{TAKEN}": ""})
    os.sched_setaffinity(0, {max(cpus)})
    try:
        with trace:
            due = time.monotonic()
            for number in range(files):
                os.unlink(f"{directory}/{number}")
                due += case["gap_ms"] / 1e3
                time.sleep(max(0, due - time.monotonic()))
            # Much longer than the few jiffies after the last one.
            time.sleep(1)
    finally:
        os.sched_setaffinity(0, cpus)
    found = waits(trace.lines)
    if len(found) != files:
        raise benchlib.BenchError(f"of {files} inodes {len(found)} were inactivated")
    return {"wait p50 ms": found[len(found) // 2] / 1e3, "longest wait ms": found[-1] / 1e3}, \
        {"waits": len(found)}
