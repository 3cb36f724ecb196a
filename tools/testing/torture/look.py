# SPDX-License-Identifier: GPL-2.0
"""In a guest: mount a filesystem, and look at what a power cut or a fault left of it."""

import collections
import os
import re
import shlex
import stat
import struct
import subprocess
import time
import zlib

import faults
import guestlib
import model
import workload
from configs import CONFIGS
from model import Finding

MNT, MNT2 = "/mnt/torture", "/mnt/cut"
SETTLE = 40                 # times 50 ms: what XFS frees in the background after mount
COMPLAINTS = ("EXT4-fs error", "EXT4-fs warning", "JBD2: ", "Corruption", "Metadata CRC error",
              "corruption", "I/O error", "Shutting down", "shutdown", "Internal error")
# How far xfs_repair is.
PROGRESS = re.compile(r"^(\s+- |Phase \d|No modify flag set).*\n?", re.MULTILINE)
# What e2fsck says of a file that it makes as long as its blocks.
LENGTHENED = re.compile(r"^Inode (\d+), i_size is (\d+), should be \d+", re.MULTILINE)
# What recovery says in passing: where the log ends, in the middle of a commit block.
NO_COMPLAINTS = ("JBD2: Find incomplete commit block",)
# What xfs_repair says of a tree of attributes whose root has one leaf.
ONE_LEAF = re.compile(r"^attribute block hashvalue inconsistency, expected > (\d+) / saw \1\n"
                      r"bad attribute block in inode (?P<inode>\d+)\n"
                      r"bad hash path in attribute fork for inode (?P=inode)\n", re.MULTILINE)


class Kmsg:
    """What the kernel says from now on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        lines = []
        while True:
            try:
                record = os.read(self.fd, 8192).decode("utf-8", "replace")
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                continue    # Overwritten before it was read.
            lines.append(record.partition(";")[2].partition("\n")[0])

    def close(self):
        """What has been said since lines() was called, for the last time."""
        try:
            return self.lines()
        finally:
            os.close(self.fd)


def mount(config, device, where):
    """Returns why it was refused, or nothing. mount(8) is the slower way."""
    try:
        workload.libc("mount", device.encode(), where.encode(), config.fs.encode(), 0,
                      config.mount.encode())
    except OSError as error:
        return error.strerror
    return ""


def umount(where):
    try:
        workload.libc("umount2", where.encode(), 0)
    except OSError as error:
        guestlib.die(f"cannot unmount {where}: {error.strerror}")


def collect(top, sizes=None):
    """What is below a directory: (signature, {path: reader}, inode numbers).

    sizes          {inode number: what of the file is read}, for those that e2fsck has made longer
    """
    names, groups, inodes = [], {}, set()

    def walk(relative):
        with os.scandir(os.path.join(top, relative)) as entries:
            for entry in entries:
                path = f"{relative}/{entry.name}" if relative else entry.name
                facts = entry.stat(follow_symlinks=False)
                names.append((path, entry.path, facts))
                inodes.add(facts.st_ino)
                if stat.S_ISDIR(facts.st_mode):
                    walk(path)

    walk("")
    signature, contents = set(), {}
    for path, full, facts in sorted(names):
        kind = {stat.S_IFREG: "f", stat.S_IFDIR: "d",
                stat.S_IFLNK: "l"}.get(stat.S_IFMT(facts.st_mode), "?")
        xattrs = () if kind == "l" else tuple(sorted(
            (name, zlib.crc32(os.getxattr(full, name))) for name in os.listxattr(full)))
        group = groups.setdefault(facts.st_ino, path)
        signature.add((path, kind, stat.S_IMODE(facts.st_mode), group if kind == "f" else "",
                       facts.st_nlink if kind == "f" else 0,
                       os.readlink(full) if kind == "l" else "", xattrs))
        if kind == "f":
            contents[path] = Reader(full, (sizes or {}).get(facts.st_ino, -1))
    return frozenset(signature), contents, inodes


class Reader:
    def __init__(self, path, size=-1):
        self.path, self.size = path, size

    def __call__(self):
        with open(self.path, "rb") as file:
            return file.read(self.size)


def used_inodes(where):
    facts = os.statvfs(where)
    return facts.f_files - facts.f_ffree


def needs_recovery(config, image):
    """ext4's own flag. XFS does not have one."""
    return config.fs == "ext4" and bool(struct.unpack_from("<I", image, 1024 + 96)[0] & 4)


def mkfs(config, device):
    """The command that makes a filesystem."""
    size = [f"{config.size_mib}M"] if config.fs == "ext4" else ["-d", f"size={config.size_mib}m"]
    return [f"mkfs.{config.fs}", "-q", "-F" if config.fs == "ext4" else "-f",
            *shlex.split(config.mkfs), device, *size]


class Look:
    """A filesystem of a configuration, and whether it is what it must be."""

    def __init__(self, name):
        self.name, self.config = name, CONFIGS[name]
        self.count = collections.Counter()
        self.constant = None        # inodes that are used, but not found by walking
        self.mended = ""            # what e2fsck said when it mended it, after errors

    def unit(self, image):
        """What of the device is written all or none, because the filesystem relies on it.

        ext4 reads its superblock, and checks the checksum in the second sector, before it replays
        the journal. XFS does not recover a block that looks newer than the log, by its first
        sector; only its log may be torn anywhere.
        """
        if self.config.fs == "ext4":
            return lambda sector: 2 if sector == 3 else sector
        sectors = struct.unpack_from(">I", image, 4)[0] // 512     # of a block
        start, = struct.unpack_from(">Q", image, 48)
        ag_blocks, = struct.unpack_from(">I", image, 84)
        blocks, = struct.unpack_from(">I", image, 96)
        ag_log = image[124]
        first = ((start >> ag_log) * ag_blocks + (start & ((1 << ag_log) - 1))) * sectors
        return lambda sector: (sector if first <= sector < first + blocks * sectors
                               else -1 - sector // 8)

    def start(self, device, workers):
        """Mount a new filesystem, and have a directory for each worker there for good."""
        refused = mount(self.config, device, MNT)
        if refused:
            guestlib.die(f"cannot mount a new {self.name}: {refused}")
        self.constant = used_inodes(MNT) - len(self.walk(MNT))
        for worker in range(workers):
            os.mkdir(f"{MNT}/w{worker}", 0o755)
        guestlib.run("sync", "-f", MNT)

    def walk(self, top):
        return {os.lstat(top).st_ino} | collect(top)[2]

    def look_at(self, device, names, dirty, after_errors=False):
        """Mount what is there, look at the names, unmount, check; raises Finding."""
        self.mended = self.mend(device) if after_errors else ""
        try:
            self.look_at_mended(device, names, dirty, after_errors)
        except Finding as finding:
            if self.mended:
                raise Finding(f"{finding}\n  before that, e2fsck -fy:\n{self.mended}") from finding
            raise

    def look_at_mended(self, device, names, dirty, after_errors):
        kmsg = Kmsg()
        refused = mount(self.config, device, MNT2)
        if refused:
            raise Finding(f"cannot be mounted: {refused}\n" + model.show(kmsg.close(), 12))
        said = kmsg.lines()
        try:
            recovered = any("recovery complete" in line or "Ending recovery" in line
                            for line in said)
            self.count["recoveries"] += recovered
            if dirty and not recovered:
                raise Finding("the journal needs recovery and was not replayed\n" +
                              model.show(said, 12))
            names()
        except OSError as error:
            raise Finding(f"{error.strerror}: {error.filename}\n" +
                          model.show(kmsg.lines(), 12)) from error
        finally:
            umount(MNT2)
            said += kmsg.close()
        if not after_errors:
            self.complaints(said)
        fsck = subprocess.run([*guestlib.FSCK[self.config.fs], device], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                              check=False)
        said = PROGRESS.sub("", fsck.stdout).strip()
        if fsck.returncode and not self.only_incomplete(said):
            raise Finding(f"{' '.join(guestlib.FSCK[self.config.fs])}: exit status "
                          f"{fsck.returncode}\n{said}")

    @staticmethod
    def complaints(said):
        bad = [line for line in said if any(c in line for c in COMPLAINTS) and
               not any(c in line for c in NO_COMPLAINTS)]
        if bad:
            raise Finding("the kernel complains:\n" + model.show(bad, 12))

    def only_incomplete(self, said):
        """Whether xfs_repair complains of nothing but attributes that were being set.

        XFS marks an attribute with a large value as incomplete while it is written, and ignores
        it until it is set again; xfs_repair would remove it, with all others of that inode. And
        an attribute that does not fit into the only leaf is added in two transactions, of which
        the first puts a root above the leaf. The kernel reads a root with one leaf; xfs_repair
        says that its hash value should be more than that of the leaf, and would remove all.
        """
        inodes = set(re.findall(r"inode (\d+) is INCOMPLETE", said))
        inodes |= {match["inode"] for match in ONE_LEAF.finditer(said)}
        left = [line for line in ONE_LEAF.sub("", said).splitlines()
                if not line.startswith("would clear attr fork") and
                not (inodes & set(re.findall(r"inode (\d+)", line)) and
                     re.match(r"attribute entry|problem with attribute|bad (nblocks|anext)",
                              line))]
        self.count["incomplete attributes"] += bool(inodes) and not left
        return bool(inodes) and not left

    def mend(self, device):
        """What an operator does after errors. e2fsck -p is not enough: it does not trust the list
        of orphans of a filesystem that has noted errors, and then asks what to do with them. So
        it does not cut off either what an operation under way had put behind a file's end, but
        makes the file longer: judged is what the file was before.
        Returns what it said if there was something to mend."""
        if self.config.fs != "ext4":
            return ""
        fsck = subprocess.run(["e2fsck", "-fy", device], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                              check=False)
        self.count["mended by fsck"] += fsck.returncode == 1
        if fsck.returncode > 1:
            raise Finding(f"e2fsck -fy: exit status {fsck.returncode}\n{fsck.stdout.strip()}")
        return fsck.stdout.strip() if fsck.returncode == 1 else ""

    def names(self, runs, synced, times, judge):
        extra = set(os.listdir(MNT2)) ^ {f"w{n}" for n in range(len(runs))} ^ \
            ({"lost+found"} if self.config.fs == "ext4" else set())
        if extra:
            raise Finding(f"the root directory has, or has not: {' '.join(sorted(extra))}")
        self.count["acknowledged syncs looked at"] += len(times) + sum(map(len, synced.values()))
        sizes = {int(ino): int(size) for ino, size in LENGTHENED.findall(self.mended)}
        for number, run in enumerate(runs):
            signature, contents, _ = collect(f"{MNT2}/w{number}", sizes)
            try:
                if judge == "errors":
                    contents = self.settled(run, contents)
                else:
                    model.judge(run, (signature, contents), (synced[number], times),
                                "stale" in self.config.features)
            except Finding as finding:
                raise Finding(f"worker {number}: {finding}") from finding
            self.count["files looked at"] += len(contents)
        expected = self.constant + len(self.walk(MNT2))
        for _ in range(SETTLE):
            used = used_inodes(MNT2)
            if used == expected:
                break
            time.sleep(0.05)
        else:
            raise Finding(f"{used} inodes are in use, {expected} are found: space is lost")

    @staticmethod
    def settled(run, contents):
        files = faults.settled(run)
        for path, (node, number) in files.items():
            if path not in contents:
                raise Finding(f"{path} was synced by operation {number}, and is not there")
            model.judge_file(node, path, contents[path](), number, False)
        return files
