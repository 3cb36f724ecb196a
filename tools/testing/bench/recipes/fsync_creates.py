# SPDX-License-Identifier: GPL-2.0
"""On XFS one writer that syncs 8 KiB, 200 times a second, beside processes that create files.

What each fsync waits for is the log, which the creations fill: a checkpoint that it asks for has
theirs, too, and a push holds them out.
"""

import threading

import benchlib
import fsload
from fio import fio, latency_curves, percentile_ms

METRICS = {"fsync p50 ms": "less", "fsync p99 ms": "less", "fsync max ms": "less",
           "creates/s": "more", "log writes/fsync": "less"}
RESULTS = ("fsync p99 ms", "creates/s")
MS = 4000
WRITER = {"rw": "write", "bs": "8k", "filesize": "32m", "fsync": 1,
          "ioengine": "psync", "rate_iops": 200}


def cases(quick):
    del quick
    for workers in (1, 2, 8):
        yield {"label": benchlib.count(workers, "process", "es"), "fs": "xfs",
               "device": "ssd", "size_mib": 2048, "workers": workers}


class Writer:
    """fio, from entry to exit of the context."""

    def __init__(self, context, seconds):
        self.context, self.seconds = context, seconds
        self.directory = context.fs.new_dir()
        self.said = self.error = None
        fio(context, self.directory, {"end_fsync": 1},
            {"writer": {**WRITER, "bs": "1m", "fsync": 0, "rate_iops": 0}})
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            self.said = fio(self.context, self.directory,
                            {"time_based": 1, "runtime": self.seconds}, {"writer": WRITER})
        except (benchlib.BenchError, SystemExit) as error:
            self.error = error

    def __enter__(self):
        self.thread.start()

    def __exit__(self, kind, value, trace):
        self.thread.join()
        if self.error:
            raise self.error


def measure(context, case):
    ms = MS // 10 if context.quick else MS
    writer = Writer(context, max(1, ms // 1000))
    said, counted, _ = fsload.run(context, "create", case["workers"], MS, watch=writer)
    sync = writer.said["writer"]["sync"]["lat_ns"]
    if not sync["N"]:
        raise benchlib.BenchError("the writer synced nothing")
    return {"fsync p50 ms": percentile_ms(sync, 50), "fsync p99 ms": percentile_ms(sync, 99),
            "fsync max ms": sync["max"] / 1e6, "creates/s": fsload.rate(said),
            "log writes/fsync": counted["log_writes"] / sync["N"]}, \
        {"said": said, "counted": counted, "sync_ns": sync}


def curves(boots):
    """Latency of the syncs: {case: {side: [curve of a round]}}."""
    return latency_curves(boots, "sync_ns")
