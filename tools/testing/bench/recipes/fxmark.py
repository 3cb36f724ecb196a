# SPDX-License-Identifier: GPL-2.0
"""Metadata and fsync operations of FxMark, private and shared.

Min et al., "Understanding Manycore Scalability of File Systems", USENIX ATC 2016; MWCM with
4 KiB in each file is the load of "xfs: account extra freespace btree splits for multiple
allocations" (kernel test robot and Dave Chinner, November 2022).
"""

import benchlib
import fsload

METRICS = {"works/s": "more", "context switches/work": "less", "logged blocks/work": "less"}
WORKERS = (1, 2, 8)
MS = 500
# Name: operation of fsload and its options.
OPS = {
    "MWCL": ("create", {}),
    "MWCM": ("create", {"shared": True}),
    "MWCM 4 KiB": ("create", {"shared": True, "size": 4096}),
    "MWCM 4 KiB direct": ("create", {"shared": True, "size": 4096, "direct": True}),
    "MWUL": ("unlink", {"files": 3000}),
    "MWUM": ("unlink", {"files": 3000, "shared": True}),
    "MWRL": ("rename", {}),
    "MWRM": ("rename", {"shared": True}),
    "DWSL": ("fsync", {}),
    "DWAL": ("append", {}),
}
AXIS, AXIS_LABEL = "workers", "workers"
PLOTS = ("works/s",)


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for op in OPS:
            for workers in WORKERS:
                yield {"label": f"{op} {fs}, {benchlib.count(workers, 'worker')}", "fs": fs,
                       "size_mib": 1536, "op": op, "workers": workers}


def measure(context, case):
    op, options = OPS[case["op"]]
    options = dict(options)
    ms = MS
    if op == "unlink":
        ms = None
        options["files"] //= case["workers"] * (10 if context.quick else 1)
    said, counted, works = fsload.run(context, op, case["workers"], ms, **options)
    return {"works/s": fsload.rate(said), "context switches/work": counted["ctxt"] / works,
            "logged blocks/work": counted["logged"] / works}, \
        {"said": said, "counted": counted}
