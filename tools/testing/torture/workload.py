# SPDX-License-Identifier: GPL-2.0
"""Operations on a filesystem, at random or by enumeration, and a record of them."""

import collections
import concurrent.futures
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import random
import threading
import time

import model
from model import BLOCK, SECTOR

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
RENAME_EXCHANGE = 2
FICLONE = 0x40049409
FALLOCATE = {"alloc": 0, "keep": 1, "punch": 3, "collapse": 8, "zero": 0x10, "zero_keep": 0x11,
             "insert": 0x20}
# What a full, frozen or read-only filesystem, or a quota, may answer.
EXPECTED = (errno.ENOSPC, errno.EDQUOT, errno.EOPNOTSUPP, errno.EROFS, errno.ENOMEM, errno.EMLINK)
TOGETHER = 3                # every third sync is two at once
INLINE = 3 * SECTOR         # of an inode of 2 KiB


def sync_and_close(fd):
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def libc(name, *args):
    # Offsets and lengths are 64 bits wide whatever the default of ctypes.
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if getattr(LIBC, name)(*args) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


class Runner:
    """Does operations below a directory and keeps the model of what they make."""

    expected = EXPECTED     # errors; None if all are
    around = None           # called with True before, and with False after an operation

    def __init__(self, worker, top, mark, features=()):
        self.top = top
        self.features = features
        self.tree = model.Tree(worker)
        self.operations = []
        self.mark = mark
        self.worker = worker
        self.held = {}              # fid: fd of files that have no name
        self.errors = collections.Counter()     # errno: how often
        self.stopped = False    # by an error that no full filesystem or quota explains
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        # There may be no memory for threads when they are needed.
        started = threading.Barrier(2)
        concurrent.futures.wait([self.pool.submit(started.wait) for _ in range(2)])
        self.syncs = 0
        self.late = []          # syncs that another did not wait for
        self.late_fid = None    # the file they are of
        self.unheard = {}       # fid: the error that such a sync had, and no other sync will get

    def path(self, name):
        return os.path.join(self.top, name) if name else self.top

    def name_of(self, fid):
        return next((p for p, n in self.tree.names.items() if n.fid == fid), None)

    def open(self, fid, flags=os.O_RDWR):
        if fid in self.held:
            return os.dup(self.held[fid])
        if not fid:
            return os.open(self.top, os.O_RDONLY)
        if self.tree.nodes[fid].kind == "d":
            flags = os.O_RDONLY
        return os.open(self.path(self.name_of(fid)), flags)

    def about(self, args):
        """The files that an operation with these arguments is about."""
        names = [a for a in args if isinstance(a, str)]
        return [a for a in args if a in self.tree.nodes] + [
            node.fid for path, node in self.tree.names.items()
            if any(path == n or path.startswith(n + "/") for n in names)]

    def size_now(self, fid):
        """A file's size after an operation that may have changed it."""
        try:
            size = os.stat(self.held.get(fid) or self.path(self.name_of(fid))).st_size
        except OSError:
            return self.tree.nodes[fid].size
        return size // SECTOR * SECTOR

    def wanted(self, fid, mode, offset, length):
        """The size that a file has after fallocate()."""
        size = self.tree.nodes[fid].size
        return {"alloc": max(size, offset + length), "zero": max(size, offset + length),
                "insert": size + length, "collapse": size - length}.get(mode, size)

    def attempt(self, kind, args):
        """Returns whether an operation succeeded."""
        try:
            if self.around:
                self.around(True)
            getattr(self, "do_" + kind)(*args)
        except MemoryError:
            self.errors[errno.ENOMEM] += 1
            return False
        except OSError as error:
            if self.expected and error.errno not in self.expected:
                raise
            self.errors[error.errno] += 1
            self.stopped = error.errno not in EXPECTED or error.errno == errno.EROFS
            return False
        finally:
            if self.around:
                self.around(False)
        return True

    def do(self, kind, *args):
        """Do an operation; returns False if the filesystem refused. Notes what it did."""
        start = time.monotonic_ns()
        done = self.attempt(kind, args)
        if not done:
            if kind in ("write", "mwrite", "dwrite"):
                kind, args = "maybe_write", (*args, self.size_now(args[0]))
            elif kind == "fallocate":
                kind, args = "maybe_fallocate", (args[0], self.wanted(*args),
                                                 self.size_now(args[0]))
            elif kind == "truncate":
                kind, args = "maybe_truncate", (*args, self.size_now(args[0]))
            elif kind == "clone":
                kind, args = "maybe_clone", (args[1], args[0], self.size_now(args[1]))
            else:
                kind, args = "nothing", (kind, self.about(args), args)
        self.operations.append((start, time.monotonic_ns(), kind, *args))
        number = self.tree.count
        self.tree.apply(self.operations[-1])
        if done and kind in model.SYNCS:
            self.mark(f"{self.worker}:{number}")
        return done

    def do_creat(self, path):
        try:
            os.close(os.open(self.path(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
        except OSError as error:
            # The VFS lets a remount come between the creation and the opening.
            if error.errno != errno.EROFS or not os.path.lexists(self.path(path)):
                raise

    def do_tmpfile(self):
        self.held[self.tree.next_fid] = os.open(self.top, os.O_TMPFILE | os.O_RDWR, 0o644)

    def do_hold(self, path):
        self.held[self.tree.names[path].fid] = os.open(self.path(path), os.O_RDWR)

    def do_linkfd(self, fid, path):
        libc("linkat", self.held[fid], b"", AT_FDCWD, self.path(path).encode(), AT_EMPTY_PATH)

    def do_mkdir(self, path):
        os.mkdir(self.path(path), 0o755)

    def do_rmdir(self, path):
        os.rmdir(self.path(path))

    def do_symlink(self, target, path):
        os.symlink(target, self.path(path))

    def do_link(self, old, new):
        os.link(self.path(old), self.path(new), follow_symlinks=False)

    def do_unlink(self, path):
        os.unlink(self.path(path))

    def do_rename(self, old, new):
        os.rename(self.path(old), self.path(new))

    def do_exchange(self, one, two):
        libc("renameat2", AT_FDCWD, self.path(one).encode(), AT_FDCWD, self.path(two).encode(),
             RENAME_EXCHANGE)

    def do_chmod(self, path, mode):
        os.chmod(self.path(path), mode)

    def do_setxattr(self, path, name, length):
        os.setxattr(self.path(path), name, model.xattr_value(self.tree.count, length))

    def do_removexattr(self, path, name):
        os.removexattr(self.path(path), name)

    def data(self, fid, offset, length):
        return model.pattern(fid, self.tree.count + 1, offset // SECTOR, length // SECTOR)

    def do_write(self, fid, offset, length):
        fd = self.open(fid)
        try:
            data = self.data(fid, offset, length)
            while data:
                done = os.pwrite(fd, data, offset)
                data, offset = data[done:], offset + done
        finally:
            os.close(fd)

    def do_dwrite(self, fid, offset, length):
        fd = self.open(fid, os.O_RDWR | os.O_DIRECT)
        try:
            with mmap.mmap(-1, length) as buffer:
                buffer[:] = self.data(fid, offset, length)
                if os.pwrite(fd, buffer, offset) != length:
                    raise OSError(errno.ENOSPC, "short direct write")
        finally:
            os.close(fd)

    def do_mwrite(self, fid, offset, length):
        """Through a mapping; blocks are allocated first, as SIGBUS is no way to say ENOSPC."""
        fd = self.open(fid)
        try:
            libc("fallocate", fd, FALLOCATE["keep"], offset, length)
            with mmap.mmap(fd, offset + length) as mapping:
                mapping[offset:offset + length] = self.data(fid, offset, length)
        finally:
            os.close(fd)

    def do_truncate(self, fid, size):
        fd = self.open(fid)
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)

    def do_fallocate(self, fid, mode, offset, length):
        fd = self.open(fid)
        try:
            libc("fallocate", fd, FALLOCATE[mode], offset, length)
        finally:
            os.close(fd)

    def do_clone(self, source, fid):
        src, fd = self.open(source), self.open(fid)
        try:
            fcntl.ioctl(fd, FICLONE, src)
        finally:
            os.close(src)
            os.close(fd)

    def do_fsync(self, fid):
        """Every now and then two at once: the first that comes back has the data on disk, too.

        Each opens the file for itself. An error is reported once for each opening, so of two
        that share one the other would return 0. A file without a name has one opening only.
        """
        self.syncs += 1
        self.had_error(fid)
        if fid in self.held or self.syncs % TOGETHER:
            sync_and_close(self.open(fid))
            return
        self.settle()
        self.late_fid = fid
        self.late = [self.pool.submit(sync_and_close, self.open(fid)) for _ in range(2)]
        done, _ = concurrent.futures.wait(self.late,
                                          return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            future.result()

    def settle(self):
        """Wait until the late syncs have come back."""
        concurrent.futures.wait(self.late)
        for future in self.late:
            if future.exception():
                self.unheard[self.late_fid] = future.exception()
        self.late = []

    def had_error(self, fid):
        """A late sync may have had the error of what was written since the other came back."""
        if fid == self.late_fid:
            self.settle()
        if fid in self.unheard:
            raise self.unheard.pop(fid)

    def do_fdatasync(self, fid):
        self.had_error(fid)
        fd = self.open(fid)
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def do_syncfs(self):
        fd = os.open(self.top, os.O_RDONLY)
        try:
            libc("syncfs", fd)
        finally:
            os.close(fd)

    def release(self):
        self.settle()
        for fd in self.held.values():
            os.close(fd)
        self.held = {}


# How often a profile does what.
PROFILES = {
    "metadata": {"creat": 10, "mkdir": 4, "rmdir": 3, "symlink": 2, "link": 4, "unlink": 6,
                 "rename": 8, "exchange": 2, "chmod": 2, "setxattr": 4, "removexattr": 2,
                 "write": 8, "truncate": 3, "fallocate": 4, "tmpfile": 1, "hold": 1, "clone": 2,
                 "fsync": 4, "fdatasync": 1, "fsyncdir": 2, "syncfs": 1},
    "fsync": {"creat": 4, "unlink": 2, "rename": 2, "write": 20, "mwrite": 3, "dwrite": 4,
              "truncate": 2, "fallocate": 2, "fsync": 14, "fdatasync": 8, "syncfs": 1},
    # Much is written to many files between two syncs: fast commits of several blocks.
    "many": {"creat": 10, "write": 60, "unlink": 2, "fsync": 2, "fdatasync": 1},
    # Every worker syncs: what is done while another worker's commit, or fast commit, is under way.
    "storm": {"creat": 6, "unlink": 4, "rename": 3, "link": 2, "write": 14, "fsync": 16,
              "fdatasync": 8},
    "unlink": {"creat": 16, "write": 10, "large": 3, "scatter": 2, "unlink": 12, "hold": 14,
               "tmpfile": 2, "rename": 2, "setxattr": 2, "fsync": 4, "syncfs": 1},
    # Blocks go from directories and attributes to data and back.
    "reuse": {"mkdir": 10, "rmdir": 9, "setxattr": 6, "removexattr": 4, "creat": 6, "unlink": 8,
              "write": 10, "large": 3, "scatter": 1, "fallocate": 2, "fsync": 6, "fsyncdir": 2,
              "syncfs": 1},
    # Chains of transactions that a checkpoint ends in the middle of: a clone replaces what a file
    # has, a write what files share.
    "intents": {"creat": 8, "clone": 18, "scatter": 3, "write": 14, "large": 4, "fallocate": 10,
                "truncate": 4, "unlink": 6, "fsync": 8, "fdatasync": 4, "syncfs": 1},
    # On a full filesystem that grows: what is new is used at once.
    "grow": {"mkdir": 16, "rmdir": 4, "creat": 14, "unlink": 6, "setxattr": 30, "write": 6,
             "large": 2, "fsync": 1, "syncfs": 1},
}
# What an operation needs of the filesystem, or it is left out.
NEEDS = {"clone": "reflink", "scatter": "heavy"}
HELD = 30                   # files without a name, at most
SIZES = {"large": 160 * 1024, None: 48 * 1024}
SCATTERED, APART = 270, 4   # writes of a sector, and sectors from one to the next
XATTR_SIZES = (10, 60, 300, 1500, 3000)
DIRS = ("", "d0", "d1", "d0/e")


class Random(Runner):
    """Operations of a profile, as a seed has them."""

    def __init__(self, worker, top, mark, profile, seed, features=()):
        super().__init__(worker, top, mark, features)
        self.rng = random.Random(seed)
        weights = {kind: weight for kind, weight in PROFILES[profile].items()
                   if NEEDS.get(kind) in (None, *features)}
        self.kinds, self.weights = list(weights), list(weights.values())

    def files(self, kinds="f"):
        return [p for p, n in self.tree.names.items() if n.kind in kinds]

    def pick(self, kinds="f"):
        names = self.files(kinds)
        return self.rng.choice(names) if names else None

    def pick_fid(self):
        name = self.pick()
        # Also files without a name that are still open.
        if self.held and self.rng.random() < 0.15:
            return self.rng.choice(list(self.held))
        return self.tree.names[name].fid if name else None

    def new_name(self):
        parents = [d for d in self.files("d") if d.count("/") < 2] + [""]
        parent = self.rng.choice(parents)
        for _ in range(20):
            name = f"{parent}/" * bool(parent) + f"n{self.rng.randrange(12)}"
            if name not in self.tree.names:
                return name
        return None

    def step(self):
        """One operation; some need two."""
        kind = self.rng.choices(self.kinds, self.weights)[0]
        getattr(self, "try_" + kind)()

    def try_creat(self):
        name = self.new_name()
        if name:
            self.do("creat", name)

    def try_mkdir(self):
        name = self.new_name()
        if name:
            self.do("mkdir", name)

    def try_rmdir(self):
        empty = [d for d in self.files("d")
                 if not any(p.startswith(d + "/") for p in self.tree.names)]
        if empty:
            self.do("rmdir", self.rng.choice(empty))

    def try_symlink(self):
        name = self.new_name()
        if name:
            self.do("symlink", "x" * self.rng.choice((5, 59, 60, 200)), name)

    def try_link(self):
        old, new = self.pick(), self.new_name()
        if old and new:
            self.do("link", old, new)

    def try_unlink(self):
        name = self.pick("fl")
        if name:
            self.do("unlink", name)

    def try_hold(self):
        """Keep a file open and remove its last name, or let go of one."""
        if len(self.held) > HELD:
            fid = self.rng.choice(list(self.held))
            os.close(self.held.pop(fid))
            return
        name = self.pick()
        if name and self.tree.names[name].links == 1 and \
                self.tree.names[name].fid not in self.held:
            if self.do("hold", name):
                self.do("unlink", name)

    def try_tmpfile(self):
        if len(self.held) > HELD:
            return
        fid = self.tree.next_fid
        if self.do("tmpfile"):
            self.do("write", fid, 0, 2 * BLOCK)
            name = self.new_name()
            if name and self.rng.random() < 0.5 and self.do("linkfd", fid, name):
                os.close(self.held.pop(fid))

    def try_rename(self):
        old = self.pick("fdl")
        if not old:
            return
        node = self.tree.names[old]
        new = self.new_name()
        if self.rng.random() < 0.4 and node.kind != "d":
            new = self.pick("fl")
        if new and new != old and not new.startswith(old + "/"):
            self.do("rename", old, new)

    def try_exchange(self):
        one, two = self.pick("fdl"), self.pick("fdl")
        if one and one != two and not one.startswith(two + "/") and not two.startswith(one + "/"):
            self.do("exchange", one, two)

    def try_chmod(self):
        name = self.pick("fd")
        if name:
            self.do("chmod", name, self.rng.choice((0o600, 0o640, 0o755, 0o700)))

    def try_setxattr(self):
        name = self.pick("fd")
        if name:
            self.do("setxattr", name, f"user.{self.rng.choice('abc')}",
                    self.rng.choice(XATTR_SIZES))

    def try_removexattr(self):
        names = [(p, x) for p, n in self.tree.names.items() for x in n.xattrs]
        if names:
            self.do("removexattr", *self.rng.choice(names))

    def _range(self, unit, most):
        offset = self.rng.randrange(most // unit) * unit
        return offset, min(self.rng.randrange(1, 17) * unit, most)

    def _write(self, kind, unit, most=SIZES[None]):
        fid = self.pick_fid()
        if fid and "inline" in self.features and kind == "write" and \
                self.tree.nodes[fid].size <= INLINE and self.rng.random() < 0.7:
            self.do(kind, fid, self.rng.choice((0, SECTOR)), self.rng.choice((1, 2)) * SECTOR)
        elif fid:
            offset, length = self._range(unit, most)
            if self.rng.random() < 0.3:
                offset = self.tree.nodes[fid].size // unit * unit
            if offset < SIZES["large"]:
                self.do(kind, fid, offset, length)

    def try_write(self):
        self._write("write", self.rng.choice((SECTOR, BLOCK)))

    def try_mwrite(self):
        """Only within the file: a mapping cannot extend it."""
        fid = self.pick_fid()
        if fid and self.tree.nodes[fid].size >= BLOCK:
            size = self.tree.nodes[fid].size // BLOCK
            first = self.rng.randrange(size)
            self.do("mwrite", fid, first * BLOCK,
                    self.rng.randrange(1, size - first + 1) * BLOCK)

    def try_dwrite(self):
        self._write("dwrite", BLOCK)

    def try_large(self):
        fid = self.pick_fid()
        if fid:
            self.do("write", fid, 0, SIZES["large"])

    def try_scatter(self):
        """An extent for each write, and more of them than a leaf of 1 KiB has room for."""
        fid = self.pick_fid()
        if fid and self.tree.nodes[fid].size < SCATTERED * APART * SECTOR:
            for number in range(SCATTERED):
                self.do("write", fid, number * APART * SECTOR, SECTOR)

    def try_truncate(self):
        fid = self.pick_fid()
        if fid:
            unit = self.rng.choice((SECTOR, BLOCK))
            self.do("truncate", fid, self.rng.randrange(SIZES[None] // unit) * unit)

    def try_fallocate(self):
        fid = self.pick_fid()
        if not fid:
            return
        size = self.tree.nodes[fid].size
        mode = self.rng.choice(list(FALLOCATE))
        unit = BLOCK if mode in ("collapse", "insert") else self.rng.choice((SECTOR, BLOCK))
        offset, length = self._range(unit, SIZES[None])
        if mode == "collapse" and offset + length >= size or mode == "insert" and (
                offset >= size or size > SIZES["large"]):
            return
        self.do("fallocate", fid, mode, offset, length)

    def try_clone(self):
        source, fid = self.pick_fid(), self.pick_fid()
        if source and fid and source != fid and \
                self.tree.nodes[fid].size <= self.tree.nodes[source].size:
            self.do("clone", source, fid)

    def try_fsync(self):
        fid = self.pick_fid()
        if fid:
            self.do("fsync", fid)

    def try_fdatasync(self):
        fid = self.pick_fid()
        if fid:
            self.do("fdatasync", fid)

    def try_fsyncdir(self):
        name = self.pick("d")
        self.do("fsync", self.tree.names[name].fid if name else 0)

    def try_syncfs(self):
        self.do("syncfs")


# Sequences: files A, B and directory D are there and on the disk, C is not there.
STEPS = (
    ("creat", "C"), ("mkdir", "E"), ("symlink", "A", "S"), ("link", "A", "C"), ("link", "A", "D/A"),
    ("link", "A", "E/A"),
    ("unlink", "A"), ("unlink", "D/F"), ("rename", "A", "B"), ("rename", "A", "C"),
    ("rename", "A", "D/A"), ("rename", "D/F", "A"), ("rename", "D", "E"), ("exchange", "A", "B"),
    ("exchange", "A", "D"), ("rmdir", "G"), ("setxattr", "A", "user.a", 20),
    ("setxattr", "A", "user.b", 1000), ("removexattr", "B", "user.b"), ("chmod", "A", 0o600),
    ("write", "A", 0, 4096), ("write", "A", 8192, 6144), ("write", "A", 11776, 512),
    ("write", "A", 65536, 512),
    ("dwrite", "A", 4096, 4096), ("mwrite", "A", 0, 4096), ("truncate", "A", 512),
    ("truncate", "A", 20480), ("fallocate", "A", "alloc", 4096, 16384),
    ("fallocate", "A", "keep", 8192, 16384), ("fallocate", "A", "punch", 0, 4096),
    ("fallocate", "A", "punch", 2048, 7168),
    ("fallocate", "A", "zero", 4096, 8192), ("fallocate", "A", "collapse", 0, 4096),
    ("fallocate", "A", "insert", 4096, 4096), ("tmpfile", "C"), ("clone", "B", "A"),
)
ON_FILES = ("write", "dwrite", "mwrite", "truncate", "fallocate")
ENDS = (("fsync", "A"), ("fsync", "B"), ("fsync", "C"), ("fdatasync", "A"), ("fsync", "D"),
        ("fsync", ""), ("syncfs",))
STEP_KINDS = {step[0] for step in (*STEPS, *ENDS)}


def sequences(depth, reflink):
    """Every sequence of up to @depth steps that makes sense, with each way to end it."""
    steps = [s for s in STEPS if reflink or s[0] != "clone"]
    for length in range(1, depth + 1):
        for sequence in itertools.product(*[steps] * length, ENDS):
            if makes_sense(sequence):
                yield sequence


def long_sequences(depth, reflink, rng):
    """Sequences of @depth steps at random, without end: there are too many to list."""
    steps = [s for s in STEPS if reflink or s[0] != "clone"]
    while True:
        sequence = (*rng.choices(steps, k=depth), rng.choice(ENDS))
        if makes_sense(sequence):
            yield sequence


def makes_sense(sequence):
    trial = Trial(0, "", None)
    trial.prepare(0)
    return trial.run(0, sequence)


class Sequence(Runner):
    """Sequences of steps, each in a directory of its own."""

    def prepare(self, number):
        """What is there before sequence @number; the caller syncs it."""
        top = f"s{number}"
        self.do("mkdir", top)
        self.do("mkdir", f"{top}/D")
        self.do("mkdir", f"{top}/G")
        for name, size in (("A", 11776), ("B", 8192), ("D/F", 4096)):
            if "inline" in self.features:
                size = min(size, INLINE)
            self.do("creat", f"{top}/{name}")
            self.do("write", self.tree.names[f"{top}/{name}"].fid, 0, size)
        self.do("setxattr", f"{top}/B", "user.b", 1000)

    def run(self, number, sequence):
        """Do a sequence; returns False where a step makes no sense after those before it."""
        return all(self.one(f"s{number}", step) for step in sequence)

    def one(self, top, step):
        kind, *args = step
        names = self.tree.names

        def full(name):
            return f"{top}/{name}" if name else top

        def kind_of(name):
            return names[full(name)].kind if full(name) in names else None

        if kind == "syncfs":
            return self.do(kind)
        if kind in ("fsync", "fdatasync"):
            return full(args[0]) in names and kind_of(args[0]) != "l" and \
                self.do(kind, names[full(args[0])].fid)
        if kind == "tmpfile":
            if full(args[0]) in names:
                return False
            fid = self.tree.next_fid
            return self.do("tmpfile") and self.do("write", fid, 0, 8192) and \
                self.do("linkfd", fid, full(args[0]))
        if kind in ON_FILES:
            if kind_of(args[0]) != "f":
                return False
            node = names[full(args[0])]
            if args[1:2] == ["collapse"] and node.size <= args[2] + args[3] or \
                    args[1:2] == ["insert"] and node.size <= args[2] or \
                    kind == "mwrite" and node.size < args[1] + args[2]:
                return False
            return self.do(kind, node.fid, *args[1:])
        if kind == "clone":
            one, two = (names.get(full(a)) for a in args)
            if not one or not two or one is two or {one.kind, two.kind} != {"f"} or \
                    two.size > one.size:
                return False
            return self.do(kind, one.fid, two.fid)
        if kind == "symlink":
            return full(args[1]) not in names and self.do(kind, args[0], full(args[1]))
        return self._on_names(kind, args, full, kind_of)

    def _on_names(self, kind, args, full, kind_of):
        names = self.tree.names
        old = kind_of(args[0])
        if kind in ("creat", "mkdir"):
            fits = old is None
        elif kind in ("link", "rename"):
            new = kind_of(args[1])
            fits = old in (("f",) if kind == "link" else ("f", "d", "l")) and \
                (new is None or kind == "rename" and new in "fl" and old in "fl")
        elif kind == "exchange":
            fits = old is not None and kind_of(args[1]) is not None
        elif kind == "unlink":
            fits = old in ("f", "l")
        elif kind == "rmdir":
            fits = old == "d"
        elif kind == "removexattr":
            fits = old == "f" and args[1] in names[full(args[0])].xattrs
        else:
            fits = old in ("f", "d")
        # A directory that was moved away has taken along what was in it.
        fits = fits and all("/" not in a or full(a.rpartition("/")[0]) in names and
                            kind_of(a.rpartition("/")[0]) == "d"
                            for a in args if isinstance(a, str))
        if not fits:
            return False
        count = 2 if kind in ("link", "rename", "exchange") else 1
        return self.do(kind, *[full(a) for a in args[:count]], *args[count:])


class Trial(Sequence):
    """Does nothing, to see whether a sequence makes sense."""

    def do(self, kind, *args):
        self.tree.apply((0, 0, kind, *args))
        return True
