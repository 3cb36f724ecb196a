# SPDX-License-Identifier: GPL-2.0
"""How long a push of the CIL holds commits out, by the number of log items in the checkpoint.

One process per CPU changes the mode of files of its own, so each CPU has its share of the items,
and then one process has the checkpoint written. The kernel adds up the time from closing the CIL
to opening it, see the line "cil" of /sys/fs/xfs/*/stats/stats, and what of it was spent waiting
for commits in progress. The checksum of the log is a part of "sync ms".
"""

import os
import time

import benchlib

METRICS = {"closed us": "less", "drain us": "less", "sync ms": "less"}
RESULTS = ("closed us", "sync ms")
REPEATS = 3
# Of this size on the CIL may have 32 MiB, and 100,000 inodes have less.
LOG_MIB = 272


def cases(quick):
    for items in (10, 1000) if quick else (10, 1000, 10000, 100000):
        yield {"label": f"{items} items", "fs": "xfs", "size_mib": 2048, "log_mib": LOG_MIB,
               "items": items}


def on_all_cpus(function, directory, share):
    """Run function(directory, numbers of a CPU's files) once on each CPU."""
    children = []
    for number, cpu in enumerate(sorted(os.sched_getaffinity(0))):
        child = os.fork()
        if not child:
            status = 1
            try:
                os.sched_setaffinity(0, {cpu})
                function(os.path.join(directory, str(number)), range(share))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1]:
            raise benchlib.BenchError("a process that changes files failed")


def create(directory, numbers):
    os.mkdir(directory)
    for number in numbers:
        os.close(os.open(f"{directory}/{number}", os.O_CREAT | os.O_WRONLY, 0o600))


def change(mode):
    def function(directory, numbers):
        for number in numbers:
            os.chmod(f"{directory}/{number}", mode)
    return function


def measure(context, case):
    directory = context.fs.new_dir()
    cpus = len(os.sched_getaffinity(0))
    on_all_cpus(create, directory, case["items"] // cpus)
    handle = os.open(directory, os.O_RDONLY)
    # A spoilt sample leaves nothing open: the filesystem is unmounted in the end.
    try:
        return push(context, case, directory, handle, cpus)
    finally:
        os.close(handle)


def push(context, case, directory, handle, cpus):
    """Push case["items"] changed inodes several times."""
    values = {name: [] for name in METRICS}
    raw = []
    for repeat in range(2 if context.quick else REPEATS):
        context.fs.settle()
        before = context.snapshot()
        if "cil_items" not in before:
            raise benchlib.BenchError(
                "the kernel does not count checkpoints: it lacks series xfs-observe")
        on_all_cpus(change(0o640 + repeat), directory, case["items"] // cpus)
        begin = time.monotonic_ns()
        # fsync() of a directory forces the log, and writes nothing back.
        os.chmod(directory, 0o700 + repeat)
        os.fsync(handle)
        took = time.monotonic_ns() - begin
        counted = context.delta(before)
        raw.append(counted)
        if counted["cil_checkpoints"] != 1:
            raise benchlib.Spoilt(f"{counted['cil_checkpoints']} checkpoints in place of one")
        if counted["cil_items"] < case["items"]:
            raise benchlib.BenchError(f"{counted['cil_items']} items in the checkpoint")
        values["closed us"].append(counted["cil_closed_ns"] / 1e3)
        values["drain us"].append(counted["cil_drain_ns"] / 1e3)
        values["sync ms"].append(took / 1e6)
    return values, {"counted": raw}
