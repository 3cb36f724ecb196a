# SPDX-License-Identifier: GPL-2.0
"""For the steps of a bug that are in Python."""

import ctypes
import errno
import fcntl
import os
import struct
import threading
import time

BLOCK = 4096
SHUTDOWN, LOGFLUSH, NOLOGFLUSH = 0x8004587d, 1, 2
SETFLAGS, EXTENTS, JOURNAL_DATA = 0x40086602, 0x80000, 0x4000
CHECKPOINT, FIBMAP = 0x4004662b, 1
# Of sync_file_range(): wait for what is under way, write, wait for that.
BEFORE, WRITE, AFTER = 1, 2, 4
LIBC = ctypes.CDLL(None, use_errno=True)


def bug(why):
    print(why, flush=True)
    os._exit(1)


def unclear(why):
    print(why, flush=True)
    os._exit(2)


def directory(path):
    return os.open(path, os.O_RDONLY)


def create(name, top=None, flags=0):
    return os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o644, dir_fd=top)


def shutdown(fd, flag=NOLOGFLUSH):
    fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", flag))


def checkpoint(fd):
    """EXT4_IOC_CHECKPOINT: what the log has is written in place, and the log is empty."""
    fcntl.ioctl(fd, CHECKPOINT, struct.pack("I", 0))


def set_flags(fd, flags):
    fcntl.ioctl(fd, SETFLAGS, struct.pack("l", flags))


def sector(fd):
    """Where the first block of the file is."""
    return struct.unpack("i", fcntl.ioctl(fd, FIBMAP, struct.pack("i", 0)))[0] * (BLOCK // 512)


def write_back(fd, flags=WRITE, begin=0, size=0):
    """sync_file_range(). Returns whether it worked."""
    return not LIBC.sync_file_range(fd, ctypes.c_long(begin), ctypes.c_long(size), flags)


def drop_caches(what=3):
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
        caches.write(str(what))


def fill(fd):
    """Give the file all blocks that are free."""
    size, end = 64 << 20, 0
    while size >= BLOCK:
        try:
            os.posix_fallocate(fd, end, size)
            end += size
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            size //= 2


def fast_commits(device):
    """How many were made."""
    with open(f"/proc/fs/ext4/{os.path.basename(device)}/fc_info", encoding="ascii") as lines:
        return int(lines.read().split("\n")[1].split()[0])


def append(path, data):
    """Append and fsync."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(file, data, os.fstat(file).st_size)
    os.fsync(file)
    os.close(file)


class Tasks:
    """Threads, each begun a while after the one before."""

    def __init__(self, pause=.3):
        self.pause, self.threads = pause, []

    def begin(self, what, *args):
        self.threads.append(threading.Thread(target=what, args=args))
        self.threads[-1].start()
        time.sleep(self.pause)

    def alive(self):
        return [thread.is_alive() for thread in self.threads]

    def join(self):
        for thread in self.threads:
            thread.join()


def try_to(what, *args, **options):
    """The error number, or 0."""
    try:
        what(*args, **options)
    except OSError as error:
        return error.errno
    return 0
