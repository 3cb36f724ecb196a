# SPDX-License-Identifier: GPL-2.0
"""In a guest: devices of any speed, filesystems on them, jbench."""

import errno
import json
import os
import subprocess
import sys
import time

RUN = "/sys/kernel/debug/jbench/run"
MOUNT_POINT = "/mnt/bench"
NULLB = "/sys/kernel/config/nullb/bench"
BLKIO = "/run/blkio"
# No commit but those that the workload asks for, or that the log's size does.
MOUNT = {"ext4": "commit={commit_s}", "xfs": "defaults"}
FSCK = {"ext4": ("e2fsck", "-fn"), "xfs": ("xfs_repair", "-n")}
LABEL = "jbench"     # of every filesystem that is made
TRIES = 3
COMMIT_SETTLE = 0.05  # jbd2 adds a commit to its totals just after it reports it done

# What null_blk is given. Each request takes completion_nsec, hw_queue_depth at a time.
NULL_BLK = {"memory_backed": 1, "irqmode": 2, "queue_mode": 2, "blocksize": 4096,
            "submit_queues": 1, "discard": 0}
SSD = {**NULL_BLK, "completion_nsec": 80000, "hw_queue_depth": 64}
DISKS = {
    "iops500": {**NULL_BLK, "completion_nsec": 2000000, "hw_queue_depth": 1},
    "delay": {**NULL_BLK, "completion_nsec": 2000000, "hw_queue_depth": 256},
    "ssd": SSD,
    "ssd-cache": {**SSD, "cache_size": 64},
}
VOLUME_IOPS = 500
# mkfs.xfs makes small logs and single allocation groups for fstests only.
MKFS_XFS_ENV = {"TEST_DIR": "/", "TEST_DEV": "/", "QA_CHECK_FS": "1"}


def die(what):
    print(f"{os.path.basename(sys.argv[0])}: {what}", flush=True)
    sys.exit(1)


def run(*command, env=None):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", check=False, env=env)
    except OSError as error:
        die(f"cannot run {command[0]}: {error.strerror}")
    if done.returncode:
        die(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        die(f"cannot write {text!r} to {path}: {error.strerror}")


def jbench(**words):
    line = " ".join(f"{key}={value}" for key, value in words.items())
    for attempt in range(TRIES):
        fd = os.open(RUN, os.O_WRONLY)
        try:
            os.write(fd, line.encode())
            return {**json.loads(read(RUN)), "retries": attempt}
        except OSError as error:
            failure = error
        finally:
            os.close(fd)
        # On a busy host a virtual CPU may not run for as long as a measurement.
        if failure.errno != errno.ETIMEDOUT:
            break
    die(f"jbench '{line}': {failure.strerror}: {read(RUN).strip()}")
    return None


class Device:
    """A block device that behaves like one of the models.

    ram        brd: as fast as memory
    loop       a file on tmpfs, whose size says how many distinct blocks were written
    iops500    2 ms a request, one at a time
    ssd        80 us a request, 64 at a time, no volatile cache
    ssd-cache  the same, with a volatile cache of 64 MiB that has to be flushed
    delay      2 ms a request, 256 at a time
    volume     token bucket: 500 writes a second, each of them fast
    /dev/...   that device
    """

    MODELS = ("ram", "loop", *DISKS, "volume")

    def __init__(self, model, size_mib):
        self.model, self.size_mib = model, size_mib
        self.backing = None
        if model.startswith("/dev/"):
            self.path = model
        elif model in DISKS:
            self.path = self._null_blk(DISKS[model])
        else:
            self.path = "/dev/ram0"
            run("blkdiscard", "-f", self.path)
        if model == "loop":
            self.backing = "/run/loop.img"
            with open(self.backing, "wb") as file:
                file.truncate(size_mib << 20)
            self.path = self._loop(self.backing)
        elif model == "volume":
            # The journal's requests are not held up by blk-throttle as they come (REQ_META),
            # only when a loop device has made plain ones of them.
            self._throttle(0)
            self.path = self._loop("/dev/ram0", "--direct-io=on")

    def slow_down(self):
        """A filesystem is made and checked at full speed where the model allows that."""
        if self.model == "volume":
            self._throttle(VOLUME_IOPS)

    def speed_up(self):
        if self.model == "volume":
            self._throttle(0)

    @property
    def counts(self):
        """Whether the device's statistics count what is written (brd's do not)."""
        return self.model != "ram"

    def written_blocks(self):
        """Blocks of 4 KiB that were ever written (loop)."""
        return os.stat(self.backing).st_blocks // 8

    def detach(self):
        if self.model in ("loop", "volume"):
            run("losetup", "-d", self.path)
        if self.model == "loop":
            os.unlink(self.backing)
        elif self.model in DISKS:
            write(f"{NULLB}/power", 0)
            os.rmdir(NULLB)

    @staticmethod
    def _loop(backing, *options):
        return run("losetup", "-f", "--show", *options, backing).strip()

    def _null_blk(self, settings):
        os.mkdir(NULLB)
        for name, value in {**settings, "size": self.size_mib}.items():
            write(f"{NULLB}/{name}", value)
        write(f"{NULLB}/power", 1)
        return "/dev/bench"

    def _throttle(self, iops):
        # The root group of the old hierarchy: also what kernel threads write is limited.
        if not os.path.isdir(BLKIO):
            os.makedirs(BLKIO)
            run("mount", "-t", "cgroup", "-o", "blkio", "none", BLKIO)
        numbers = read("/sys/block/ram0/dev").strip()
        write(f"{BLKIO}/blkio.throttle.write_iops_device", f"{numbers} {iops}")


class Filesystem:
    """A filesystem: made and mounted on entry; unmounted and checked on exit."""

    def __init__(self, kind, device="ram", size_mib=512, log_mib=64, groups=4, mount="",
                 features="", commit_s=300):
        self.kind, self.size_mib = kind, size_mib
        self.log_mib, self.groups = log_mib, groups
        self.mount = ",".join([MOUNT[kind].format(commit_s=commit_s), *[mount] * bool(mount)])
        self.features = features
        self.model = device
        self.device = None

    def _mkfs(self):
        # Nothing is left for the kernel to initialise while it is being measured.
        if self.kind == "ext4":
            return ("mkfs.ext4", "-q", "-F", "-L", LABEL, "-b", "4096", "-I", "256",
                    "-J", f"size={self.log_mib}", *("-O", self.features) * bool(self.features),
                    "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
                    self.device.path, f"{self.size_mib}M")
        return ("mkfs.xfs", "-q", "-f", "-L", LABEL, "-K", "-d", f"agcount={self.groups},"
                f"size={self.size_mib}m", "-l", f"size={self.log_mib}m", self.device.path)

    def name(self):
        """The device's name in /sys/block."""
        return os.path.basename(os.path.realpath(self.device.path))

    def __enter__(self):
        self.device = Device(self.model, self.size_mib)
        run(*self._mkfs(), env={**os.environ, **MKFS_XFS_ENV})
        self.device.slow_down()
        os.makedirs(MOUNT_POINT, exist_ok=True)
        run("mount", "-t", self.kind, "-o", self.mount, self.device.path, MOUNT_POINT)
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            # What is left is not looked at, but nothing stays mounted. Workers that were killed
            # may take a moment to go.
            for _ in range(20):
                if not subprocess.call(["umount", MOUNT_POINT]):
                    break
                time.sleep(0.1)
            return
        run("umount", MOUNT_POINT)
        self.device.speed_up()
        single = ("-o", "force_geometry") if (self.kind, self.groups) == ("xfs", 1) else ()
        run(*FSCK[self.kind], *single, self.device.path)
        self.device.detach()

    def dirs(self, threads):
        """One directory for each thread; they stay."""
        names = [os.path.join(MOUNT_POINT, f"thread.{n}") for n in range(threads)]
        for name in names:
            os.makedirs(name, exist_ok=True)
        return names

    def new_dir(self):
        """An empty directory."""
        name = os.path.join(MOUNT_POINT, f"dir.{time.monotonic_ns()}")
        os.mkdir(name)
        return name

    def sync(self):
        """Have everything committed, and counted as such."""
        run("sync", "-f", MOUNT_POINT)
        time.sleep(COMMIT_SETTLE)

    def settle(self):
        """The same, and leave nothing for later: no inode to free, no metadata to write home."""
        self.sync()
        try:
            run("fsfreeze", "-f", MOUNT_POINT)
        finally:
            run("fsfreeze", "-u", MOUNT_POINT)
        time.sleep(COMMIT_SETTLE)
