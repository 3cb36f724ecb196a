# SPDX-License-Identifier: GPL-2.0
"""Read a log of dm-log-writes, and rebuild what a power cut may leave of the device.

The log's format is that of Documentation/admin-guide/device-mapper/log-writes.rst: a header,
then entries, each of one sector and followed by its data. A write is logged when it has
completed, one without FUA only when a flush that covers it has. So at any point of the log

  * what stands before the last flush, and every FUA write so far, is on the disk;
  * of what stands between that flush and the next one, each sector may be there or not.
"""

import itertools
import struct

MAGIC = 0x6a736677736872
HEADER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
SECTOR = 512


class LogError(Exception):
    """The log is not one of dm-log-writes, or is cut short."""


class Entry:
    """One entry: a write, a flush, a discard or a mark. Positions and sizes in bytes."""

    __slots__ = ("pos", "size", "flags", "data")

    def __init__(self, pos, size, flags, data):
        self.pos, self.size, self.flags, self.data = pos, size, flags, data

    @property
    def mark(self):
        return self.data.rstrip(b"\0").decode() if self.flags & MARK else None


def parse(file):
    """Yield the entries of the log in an open file or device."""
    magic, version, count, sector = HEADER.unpack(file.read(SECTOR)[:HEADER.size])
    if magic != MAGIC or version != 1:
        raise LogError(f"not a log of dm-log-writes: magic {magic:#x}, version {version}")
    file.seek(sector)
    for number in range(count):
        head = file.read(sector)
        if len(head) < sector:
            raise LogError(f"the log ends at entry {number} of {count}")
        start, sectors, flags, length = ENTRY.unpack(head[:ENTRY.size])
        if flags & MARK:
            yield Entry(0, 0, flags, head[ENTRY.size:ENTRY.size + length])
            continue
        size = sectors * sector
        data = b""
        if size and not flags & DISCARD:
            data = file.read(size)
            if len(data) < size:
                raise LogError(f"the log ends in entry {number} of {count}")
        yield Entry(start * sector, size, flags, data)


class Cut:
    """A point at which the power fails.

    entry    index of the log's entry that was the last to be acknowledged
    marks    the marks before that point
    kind     what happened to the writes that were not flushed: "all" (nothing was pending or
             all of it got lost), or how a part of them was chosen
    image    what is on the device
    """

    __slots__ = ("entry", "marks", "kind", "image")

    def __init__(self, entry, marks, kind, image):
        self.entry, self.marks, self.kind, self.image = entry, marks, kind, image

    def __str__(self):
        return f"entry {self.entry}, {self.kind}"


def apply(image, entry, undo=None):
    """Do a write; what was there before goes to the list @undo."""
    if not entry.size:
        return
    where = slice(entry.pos, entry.pos + entry.size)
    if undo is not None:
        undo.append((where, bytes(image[where])))
    image[where] = bytes(entry.size) if entry.flags & DISCARD else entry.data


def torn(entry, rng, unit):
    """Parts of a write: a prefix of it, or any parts. Sectors of which unit() is the same are
    written all or none."""
    first = entry.pos // SECTOR
    units = [list(group) for _, group in itertools.groupby(
        range(first, first + entry.size // SECTOR), unit)]
    if rng.random() < 0.5:
        units = units[:rng.randrange(len(units) + 1)]
    else:
        units = [u for u in units if rng.random() < 0.5]
    for sectors in units:
        start, size = sectors[0] * SECTOR, len(sectors) * SECTOR
        yield Entry(start, size, 0, entry.data[start - entry.pos:start - entry.pos + size])


def partial(image, pending, rng, unit):
    """Do a part of the pending writes; returns how it was chosen, and what undoes it."""
    kind = rng.choice(("half", "few", "most", "last only", "torn"))
    chance = {"half": 0.5, "few": 0.1, "most": 0.9, "torn": 0.5}.get(kind, 0)
    undo = []
    for number, entry in enumerate(pending):
        if entry.flags & FUA:
            apply(image, entry, undo)   # Already durable, in the order of the log.
        elif kind == "torn" and entry.data and rng.random() < 0.5:
            for part in torn(entry, rng, unit):
                apply(image, part, undo)
        elif rng.random() < chance or (kind == "last only" and number == len(pending) - 1):
            apply(image, entry, undo)
    return kind, undo


def points(entries, begin="begin"):
    """The places to cut: indices of entries behind mark @begin that are a flush or have FUA."""
    started = begin is None
    for index, entry in enumerate(entries):
        if entry.flags & MARK:
            started = started or entry.mark == begin
        elif started and entry.flags & (FLUSH | FUA):
            yield index


def cuts(base, entries, chosen, rng, between=1, unit=int):
    """Yield the cuts of the log at the chosen points(), in the order of the log.

    base     the device before the log's first entry
    between  how many cuts to make, before each point, with a part of what is pending there
    unit     function of a sector: those of which it is the same are not torn from each other
    The image of a cut is valid until the next one is asked for.
    """
    durable, pending, marks = bytearray(base), [], []
    chosen = set(chosen)
    for index, entry in enumerate(entries):
        if entry.flags & MARK:
            marks.append(entry.mark)
            continue
        if entry.flags & FLUSH:
            if index in chosen and any(not p.flags & FUA for p in pending):
                for _ in range(between):
                    kind, undo = partial(durable, pending, rng, unit)
                    yield Cut(index - 1, tuple(marks), kind, durable)
                    for where, before in reversed(undo):
                        durable[where] = before
            for write in pending:
                apply(durable, write)
            pending = []
        if entry.flags & FUA:
            if index in chosen and entry.size:
                kind, undo = "FUA not written", []
                if rng.random() < 0.5:
                    kind = "FUA torn"
                    for part in torn(entry, rng, unit):
                        apply(durable, part, undo)
                yield Cut(index - 1, tuple(marks), kind, durable)
                for where, before in reversed(undo):
                    durable[where] = before
            apply(durable, entry)
        if entry.size:
            # Also after FUA: an older write of the same sectors must not come back on top.
            pending.append(entry)
        if index in chosen:
            yield Cut(index, tuple(marks), "all", durable)
