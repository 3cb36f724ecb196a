# SPDX-License-Identifier: GPL-2.0
"""Hold up the device "linear", or have parts of it fail or be slow."""

import mmap
import os
import subprocess


def _dmsetup(*command, lines=None):
    subprocess.run(["dmsetup", *command], input=lines, text=True, check=True)


def suspend(noflush=True):
    """Requests wait from now on; with @noflush also those that have been sent before."""
    _dmsetup("suspend", "--nolockfs", *["--noflush"] * noflush, "linear")


def resume():
    _dmsetup("resume", "linear")


def load(*targets):
    """The next table, for resume(): (first sector, first one behind it, target with arguments)."""
    _dmsetup("load", "linear", lines="".join(f"{begin} {end - begin} {target}\n"
                                             for begin, end, target in targets if end > begin))


def table(*targets, noflush=False):
    """Replace the table."""
    suspend(noflush)
    load(*targets)
    resume()


def patch(disk, sectors, begin, end, target):
    """A table of so many sectors of @disk; from @begin up to @end the target is another."""
    table((0, begin, f"linear {disk} 0"), (begin, end, target),
          (end, sectors, f"linear {disk} {end}"))


def slow(disk, begin, ms):
    """A target that has writes wait for so long; reads and flushes do not."""
    return f"delay {disk} {begin} 0 {disk} {begin} {ms} {disk} {begin} 0"


def read(disk, sector, size):
    """What is on @disk, past the page cache."""
    found = mmap.mmap(-1, size)
    fd = os.open(disk, os.O_RDONLY | os.O_DIRECT)
    try:
        os.preadv(fd, [found], sector * 512)
    finally:
        os.close(fd)
    return found[:]
