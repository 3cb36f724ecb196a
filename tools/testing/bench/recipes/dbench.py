# SPDX-License-Identifier: GPL-2.0
"""dbench, and creation, rename and removal in many directories as ffsb does it.

"ext4 dbench performance with CONFIG_PREEMPT_RT" (John Stultz, April 2010), where j_state_lock
limited what many clients could do.
"""

import benchlib
import dbench
import fsload

METRICS = {"MB/s": "more", "operations/s": "more", "handles/transaction": "more",
           "context switches/operation": "less"}
CLIENTS = (1, 2, 8, 64)
SECONDS = 6
LONG = 10             # where a client needs seconds to go through its load once
MS = 800
AXIS, AXIS_LABEL = "clients", "clients"
PLOTS = ("MB/s", "operations/s")


def cases(quick):
    for fs in ("ext4", "xfs"):
        # Many clients take longer to begin than a quick run lasts.
        for clients in CLIENTS[:2] if quick else CLIENTS:
            who = benchlib.count(clients, "client")
            setup = {"fs": fs, "size_mib": 2048, "clients": clients}
            yield {"label": f"dbench {fs}, {who}", "dbench": True, **setup}
            yield {"label": f"directories {fs}, {who}", "dbench": False,
                   **setup}


def measure(context, case):
    if not case["dbench"]:
        said, counted, ops = fsload.run(context, "dirs", case["clients"], MS)
        return {"operations/s": fsload.rate(said),
                "context switches/operation": counted["ctxt"] / ops}, \
            {"said": said, "counted": counted}
    seconds = 2 if context.quick else LONG if case["clients"] > 8 else SECONDS
    said, counted, ops = dbench.run(context, case["clients"], seconds)
    values = {"MB/s": said["MB/s"],
              "context switches/operation": counted["ctxt"] / ops}
    if case["fs"] == "ext4":
        values["handles/transaction"] = counted["handles"] / max(1, counted["transactions"])
    return values, {"said": said, "counted": counted}
