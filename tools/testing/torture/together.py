# SPDX-License-Identifier: GPL-2.0
"""Several tasks write blocks of one file and sync it: what a cut must leave of their data.

A block has one writer, and consists of records of eight bytes, which say for which operation of it
they were written. A sync that has returned covers all that any task had written when it began.
"""

import array
import os
import random
import struct
import time

from model import Finding

KINDS = ("overwrites", "holes", "fallocated", "append")
TEAMS = (2, 4)          # writers of each file
STEPS = 60              # of each
BLOCK = 4096
FDATASYNC = 0.3         # of the syncs
RECORD = struct.Struct("<HHI")      # team, block, operation + 1
WORKERS = sum(TEAMS)


def kind_of(number):
    """What is done in a round, and whether the device has one request at a time, of 1 ms."""
    return KINDS[number % len(KINDS)], number // len(KINDS) % 2


def block_of(team, block, operation):
    """Its contents; operation 0 is before the first."""
    return RECORD.pack(team, block, operation) * (BLOCK // RECORD.size)


def _path(top, team):
    return f"{top}/team{team}"


def prepare(top, kind):
    """The files, which are synced later."""
    for team, writers in enumerate(TEAMS):
        fd = os.open(_path(top, team), os.O_RDWR | os.O_CREAT, 0o644)
        size = writers * STEPS * BLOCK
        if kind == "overwrites":
            for block in range(size // BLOCK):
                os.pwrite(fd, block_of(team, block, 0), block * BLOCK)
        elif kind == "holes":
            os.ftruncate(fd, size)
        elif kind == "fallocated":
            os.posix_fallocate(fd, 0, size)
        os.close(fd)


def team_of(worker):
    """(team, number in it) of a worker."""
    for team, writers in enumerate(TEAMS):
        if worker < writers:
            return team, worker
        worker -= writers
    raise IndexError(worker)


def write(worker, top, kind, mark, seed):
    """Do what a worker does; returns its operations: (team, block, when written and sync began)."""
    team, number = team_of(worker)
    rng = random.Random(seed)
    blocks = list(range(number, TEAMS[team] * STEPS, TEAMS[team]))
    if kind == "overwrites":
        blocks = [rng.choice(blocks) for _ in blocks]
    elif kind != "append":
        rng.shuffle(blocks)
    fd = os.open(_path(top, team), os.O_RDWR)
    operations = []
    for step, block in enumerate(blocks):
        os.pwrite(fd, block_of(team, block, step + 1), block * BLOCK)
        written = time.monotonic_ns()
        (os.fdatasync if rng.random() < FDATASYNC else os.fsync)(fd)
        mark(f"{worker}:{step}")
        operations.append((team, block, written))
    os.close(fd)
    return operations


def required(runs, team, marks):
    """{block: (least operation that must be there, last one that may be)} of a file."""
    synced = max((runs[worker][step][2] for worker, step in marks if runs[worker][step][0] == team),
                 default=0)
    found = {}
    for operations in runs:
        for step, (whose, block, written) in enumerate(operations):
            if whose == team:
                least = found.get(block, (0, 0))[0]
                found[block] = (step + 1 if written <= synced else least, step + 1)
    return found


def judge(top, kind, runs, marks):
    """See what is in the files after a cut; raises Finding."""
    for team, writers in enumerate(TEAMS):
        with open(_path(top, team), "rb") as file:
            content = file.read()
        needed = required(runs, team, marks)
        blocks = writers * STEPS
        if len(content) > blocks * BLOCK or len(content) % BLOCK or \
                (kind != "append" and len(content) < blocks * BLOCK):
            raise Finding(f"{kind}, {writers} writers: {len(content)} bytes")
        for block in range(blocks):
            least, last = needed.get(block, (0, 0))
            there = content[block * BLOCK:(block + 1) * BLOCK]
            if not there and not least:
                continue
            wrong = _wrong(there, team, block, range(least, last + 1),
                           kind != "overwrites" and not least)
            if wrong:
                raise Finding(f"{kind}, {writers} writers, block {block}: has {wrong}, must have "
                              f"operation {least - 1} to {last - 1}")


def _wrong(there, team, block, allowed, zeros):
    """What a block has that it must not, or nothing."""
    if not there:
        return "nothing"
    for value in set(array.array("Q", there)):
        record = RECORD.unpack(struct.pack("<Q", value))
        if not (zeros and not value) and (record[:2] != (team, block) or
                                          record[2] not in allowed):
            return f"record {record[0]}, {record[1]}, {record[2] - 1}"
    return None
