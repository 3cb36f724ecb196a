# SPDX-License-Identifier: GPL-2.0
"""The kinds of filesystem that are tortured, and what is done to each."""

import argparse
import collections

Config = collections.namedtuple("Config", "fs mkfs mount size_mib features refused")


def _ext4(mkfs, mount="", size_mib=32, features=(), refused=""):
    base = "-b 4096 -I 256 -m 0 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0"
    return Config("ext4", f"{base} {mkfs}", mount, size_mib, features, refused)


def _inactive(mkfs, mode, *features):
    """Inodes are removed by workers. Mainline does not know the option."""
    return _ext4(mkfs, f"inactivate={mode}", features=("stack", "parks", *features))


def _xfs(mkfs, mount="", size_mib=64, features=("reflink",)):
    return Config("xfs", f"-K -d agcount=2 {mkfs}", mount, size_mib, features, "")


CONFIGS = {
    "ext4": _ext4("-J size=4"),
    # Without delayed allocation a commit has data to write before it (ordered mode).
    "ext4-1k": _ext4("-b 1024 -J size=4", "nodelalloc"),
    "ext4-journal": _ext4("-J size=8", "data=journal"),
    "ext4-writeback": _ext4("-J size=4", "data=writeback", features=("stale",)),
    # 1024 blocks, the smallest journal: it wraps and is checkpointed all the time.
    "ext4-tiny": _ext4("-b 1024 -J size=1"),
    "ext4-fast_commit": _ext4("-J size=8 -O fast_commit"),
    "ext4-fast_commit-quota": _ext4("-J size=8 -O fast_commit,quota", "usrquota,grpquota"),
    "ext4-quota": _ext4("-J size=4 -O quota", "usrquota,grpquota"),
    # Three sectors fit into an inode.
    "ext4-inline_data": _ext4("-J size=4 -O inline_data -I 2048", features=("inline",)),
    "ext4-inline_data-fc": _ext4("-J size=8 -O inline_data,fast_commit -I 2048",
                                 features=("inline",)),
    "ext4-inline_data-journal": _ext4("-J size=8 -O inline_data -I 2048", "data=journal",
                                      features=("inline",)),
    # What mke2fs makes unless its configuration says otherwise, as Debian's does.
    "ext4-orphan_file": _ext4("-J size=8 -O orphan_file,fast_commit"),
    "ext4-inactive": _inactive("-J size=4 -O orphan_file", "all"),
    # Small blocks make for files whose extents need several leaves: they are removed in pieces.
    "ext4-inactive-1k": _inactive("-b 1024 -J size=4 -O orphan_file", "all", "heavy"),
    # Of small files it leaves few to workers where every task syncs.
    "ext4-inactive-auto": _inactive("-b 1024 -J size=4 -O orphan_file", "auto", "heavy"),
    "ext4-inactive-sync": _inactive("-b 1024 -J size=2 -O orphan_file", "sync", "heavy"),
    "ext4-inactive-journal": _inactive("-b 1024 -J size=8 -O orphan_file", "all,data=journal",
                                       "heavy"),
    # Without the orphan file the option does nothing.
    "ext4-inactive-list": _ext4("-J size=4 -O ^orphan_file", "inactivate=all",
                                features=("stack",)),
    "ext4-inactive-fc": _inactive("-J size=8 -O orphan_file,fast_commit", "all"),
    "ext4-inactive-quota": _inactive("-J size=4 -O orphan_file,quota", "all,usrquota,grpquota"),
    "ext4-inactive-bigalloc": _inactive("-J size=4 -O orphan_file,bigalloc -C 16384", "all"),
    "ext4-nojournal": _ext4("-O ^has_journal", refused="it has no journal, and so nothing is "
                            "promised for what a power cut leaves"),
    "xfs": _xfs("-l size=16m"),
    # mkfs.xfs makes the log as small as it may be: 3, 12 and 5 MiB.
    "xfs-small": _xfs("-m reflink=0,rmapbt=0", features=()),
    "xfs-rmapbt": _xfs("-m reflink=1,rmapbt=1"),
    # Small blocks make for files of many extents: what is done to them takes many transactions.
    "xfs-1k": _xfs("-b size=1024 -m reflink=1,rmapbt=1", features=("reflink", "heavy")),
    "xfs-quota": _xfs("-l size=16m", "uquota,gquota"),
}

CUTS = ("metadata", "fsync", "together", "storm", "many", "unlink", "reuse", "intents", "grow",
        "sequences")
FAULTS = ("freeze", "hotplug", "remount", "resize", "full", "quota", "shutdown", "write-errors",
          "no-memory")
PROFILES = CUTS + FAULTS

# What "make torture" does. Each is given the same time. CPUs are not taken off line: user-mode
# Linux cannot do that; "make matrix" does it on x86_64. Not inline_data, nor quota with
# fast_commit: what mainline loses with them is not fixed yet (Documentation/mainline-bugs.rst). Nor
# grow: log recovery of XFS warns of blocks that it reads ahead behind the old end.
PAIRS = (
    *(f"{config}/{profile}" for config in ("ext4", "ext4-fast_commit", "xfs")
      for profile in CUTS if profile not in ("many", "intents", "grow")),
    "xfs/intents",
    "ext4-fast_commit/many", "ext4-1k/metadata", "ext4-1k/sequences", "ext4-journal/metadata",
    "ext4-journal/fsync",
    "ext4-journal/reuse", "ext4-writeback/metadata", "ext4-tiny/metadata", "ext4-tiny/unlink",
    "ext4-tiny/reuse", "ext4-quota/metadata", "ext4-quota/unlink", "xfs-small/metadata",
    "xfs-small/unlink", "xfs-rmapbt/metadata", "xfs-rmapbt/reuse",
    "xfs-rmapbt/intents", "xfs-1k/intents", "xfs-1k/unlink",
    "xfs-quota/metadata",
    *(f"{config}/{fault}" for config in ("ext4", "xfs") for fault in FAULTS
      if fault not in ("quota", "hotplug")),
    "ext4-quota/quota", "xfs-quota/quota", "ext4-fast_commit/shutdown",
    "ext4-journal/write-errors", "ext4-tiny/full",
    "ext4-orphan_file/metadata", "ext4-orphan_file/unlink",
    *(f"ext4-inactive/{profile}" for profile in CUTS + FAULTS
      if profile not in ("together", "many", "intents", "grow", "quota", "hotplug")),
    *(f"ext4-inactive-fc/{profile}" for profile in CUTS
      if profile not in ("fsync", "together", "intents", "grow", "sequences")),
    "ext4-inactive-1k/unlink", "ext4-inactive-1k/reuse", "ext4-inactive-auto/unlink",
    "ext4-inactive-sync/metadata", "ext4-inactive-sync/unlink",
    "ext4-inactive-journal/unlink", "ext4-inactive-journal/reuse", "ext4-inactive-list/unlink",
    "ext4-inactive-quota/metadata", "ext4-inactive-quota/unlink", "ext4-inactive-quota/quota",
    # Other profiles move ranges of blocks, which have to be whole clusters then.
    "ext4-inactive-bigalloc/unlink",
)

# What "make check" does of it, with lockdep and KASAN. Not fast_commit, of which new bugs are still
# being found; nor ext4/sequences, of which one round takes too long there.
SLICE = ("ext4/metadata", "ext4-tiny/unlink", "ext4-1k/metadata", "xfs/metadata")


def pair_of(profiles):
    """The type of an argument CONFIG/PROFILE, or CONFIG, for argparse."""
    def pair(text):
        name, slash, profile = text.partition("/")
        if name not in CONFIGS or (slash and profile not in profiles):
            raise argparse.ArgumentTypeError(
                f"'{text}' is not CONFIG/PROFILE; configurations: {' '.join(CONFIGS)}; "
                f"profiles: {' '.join(profiles)}")
        if CONFIGS[name].refused:
            raise argparse.ArgumentTypeError(f"'{name}' is not tortured: {CONFIGS[name].refused}")
        return text if slash else f"{name}/metadata"
    return pair
