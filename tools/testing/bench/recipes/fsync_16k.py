# SPDX-License-Identifier: GPL-2.0
"""Tasks that write 16 KiB, buffered, and fsync, on slow volumes.

"EXT4 IOPS degradation in 5.10 compared to 5.4" (Rishabh Bhatnagar, January 2023): threads that
overwrite one file at random, on a volume of 500 writes a second. Here also each on a file of its
own, with fdatasync, and on other devices; and tasks that write into holes or fallocated space, or
append, on a device that takes 2 ms for a request and has one at a time. The ceiling of these is
what such a device could do if each write took one request, and each commit took all tasks with it,
in one request more on XFS, and two on ext4.
"""

import benchlib
import fsload
from fio import fio, latency_curves, percentile_ms

METRICS = {
    "syncs/s": "more",
    "of ceiling": "more",
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
RESULTS = ("syncs/s", "of ceiling", "p99 ms")
# Of writes, on iops500: how fsload is told.
KINDS = {"overwrites": {}, "holes": {"holes": True}, "fallocated": {"fallocated": True},
         "append": {"append": True}}
SIZES_MIB = (1, 8, 64)
IOPS = 500
WRITES_MS = 1500


def _case(fs, device, jobs, private=False, sync="fsync"):
    files = "private files" if private else "one file"
    return {"label": f"{fs} on {device}, {sync}, {files}, {benchlib.count(jobs, 'job')}",
            "fs": fs, "device": device, "size_mib": 512, "jobs": jobs, "private": private,
            "sync": sync}


def _kind_case(fs, kind, jobs, private, mib):
    """On files of so many MiB. Appended ones all begin empty, and size is where they end."""
    files = "private files" if private else "one file"
    size = "" if kind == "append" else f" of {mib} MiB"
    return {"label": f"{fs} on iops500, {kind}, {files}{size}, {benchlib.count(jobs, 'job')}",
            "fs": fs, "device": "iops500", "size_mib": 2048, "jobs": jobs, "private": private,
            "kind": kind, "mib": mib}


def kind_cases():
    for fs in ("ext4", "xfs"):
        for kind in KINDS:
            sizes = SIZES_MIB if kind != "append" else (8,)
            yield _kind_case(fs, kind, 1, True, 8)
            for private in (False, True):
                for mib in sizes:
                    for jobs in (4, 16):
                        yield _kind_case(fs, kind, jobs, private, mib)
            yield _kind_case(fs, kind, 64, True, 8)


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for private in (False, True):
            for jobs in JOBS:
                yield _case(fs, "volume", jobs, private)
        for jobs in (1, 16):
            yield _case(fs, "volume", jobs, True, "fdatasync")
        for jobs in (1, 2):
            yield _case(fs, "ram", jobs, True)
        for device in ("ssd", "ssd-cache", "delay"):
            for jobs in (1, 16):
                yield _case(fs, device, jobs, True)
        yield _case(fs, "ssd", 16)
    yield from kind_cases()


def files_needed(case, ms):
    """So many files that they would not be full at eight times the device's rate.

    It has one request for what several tasks have appended to a file.
    """
    if case["kind"] == "overwrites":
        return 1
    writes = 8 * IOPS * ms // 1000 // (case["jobs"] if case["private"] else 1)
    return writes * 16 // (case["mib"] << 10) + 1


def ceiling(case):
    """Syncs/s if a commit, of 1 request on XFS or 2 on ext4, took all tasks with it."""
    return IOPS * case["jobs"] / (case["jobs"] + (1 if case["fs"] == "xfs" else 2))


def run_kind(context, case, ms, **options):
    """What fsload.run() returns for a case of kind_cases()."""
    shared = {} if case["private"] else {"shared": True}
    return fsload.run(context, "writes", case["jobs"], ms=ms, size=16384,
                      area=case["mib"] << 20, files=files_needed(case, ms),
                      **KINDS[case["kind"]], **shared, **options)


def _measure_kind(context, case):
    said, counted, syncs = run_kind(context, case, WRITES_MS, latency=True)
    latency = said["latency_ns"]
    values = {"syncs/s": fsload.rate(said), "p50 ms": latency["p50"] / 1e6,
              "p99 ms": latency["p99"] / 1e6, **_counts(case, counted, syncs)}
    if case["device"] == "iops500":
        values["of ceiling"] = fsload.rate(said) / ceiling(case)
    return values, {"counted": counted, "latency_ns": latency}


def _counts(case, counted, syncs):
    """Requests of the disk and commits of a sync."""
    values = {}
    # A ramdisk does not count.
    if case["device"] != "ram":
        if counted["disk_writes"] * 64 < syncs:
            raise benchlib.BenchError(f"{counted['disk_writes']} writes to disk, {syncs} syncs")
        values["writes/sync"] = counted["disk_writes"] / syncs
        values["flushes/sync"] = counted["disk_flushes"] / syncs
    if case["fs"] == "ext4":
        if counted["transactions"]:
            values["handles/commit"] = counted["handles"] / counted["transactions"]
        values["commits/sync"] = counted["transactions"] / syncs
    else:
        values["log writes/sync"] = counted["log_writes"] / syncs
    return values


def measure(context, case):
    if "kind" in case:
        return _measure_kind(context, case)
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
    latency = said["sync"]["lat_ns"]
    values = {"syncs/s": syncs * 1000 / said["write"]["runtime"],
              "p50 ms": percentile_ms(latency, 50), "p99 ms": percentile_ms(latency, 99),
              **_counts(case, counted, syncs)}
    return values, {"counted": counted, "latency_ns": latency}


def curves(boots):
    """Latency of the syncs: {case: {side: [curve of a round]}}."""
    return latency_curves(boots, "latency_ns", lambda case: case.startswith(
        ("ext4 on volume", "xfs on volume")) and "16 jobs" in case)
