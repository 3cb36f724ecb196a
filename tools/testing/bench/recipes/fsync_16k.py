# SPDX-License-Identifier: GPL-2.0
"""Threads that overwrite 16 KiB at random, buffered, and fsync, on slow volumes.

"EXT4 IOPS degradation in 5.10 compared to 5.4" (Rishabh Bhatnagar, January 2023): all
threads on one file, on a volume of 500 writes a second. Here also each on a file of its
own, with fdatasync, and on other devices.
"""

import benchlib
from fio import fio, latency_curves, percentile_ms

METRICS = {
    "syncs/s": "more",
    "p50 ms": "less",
    "p99 ms": "less",
    "handles/commit": "more",
    "commits/sync": "less",
    "log writes/sync": "less",
    "writes/sync": "less",
    "flushes/sync": "less",
}
JOBS = (1, 4, 16, 64)
SECONDS = 2
FILE_KIB = 1000
AXIS, AXIS_LABEL = "jobs", "jobs"
PLOTS = ("syncs/s", "handles/commit")


def _case(fs, device, jobs, private=False, sync="fsync"):
    files = "private files" if private else "one file"
    return {"label": f"{fs} on {device}, {sync}, {files}, {benchlib.count(jobs, 'job')}",
            "fs": fs, "device": device, "size_mib": 512, "jobs": jobs, "private": private,
            "sync": sync}


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for private in (False, True):
            for jobs in JOBS:
                yield _case(fs, "volume", jobs, private)
        for jobs in (1, 16):
            yield _case(fs, "volume", jobs, True, "fdatasync")
        for private in (False, True):
            for jobs in JOBS:
                yield _case(fs, "iops500", jobs, private)
        for jobs in (1, 2):
            yield _case(fs, "ram", jobs, True)
        for device in ("ssd", "ssd-cache", "delay"):
            for jobs in (1, 16):
                yield _case(fs, device, jobs, True)
        yield _case(fs, "ssd", 16)


def measure(context, case):
    directory = context.fs.new_dir()
    common = {"bs": "16k", "ioengine": "psync", "rw": "randwrite", "filesize": f"{FILE_KIB}k",
              "fallocate": "none", "group_reporting": 1}
    job = {"numjobs": case["jobs"]}
    if not case["private"]:
        job["filename"] = "shared"
    # The files are written before: what is measured overwrites.
    fio(context, directory, {**common, "rw": "write", "bs": f"{FILE_KIB}k", "end_fsync": 1},
        {"run": job})
    context.begin()
    said = fio(context, directory,
               {**common, case["sync"]: 1, "time_based": 1, "runtime": 1 if context.quick
                else SECONDS}, {"run": job})["run"]
    counted = context.end()
    syncs = said["sync"]["lat_ns"]["N"]
    if not syncs or abs(syncs - said["write"]["total_ios"]) > case["jobs"]:
        raise benchlib.BenchError(f"{said['write']['total_ios']} writes, {syncs} syncs")
    # A ramdisk does not count.
    counts = case["device"] != "ram"
    if counts and counted["disk_writes"] * 64 < syncs:
        raise benchlib.BenchError(f"{counted['disk_writes']} writes to disk, {syncs} syncs")
    latency = said["sync"]["lat_ns"]
    values = {"syncs/s": syncs * 1000 / said["write"]["runtime"],
              "p50 ms": percentile_ms(latency, 50), "p99 ms": percentile_ms(latency, 99)}
    if counts:
        values["writes/sync"] = counted["disk_writes"] / syncs
        values["flushes/sync"] = counted["disk_flushes"] / syncs
    if case["fs"] == "ext4":
        if counted["transactions"]:
            values["handles/commit"] = counted["handles"] / counted["transactions"]
        values["commits/sync"] = counted["transactions"] / syncs
    else:
        values["log writes/sync"] = counted["log_writes"] / syncs
    return values, {"counted": counted, "latency_ns": latency}


def curves(boots):
    """Latency of the syncs: {case: {side: [curve of a round]}}."""
    return latency_curves(boots, "latency_ns", lambda case: case.startswith(
        ("ext4 on volume", "xfs on volume")) and "16 jobs" in case)
