# SPDX-License-Identifier: GPL-2.0
"""How often the journal's locks are taken and waited for, in kernels with CONFIG_LOCK_STAT.

What "ext4 dbench performance with CONFIG_PREEMPT_RT" (John Stultz, April 2010) was diagnosed
with. The counts are per operation of the load; times mean little in a kernel that checks
every lock. Removing files is there for the locks of the block groups.
"""

import re

import benchlib
import dbench
import fsload
import guestlib

KERNELS = "-lockstat"
LOCKS = {
    "ext4": ("&journal->j_state_lock", "&journal->j_list_lock", "&ret->b_state_lock",
             "&journal->j_revoke_lock", "jbd2_handle", "&bgl->locks[i].lock"),
    # The last is taken by each change of an inode, the others may have nothing to do.
    "xfs": ("&log->l_icloglock", "&cil->xc_push_lock", "&cil->xc_ctx_lock", "&ailp->ail_lock",
            "&iip->ili_lock"),
}
VALUES = {"acquisitions": 7, "contentions": 1}
METRICS = {f"{lock}: {value}": "less" for locks in LOCKS.values() for lock in locks
           for value in VALUES}
RESULTS = ("&journal->j_state_lock: acquisitions", "&journal->j_list_lock: acquisitions")
CLIENTS = (2, 16)
LOADS = ("dbench", "dirs", "fsync")
STAT = "/proc/lock_stat"
MS = 3000
TREE = {"files": 20000, "dirs": 50, "size": 1}


def cases(quick):
    del quick
    for fs in ("ext4", "xfs"):
        for op in LOADS:
            for clients in CLIENTS:
                yield {"label": f"{op} {fs}, {clients} clients", "fs": fs, "size_mib": 1024,
                       "op": op, "clients": clients}
    yield {"label": f"rm -r of {TREE['files']} files ext4", "fs": "ext4", "size_mib": 1024,
           "op": "rmtree", "clients": 1}


def parse(text):
    """{lock: [numbers]} of /proc/lock_stat; those of readers and writers are added."""
    found = {}
    for name, numbers in re.findall(r"^\s*(\S.*?):((?:\s+[0-9.]+){12})\s*$", text, re.MULTILINE):
        name = re.sub(r"-[RW]$", "", name)
        values = [float(word) for word in numbers.split()]
        found[name] = [a + b for a, b in zip(values, found.get(name, [0] * 12))]
    return found


class LockStat:
    """The kernel's statistics of locks while this is entered."""

    def __init__(self):
        self.text = ""

    def __enter__(self):
        guestlib.write(STAT, 0)

    def __exit__(self, *_):
        self.text = guestlib.read(STAT)


def measure(context, case):
    stat = LockStat()
    if case["op"] == "dbench":
        said, counted, ops = dbench.run(context, case["clients"], MS // 1000, stat)
    elif case["op"] == "rmtree":
        said, counted, ops = fsload.run(context, "rmtree", 1, watch=stat, **TREE)
    else:
        said, counted, ops = fsload.run(context, case["op"], case["clients"], MS, stat)
    locks = parse(stat.text)
    # A lock that was not taken is not listed.
    if not locks.keys() & set(LOCKS[case["fs"]]):
        raise benchlib.BenchError(f"{STAT} has none of the locks")
    return {f"{lock}: {value}": locks.get(lock, [0] * 12)[column] / ops
            for lock in LOCKS[case["fs"]]
            for value, column in VALUES.items()}, \
        {"said": said, "counted": counted, "locks": locks}
