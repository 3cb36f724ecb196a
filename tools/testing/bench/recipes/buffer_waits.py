# SPDX-License-Identifier: GPL-2.0
"""How long tasks that create, write and unlink wait for the locks of XFS's buffers.

Headers of allocation groups and clusters of inodes apart. In kernels with CONFIG_LOCK_STAT, which
have the tracepoints: shares of the time and waits are to be compared with each other only; the
rates of unlink-storm and fxmark are real. "1 in 1000 us": in as many waits as a thousandth of the
loops a task waits longer. A percentile of the waits would say little: one kernel has a wait in
each loop, and another in one of twenty.
"""

import re
from collections import Counter

import benchlib
import fsload
import tracing

KERNELS = "-lockstat"
KINDS = ("AGI", "AGF", "inodes", "others")
METRICS = {"waiting %": "less", **{f"{kind} wait us/loop": "less" for kind in KINDS},
           "waits/loop": "less", "1 in 1000 us": "less", "loops/s": "more"}
RESULTS = ("waiting %", "1 in 1000 us")
OPS = 4000          # loops of all processes together
FILES = 3000        # that each worker unlinks
BUFFER = re.compile(r"dev \S+ daddr (?:0x)?(\w+) .* bufops (\w+)")
EVENTS = {"xfs/xfs_buf_lock": "lockval == 0", "xfs/xfs_buf_lock_done": ""}


def cases(quick):
    del quick
    for procs, groups in ((1, 4), (2, 4), (16, 1), (16, 4), (16, 16), (48, 4)):
        yield {"label": f"storm, {benchlib.count(procs, 'process', 'es')}, "
               f"{benchlib.count(groups, 'AG')}", "fs": "xfs", "groups": groups,
               "size_mib": 2048, "procs": procs}
    for workers in (1, 2, 8):
        yield {"label": f"MWUM, {benchlib.count(workers, 'worker')}", "fs": "xfs",
               "size_mib": 2048, "procs": workers, "op": "unlink"}


def add_up(lines, where, comm):
    """Counter of microseconds by kind, for tasks of one name, and a list of all single waits."""
    found, all_waits, waits = Counter(), [], tracing.Waits()
    for name, task, now, event, words in tracing.parse(lines):
        match = BUFFER.match(words)
        if not match:
            continue
        address, ops = int(match.group(1), 16), match.group(2)
        took = waits.took(task, now, event, address)
        if took is None:
            continue
        all_waits.append(took)
        if name == comm:
            found[where.get(address, "inodes" if ops == "xfs_inode_buf_ops" else "others")] += took
    return found, sorted(all_waits)


def one_in(number, waits, loops):
    """The sorted wait that is exceeded once in so many loops; 0 if there are not as many waits."""
    longer = loops // number
    return waits[-1 - longer] if longer < len(waits) else 0


def measure(context, case):
    where = tracing.headers(context.fs.device.path)
    trace = tracing.Trace(EVENTS)
    if "op" in case:
        comm = "fsload"
        said, counted, loops = fsload.run(context, case["op"], case["procs"], watch=trace,
                                          files=FILES, shared=True)
        ns = sum(said["ns"])
        rate = fsload.rate(said)
    else:
        comm, loops = "stress-unlink", OPS // case["procs"]
        if context.quick:
            loops = max(1, loops // 20)
        directory = context.fs.new_dir()
        context.begin()
        with trace:
            said = context.tool("stress-unlink", "--procs", case["procs"], "--loops", loops,
                                "--dir", directory)
        counted = context.end()
        loops, ns = said["ops"], said["ns"] * case["procs"]
        rate = loops * 1e9 / said["ns"]
    found, waits = add_up(trace.lines, where, comm)
    if ns <= 0 or not loops:
        raise benchlib.BenchError(f"{loops} loops in {ns} ns")
    values = {"waiting %": 100e3 * sum(found.values()) / ns, "waits/loop": len(waits) / loops,
              "1 in 1000 us": one_in(1000, waits, loops), "loops/s": rate}
    values.update({f"{kind} wait us/loop": found[kind] / loops for kind in KINDS})
    return values, {"said": said, "counted": counted, "waits": len(waits)}
