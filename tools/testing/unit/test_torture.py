#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of torture: logs of dm-log-writes, what a cut may leave, and the judge of what it left."""

import contextlib
import errno
import io
import os
import random
import shutil
import struct
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
TORTURE = os.path.join(HERE, "../torture")
sys.path[:0] = [HERE, TORTURE]

import configs  # noqa: E402
import kept  # noqa: E402
import logwrites  # noqa: E402
import model  # noqa: E402
import program  # noqa: E402
import together  # noqa: E402
import workload  # noqa: E402
from logwrites import FLUSH, FUA, MARK, Entry  # noqa: E402

guest = program.load("tools/testing/torture/guest")
torture = program.load("tools/testing/torture/torture")


def sector(fill, count=1):
    return bytes([fill]) * 512 * count


def fills(image):
    """An image as a string: what each of its sectors is filled with."""
    sectors = [image[n:n + 512] for n in range(0, len(image), 512)]
    assert all(s == s[:1] * 512 for s in sectors)
    return "".join(str(s[0]) for s in sectors)


def write(pos, fill, flags=0, count=1):
    return Entry(pos * 512, count * 512, flags, sector(fill, count))


def mark(text):
    return Entry(0, 0, MARK, text.encode())


def flush(flags=0):
    return Entry(0, 0, FLUSH | flags, b"")


class Log(unittest.TestCase):
    def encode(self, entries, count=None):
        out = struct.pack("<QQQI", logwrites.MAGIC, 1, len(entries) if count is None else count,
                          512).ljust(512, b"\0")
        for entry in entries:
            marked = entry.flags & MARK
            head = struct.pack("<QQQQ", entry.pos // 512, entry.size // 512, entry.flags,
                               len(entry.data) if marked else 0)
            out += (head + (entry.data if marked else b"")).ljust(512, b"\0")
            out += b"" if marked else entry.data
        return io.BytesIO(out)

    def test_parse(self):
        entries = [write(3, 7, FUA, 2), mark("begin"), flush()]
        found = list(logwrites.parse(self.encode(entries)))
        self.assertEqual([(e.pos, e.size, e.flags, e.data.rstrip(b"\0")) for e in found],
                         [(e.pos, e.size, e.flags, e.data.rstrip(b"\0")) for e in entries])
        self.assertEqual([e.mark for e in found], [None, "begin", None])

    def test_broken_logs(self):
        for log in (io.BytesIO(bytes(512)), self.encode([], 1), self.encode([write(1, 1)], 2)):
            with self.assertRaises(logwrites.LogError):
                list(logwrites.parse(log))

    def test_points_are_behind_begin(self):
        log = [flush(), mark("begin"), write(1, 1), flush(), write(2, 2, FUA), mark("x")]
        self.assertEqual(list(logwrites.points(log)), [3, 4])
        self.assertEqual(list(logwrites.points(log, None)), [0, 3, 4])

    def images(self, log, between=1, seed=1):
        return [(c.entry, c.kind, fills(c.image), c.marks) for c in logwrites.cuts(
            bytes(8 * 512), log, list(logwrites.points(log, None)), random.Random(seed), between)]

    def test_flushed_is_there(self):
        log = [write(0, 1), mark("a"), flush(), mark("b"), write(1, 2), flush()]
        exact = [c for c in self.images(log) if c[1] == "all"]
        self.assertEqual([c[3] for c in exact], [("a",), ("a", "b")])
        self.assertEqual(exact[0][2], "10000000")
        self.assertEqual(exact[1][2], "12000000")

    def test_unflushed_may_be_there_in_part(self):
        log = [write(0, 1), write(2, 3, 0, 4), flush()]
        seen = {image for seed in range(60)
                for _, kind, image, _ in self.images(log, seed=seed) if kind != "all"}
        self.assertIn("00000000", seen)
        self.assertIn("10000000", seen)
        self.assertIn("00333300", seen)
        torn = [i for i in seen if i[2:6] not in ("0000", "3333")]
        self.assertTrue(torn)
        # What is partly there in one cut is not left behind in the next.
        self.assertEqual(self.images(log)[-1][2], "10333300")

    def test_sectors_that_are_not_torn(self):
        entry = write(2, 1, 0, 6)
        counts = set()
        for seed in range(100):
            rng = random.Random(seed)
            parts = list(logwrites.torn(entry, rng, lambda s: s // 4))
            self.assertTrue({(p.pos // 512, p.size // 512) for p in parts} <= {(2, 2), (4, 4)})
            counts.add(sum(p.size for p in parts) // 512)
        self.assertEqual(counts, {0, 2, 4, 6})

    def test_units_of_xfs(self):
        image = bytearray(512)
        struct.pack_into(">I", image, 4, 4096)
        struct.pack_into(">Q", image, 48, (1 << 13) + 4)    # AG 1, block 4
        struct.pack_into(">I", image, 84, 8000)
        struct.pack_into(">I", image, 96, 10)
        image[124] = 13
        tester = types.SimpleNamespace(config=configs.CONFIGS["xfs"])
        unit = guest.Torture.unit(tester, image)
        log = 8004 * 8
        self.assertEqual(len({unit(s) for s in range(log, log + 80)}), 80)
        self.assertEqual(len({unit(s) for s in range(log - 8, log)}), 1)
        self.assertEqual(len({unit(s) for s in range(log + 80, log + 96)}), 2)
        struct.pack_into(">I", image, 4, 1024)
        unit, log = guest.Torture.unit(tester, image), 8004 * 2
        self.assertEqual(len({unit(s) for s in range(log, log + 20)}), 20)
        self.assertEqual(len({unit(s) for s in range(log + 24, log + 32)}), 1)

    def test_fua_stays_and_is_not_overwritten_by_what_was_older(self):
        log = [write(0, 1), write(0, 2, FUA), write(3, 9), flush()]
        for seed in range(40):
            for entry, _kind, image, _ in self.images(log, seed=seed):
                if entry >= 1:
                    self.assertEqual(image[0], "2")

    def test_flush_with_fua(self):
        log = [write(0, 1), write(1, 2, FLUSH | FUA)]
        found = {kind: image for _, kind, image, _ in self.images(log)}
        self.assertIn("FUA torn" if "FUA torn" in found else "FUA not written", found)
        if "FUA not written" in found:
            self.assertEqual(found["FUA not written"], "10000000")
        self.assertEqual(found["all"], "12000000")


class Judge(unittest.TestCase):
    """The workload on a directory of this machine, and the judge of what is there."""

    def setUp(self):
        self.top = tempfile.mkdtemp(dir=os.environ.get("TORTURE_TMP"))
        self.addCleanup(shutil.rmtree, self.top)
        self.marks = []

    def do(self, *operations):
        runner = workload.Runner(0, self.top, self.marks.append)
        for operation in operations:
            runner.do(*operation)
        return runner

    def judge(self, runner, numbers=(), times=(), stale=False):
        signature, contents, _ = guest.look.collect(self.top)
        return model.judge(model.Worker(0, runner.operations), (signature, contents),
                           (set(numbers), list(times)), stale)

    def lost(self, runner, text, numbers=()):
        with self.assertRaisesRegex(model.Finding, text):
            self.judge(runner, numbers)

    F = 1 << 20     # the first file of worker 0

    def path(self, name):
        return os.path.join(self.top, name)

    def test_random_operations_are_what_the_model_says(self):
        for profile in workload.PROFILES:
            for seed in range(3):
                top = os.path.join(self.top, f"{profile}.{seed}")
                os.mkdir(top)
                runner = workload.Random(0, top, self.marks.append, profile, seed)
                for _ in range(150):
                    runner.step()
                runner.release()
                run = model.Worker(0, runner.operations)
                signature, contents, _ = guest.look.collect(top)
                end = runner.operations[-1][1] + 1
                self.assertEqual(run.signatures[-1], signature)
                model.judge(run, (signature, contents), (set(), [end]))

    def test_scattered_files_have_an_extent_for_each_write(self):
        top = os.path.join(self.top, "scattered")
        os.mkdir(top)
        runner = workload.Random(0, top, self.marks.append, "unlink", 1, ("heavy",))
        self.assertIn("scatter", runner.kinds)
        runner.do("creat", "a")
        runner.try_scatter()
        facts = os.stat(os.path.join(top, "a"))
        self.assertEqual(facts.st_size, ((workload.SCATTERED - 1) * workload.APART + 1) * 512)
        self.assertEqual(len(runner.operations), 1 + workload.SCATTERED)
        self.assertNotIn("scatter", workload.Random(0, top, None, "unlink", 1).kinds)

    def test_every_sequence_of_one_step(self):
        runner = workload.Sequence(0, self.top, self.marks.append)
        for number, sequence in enumerate(workload.sequences(1, False)):
            runner.prepare(number)
            self.assertTrue(runner.run(number, sequence) or
                            runner.errors, sequence)
        runner.release()
        self.assertGreater(number, 100)
        signature, contents, _ = guest.look.collect(self.top)
        run = model.Worker(0, runner.operations)
        self.assertEqual(run.signatures[-1], signature)
        model.judge(run, (signature, contents), (set(), [runner.operations[-1][1] + 1]))

    def test_unsynced_may_be_lost(self):
        runner = self.do(("creat", "a"), ("write", self.F, 0, 1024), ("mkdir", "d"))
        os.rmdir(self.path("d"))
        os.truncate(self.path("a"), 0)
        self.assertEqual(self.judge(runner), 1)
        os.unlink(self.path("a"))
        self.assertEqual(self.judge(runner), 0)

    def test_created_by_an_open_that_failed(self):
        really_open = os.open

        def remounted_meanwhile(path, flags, mode):
            if path.endswith("a"):
                os.close(really_open(path, flags, mode))
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        with mock.patch("os.open", remounted_meanwhile):
            runner = self.do(("creat", "a"), ("creat", "b"))
        self.assertEqual([op[2] for op in runner.operations], ["creat", "nothing"])
        self.judge(runner)

    def test_order_of_names_is_kept(self):
        runner = self.do(("creat", "a"), ("mkdir", "d"))
        os.unlink(self.path("a"))
        self.lost(runner, "names are those after no operation")

    def test_synced_names(self):
        runner = self.do(("creat", "a"), ("rename", "a", "b"), ("fsync", self.F), ("creat", "c"))
        self.assertEqual(self.marks, ["0:2"])
        os.unlink(self.path("c"))
        self.judge(runner, [2])
        os.rename(self.path("b"), self.path("a"))
        self.judge(runner)
        self.lost(runner, r"operations 1 to 1 were synced and are lost", [2])

    def test_fsync_of_a_directory(self):
        runner = self.do(("mkdir", "d"), ("creat", "d/a"), ("fsync", self.F), ("creat", "b"))
        os.unlink(self.path("b"))
        self.judge(runner, [2])
        os.unlink(self.path("d/a"))
        self.lost(runner, "lost", [2])

    def test_syncfs_covers_what_had_ended(self):
        runner = self.do(("creat", "a"), ("creat", "b"))
        first = runner.operations[0][1]
        os.unlink(self.path("b"))
        self.judge(runner, times=[first + 1])
        os.unlink(self.path("a"))
        with self.assertRaises(model.Finding):
            self.judge(runner, times=[first + 1])
        self.judge(runner, times=[first])

    def test_synced_data(self):
        runner = self.do(("creat", "a"), ("write", self.F, 0, 4096), ("fdatasync", self.F),
                         ("write", self.F, 1024, 512))
        self.judge(runner, [2])

        def put(number, data):
            with open(self.path("a"), "r+b") as file:
                file.seek(number * 512)
                file.write(data)

        put(2, model.pattern(self.F, 2, 2, 1))      # the older version
        self.judge(runner, [2])
        put(2, bytes(512))
        self.lost(runner, "sector 2 of 8 has zeros", [2])
        self.judge(runner)
        put(2, model.pattern(self.F + 1, 2, 2, 1))
        self.lost(runner, "data of file 0x100001")
        put(2, model.pattern(self.F, 2, 3, 1))
        self.lost(runner, "sector 2 of 8")
        put(2, b"\xaa" * 512)
        self.lost(runner, "what nobody wrote: aaaa")
        put(2, model.pattern(self.F, 2, 2, 1)[:-1] + b"x")
        self.lost(runner, "what nobody wrote")
        old, new = (model.pattern(self.F, gen, 2, 1) for gen in (2, 4))
        put(2, new[:160] + old[160:])       # half of it was written when it was changed
        self.judge(runner, [2])
        put(2, new[:160] + new[:8] + old[168:])
        self.judge(runner, [2])
        put(2, new[:160] + bytes(32) + old[192:])
        self.lost(runner, "what nobody wrote", [2])
        put(2, model.pattern(self.F, 2, 2, 1)[:-1] + b"x")
        # data=writeback promises nothing for what was not synced, but all for what was.
        self.judge(runner, [2], stale=True)
        put(3, bytes(512))
        with self.assertRaises(model.Finding):
            self.judge(runner, [2], stale=True)

    def test_writeback_removed(self):
        """With data=writeback the blocks of a file are given away before its removal is durable."""
        runner = self.do(("creat", "a"), ("write", self.F, 0, 4096), ("fsync", self.F))
        old = model.pattern(self.F, 2, 0, 8)
        runner.do("unlink", "a")
        with open(self.path("a"), "wb") as file:
            file.write(old[:-512] + model.pattern(self.F + 1, 9, 0, 1))
        self.judge(runner, [2], stale=True)
        self.lost(runner, "has data of file", [2])
        os.truncate(self.path("a"), 3584)
        with self.assertRaisesRegex(model.Finding, "3584 bytes"):
            self.judge(runner, [2], stale=True)

    def test_mended(self):
        """Of a file that e2fsck has made longer, what was there before counts."""
        runner = self.do(("creat", "a"), ("write", self.F, 0, 4608))
        worker = model.Worker(0, runner.operations)
        with open(self.path("a"), "ab") as file:
            file.write(b"\xa5" * 3584)
        number = os.stat(self.path("a")).st_ino
        said = f"Pass 1\nInode {number}, i_size is 4608, should be 8192.  Fix? yes\n"
        sizes = {int(n): int(size) for n, size in guest.look.LENGTHENED.findall(said)}
        signature, contents, _ = guest.look.collect(self.top, sizes)
        model.judge(worker, (signature, contents), (set(), []))
        signature, contents, _ = guest.look.collect(self.top)
        with self.assertRaisesRegex(model.Finding, "8192 bytes"):
            model.judge(worker, (signature, contents), (set(), []))

    def test_sizes(self):
        runner = self.do(("creat", "a"), ("write", self.F, 0, 2048), ("fsync", self.F),
                         ("truncate", self.F, 4096))
        for size in (2048, 3072, 4096):
            os.truncate(self.path("a"), size)
            self.judge(runner, [2])
        for size in (1024, 4608):
            os.truncate(self.path("a"), size)
            self.lost(runner, "bytes, not 2048 to 4096", [2])
        os.truncate(self.path("a"), 2049)
        self.lost(runner, "no whole sectors|zeros", [2])

    def test_what_truncate_dropped_does_not_come_back(self):
        runner = self.do(("creat", "a"), ("write", self.F, 0, 2048), ("truncate", self.F, 512),
                         ("truncate", self.F, 2048), ("fsync", self.F))
        self.judge(runner, [4])
        with open(self.path("a"), "wb") as file:
            file.write(model.pattern(self.F, 2, 0, 4))
        self.judge(runner)
        self.lost(runner, "sector 1 of 4", [4])

    def test_attributes_modes_links(self):
        runner = self.do(("creat", "a"), ("link", "a", "b"), ("chmod", "a", 0o600))
        if runner.operations[-1][2] == "nothing":
            self.skipTest("not possible here")
        os.chmod(self.path("a"), 0o640)
        self.lost(runner, "names are those after no operation")
        os.unlink(self.path("b"))
        shutil.copy(self.path("a"), self.path("b"))
        os.chmod(self.path("a"), 0o600)
        os.chmod(self.path("b"), 0o600)
        self.lost(runner, "names are those after no operation")

    def test_failed_write_may_have_done_a_part(self):
        runner = self.do(("creat", "a"), ("write", self.F, 0, 1024), ("fsync", self.F))
        runner.operations.append((0, 0, "maybe_write", self.F, 0, 2048, 1536))
        self.judge(runner, [2])
        with open(self.path("a"), "r+b") as file:
            file.write(model.pattern(self.F, 4, 0, 3))
        self.judge(runner, [2])
        runner.operations.append((0, 0, "fsync", self.F))
        self.judge(runner, [4])
        with open(self.path("a"), "r+b") as file:
            file.write(model.pattern(self.F, 9, 0, 1))
        self.lost(runner, "sector 0", [2])

    def test_failed_truncate_may_have_been_done(self):
        runner = self.do(("creat", "a"), ("write", self.F, 0, 2048), ("fsync", self.F))
        os.truncate(self.path("a"), 1024)
        self.lost(runner, "1024 bytes, not 2048", [2])
        runner.operations.append((0, 0, "maybe_truncate", self.F, 1024, 2048))
        self.judge(runner, [2])
        os.truncate(self.path("a"), 2048)       # what it has cut off reads as zeros
        self.judge(runner, [2])
        os.truncate(self.path("a"), 512)
        self.lost(runner, "512 bytes, not 1024 to 2048", [2])

    def test_failed_clone_may_have_been_done(self):
        other = self.F + 1
        runner = self.do(("creat", "a"), ("write", self.F, 0, 2048), ("creat", "b"),
                         ("fsync", other))
        shutil.copy(self.path("a"), self.path("b"))
        self.lost(runner, "2048 bytes, not 0 to 0", [3])
        runner.operations.append((0, 0, "maybe_clone", other, self.F, 0))
        self.judge(runner, [3])
        with open(self.path("b"), "r+b") as file:
            file.write(model.pattern(other, 9, 0, 1))
        self.lost(runner, "b .*sector 0", [3])

    def test_last_operation_failed_and_was_done(self):
        runner = self.do(("creat", "a"))
        runner.operations.append((0, 0, "nothing", "creat", [], ("b",)))
        self.do(("creat", "b"))
        self.lost(runner, "names are those after no operation")
        signature, contents, _ = guest.look.collect(self.top)
        self.assertEqual(model.judge(model.Worker(0, runner.operations, True),
                                     (signature, contents), (set(), [])), 3)

    def test_incomplete_attributes(self):
        class Counts:
            count = guest.collections.Counter()
        said = ("attribute entry #0 in attr block 1, inode 785 is INCOMPLETE\n"
                "problem with attribute contents in inode 785\nwould clear attr fork\n"
                "bad nblocks 5 for inode 785, would reset to 2\n")
        self.assertEqual(said, guest.look.PROGRESS.sub(
            "", f"Phase 3 - for each AG...\n        - agno = 0\n{said}No modify flag set, skip\n"))
        self.assertTrue(guest.Torture.only_incomplete(Counts, said))
        self.assertFalse(guest.Torture.only_incomplete(Counts, said + "bad inode 786\n"))
        self.assertFalse(guest.Torture.only_incomplete(Counts, said.replace("INCOMPLETE", "bad")))
        said = ("attribute block hashvalue inconsistency, expected > 98 / saw 98\n"
                "bad attribute block in inode 139\n"
                "bad hash path in attribute fork for inode 139\n"
                "problem with attribute contents in inode 139\nwould clear attr fork\n"
                "bad nblocks 2 for inode 139, would reset to 0\n"
                "bad anextents 2 for inode 139, would reset to 0")
        self.assertTrue(guest.Torture.only_incomplete(Counts, said))
        self.assertFalse(guest.Torture.only_incomplete(Counts, said.replace("saw 98", "saw 97")))
        self.assertFalse(guest.Torture.only_incomplete(Counts, said + "\nbad inode 139"))

    def test_collapse_moves_data(self):
        runner = self.do(("creat", "a"), ("write", self.F, 0, 12288))
        runner.operations.append((0, 0, "fallocate", self.F, "collapse", 0, 4096))
        runner.operations.append((0, 0, "fsync", self.F))
        data = model.pattern(self.F, 2, 0, 24)
        with open(self.path("a"), "wb") as file:
            file.write(data[4096:])
        self.judge(runner, [3])
        with open(self.path("a"), "wb") as file:
            file.write(data[:8192])
        self.judge(runner)
        self.lost(runner, "sector 0", [3])


class Together(unittest.TestCase):
    """Several tasks that write and sync one file."""

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.marks = []

    def work(self, kind):
        together.prepare(self.top, kind)
        return [together.write(worker, self.top, kind, self.marks.append, f"1.{worker}")
                for worker in range(together.WORKERS)]

    def change(self, team, block, content):
        fd = os.open(f"{self.top}/team{team}", os.O_WRONLY)
        os.pwrite(fd, content, block * together.BLOCK)
        os.close(fd)

    def judge(self, kind, runs, marks):
        try:
            together.judge(self.top, kind, runs, marks)
        except model.Finding as finding:
            return str(finding)
        return ""

    def test_all_is_there(self):
        for kind in together.KINDS:
            with self.subTest(kind=kind):
                runs = self.work(kind)
                every = [tuple(map(int, mark.split(":"))) for mark in self.marks]
                self.assertEqual(self.judge(kind, runs, every), "")
                self.assertEqual(self.judge(kind, runs, []), "")
                shutil.rmtree(self.top)
                os.mkdir(self.top)
                self.marks.clear()

    def test_lost(self):
        for kind in together.KINDS:
            with self.subTest(kind=kind):
                runs = self.work(kind)
                team, block, _ = runs[0][10]
                last = max(step for step, op in enumerate(runs[0]) if op[1] == block)
                # Synced by its own writer, or by the other one later; or not at all.
                first = together.block_of(team, block, 0) if kind == "overwrites" else \
                    bytes(together.BLOCK)
                self.change(team, block, first)
                self.assertIn(f"block {block}:", self.judge(kind, runs, [(0, last)]))
                self.assertIn(f"block {block}:", self.judge(kind, runs, [(1, 59)]))
                self.assertEqual(self.judge(kind, runs, [(0, 9)] if last == 10 else []), "")
                # Of another file, which a block of this one must not have.
                self.change(team, block, together.block_of(1, block, last + 1))
                self.assertIn("has record 1", self.judge(kind, runs, []))
                self.change(team, block, b"\xa5" * together.BLOCK)
                self.assertIn("has record 42405", self.judge(kind, runs, []))
                shutil.rmtree(self.top)
                os.mkdir(self.top)

    def test_size(self):
        runs = self.work("append")
        block = runs[1][-1][1]
        os.truncate(f"{self.top}/team0", block * together.BLOCK)
        self.assertEqual(self.judge("append", runs, [(0, 0)]), "")
        self.assertIn("has nothing", self.judge("append", runs, [(1, 59)]))


class Races(unittest.TestCase):
    """KCSAN, which makes all slow, is asked during the work only."""

    def test_kcsan(self):
        with tempfile.TemporaryDirectory() as top:
            control = os.path.join(top, "kcsan")
            with mock.patch.object(guest, "RACES", control):
                guest.Torture.races(True)
                self.assertFalse(os.path.exists(control))
                for on, said in ((True, "on"), (False, "off")):
                    guest.guestlib.write(control, "")
                    guest.Torture.races(on)
                    self.assertEqual(guest.guestlib.read(control).strip(), said)


class Kept(unittest.TestCase):
    """Cuts on their way to another kernel."""

    def test_changes(self):
        base = bytes(5 * kept.BLOCK)
        image = bytearray(base)
        image[kept.BLOCK - 1] = image[4 * kept.BLOCK] = 1
        blocks = kept.changes(base, image)
        self.assertEqual(sorted(blocks), [0, 4 * kept.BLOCK])
        again = bytearray(base)
        before = kept.change(again, blocks)
        self.assertEqual(again, image)
        kept.change(again, before)
        self.assertEqual(again, base)
        self.assertEqual(kept.changes(base, base), {})

    def test_rounds(self):
        base = b"\xa5" * kept.BLOCK + bytes(3 * kept.BLOCK)
        log = [write(0, 1), mark("0:1"), flush(), write(9, 2, FUA)]
        made = [(c.entry, c.marks, c.kind, bytes(c.image)) for c in logwrites.cuts(
            base, log, [2, 3], random.Random(1))]
        with tempfile.TemporaryDirectory() as top:
            for number in (0, 1):
                keeper = kept.Keeper(top, number, base, b"\xa5", seed=f"1.{number}",
                                     runs=[[("a",)]])
                for cut in logwrites.cuts(base, log, [2, 3], random.Random(1)):
                    keeper.keep(cut)
            with self.assertRaisesRegex(kept.KeptError, "is the one that wrote"):
                next(kept.rounds(top))
            other = types.SimpleNamespace(version="#2")
            with mock.patch("os.uname", lambda: other):
                found = [(facts, [(c.entry, c.marks, c.kind, bytes(c.image)) for c in cuts])
                         for facts, cuts in kept.rounds(top)]
        self.assertEqual([facts["seed"] for facts, _ in found], ["1.0", "1.1"])
        self.assertEqual(found[0][0]["runs"], [[("a",)]])
        for _, cuts in found:
            self.assertCountEqual(cuts, made)


class Driver(unittest.TestCase):
    def plan(self, **values):
        args = types.SimpleNamespace(**{"only": None, "slice": False, "seconds": None,
                                        "minutes": None, "jobs": 2, "seed": "1",
                                        "kernel": "uml-torture", "recover": None, **values})
        with contextlib.redirect_stderr(io.StringIO()):
            return torture.plan(args)

    def test_time_is_shared(self):
        pairs, seconds = self.plan(minutes=60)
        self.assertEqual(pairs, list(configs.PAIRS))
        self.assertAlmostEqual(len(pairs) * (seconds + torture.BOOTING), 7200)

    def test_mainline_is_not_asked_for_what_it_has_not(self):
        base, _ = self.plan(minutes=60, kernel="uml-torture-base")
        self.assertEqual([p for p in configs.PAIRS if p not in base],
                         [p for p in configs.PAIRS if p.startswith("ext4-inactive")])
        asked = ["ext4-inactive/unlink"]
        self.assertEqual(self.plan(only=asked, kernel="uml-torture-base", minutes=9)[0], asked)

    def test_little_time_is_for_few(self):
        few = [tuple(self.plan(minutes=2, seed=s)[0]) for s in "123456"]
        self.assertEqual({len(f) for f in few}, {5})
        self.assertGreater(len(set(few)), 3)
        self.assertEqual(self.plan(minutes=0.1, slice=True)[0], list(configs.SLICE))

    def test_another_kernel_recovers(self):
        pairs, seconds = self.plan(minutes=60, recover="uml-torture-base")
        self.assertEqual(pairs, [p for p in configs.PAIRS if p.split("/")[1] in configs.CUTS and
                                 not p.startswith("ext4-inactive")])
        self.assertAlmostEqual(len(pairs) * (seconds + 2 * torture.BOOTING), 7200)
        for words in (["--recover", "k", "--only", "xfs/resize"], ["--recover", "k", "--slice"],
                      ["k", "--patch", "diff"]):
            with mock.patch("sys.argv", ["torture", *words]), \
                    contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                torture.parse_args()

    def cross(self, *guests):
        """What torture() makes of two guests."""
        results = iter(guests)
        with tempfile.TemporaryDirectory() as top, \
                mock.patch.object(torture, "boot", lambda *_, **__: next(results)):
            args = types.SimpleNamespace(out=top, recover="k", recover_image="i", perturb=None)
            facts = torture.torture(args, "image", "xfs/grow", 30)
            self.assertEqual(os.listdir(os.path.join(top, "xfs-grow")), [])
        return facts

    def test_cuts_that_another_kernel_recovers_from(self):
        wrote = {"pair": "xfs/grow", "counts": {"cuts kept": 9}, "findings": []}
        good = {"acknowledged syncs looked at": 5, torture.RECOVERED: 2}
        facts = self.cross(wrote, {**wrote, "counts": good})
        self.assertEqual(facts["counts"], {"cuts kept": 9, **good})
        self.assertNotIn("broken", facts)
        facts = self.cross(wrote, {**wrote, "counts": {**good, torture.RECOVERED: 0}})
        self.assertTrue(facts["broken"])
        facts = self.cross({**wrote, "broken": True, "said": "no guest", "counts": {}})
        self.assertTrue(facts["broken"])

    def test_nothing_was_tried(self):
        syncs = "acknowledged syncs looked at"
        self.assertEqual(torture.must_have("ext4", "unlink"), ["recoveries", syncs])
        self.assertEqual(torture.must_have("ext4-inactive-1k", "unlink"),
                         ["recoveries", syncs, "inodes parked", "large inodes parked"])
        self.assertEqual(torture.must_have("ext4-inactive", "full"), ["disturbances", syncs])
        self.assertEqual(torture.must_have("xfs", "grow"), ["recoveries", syncs, "times grown"])
        self.assertEqual(torture.must_have("xfs", "grow", "k"), [torture.RECOVERED, syncs])

    def test_pairs(self):
        for name in (*configs.PAIRS, *configs.SLICE):
            self.assertEqual(torture.pair(name), name)
        for name in ("ext5/fsync", "ext4/fsck", "ext4-nojournal"):
            with self.assertRaises(torture.argparse.ArgumentTypeError):
                torture.pair(name)


if __name__ == "__main__":
    unittest.main()
