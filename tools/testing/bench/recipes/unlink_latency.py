# SPDX-License-Identifier: GPL-2.0
"""How long unlink takes, and until the space is back: large files, and rm -r of small ones.

Some rm -r wait until ext4 with inactivate=auto does not take the files for young any more, which
is two of its default commit intervals.

Of five unlinks of a large file there is no 99th percentile: the slowest stands for it.
"""

import benchlib
import fsload

METRICS = {"unlink p50 ms": "less", "unlink p99 ms": "less", "unlink max ms": "less",
           "total s": "less", "space back ms": "less", "CPU s": "less"}
RESULTS = ("unlink p50 ms", "total s", "space back ms")
AGE, COMMIT = 12, 5
GIB = 1 << 30


def cases(quick):
    files = 2000 if quick else 100000
    for fs in ("ext4", "xfs"):
        for extents in (1, 10000):
            yield {"label": f"{fs}, 1 GiB in {benchlib.count(extents, 'extent')}", "fs": fs,
                   "size_mib": 2048, "op": "bigunlink",
                   "options": {"size": GIB, "extents": extents, "count": 2 if quick else 5}}
        tree = {"fs": fs, "size_mib": 2048, "op": "rmtree"}
        options = {"files": files, "dirs": 100, "size": 1}
        yield {"label": f"{fs}, rm -r of {files} files", **tree, "options": options}
        if not quick:
            yield {"label": f"{fs}, rm -r of {files} files, {AGE} s old", **tree,
                   "commit_s": COMMIT, "options": {**options, "age": AGE}}


def measure(context, case):
    said, counted, _ = fsload.run(context, case["op"], 1, latency=True, **case["options"])
    latency = said["latency_ns"]
    # On XFS asking for the free space, every ms, also makes inactivation hurry.
    values = {"unlink p50 ms": latency["p50"] / 1e6, "unlink max ms": latency["max"] / 1e6,
              "space back ms": [ns / 1e6 for ns in said["space_back_ns"]]}
    if case["op"] == "rmtree":
        values["unlink p99 ms"] = latency["p99"] / 1e6
        values["total s"] = said["ns"][0] / 1e9
        values["CPU s"] = counted["cpu_ms"] / 1e3
    return values, {"said": said, "counted": counted}
