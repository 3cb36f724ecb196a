# SPDX-License-Identifier: GPL-2.0
"""A process that dirties much and syncs it, and what that does to others.

"Triggering non-integrity writeback from userspace" (Andres Freund, October 2015): a
database's checkpoint, while others read, and write and sync a journal of their own.
"""

import benchlib
from fio import fio, latency_curves, percentile_ms

METRICS = {
    "reader p99 ms": "less",
    "reader max ms": "less",
    "writer p50 ms": "less",
    "writer p99 ms": "less",
    "writer max ms": "less",
    "writer syncs/s": "more",
    "checkpointer MiB/s": "more",
    "bytes written/byte": "less",
    "commits/MiB": "less",
    "log forces/MiB": "less",
    "log writes/MiB": "less",
}
RESULTS = ("writer p99 ms", "checkpointer MiB/s")
SECONDS = 5
WAYS = {
    "no checkpointer": None,
    "fsync of 64 MiB": {"ioengine": "psync", "fsync": 16384},
    "fsync of 1 MiB": {"ioengine": "psync", "fsync": 256},
    "sync_file_range of 1 MiB": {"ioengine": "psync", "sync_file_range": "write:256",
                                 "fsync": 16384},
    "aio fsync of 1 MiB": {"ioengine": "libaio", "fsync": 256, "iodepth": 16},
}


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for way in WAYS:
            yield {"label": f"{fs}, {way}", "fs": fs, "device": "ssd", "size_mib": 1536,
                   "way": way}


def measure(context, case):
    directory = context.fs.new_dir()
    seconds = 1 if context.quick else SECONDS
    size = "32m" if context.quick else "256m"
    files = {"reader": {"rw": "randread", "bs": "8k", "filesize": "32m", "direct": 1,
                        "ioengine": "psync", "rate_iops": 200},
             "writer": {"rw": "write", "bs": "8k", "filesize": "32m", "fdatasync": 1,
                        "ioengine": "psync", "rate_iops": 100},
             "checkpointer": {"rw": "randwrite", "bs": "4k", "filesize": size}}
    way = WAYS[case["way"]]
    fio(context, directory, {"end_fsync": 1, "fallocate": "none"},
        {name: {**job, "rw": "write", "bs": "1m", "rate_iops": 0, "fdatasync": 0, "direct": 0}
         for name, job in files.items()})
    if way is None:
        del files["checkpointer"]
    else:
        files["checkpointer"] = {**files["checkpointer"], **way}
    context.begin()
    said = fio(context, directory, {"time_based": 1, "runtime": seconds}, files)
    counted = context.end()
    reader, writer = said["reader"], said["writer"]
    syncs = writer["sync"]["lat_ns"]["N"]
    if not syncs or not reader["read"]["total_ios"]:
        raise benchlib.BenchError("the bystanders did nothing")
    written = sum(job["write"]["io_bytes"] for job in said.values()) / (1 << 20)
    sync, read = writer["sync"]["lat_ns"], reader["read"]["clat_ns"]
    values = {"reader p99 ms": percentile_ms(read, 99), "reader max ms": read["max"] / 1e6,
              "writer p50 ms": percentile_ms(sync, 50),
              "writer p99 ms": percentile_ms(sync, 99), "writer max ms": sync["max"] / 1e6,
              "writer syncs/s": syncs * 1000 / writer["write"]["runtime"],
              "bytes written/byte": counted["disk_sectors"] / 2048 / written}
    if case["fs"] == "ext4":
        values["commits/MiB"] = counted["transactions"] / written
    else:
        values["log forces/MiB"] = counted["log_force"] / written
        values["log writes/MiB"] = counted["log_writes"] / written
    if way is not None:
        values["checkpointer MiB/s"] = said["checkpointer"]["write"]["bw_bytes"] / (1 << 20)
    return values, {"counted": counted, "sync_ns": sync, "read_ns": read}


def curves(boots):
    """Latency of the syncs: {case: {side: [curve of a round]}}."""
    return latency_curves(boots, "sync_ns")
