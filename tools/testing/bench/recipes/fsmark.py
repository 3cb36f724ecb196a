# SPDX-License-Identifier: GPL-2.0
"""fs_mark: files of 4 KiB that are synced after they were all written.

The load by which Dave Chinner showed what an asynchronous fsync gains ("Triggering
non-integrity writeback from userspace", October 2015, and the aio fsync that followed).
"""

import re

import benchlib

METRICS = {"files/s": "more", "logged blocks/file": "less", "writes/file": "less",
           "commits/file": "less", "log forces/file": "less", "log writes/file": "less"}
THREADS = (1, 4, 16)
FILES = 1600
AXIS, AXIS_LABEL = "threads", "threads"
PLOTS = ("files/s",)


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for threads in THREADS:
            yield {"label": f"{fs}, {benchlib.count(threads, 'thread')}", "fs": fs,
                   "device": "ssd", "size_mib": 1024, "threads": threads}


def measure(context, case):
    files = (FILES // 20 if context.quick else FILES) // case["threads"]
    directory = context.fs.new_dir()
    dirs = [f"{directory}/{n}" for n in range(case["threads"])]
    context.begin()
    # -S 5: write all the files, then open, fsync and close each
    said = context.run("fs_mark", "-S", 5, "-s", 4096, "-n", files, "-L", 1, "-k",
                       "-l", f"{directory}/log",
                       *[word for name in dirs for word in ("-d", name)])
    counted = context.end()
    # FSUse%, Count, Size, Files/sec
    found = re.search(r"^\s*\d+\s+(\d+)\s+4096\s+([0-9.]+)", said, re.MULTILINE)
    total = files * case["threads"]
    if not found or int(found.group(1)) != total:
        raise benchlib.BenchError(f"fs_mark said: {said[-300:]}")
    values = {"files/s": float(found.group(2)), "logged blocks/file": counted["logged"] / total,
              "writes/file": counted["disk_writes"] / total}
    if case["fs"] == "ext4":
        values["commits/file"] = counted["transactions"] / total
    else:
        values["log forces/file"] = counted["log_force"] / total
        values["log writes/file"] = counted["log_writes"] / total
    return values, {"counted": counted}
