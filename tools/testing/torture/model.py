# SPDX-License-Identifier: GPL-2.0
"""What a filesystem must hold after a power cut, given what was done and acknowledged.

Each worker does one operation at a time, in a directory of its own; workers run at the same
time. Both ext4 and XFS log metadata in order, so after a cut the names, links, modes and
attributes of a worker are those after one of its operations, and that is none before the last
one that a returned fsync covers. A fast commit of ext4 has all changes of names so far, so it
keeps that order, too.

Data is not in that order. A file is written in sectors that say which operation wrote them, so for
each it is known what it may hold: what it did when the file was last synced, or anything it was
given since.

An operation is a tuple (start, end, kind, *arguments), times in nanoseconds.
"""

import struct
import zlib

SECTOR = 512
BLOCK = 4096
STAMP = struct.Struct("<IIII")
# On disk it is the magic number of a block of jbd2's log: journaled data has to be escaped.
MAGIC = 0x98393bc0
ZEROS = bytes(SECTOR)
ZERO = (0, 0, 0)

ALWAYS = float("inf")
SYNCS = ("fsync", "fdatasync", "syncfs")


def pattern(fid, gen, first, count):
    """The content of @count sectors, from sector @first on, that operation @gen writes."""
    return b"".join(STAMP.pack(MAGIC, fid, gen, first + n) * (SECTOR // STAMP.size)
                    for n in range(count))


def stamp(sector):
    """What wrote a sector: (fid, gen, sector number), ZERO, or None if no operation did."""
    if sector == ZEROS:
        return ZERO
    magic, *who = STAMP.unpack_from(sector)
    if magic != MAGIC or sector != sector[:STAMP.size] * (SECTOR // STAMP.size):
        return None
    return tuple(who)


def xattr_value(seed, length):
    return (b"%d." % seed * (length // 2 + 1))[:length]


class Node:
    """A file, directory or symbolic link."""

    __slots__ = ("kind", "fid", "mode", "target", "xattrs", "size", "links", "sizes",
                 "sectors", "shuffled", "touched", "named", "synced")

    def __init__(self, kind, fid, number, mode=0o644, target=""):
        self.kind, self.fid, self.mode, self.target = kind, fid, mode, target
        self.xattrs = {}
        self.links = 0
        self.size = 0
        # What is only needed to judge: [(operation, value, surely)], the oldest first.
        self.sizes = [(number, 0, True)]
        self.sectors = {}
        self.shuffled = []      # operations that moved data about; ALWAYS if one failed
        self.touched = [number]
        # Operations that changed its names, attributes, or what is in a directory.
        self.named = [number]
        self.synced = []        # [(operation, names, too?)]

    def history(self, sector):
        return self.sectors.setdefault(sector, [(self.sizes[0][0], ZERO, True)])

    def unsure(self):
        """Whether a sector may have what a failed write wrote."""
        return any(not h[-1][2] for h in self.sectors.values())

    def latest(self, sector):
        return next((value for _, value, surely in reversed(self.sectors.get(sector, ()))
                     if surely), ZERO)

    def resize(self, number, size):
        if size < self.size:
            for sector in [s for s in self.sectors if s * SECTOR >= size]:
                self.put(number, sector, ZERO)
        self.size = size
        self.sizes.append((number, size, True))

    def put(self, number, sector, value, surely=True):
        history = self.history(sector)
        if history[-1][1:] != (value, True):
            history.append((number, value, surely))


class Tree:
    """What a worker's operations make, one after the other."""

    def __init__(self, worker):
        self.worker = worker
        self.names = {}
        self.nodes = {}             # fid: Node, also of those without a name
        self.dirs = {"": Node("d", 0, -1, 0o755)}
        self.count = 0
        self.next_fid = (worker + 1) << 20
        self.signature_changed = True

    # Where a name is: its directory is touched when it changes.
    def _dir_of(self, path):
        return self.names.get(path.rpartition("/")[0]) or self.dirs[""]

    def _touch(self, number, *nodes, data=False):
        for node in nodes:
            node.touched.append(number)
            if not data:
                node.named.append(number)

    def _add(self, number, path, node):
        self.names[path] = node
        node.links += 1
        self.nodes[node.fid] = node
        self._touch(number, node, self._dir_of(path))

    def _remove(self, number, path):
        node = self.names.pop(path)
        node.links -= 1
        self._touch(number, node, self._dir_of(path))
        return node

    def _new(self, kind, number, **more):
        node = Node(kind, self.next_fid, number, **more)
        self.next_fid += 1
        self.nodes[node.fid] = node
        return node

    def apply(self, operation):
        """Take note of an operation that succeeded; returns the file it worked on, if any."""
        kind, *args = operation[2:]
        number = self.count
        self.count += 1
        self.signature_changed = kind not in DATA
        return getattr(self, "do_" + kind)(number, *args)

    def do_nothing(self, _number, _kind, _files, _args):
        """An operation that failed, the files that it was about, and its arguments."""

    def do_creat(self, number, path):
        node = self._new("f", number)
        self._add(number, path, node)
        return node

    def do_tmpfile(self, number):
        return self._new("f", number)

    def do_hold(self, _number, _path):
        """The file stays open."""

    def do_linkfd(self, number, fid, path):
        self._add(number, path, self.nodes[fid])

    def do_mkdir(self, number, path):
        self._add(number, path, self._new("d", number, mode=0o755))

    def do_rmdir(self, number, path):
        self._remove(number, path)

    def do_symlink(self, number, target, path):
        self._add(number, path, self._new("l", number, mode=0o777, target=target))

    def do_link(self, number, old, new):
        self._add(number, new, self.names[old])

    def do_unlink(self, number, path):
        self._remove(number, path)

    def do_rename(self, number, old, new):
        node = self.names[old]
        if self.names.get(new) is node:
            return      # Two names of one file: rename() does nothing.
        if new in self.names:
            self._remove(number, new)
        inside = [p for p in self.names if p.startswith(old + "/")]
        self._remove(number, old)
        self._add(number, new, node)
        for path in inside:
            self.names[new + path[len(old):]] = self.names.pop(path)

    def do_exchange(self, number, one, two):
        first, second = self.names[one], self.names[two]
        moved = {}
        for old, new in ((one, two), (two, one)):
            for path in [p for p in self.names if p.startswith(old + "/")]:
                moved[new + path[len(old):]] = self.names.pop(path)
        self.names.update(moved)
        self.names[one], self.names[two] = second, first
        # Only the directories: XFS does not note it in the inodes of files.
        self._touch(number, first, second, data=True)
        self._touch(number, self._dir_of(one), self._dir_of(two))

    def do_chmod(self, number, path, mode):
        self.names[path].mode = mode
        self._touch(number, self.names[path])

    def do_setxattr(self, number, path, name, length):
        self.names[path].xattrs[name] = zlib.crc32(xattr_value(number, length))
        self._touch(number, self.names[path])

    def do_removexattr(self, number, path, name):
        del self.names[path].xattrs[name]
        self._touch(number, self.names[path])

    def do_write(self, number, fid, offset, length):
        node = self.nodes[fid]
        for sector in range(offset // SECTOR, (offset + length) // SECTOR):
            node.put(number, sector, (fid, number + 1, sector))
        if offset + length > node.size:
            node.resize(number, offset + length)
        self._touch(number, node, data=True)

    do_mwrite = do_dwrite = do_write

    def do_maybe_write(self, number, fid, offset, length, size):
        """A write that failed, but may have done a part of its work; @size is the file's now."""
        node = self.nodes[fid]
        for sector in range(offset // SECTOR, (offset + length) // SECTOR):
            node.put(number, sector, (fid, number + 1, sector), False)
        node.resize(number, max(node.size, offset + length))
        node.resize(number, size)
        self._touch(number, node, data=True)

    def do_maybe_truncate(self, number, fid, wanted, size):
        """The same of truncate(): XFS notes the size first, and frees blocks after that."""
        node = self.nodes[fid]
        for sector in [s for s in node.sectors if s * SECTOR >= wanted]:
            node.put(number, sector, ZERO, False)
        node.sizes.append((number, wanted, False))
        node.resize(number, size)
        self._touch(number, node, data=True)

    def do_maybe_clone(self, number, fid, source, size):
        """The same of a clone: any extent of it may be there, and the size with it."""
        src, node = self.nodes[source], self.nodes[fid]
        if src.unsure() or ALWAYS in src.shuffled:
            node.shuffled.append(ALWAYS)
        for sector in range(src.size // SECTOR):
            if src.latest(sector) != node.latest(sector):
                node.put(number, sector, src.latest(sector), False)
        node.sizes.append((number, max(node.size, src.size), False))
        node.resize(number, size)
        self._touch(number, node, data=True)

    def do_maybe_fallocate(self, number, fid, wanted, size):
        """The same of fallocate(): whatever the file had may be anywhere in it."""
        node = self.nodes[fid]
        node.sizes.append((number, wanted, False))
        node.resize(number, size)
        node.shuffled.append(ALWAYS)
        self._touch(number, node, data=True)

    def do_truncate(self, number, fid, size):
        node = self.nodes[fid]
        if size != node.size:
            node.resize(number, size)
        self._touch(number, node, data=True)

    def do_fallocate(self, number, fid, mode, offset, length):
        node = self.nodes[fid]
        end = offset + length
        if mode == "punch" or mode.startswith("zero"):
            for sector in range(offset // SECTOR, end // SECTOR):
                if sector in node.sectors:
                    node.put(number, sector, ZERO)
        if mode in ("alloc", "zero") and end > node.size:
            node.resize(number, end)
        if mode in ("collapse", "insert"):
            self._shift(number, node, mode, offset, length)
        self._touch(number, node, data=True)

    @staticmethod
    def _shift(number, node, mode, offset, length):
        first, count = offset // SECTOR, length // SECTOR
        old = [node.latest(s) for s in range(node.size // SECTOR)]
        if mode == "collapse":
            new, size = old[:first] + old[first + count:], node.size - length
        else:
            new, size = old[:first] + [ZERO] * count + old[first:], node.size + length
        node.shuffled.append(ALWAYS if node.unsure() else number)
        for sector, value in enumerate(new):
            if value != ZERO or sector in node.sectors:
                node.put(number, sector, value)
        node.resize(number, size)

    def do_clone(self, number, source, fid):
        """The whole file becomes one that shares all blocks with another one."""
        src, node = self.nodes[source], self.nodes[fid]
        if src.unsure() or ALWAYS in src.shuffled:
            node.shuffled.append(ALWAYS)
        for sector in range(max(node.size, src.size) // SECTOR):
            value = src.latest(sector) if sector * SECTOR < src.size else ZERO
            if value != node.latest(sector):
                node.put(number, sector, value)
        # A file is never cut by this; the workload clones to new or shorter ones.
        if src.size > node.size:
            node.resize(number, src.size)
        self._touch(number, node, data=True)

    def do_fsync(self, number, fid):
        self._sync(number, fid, True)

    def do_fdatasync(self, number, fid):
        self._sync(number, fid, False)

    def _sync(self, number, fid, names):
        if fid:
            self.nodes[fid].synced.append((number, names))
        else:
            self.dirs[""].synced.append((number, names))

    def do_syncfs(self, number):
        pass

    def signature(self):
        """All that is judged of names, as something that can be compared."""
        groups = {}
        for path in sorted(self.names):
            groups.setdefault(id(self.names[path]), path)
        return frozenset(
            (path, node.kind, node.mode, groups[id(node)] if node.kind == "f" else "",
             node.links if node.kind == "f" else 0, node.target,
             tuple(sorted(node.xattrs.items())))
            for path, node in self.names.items())


# Operations that change no name, mode or attribute.
DATA = ("write", "mwrite", "dwrite", "maybe_write", "truncate", "maybe_truncate", "fallocate",
        "maybe_fallocate", "clone", "maybe_clone", "fsync", "fdatasync", "syncfs", "nothing",
        "tmpfile", "hold")


def since(history, number):
    """The values that may be seen if all up to operation @number is durable."""
    for position in range(len(history) - 1, -1, -1):
        if history[position][0] <= number and history[position][2]:
            return [value for _, value, _ in history[position:]]
    return [value for _, value, _ in history]


class Worker:
    """A worker's whole run, and what can be asked about it."""

    def __init__(self, worker, operations, stopped=False, removes_first=False):
        """
        stopped        by the failure of its last operation, which may have been done all the same
        removes_first  an attribute that is replaced may be gone for a moment (XFS, when it has
                       to move the attributes out of the inode)
        """
        self.operations = operations
        self.tree = Tree(worker)
        self.signatures, self.maps = [], []
        self.between = {}       # signature in the middle of an operation: operations before it
        self._note()
        for operation in operations:
            if removes_first and operation[2] == "setxattr":
                self._without(*operation[3:5])
            self.tree.apply(operation)
            self._note()
        if stopped and operations and operations[-1][2] == "nothing":
            _, _, _, kind, _, args = operations[-1]
            if kind not in DATA:
                if removes_first and kind == "setxattr":
                    self._without(*args[:2])
                self.tree.count -= 1
                self.tree.apply((0, 0, kind, *args))
                self._note()

    def _without(self, path, name):
        xattrs = self.tree.names[path].xattrs
        if name in xattrs:
            value = xattrs.pop(name)
            self.between[self.tree.signature()] = self.tree.count
            xattrs[name] = value

    def _note(self):
        """State number k is the one after k operations."""
        if self.tree.signature_changed:
            self.signatures.append(self.tree.signature())
            self.maps.append({p: n.fid for p, n in self.tree.names.items() if n.kind == "f"})
        else:
            self.signatures.append(self.signatures[-1])
            self.maps.append(self.maps[-1])

    def durable(self, synced):
        """Which operations, given the synced ones of this worker and sync times of all.

        synced: (numbers of this worker's acknowledged syncs, start times of acknowledged syncfs)
        Returns (number of operations whose names are durable, {fid: data up to operation}).
        """
        numbers, times = synced
        names, everything, data = 0, -1, {}
        for start in times:
            done = [n for n, op in enumerate(self.operations) if op[1] < start]
            if done:
                everything = max(everything, done[-1])
        names = everything + 1
        for fid, node in [*self.tree.nodes.items(), (0, self.tree.dirs[""])]:
            data[fid] = everything
            for number, with_names in node.synced:
                if number not in numbers:
                    continue
                data[fid] = max(data[fid], number)
                # What changes only data, or a time, need not wait for what came before it.
                before = [n for n in node.named if n < number]
                if before:
                    names = max(names, (before[-1] if with_names else before[0]) + 1)
        return names, data


class Finding(Exception):
    """The filesystem does not hold what it must."""


def show(entries, limit=6):
    lines = [f"    {entry}" for entry in sorted(entries, key=str)[:limit]]
    if len(entries) > limit:
        lines.append(f"    and {len(entries) - limit} more")
    return "\n".join(lines) or "    nothing"


def judge(worker, found, acknowledged, stale_allowed=False):
    """Compare what a worker's directory holds with what it must; raises Finding.

    found          (signature, {path: function that returns the file's content})
    acknowledged   as for Worker.durable()
    stale_allowed  data=writeback: what was not synced may be anything, and so may what was
                   removed: its blocks are free before the removal is durable
    Returns how many operations are there.
    """
    signature, contents = found
    first, data = worker.durable(acknowledged)
    states = [k for k, s in enumerate(worker.signatures) if s == signature]
    if signature in worker.between:
        states = sorted(states + [worker.between[signature]])
    if not states:
        near = min(range(first, len(worker.signatures)),
                   key=lambda k: len(worker.signatures[k] ^ signature))
        raise Finding(f"the names are those after no operation; after {near} of "
                      f"{len(worker.operations)} (durable: {first}) there would also be\n"
                      f"{show(worker.signatures[near] - signature)}\n  and there would not be\n"
                      f"{show(signature - worker.signatures[near])}")
    if states[-1] < first:
        lost = worker.operations[states[-1]:first]
        raise Finding(f"operations {states[-1]} to {first - 1} were synced and are lost:\n" +
                      "\n".join(f"    {op[2:]}" for op in lost[:8]))
    wrong, tried = None, []
    for state in states:
        if state < first or worker.maps[state] in tried:
            continue
        tried.append(worker.maps[state])
        left = set(worker.maps[state].values())
        if stale_allowed:
            left.intersection_update(*(m.values() for m in worker.maps[state:]))
        try:
            for path, fid in worker.maps[state].items():
                judge_file(worker.tree.nodes[fid], path, contents[path](), data[fid],
                           stale_allowed, fid not in left)
            return state
        except Finding as finding:
            wrong = wrong or finding
    raise wrong


def mixed(sector, allowed):
    """Whether a sector is made of two of the allowed values, one behind the other."""
    units = [bytes(STAMP.size) if value == ZERO else STAMP.pack(MAGIC, *value)
             for value in allowed]
    parts = [sector[n:n + STAMP.size] for n in range(0, SECTOR, STAMP.size)]
    same = next((n for n, part in enumerate(parts) if part != parts[0]), len(parts))
    rest = parts[same if parts[same:same + 1] == parts[-1:] else same + 1:]
    return len(set(rest)) == 1 and parts[0] in units and rest[0] in units


def judge_file(node, path, content, synced, stale_allowed, given_away=False):
    """Compare a file's content with what it may be if its data is durable up to @synced.

    given_away     its blocks may be another file's by now; its size is still its own
    """
    where = f"{path} (file {node.fid:#x}, durable up to operation {synced})"
    sizes = since(node.sizes, synced)
    if not min(sizes) <= len(content) <= max(sizes):
        raise Finding(f"{where}: {len(content)} bytes, not {min(sizes)} to {max(sizes)}")
    if given_away:
        return
    shuffled = any(n > synced for n in node.shuffled)
    anything = None
    for sector in range(len(content) // SECTOR):
        who = stamp(content[sector * SECTOR:(sector + 1) * SECTOR])
        allowed = since(node.sectors[sector], synced) if sector in node.sectors else [ZERO]
        if who in allowed:
            continue
        if shuffled:
            if anything is None:
                anything = {ZERO}.union(*(since(h, synced) for h in node.sectors.values()))
                if ALWAYS in node.shuffled:
                    anything.update(v for h in node.sectors.values() for _, v, _ in h)
            if who in anything:
                continue
        if stale_allowed and (len(allowed) > 1 or sector >= min(sizes) // SECTOR):
            continue
        # A write that goes on while the sector is on its way to the disk may be there in part.
        if len(allowed) > 1 and mixed(content[sector * SECTOR:(sector + 1) * SECTOR], allowed):
            continue
        if who is None:
            what = "what nobody wrote: " + content[sector * SECTOR:][:32].hex()
        elif who == ZERO:
            what = "zeros"
        elif who[0] != node.fid and who not in allowed:
            what = f"data of file {who[0]:#x}, operation {who[1] - 1}"
        else:
            what = f"data of operation {who[1] - 1}"
        raise Finding(f"{where}: sector {sector} of {len(content) // SECTOR} has {what}, not " +
                      ", ".join("zeros" if a == ZERO else f"{a[0]:#x}/{a[1] - 1}"
                                for a in allowed[:6]))
    if len(content) % SECTOR:
        raise Finding(f"{where}: {len(content)} bytes are no whole sectors")
