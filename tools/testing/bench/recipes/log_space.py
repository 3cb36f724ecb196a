# SPDX-License-Identifier: GPL-2.0
"""Processes that create, write and unlink files on an XFS whose log is too small for them.

How often they ask for log space and have to wait for it.
"""

import benchlib

METRICS = {"loops/s": "more", "sleep_logspace/1000 loops": "less",
           "try_logspace/1000 loops": "less", "log writes/1000 loops": "less"}
RESULTS = ("loops/s", "sleep_logspace/1000 loops")
LOOPS = 16000


def cases(quick):
    del quick
    for log_mib, procs in ((64, 8), (16, 8), (16, 200)):
        yield {"label": f"log of {log_mib} MiB, {procs} processes", "fs": "xfs",
               "size_mib": 1024, "log_mib": log_mib, "procs": procs}


def measure(context, case):
    files = 10
    loops = (LOOPS // 20 if context.quick else LOOPS) // case["procs"] // files or 1
    context.begin()
    said = context.tool("stress-unlink", "--procs", case["procs"], "--loops", loops,
                        "--files", files, "--size", 1, "--dir", context.fs.new_dir())
    counted = context.end()
    done = said["ops"] / 1000
    if not done or not counted["try_logspace"]:
        raise benchlib.BenchError("nothing was reserved in the log")
    return {"loops/s": said["ops"] * 1e9 / said["ns"],
            **{f"{name.replace('log_writes', 'log writes')}/1000 loops": counted[name] / done
               for name in ("sleep_logspace", "try_logspace", "log_writes")}}, \
        {"said": said, "counted": counted}
