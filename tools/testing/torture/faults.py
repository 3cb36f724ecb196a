# SPDX-License-Identifier: GPL-2.0
"""What goes wrong while a filesystem is worked on, and what must hold then.

Nothing may hang, whatever is done here: the guest reports tasks that are blocked for a minute,
and that is a failure. Afterwards the filesystem is consistent, and holds what it must:

  keeps    everything: the disturbance refuses operations, but does not break anything
  cut      the same as after a power cut: what was acknowledged
  errors   files that were synced successfully, and that no failed operation was about

A worker stops at the first error if what is judged is what a cut leaves.
"""

import ctypes
import errno
import fcntl
import glob
import os
import random
import struct
import subprocess
import time

import guestlib
import workload

FIFREEZE, FITHAW, FIBMAP = 0xc0045877, 0xc0045878, 1
SHUTDOWN = 0x8004587d
SHUTDOWN_FLAGS = (0, 1, 2)      # flush all; flush the log; flush nothing
EXT4_RESIZE, XFS_GROW, XFS_RESERVE, IMAXPCT = 0x40086610, 0x4010586e, 0xc0105872, 25
MS_RDONLY, MS_REMOUNT = 1, 32
Q_SETQUOTA, USRQUOTA = 0x800008, 0
QIF_BLIMITS, QIF_ILIMITS = 1, 4
CAP_VERSION, CAP_SYS_RESOURCE = 0x20080522, 24
USER = 1000
MAYBE = ("maybe_write", "maybe_truncate", "maybe_fallocate", "maybe_clone")
DEBUG = "/sys/kernel/debug"


class Fault:
    """One kind of disturbance. The filesystem is mounted at @mnt and workers are about to run."""

    judge = "keeps"
    breaks = False          # ext4 may note that it has errors, and is mended by fsck then
    profile = "metadata"
    steps = 250

    def __init__(self, config, device, mnt, seed):
        self.config, self.device, self.mnt = config, device, mnt
        self.rng = random.Random(seed)
        self.done = 0           # how often it happened: a fault that did not is no test

    def prepare(self):
        """Before workers start."""

    def in_worker(self):
        """In a worker, before its first operation."""

    def disturb(self):
        """Again and again while workers run."""
        raise NotImplementedError

    def end(self):
        """All workers have ended; the filesystem is still mounted."""

    def refused(self, errors):
        """What the workers' operations were refused with."""

    def loop(self, running):
        """Disturb until running() is false."""
        while running():
            self.disturb()
            time.sleep(self.rng.random() * 0.05)


class Freeze(Fault):
    def disturb(self):
        fd = os.open(self.mnt, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FIFREEZE, 0)
            time.sleep(self.rng.random() * 0.03)
            fcntl.ioctl(fd, FITHAW, 0)
            self.done += 1
        finally:
            os.close(fd)


class Hotplug(Fault):
    """CPUs go and come back, all but the first."""

    CPUS = "/sys/devices/system/cpu"

    def prepare(self):
        self.online = sorted(glob.glob(f"{self.CPUS}/cpu[1-9]*/online"))
        if not self.online:
            guestlib.die("no CPU of this guest can be taken off line: user-mode Linux has no "
                         "CPU hotplug, an x86_64 kernel with two CPUs or more has")

    def disturb(self):
        gone = self.rng.sample(self.online, self.rng.randrange(1, len(self.online) + 1))
        for value in (0, 1):
            for path in gone:
                guestlib.write(path, value)
                time.sleep(self.rng.random() * 0.02)
        self.done += len(gone)


class Remount(Fault):
    profile = "fsync"       # keeps no file open that has no name: that would refuse it for good

    def disturb(self):
        for flags in (MS_REMOUNT | MS_RDONLY, MS_REMOUNT):
            try:
                workload.libc("mount", b"none", self.mnt.encode(), None, flags,
                              self.config.mount.encode())
                self.done += flags != MS_REMOUNT
            except OSError as error:
                if error.errno != errno.EBUSY:      # A task has a file open for writing.
                    raise
            time.sleep(self.rng.random() * 0.02)


class Resize(Fault):
    """Grow by 4 MiB at a time; the device has room."""

    most, step_mib = 16, 4

    def disturb(self):
        if self.done >= self.most:
            return
        self.done += 1
        size = self.config.size_mib + self.step_mib * self.done
        if self.config.fs == "ext4":
            guestlib.run("resize2fs", self.device, f"{size}M")
        else:
            blocks = (size << 20) // os.statvfs(self.mnt).f_bsize
            guestlib.run("xfs_growfs", "-D", str(blocks), self.mnt)
        time.sleep(0.1)


class Grow(Resize):
    """The same on a full filesystem, whose power is cut. What takes the space has no name.

    It leaves single blocks, and XFS little of the reserve that would be free blocks, too. So an
    operation that needs a block soon after has to take what is new, and in the same checkpoint.

    Each time XFS is frozen first, which writes its superblock. If it is grown again before that,
    mainline loses the first time from the log, and cannot recover what was logged in between.
    """

    holes, reserve = 64, 128

    def prepare(self):
        path = os.path.join(self.mnt, "ballast")
        self.ballast = os.open(path, os.O_CREAT | os.O_RDWR)
        os.unlink(path)
        if self.config.fs == "xfs":
            fcntl.ioctl(self.ballast, XFS_RESERVE, struct.pack("=QQ", self.reserve, 0))
        self.fill()

    def fill(self):
        size, piece = os.fstat(self.ballast).st_size, 1 << 20
        while piece >= 4096:
            try:
                workload.libc("fallocate", self.ballast, 0, size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 4
        block = os.statvfs(self.mnt).f_bsize
        for number in range(min(self.holes, size // block // 2)):
            try:
                workload.libc("fallocate", self.ballast, workload.FALLOCATE["punch"],
                              2 * number * block, block)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                break

    def disturb(self):
        if self.done >= self.most:
            return
        self.done += 1
        blocks = ((self.config.size_mib + self.step_mib * self.done) << 20) // \
            os.statvfs(self.mnt).f_bsize
        if self.config.fs == "ext4":
            fcntl.ioctl(self.ballast, EXT4_RESIZE, struct.pack("=Q", blocks))
        else:
            fcntl.ioctl(self.ballast, FIFREEZE, 0)
            fcntl.ioctl(self.ballast, FITHAW, 0)
            fcntl.ioctl(self.ballast, XFS_GROW, struct.pack("=QII", blocks, IMAXPCT, 0))
        time.sleep(0.02)
        self.fill()

    def end(self):
        os.close(self.ballast)


class Full(Fault):
    """A file that takes all of the space, or leaves a little."""

    profile = "unlink"

    def disturb(self):
        ballast = os.path.join(self.mnt, "ballast")
        fd = os.open(ballast, os.O_CREAT | os.O_RDWR)
        try:
            size = os.fstat(fd).st_size
            while True:
                try:
                    workload.libc("fallocate", fd, 0, size, 1 << 20)
                    size += 1 << 20
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break
            self.done += 1
            time.sleep(self.rng.random() * 0.05)
            try:
                os.ftruncate(fd, max(0, size - (self.rng.randrange(4) << 20)))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
        finally:
            os.close(fd)

    def end(self):
        os.unlink(os.path.join(self.mnt, "ballast"))


class Quota(Fault):
    """Every operation is that of a user at the limit of a quota."""

    profile = "reuse"       # has no operation that needs to be root
    steps = 400

    def prepare(self):
        limits = struct.pack("=QQQQQQQQI4x", 1500, 1500, 0, 60, 60, 0, 0, 0,
                             QIF_BLIMITS | QIF_ILIMITS)
        workload.libc("quotactl", (Q_SETQUOTA << 8) | USRQUOTA, self.device.encode(), USER,
                      ctypes.create_string_buffer(limits))
        for name in os.listdir(self.mnt):
            os.chown(os.path.join(self.mnt, name), USER, USER)

    def in_worker(self):
        header = struct.pack("=Ii", CAP_VERSION, 0)
        data = ctypes.create_string_buffer(24)
        workload.libc("capget", header, data)
        words = list(struct.unpack("=6I", data.raw))
        words[0] &= ~(1 << CAP_SYS_RESOURCE)
        words[1] &= ~(1 << CAP_SYS_RESOURCE)
        workload.libc("capset", header, struct.pack("=6I", *words))
        workload.LIBC.setfsgid(USER)
        workload.LIBC.setfsuid(USER)

    def disturb(self):
        time.sleep(0.1)

    def refused(self, errors):
        """It happened as often as operations were refused for that reason."""
        self.done += errors[errno.EDQUOT]


class Shutdown(Fault):
    """The filesystem stops, at some moment, as if the power had failed."""

    judge = "cut"
    steps = 100000

    def loop(self, running):
        time.sleep(0.2 + self.rng.random())
        fd = os.open(self.mnt, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("=I", self.rng.choice(SHUTDOWN_FLAGS)))
            self.done += 1
        finally:
            os.close(fd)


class WriteErrors(Fault):
    """Some writes of the device fail: data, log or home, as it happens."""

    judge = "cut"
    breaks = True
    steps = 1500
    attribute = f"{DEBUG}/fail_make_request"

    def prepare(self):
        for name, value in (("probability", 100), ("interval", self.rng.randrange(20, 300)),
                            ("times", -1), ("verbose", 0)):
            guestlib.write(f"{self.attribute}/{name}", value)

    def target(self, on):
        guestlib.write(f"/sys/block/{os.path.basename(self.device)}/make-it-fail", int(on))

    def disturb(self):
        time.sleep(self.rng.random() * 0.5)
        self.target(True)
        time.sleep(self.rng.random() * 0.2)
        self.target(False)
        self.done += 1

    def end(self):
        self.target(False)
        guestlib.write(f"{self.attribute}/probability", 0)


class NoMemory(Fault):
    """Allocations fail, only in system calls of the workers."""

    judge = "errors"
    breaks = True
    steps = 400

    def prepare(self):
        for kind in ("failslab", "fail_page_alloc"):
            for name, value in (("probability", 100), ("interval", self.rng.randrange(30, 400)),
                                ("times", -1), ("verbose", 0), ("task-filter", "Y"),
                                ("ignore-gfp-wait", "N")):
                guestlib.write(f"{DEBUG}/{kind}/{name}", value)
        guestlib.write(f"{DEBUG}/fail_page_alloc/min-order", 0)

    def in_worker(self):
        fd = os.open("/proc/thread-self/make-it-fail", os.O_WRONLY)

        def make_it_fail(on):
            while True:
                try:
                    os.pwrite(fd, b"01"[on:on + 1], 0)
                    return
                except OSError:
                    if on:
                        raise       # Only what switches it off may fail because of it.

        workload.Runner.around = staticmethod(make_it_fail)

    def disturb(self):
        time.sleep(0.1)

    def refused(self, errors):
        self.done += errors[errno.ENOMEM]

    def end(self):
        for kind in ("failslab", "fail_page_alloc"):
            guestlib.write(f"{DEBUG}/{kind}/probability", 0)


FAULTS = {"freeze": Freeze, "hotplug": Hotplug, "remount": Remount, "resize": Resize,
          "full": Full, "quota": Quota, "shutdown": Shutdown, "write-errors": WriteErrors,
          "no-memory": NoMemory}


def settled(run):
    """Files whose last operation is a successful fsync, and which none that failed was about:
    {path: (node, number of that fsync)}."""
    spoiled = set()
    for operation in run.operations:
        if operation[2] == "nothing":
            spoiled.update(operation[4])
        elif operation[2] in MAYBE:
            spoiled.add(operation[3])
    files = {}
    for path, node in run.tree.names.items():
        syncs = [n for n, with_names in node.synced if with_names]
        if node.kind == "f" and node.fid not in spoiled and syncs and \
                max(syncs) > max(node.touched):
            files[path] = (node, max(syncs))
    return files


def error_once(config, device, mnt, mount, finding):
    """Data that cannot be written: each open file learns of it from fsync, once.

    The filesystem is on dm-linear; one block of it becomes dm-error.
    """
    name, sectors = "torture-error", config.size_mib * 2048
    mapped = f"/dev/mapper/{name}"

    def table(*lines):
        return subprocess.run(["dmsetup", "load", name], input="\n".join(lines) + "\n",
                              encoding="ascii", check=True) and \
            guestlib.run("dmsetup", "resume", name)

    good = f"0 {sectors} linear {device} 0"
    guestlib.run("dmsetup", "create", name, "--table", good)
    try:
        refused = mount(config, mapped, mnt)
        if refused:
            raise finding(f"a new filesystem cannot be mounted: {refused}")
        path = os.path.join(mnt, "file")
        with open(path, "wb") as file:
            file.write(b"1" * 65536)
            os.fsync(file.fileno())
        one, two = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
        block = struct.unpack("=i", fcntl.ioctl(one, FIBMAP, struct.pack("=i", 2)))[0]
        size = os.fstatvfs(one).f_bsize // 512
        at = block * size
        table(f"0 {at} linear {device} 0", f"{at} {size} error",
              f"{at + size} {sectors - at - size} linear {device} {at + size}")
        os.pwrite(one, b"2" * 4096, 2 * size * 512)
        answers = [_fsync(fd) for fd in (one, one, two, two)]
        table(good)
        os.pwrite(one, b"3" * 4096, 2 * size * 512)
        answers += [_fsync(one), _fsync(two)]
        for fd in (one, two):
            os.close(fd)
        expected = [errno.EIO, 0, errno.EIO, 0, 0, 0]
        if answers != expected:
            raise finding(f"fsync of data that cannot be written: errors {answers}, "
                          f"not {expected}")
    finally:
        subprocess.call(["umount", mnt], stderr=subprocess.DEVNULL)
        guestlib.run("dmsetup", "remove", "--retry", name)


def _fsync(fd):
    try:
        os.fsync(fd)
    except OSError as error:
        return error.errno
    return 0
