# SPDX-License-Identifier: GPL-2.0
"""Events of tracepoints in a guest, and what of XFS's buffers they say."""

import os
import re
import struct

import benchlib
import guestlib

TRACING = "/run/tracing"
BUFFER_KIB = 65536
LINE = re.compile(r"^\s*(.+)-(\d+)\s+\[\d+\] \S+\s+(\d+)\.(\d{6}): (\w+): (.*)$")


class Trace:
    """The events {name: filter} while this is entered; lines has them after."""

    def __init__(self, events):
        self.lines = []
        if not os.path.isdir(TRACING):
            os.makedirs(TRACING)
            guestlib.run("mount", "-t", "tracefs", "none", TRACING)
        self._set("tracing_on", 0)
        self._set("buffer_size_kb", BUFFER_KIB)
        self._set("trace_clock", "mono")
        self._set("trace", "")
        for event, condition in events.items():
            self._set(f"events/{event}/filter", condition or 0)
            self._set(f"events/{event}/enable", 1)

    def __enter__(self):
        self._set("tracing_on", 1)

    def __exit__(self, *_):
        self._set("tracing_on", 0)
        self._set("events/enable", 0)
        for cpu in range(os.cpu_count()):
            lost = re.search(r"^overrun: (\d+)$", guestlib.read(
                f"{TRACING}/per_cpu/cpu{cpu}/stats"), re.MULTILINE)
            if not lost or int(lost.group(1)):
                raise benchlib.BenchError("the trace buffer is too small")
        self.lines = guestlib.read(f"{TRACING}/trace").splitlines()

    @staticmethod
    def _set(name, value):
        guestlib.write(f"{TRACING}/{name}", value)


def parse(lines):
    """(task's name, its number, microseconds, event, what the event says) of each event."""
    for line in lines:
        match = LINE.match(line)
        if match:
            name, task, seconds, micros, event, words = match.groups()
            yield name, task, int(seconds) * 1000000 + int(micros), event, words


class Waits:
    """How long tasks wait for the locks of buffers."""

    def __init__(self):
        self.since = {}

    def took(self, task, now, event, address):
        """Microseconds if a task has got the lock that it was seen to ask for, else None."""
        if event == "xfs_buf_lock":
            self.since[task, address] = now
        elif event == "xfs_buf_lock_done" and (task, address) in self.since:
            return now - self.since.pop((task, address))
        return None


def headers(device):
    """{address of a header of an allocation group, in 512 bytes: its name}"""
    with open(device, "rb") as disk:
        block = disk.read(512)
    magic, block_bytes = struct.unpack(">4sI", block[:8])
    agblocks, agcount = struct.unpack(">II", block[84:92])
    sector_bytes, = struct.unpack(">H", block[102:104])
    if magic != b"XFSB":
        raise benchlib.BenchError(f"{device} has no superblock of XFS")
    return {(group * agblocks * block_bytes + number * sector_bytes) // 512: name
            for group in range(agcount) for number, name in ((1, "AGF"), (2, "AGI"))}
