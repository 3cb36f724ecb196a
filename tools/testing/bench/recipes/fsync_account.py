# SPDX-License-Identifier: GPL-2.0
"""Where the time of a slow device goes while tasks write 16 KiB and call fsync.

From the tracepoints of the block layer, so in kernels with CONFIG_LOCK_STAT; cases of fsync-16k
on a device that takes 2 ms for a request and has one at a time. Of each request "others" are all
but data, the log and flushes: metadata in place. While the device is idle, tasks wait: "idle, then
log" is how long it stood before a request to the log, which a commit could have had earlier, and so
on. Beside a checkpointer, which writes 256 MiB at random and syncs it every 64 MiB, on a device of
80 us a request, 64 at a time, a task appends 16 KiB to files and syncs: how long it waits for its
data, then until the log is being written, and how long for the log.
"""

import bisect
import concurrent.futures
import re
import struct
from collections import Counter
from statistics import mean

import benchlib
import fsload
import guestlib
import tracing
from fio import fio

KERNELS = "-lockstat"
KINDS = ("data", "log", "flush", "others")
METRICS = {"data %": "more", **{f"{kind} %": "less" for kind in KINDS[1:]}, "idle %": "less",
           "idle, then data %": "less", "idle, then log %": "less",
           "data requests/sync": "less", "log requests/sync": "less", "syncs/s": "more",
           "KiB/data request": "more", "data ms": "less", "until log ms": "less", "log ms": "less"}
RESULTS = ("data %", "log %", "idle %", "idle, then log %", "data ms", "until log ms", "log ms")
MS = 1500
CHECKPOINT_S = 3
EARLIER_S = 3       # that the checkpointer has before it may end
EVENTS = {f"block/{name}": "" for name in ("block_bio_queue", "block_rq_issue",
                                           "block_rq_complete")}
# "251,0 WS 16384 () 2048 + 32 none,0,0 [task]" and the like.
REQUEST = re.compile(r"(\d+,\d+) (\w+) (?:\d+ )?(?:\(\w*\) )?(\d+) \+ (\d+) (?:.*\[(.*)\])?")
JBD2 = "jbd2/"
CASES = (("overwrites", False, 1), ("overwrites", False, 64), ("overwrites", True, 8),
         ("holes", False, 64), ("holes", True, 8), ("fallocated", False, 64),
         ("fallocated", True, 8), ("append", False, 8), ("append", True, 8))


def cases(quick):
    del quick
    known = {(case["fs"], case["kind"], case["private"], case["mib"], case["jobs"]): case
             for case in benchlib.load_recipe("fsync-16k").kind_cases()}
    for fs in ("ext4", "xfs"):
        for jobs in (4, 16):
            for which in CASES:
                yield known[(fs, *which, jobs)]
        yield {"label": f"{fs} on ssd, beside a checkpointer", "fs": fs, "device": "ssd",
               "size_mib": 1536}


def xfs_log(path):
    """Where the log of XFS is on a disk, in 512 bytes."""
    with open(path, "rb") as disk:
        block = disk.read(512)
    block_bytes, = struct.unpack(">I", block[4:8])
    start, = struct.unpack(">Q", block[48:56])
    agblocks, = struct.unpack(">I", block[84:88])
    blocks, = struct.unpack(">I", block[96:100])
    if block[:4] != b"XFSB" or not start:
        raise benchlib.BenchError(f"{path} has no XFS with a log of its own")
    number, offset = start >> block[124], start & ((1 << block[124]) - 1)
    first = (number * agblocks + offset) * block_bytes // 512
    return range(first, first + blocks * block_bytes // 512)


class Account:
    """What one disk does, from the events of a trace."""

    def __init__(self, lines, disk, log=()):
        """log: the sectors where it is; on ext4 it is what jbd2 writes as metadata."""
        self.requests = []      # (completed, issued, kind, sectors)
        self.queued = []        # (when, name of the task, kind, sector)
        begun, of_jbd2 = {}, set()
        for _, _, now, event, words in tracing.parse(lines):
            match = REQUEST.match(words)
            if not match or match.group(1) != disk:
                continue
            flags, sector, sectors = match.group(2), int(match.group(3)), int(match.group(4))
            if event == "block_bio_queue" and match.group(5).startswith(JBD2) and "M" in flags:
                of_jbd2.add(sector)
            in_log = sector in of_jbd2 or sector in log
            kind = "flush" if not sectors else "log" if in_log else \
                "others" if "M" in flags else "data"
            if event == "block_bio_queue":
                self.queued.append((now, match.group(5), kind, sector))
            elif event == "block_rq_issue":
                begun[sector] = now
            elif sector in begun:
                self.requests.append((now, begun.pop(sector), kind,
                                      range(sector, sector + sectors)))

    def shares(self):
        """Microseconds by kind of the oldest request, and idle, by the kind that comes next."""
        found, now = Counter(), None
        for completed, issued, kind, _ in sorted(self.requests, key=lambda request: request[1]):
            now = issued if now is None else now
            if issued > now:
                found["idle"] += issued - now
                found[f"idle, then {kind}"] += issued - now
            found[kind] += max(0, completed - max(issued, now))
            now = max(completed, now)
        return found

    def count(self, kind):
        """Requests of a kind, and their KiB."""
        sizes = [len(sectors) for _, _, what, sectors in self.requests if what == kind]
        return len(sizes), sum(sizes) // 2

    def phases(self, comm):
        """Microseconds of each sync of a task: until its data is written, from then until the
        last request to the log is issued that ends before its next one begins, and its time."""
        own = [(when, sector) for when, name, kind, sector in self.queued
               if name == comm and kind == "data"]
        for (begin, sector), (end, _) in zip(own, own[1:]):
            within = self.requests[bisect.bisect(self.requests, (begin,)):
                                   bisect.bisect(self.requests, (end,))]
            written = [request[0] for request in within if sector in request[3]]
            logged = [request for request in within if written and request[2] == "log" and
                      request[0] > written[0]]
            if logged:
                completed, issued = logged[-1][:2]
                yield (written[0] - begin, max(0, issued - written[0]),
                       completed - max(issued, written[0]))


def _disk(context):
    """As tracepoints name it."""
    return guestlib.read(f"/sys/block/{context.fs.name()}/dev").strip().replace(":", ",")


def _beside_checkpointer(context, trace):
    directory = context.fs.new_dir()
    size = "32m" if context.quick else "256m"
    common = {"ioengine": "psync", "fallocate": "none", "filesize": size}
    fio(context, directory, {**common, "rw": "write", "bs": "1m", "end_fsync": 1},
        {"checkpointer": {}})
    # Longer than the task beside it, which begins later.
    seconds = EARLIER_S + (1 if context.quick else CHECKPOINT_S)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        other = pool.submit(fio, context, directory, {
            **common, "rw": "randwrite", "bs": "4k", "fsync": 16384, "time_based": 1,
            "runtime": seconds}, {"checkpointer": {}})
        result = fsload.run(context, "writes", 1, ms=1000 * CHECKPOINT_S, watch=trace, size=16384,
                            area=8 << 20, append=True, files=100)
        ended = other.done()
        other.result()      # It may have failed.
    if ended:
        raise benchlib.Spoilt("the checkpointer ended before the task beside it")
    return result


def measure(context, case):
    trace = tracing.Trace(EVENTS)
    if "kind" in case:
        said, counted, syncs = benchlib.load_recipe("fsync-16k").run_kind(
            context, case, MS, watch=trace)
    else:
        said, counted, syncs = _beside_checkpointer(context, trace)
    account = Account(trace.lines, _disk(context),
                      xfs_log(context.fs.device.path) if case["fs"] == "xfs" else ())
    shares = account.shares()
    total = sum(shares[kind] for kind in (*KINDS, "idle"))
    if not total or not shares["data"] or not shares["log"]:
        raise benchlib.BenchError(f"the trace has {dict(shares)}")
    data, kib = account.count("data")
    values = {f"{kind} %": 100 * shares[kind] / total for kind in (*KINDS, "idle")}
    values.update({f"idle, then {kind} %": 100 * shares[f"idle, then {kind}"] / total
                   for kind in ("data", "log")})
    values["syncs/s"] = fsload.rate(said)
    if "kind" in case:
        values.update({"data requests/sync": data / syncs, "KiB/data request": kib / data,
                       "log requests/sync": account.count("log")[0] / syncs})
    else:
        phases = list(account.phases("fsload"))
        if len(phases) < syncs // 2:
            raise benchlib.BenchError(f"{len(phases)} of {syncs} syncs are in the trace")
        values.update(zip(("data ms", "until log ms", "log ms"),
                          (mean(phase) / 1000 for phase in zip(*phases))))
    return values, {"counted": counted, "shares": dict(shares)}
