# SPDX-License-Identifier: GPL-2.0
"""Clients that create, write, sync, read, copy and delete small files, like reaim's "disk".

"Performance regression with async inode inactivation" (Jan Kara, linux-xfs, October 2021).
tools/testing/workloads/fsload.c says what a job is.
"""

import benchlib
import fsload

METRICS = {"jobs/min": "more", "sectors written/job": "less", "context switches/job": "less",
           "logged blocks/job": "less"}
CLIENTS = (1, 2, 8, 16, 48)
MS = 1500
AXIS, AXIS_LABEL = "clients", "clients"
PLOTS = ("jobs/min", "sectors written/job")


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for clients in CLIENTS:
            yield {"label": f"{fs}, {benchlib.count(clients, 'client')}", "fs": fs,
                   "device": "ssd", "size_mib": 1024, "clients": clients}


def measure(context, case):
    said, counted, jobs = fsload.run(context, "mix", case["clients"], MS)
    return {"jobs/min": fsload.rate(said) * 60,
            "sectors written/job": counted["disk_sectors"] / jobs,
            "context switches/job": counted["ctxt"] / jobs,
            "logged blocks/job": counted["logged"] / jobs}, {"said": said, "counted": counted}
