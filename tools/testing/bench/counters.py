# SPDX-License-Identifier: GPL-2.0
"""What the kernel counts: the journal, XFS, the block device, context switches."""

import re

BASIC_BLOCKS_PER_BLOCK = 8  # XFS counts its log in units of 512 bytes

# Line of /proc/fs/xfs/stat, its columns; the order is that of struct __xfsstats.
XFS_COLUMNS = {
    "log": ("log_writes", "log_blocks", "log_noiclogs", "log_force", "log_force_sleep"),
    "push_ail": ("try_logspace", "sleep_logspace"),
    "icluster": ("inode_flushes", "icluster_flushes"),
}
# The line "cil", which series xfs-observe adds.
CIL_COLUMNS = ("cil_checkpoints", "cil_items", "cil_bytes", "cil_skipped", "cil_drain_ns",
               "cil_closed_ns")


class CounterError(Exception):
    """Counters that cannot be right."""


def parse_jbd2_info(text):
    """/proc/fs/jbd2/*/info as a dict; the averages are integers, rounded down."""
    match = re.match(r"(\d+) transactions \((\d+) requested\), each up to (\d+) blocks", text)
    if not match:
        raise CounterError(f"not a jbd2 info file: {text[:60]!r}")
    info = dict(zip(("transactions", "requested", "max_blocks"), map(int, match.groups())))
    for value, name in re.findall(r"^  (\d+)(?:ms|us)? (.*)$", text, re.MULTILINE):
        info[name] = int(value)
    return info


def parse_xfs_stat(text):
    """/proc/fs/xfs/stat as a dict of lists; 'gc xpc' and the like keep their full name."""
    stat = {}
    for line in text.splitlines():
        match = re.match(r"([a-z]\w*(?: [a-z]+)*)((?: \d+)+)$", line)
        if not match:
            raise CounterError(f"not a line of xfs stat: {line[:60]!r}")
        stat[match.group(1)] = [int(word) for word in match.group(2).split()]
    return stat


def parse_disk_stat(text):
    """/sys/block/*/stat: Documentation/block/stat.rst."""
    words = [int(word) for word in text.split() if word.isdigit()]
    if len(words) < 11:
        raise CounterError(f"not a block device's stat: {text[:60]!r}")
    return {"disk_reads": words[0], "disk_writes": words[4], "disk_sectors": words[6],
            "disk_flushes": words[15] if len(words) > 15 else 0}


def parse_ctxt(text):
    """The context switches of /proc/stat."""
    match = re.search(r"^ctxt (\d+)$", text, re.MULTILINE)
    if not match:
        raise CounterError("no ctxt in /proc/stat")
    return int(match.group(1))


def parse_cpu(text):
    """What all CPUs have worked, in ms, from /proc/stat: by ticks, so 10 ms are nothing."""
    match = re.search(r"^cpu +(\d+) (\d+) (\d+) \d+ \d+ (\d+) (\d+)", text, re.MULTILINE)
    if not match:
        raise CounterError("no cpu in /proc/stat")
    return 10 * sum(map(int, match.groups()))


def jbd2_counters(info_text, totals):
    """The exact totals, which have to agree with the averages that /proc shows."""
    info = parse_jbd2_info(info_text)
    if info["transactions"] != totals["transactions"]:
        raise CounterError(f"{totals['transactions']} transactions in the journal, "
                           f"{info['transactions']} in its info file")
    for total, average in (("handles", "handles per transaction"),
                           ("blocks", "blocks per transaction"),
                           ("logged", "logged blocks per transaction")):
        if info["transactions"] and totals[total] // info["transactions"] != info[average]:
            raise CounterError(
                f"{totals[total]} {total} in {info['transactions']} transactions, "
                f"but the info file says {info[average]} {average}")
    return {name: totals[name]
            for name in ("transactions", "requested", "handles", "blocks", "logged")}


def xfs_counters(text):
    """The log's counters; 'logged' is in blocks of 4 KiB."""
    stat = parse_xfs_stat(text)
    found = {}
    for line, names in XFS_COLUMNS.items():
        found.update(zip(names, stat[line]))
    if "cil" in stat:
        found.update(zip(CIL_COLUMNS, stat["cil"]))
    found["logged"] = found["log_blocks"] / BASIC_BLOCKS_PER_BLOCK
    # Lookups, compares, inserts and deletes come first in a btree's line.
    found["finobt_ops"] = sum(stat["fibt2"][i] for i in (0, 2, 3))
    return found


def delta(before, after):
    """What was added between two snapshots."""
    if before.keys() != after.keys():
        raise CounterError(f"different counters: {sorted(before.keys() ^ after.keys())}")
    found = {name: after[name] - before[name] for name in after}
    for name, value in found.items():
        if value < 0:
            raise CounterError(f"counter {name} went down by {-value}")
    return found
