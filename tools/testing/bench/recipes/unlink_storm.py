# SPDX-License-Identifier: GPL-2.0
"""Processes that create, write 16 KiB, perhaps fsync, and unlink, each in its own directory.

The reproducer of "Performance regression with async inode inactivation" (Jan Kara,
linux-xfs, October 2021), and what was counted there.
"""

import benchlib

METRICS = {
    "loops/s": "more",
    "context switches/loop": "less",
    "logged blocks/loop": "less",
    "sectors written/loop": "less",
    "handles/transaction": "more",
    "blocks/transaction": "less",
    "log writes/loop": "less",
    "log force sleeps/loop": "less",
    "try_logspace/loop": "less",
    "inode cluster flushes/loop": "less",
    "finobt operations/loop": "less",
    "distinct blocks written/loop": "less",
}
CORE = True
PROCS = (1, 2, 8, 16, 48)
CORE_PROCS = 8
OPS = 4000          # loops of all processes together
FSYNC_OPS = 1600
FILE_BLOCKS = 4
AXIS, AXIS_LABEL = "procs", "processes"
RESULTS = ("loops/s", "context switches/loop")
PLOTS = ("loops/s", "logged blocks/loop", "context switches/loop")


def _case(fs, fsync, procs, note="", **setup):
    return {"label": f"{fs}{' fsync' * fsync}{note}, {benchlib.count(procs, 'process', 'es')}",
            "fs": fs, "fsync": fsync, "procs": procs, "core": procs == CORE_PROCS and not setup,
            **setup}


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for fsync in (False, True):
            for procs in PROCS:
                yield _case(fs, fsync, procs)
        for fsync in (False, True):
            yield _case(fs, fsync, 16, " small log", log_mib=16)
        for fsync in (False, True):
            yield _case(fs, fsync, 16, " on loop", device="loop")
    for fsync in (False, True):
        yield _case("xfs", fsync, 16, " 1 AG", groups=1)
    for fsync in (False, True):
        yield _case("xfs", fsync, 16, " 16 AGs", groups=16, size_mib=2048)


def measure(context, case):
    loops = (FSYNC_OPS if case["fsync"] else OPS) // case["procs"]
    if context.quick:
        loops = max(1, loops // 20)
    args = ["--procs", case["procs"], "--loops", loops, "--dir", context.fs.new_dir()]
    context.begin()
    blocks = context.fs.device.backing and context.fs.device.written_blocks()
    said = context.tool("stress-unlink", *args, *["--fsync"] * case["fsync"])
    counted = context.end()
    ops = case["procs"] * loops
    if said["ops"] != ops or said["ns"] <= 0:
        raise benchlib.BenchError(f"{said['ops']} of {ops} operations in {said['ns']} ns")
    if not counted["logged"]:
        raise benchlib.BenchError("nothing was logged")
    values = {"loops/s": ops * 1e9 / said["ns"],
              "context switches/loop": counted["ctxt"] / ops,
              "logged blocks/loop": counted["logged"] / ops}
    if context.fs.device.counts:
        if case["fsync"] and counted["disk_sectors"] < 8 * FILE_BLOCKS * ops:
            raise benchlib.BenchError("less was written than was synced")
        values["sectors written/loop"] = counted["disk_sectors"] / ops
    if blocks is not None:
        values["distinct blocks written/loop"] = \
            (context.fs.device.written_blocks() - blocks) / ops
    if case["fs"] == "ext4":
        values["handles/transaction"] = counted["handles"] / counted["transactions"]
        values["blocks/transaction"] = counted["blocks"] / counted["transactions"]
    else:
        for metric, counter in (("log writes/loop", "log_writes"),
                                ("log force sleeps/loop", "log_force_sleep"),
                                ("try_logspace/loop", "try_logspace"),
                                ("inode cluster flushes/loop", "icluster_flushes"),
                                ("finobt operations/loop", "finobt_ops")):
            values[metric] = counted[counter] / ops
    return values, {"said": said, "counted": counted}
