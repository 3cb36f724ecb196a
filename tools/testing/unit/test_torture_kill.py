#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of torture/kill: the disk with a cache, its server, and the record of a killed worker."""

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import socket
import struct
import sys
import tempfile
import types
import unittest
import unittest.mock
import zlib

HERE = os.path.dirname(os.path.realpath(__file__))
TORTURE = os.path.join(HERE, "../torture")
sys.path[:0] = [HERE, TORTURE, os.path.join(HERE, "../lib")]

import configs  # noqa: E402
import look  # noqa: E402
import model  # noqa: E402
import nbd  # noqa: E402
import program  # noqa: E402
import record  # noqa: E402

kill = program.load("tools/testing/torture/kill")
kill_guest = program.load("tools/testing/torture/kill-guest")


def sector(fill, count=1):
    return bytes([fill]) * 512 * count


class Cache(unittest.TestCase):
    def setUp(self):
        self.disk = nbd.Disk(bytes(8 * 512))

    def write(self, number, fill, count=1, late=False):
        entry = self.disk.write(number * 512, sector(fill, count))
        if not late:
            self.disk.answered(entry)
        return entry

    def images(self):
        """What cuts leave, as strings of what fills each sector; and how many writes they lose."""
        found = set()
        for seed in range(200):
            image, lost, _ = self.disk.cut(random.Random(seed), int)
            found.add(("".join(str(image[n]) for n in range(0, len(image), 512)), lost))
        return found

    def test_flushed_is_there(self):
        self.write(0, 1)
        self.write(2, 2, 2)
        self.disk.flush()
        self.assertEqual(self.images(), {("10220000", 0)})

    def test_unflushed_is_seen_and_may_be_lost(self):
        self.write(0, 1)
        self.disk.flush()
        self.write(0, 3)
        self.write(2, 2, 2)
        self.assertEqual(self.disk.read(0, 4 * 512), sector(3) + sector(0) + sector(2, 2))
        found = self.images()
        self.assertTrue({("10000000", 2), ("30000000", 1), ("10220000", 1),
                         ("30220000", 0)} <= found)
        # Torn, in any order.
        self.assertIn(("10200000", 2), found)
        self.assertIn(("10020000", 2), found)

    def test_what_was_not_answered_is_not_flushed(self):
        late = self.write(0, 1, late=True)
        self.write(1, 2)
        self.disk.flush()
        self.assertEqual(self.images(), {("02000000", 1), ("12000000", 0)})
        self.disk.answered(late)
        self.disk.flush()
        self.assertEqual(self.images(), {("12000000", 0)})

    def test_older_version_stays(self):
        self.write(0, 1)
        self.write(0, 2)
        self.assertEqual({image[0] for image, _ in self.images()}, {"0", "1", "2"})

    def test_lie(self):
        self.disk = nbd.Disk(bytes(8 * 512), lie=True)
        self.write(0, 1)
        self.disk.flush()
        self.disk.begin()
        self.write(1, 2)
        self.disk.flush()
        self.assertEqual(self.images(), {("10000000", 1), ("12000000", 0)})


class Client:
    """What QEMU is to the server."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(path)
        assert self.take(18) == b"NBDMAGICIHAVEOPT\0\3"
        self.socket.sendall(struct.pack(">I", 3))
        self.cookie = 0

    def take(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def option(self, option, data=b""):
        self.socket.sendall(struct.pack(">8sII", b"IHAVEOPT", option, len(data)) + data)
        return self.option_reply(option)

    def option_reply(self, option):
        magic, about, kind, length = struct.unpack(">QIII", self.take(20))
        assert (magic, about) == (nbd.REPLY, option)
        return kind, self.take(length)

    def send(self, kind, pos=0, size=0, data=b""):
        self.cookie += 1
        self.socket.sendall(struct.pack(">IHHQQI", nbd.REQUEST, 0, kind, self.cookie, pos,
                                        size or len(data)) + data)
        return self.cookie

    def answer(self, size=0):
        magic, error, cookie = struct.unpack(">IIQ", self.take(16))
        assert (magic, error) == (nbd.ANSWER, 0)
        return cookie, self.take(size)

    def do(self, kind, pos=0, size=0, data=b""):
        cookie = self.send(kind, pos, size, data)
        found, content = self.answer(size if kind == nbd.READ else 0)
        assert found == cookie
        return content


class Protocol(unittest.TestCase):
    def setUp(self):
        top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, top)
        self.disk = nbd.Disk(bytes(64 * 512))
        path = os.path.join(top, "disk")
        self.server = nbd.Server(self.disk, path, random.Random(1))
        self.addCleanup(self.server.close)
        self.client = Client(path)
        self.addCleanup(self.client.socket.close)

    def go(self):
        kind, info = self.client.option(nbd.GO, struct.pack(">IH", 0, 0))
        self.assertEqual((kind, info), (nbd.INFO, struct.pack(">HQH", 0, 64 * 512, 5)))
        self.assertEqual(self.client.option_reply(nbd.GO), (nbd.ACK, b""))

    def test_options_that_it_does_not_have(self):
        self.assertEqual(self.client.option(8), (nbd.UNSUPPORTED, b""))
        self.go()

    def test_requests(self):
        self.go()
        self.client.do(nbd.WRITE, 512, data=sector(7, 2))
        self.assertEqual(self.client.do(nbd.READ, 0, 1536), sector(0) + sector(7, 2))
        self.assertEqual(len(self.disk.pending), 1)
        self.client.do(nbd.FLUSH)
        self.assertEqual((self.disk.pending, self.disk.flushes, self.disk.writes), ([], 1, 1))
        self.assertEqual(self.disk.stable, self.disk.seen)
        self.client.send(nbd.DISCONNECT)
        self.server.join(10)
        self.assertIsNone(self.server.failure)

    def test_all_are_answered_once_whatever_is_late(self):
        self.go()
        cookies = [self.client.send(nbd.WRITE, n % 64 * 512, data=sector(n)) for n in range(100)]
        found = [self.client.answer()[0] for _ in cookies]
        self.assertEqual(sorted(found), cookies)
        self.assertNotEqual(found, cookies)
        self.assertFalse(self.disk.late)

    def test_stop(self):
        self.go()
        self.server.stop(2)
        self.client.do(nbd.WRITE, 0, data=sector(1))
        self.client.send(nbd.WRITE, 0, data=sector(2))
        self.client.send(nbd.FLUSH)
        self.assertTrue(self.server.stopped.wait(10))
        self.assertEqual((len(self.disk.pending), self.disk.flushes), (2, 0))
        self.assertIsNone(self.server.failure)

    def test_client_is_killed(self):
        self.go()
        self.client.socket.sendall(struct.pack(">IHHQQI", nbd.REQUEST, 0, nbd.WRITE, 1, 0, 512) +
                                   bytes(100))
        self.client.socket.close()
        self.assertTrue(self.server.stopped.wait(10))
        self.assertEqual((self.server.failure, self.disk.pending), (None, []))

    def test_nonsense(self):
        self.go()
        self.client.send(nbd.WRITE, 64 * 512, data=sector(1))
        self.assertTrue(self.server.stopped.wait(10))
        self.assertIn("makes no sense", str(self.server.failure))


class Record(unittest.TestCase):
    F = 1 << 20     # the first file of worker 0

    def setUp(self):
        self.top = tempfile.mkdtemp(dir=os.environ.get("TORTURE_TMP"))
        self.addCleanup(shutil.rmtree, self.top)
        self.work = os.path.join(self.top, "w0")
        os.mkdir(self.work)

    def runner(self, seed=1):
        runner = record.Recorded(os.path.join(self.top, "record"), 0, self.work, "metadata", seed,
                                 ())
        self.addCleanup(os.close, runner.fd)
        return runner

    def text(self):
        with open(os.path.join(self.top, "record"), encoding="ascii") as file:
            return file.read()

    def judge(self, text):
        operations, synced, _ = record.parse(text)
        signature, contents, _ = look.collect(self.work)
        return model.judge(model.Worker(0, operations), (signature, contents),
                           (synced, record.acknowledged(operations, synced)))

    def test_is_what_was_done(self):
        runner = self.runner()
        for _ in range(150):
            runner.step()
        runner.release()
        operations, synced, in_flight = record.parse(self.text())
        self.assertEqual(json.dumps(operations), json.dumps(runner.operations))
        self.assertFalse(in_flight)
        self.assertEqual(synced, {n for n, op in enumerate(operations) if op[2] in model.SYNCS})
        self.assertTrue(synced)
        self.assertEqual(self.judge(self.text()), len(operations))

    def test_cut_anywhere(self):
        """What the record says at any time is no more than was done."""
        runner = self.runner(2)
        for _ in range(60):
            runner.step()
        runner.release()
        text, last = self.text(), 0
        for end in range(0, len(text), 7):
            operations, synced, in_flight = record.parse(text[:end])
            self.assertLessEqual(last, len(operations))
            last = len(operations)
            self.assertEqual(in_flight, bool(operations) and operations[-1][1] == model.ALWAYS)
            self.assertNotIn(last - 1 if in_flight else last, synced)
            self.assertEqual([list(op[2:]) for op in operations[:last - in_flight]],
                             json.loads(json.dumps([op[2:] for op in runner.operations]))
                             [:last - in_flight])
            model.Worker(0, operations)

    def test_in_flight_may_have_been_done(self):
        runner = self.runner()
        runner.do("creat", "a")
        runner.do("write", self.F, 0, 4096)
        begun = self.text()[:self.text().rindex('["end"')]
        for size in (4096, 1024, 0):
            os.truncate(os.path.join(self.work, "a"), size)
            self.judge(begun)
        with open(os.path.join(self.work, "a"), "wb") as file:
            file.write(sector(1))
        with self.assertRaises(model.Finding):
            self.judge(begun)
        os.unlink(os.path.join(self.work, "a"))
        self.assertEqual(self.judge(self.text() + '["begin", "unlink", "a"]\n'), 0)

    def test_in_flight_is_judged_by_what_is_there(self):
        runner = self.runner()
        runner.do("creat", "a")
        runner.do("fsync", self.F)
        gone = self.text() + '["begin", "unlink", "a"]\n'
        self.judge(gone)
        os.unlink(os.path.join(self.work, "a"))
        self.assertEqual(self.judge(gone), 3)
        with self.assertRaises(model.Finding):
            self.judge(self.text())

    def test_sync_less(self):
        runner = self.runner()
        before = dict(zip(runner.kinds, runner.weights))
        runner.sync_less(0.5)
        after = dict(zip(runner.kinds, runner.weights))
        self.assertEqual({k for k in before if after[k] == before[k] / 2},
                         {"fsync", "fdatasync", "fsyncdir", "syncfs"})
        self.assertTrue(all(after[k] in (before[k], before[k] / 2) for k in before))

    def test_acknowledged_is_needed(self):
        runner = self.runner()
        runner.do("creat", "a")
        runner.do("fsync", self.F)
        os.unlink(os.path.join(self.work, "a"))
        with self.assertRaisesRegex(model.Finding, "were synced and are lost"):
            self.judge(self.text())
        # The fsync was on its way when the guest was killed.
        self.assertEqual(self.judge(self.text()[:-1]), 0)

    def test_syncfs_of_another_worker(self):
        operations, synced, _ = record.parse(
            '["begin", "syncfs"]\n["end", 5, 9, "syncfs"]\n["begin", "syncfs"]\n')
        self.assertEqual(record.acknowledged(operations, synced), [5])

    def test_broken_records(self):
        for text in ('["end", 1, 2, "creat", "a"]\n', '["begin", "creat", "a"]\n' * 2, "{\n",
                     '["begin", "creat", "a"]\n["end", 1, 2, "unlink", "a"]\n', "[]\n",
                     '["begin", "write", 1, 0, 512]\n["end", 1, 2]\n'):
            with self.assertRaises(record.RecordError):
                record.parse(text)
        self.assertEqual(record.parse('["begin", "write", 1, 0, 512]\n["end", 1, 2'),
                         ([(0, model.ALWAYS, "write", 1, 0, 512)], set(), True))


class Judge(unittest.TestCase):
    """What is counted and found, without a guest."""

    def test_guest_judges_the_record(self):
        with tempfile.TemporaryDirectory() as top:
            before = os.path.join(top, "before")
            os.mkdir(before)
            kill_guest.write(os.path.join(before, "facts.json"), {"constant": 11})
            for worker in range(kill_guest.WORKERS):
                with open(os.path.join(before, f"worker{worker}"), "w", encoding="ascii") as file:
                    file.write('["begin", "creat", "a"]\n["end", 1, 2, "creat", "a"]\n'
                               '["begin", "syncfs"]\n["end", 3, 4, "syncfs"]\n'
                               '["begin", "unlink", "a"]\n')
            device = os.path.join(top, "device")
            with open(device, "wb") as file:
                file.write(bytes(4096))
            killed = kill_guest.Killed("ext4", before)
            seen = []

            def look_at(path, names, dirty):
                seen.append((path, dirty))
                names()

            def names(runs, synced, times, judge):
                seen.append(([len(r.operations) for r in runs], synced, times, judge))
                raise model.Finding("something")

            killed.look_at, killed.names = look_at, names
            self.assertEqual(killed.judge(device), "something")
        self.assertEqual(seen, [(device, False), ([3] * 4, {n: {1} for n in range(4)}, [3] * 4,
                                                  "cut")])
        self.assertEqual(killed.constant, 11)
        self.assertEqual((killed.count["operations"], killed.count["in flight"]), (12, 4))

    def killing(self, top, **values):
        args = types.SimpleNamespace(**{"out": top, "rounds": 1, "seed": "1", "lie": False,
                                        **values})
        return kill.Killing(args, "image", "ext4/metadata")

    def run_rounds(self, killing, **counts):
        def one(seed):
            if seed:
                killing.count.update(counts)

        killing.round = one
        with contextlib.redirect_stderr(io.StringIO()):
            return killing.run(0)

    def test_nothing_to_look_at(self):
        with tempfile.TemporaryDirectory() as top:
            full = {"writes lost": 1, "recoveries": 1, "acknowledged syncs looked at": 1}
            self.assertNotIn("said", self.run_rounds(self.killing(top), **full))
            for name in full:
                facts = self.run_rounds(self.killing(top), **{**full, name: 0})
                self.assertIn("found nothing to look at", facts["said"])

    def rounds(self, killing, status, result=None, failed=None):
        """A round that looks at what the last one left, in a guest that ends like this."""
        class Guest:
            command = "boot"

            def __init__(self, *_):
                if result:
                    kill_guest.write(killing.path("result.json"), result)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            @staticmethod
            def status():
                return status, "it says"

        def cut(*_):
            if not failed:
                killing.last = [(b"next", "seed 1.1")]
            return failed

        kill.workbench.write(killing.path("console"), "")
        os.makedirs(killing.path("before"), exist_ok=True)
        killing.last = [(b"image", "seed 1.0"), (b"other", "seed 1.0 too")]
        killing.new_disk = lambda: nbd.Disk(bytes(512))
        killing.cut = cut
        with unittest.mock.patch.object(kill, "Guest", Guest):
            killing.round("1.1")

    GOOD = {"counts": {"recoveries": 2}, "found": [None, None]}
    HALF = {"counts": {"recoveries": 1}, "found": [None]}

    def test_rounds(self):
        with tempfile.TemporaryDirectory() as top:
            killing = self.killing(top)
            self.rounds(killing, 126, self.GOOD)
            self.assertEqual((killing.findings, killing.count["recoveries"]), ([], 2))
            self.assertEqual(killing.last, [(b"next", "seed 1.1")])
            self.rounds(killing, 126, {**self.GOOD, "found": [None, "a loss"]})
            self.assertEqual(killing.findings, [{"where": "seed 1.0 too", "what": "a loss"}])
            self.assertTrue(os.path.exists(killing.path("finding1", "record")))
            with open(killing.path("finding1", "disk.img.z"), "rb") as file:
                self.assertEqual(zlib.decompress(file.read()), b"other")

    def test_rounds_that_end_badly(self):
        with tempfile.TemporaryDirectory() as top:
            for number, (status, result, failed, where) in enumerate((
                    (124, None, None, "seed 1.0, in the next guest"),
                    (125, self.HALF, None, "seed 1.0 too, in the next guest"),
                    (125, self.GOOD, None, "seed 1.1"),
                    (126, self.GOOD, "EIO", "seed 1.1, while it worked"))):
                killing = self.killing(top)
                self.rounds(killing, status, result, failed)
                self.assertEqual([f["where"] for f in killing.findings], [where], number)
            for status in (0, 1, 126):
                for result in (None, self.HALF):
                    with self.assertRaises(kill.Broken):
                        self.rounds(self.killing(top), status, result)

    def test_what_a_kill_leaves(self):
        with tempfile.TemporaryDirectory() as top:
            killing = self.killing(top)
            disk = nbd.Disk(bytes(64 * 512))
            killing.leave(disk, "1.0", random.Random(1))
            (_, where), = killing.last
            self.assertIn("seed 1.0, 0 of 0 writes in the cache lost", where)
            killing.last = []
            for number in range(20):
                disk.write(number * 512, sector(1))
            killing.leave(disk, "1.0", random.Random(3))
            self.assertEqual(len({bytes(image) for image, _ in killing.last}), kill.CUTS)
            self.assertEqual((killing.count["kills"], killing.count["cuts"],
                              killing.count["writes in the cache"]),
                             (2, kill.CUTS + 1, 20 * kill.CUTS))
            self.assertGreater(killing.count["writes lost"], kill.CUTS)

    def test_pairs(self):
        for name in kill.PAIRS:
            self.assertEqual(kill.pair(name), name)
        self.assertEqual(kill.pair("xfs-small"), "xfs-small/metadata")
        for name in ("ext5/fsync", "ext4/sequences", "ext4/freeze", "ext4-nojournal"):
            with self.assertRaises(argparse.ArgumentTypeError):
                kill.pair(name)
        self.assertIn("ext4", configs.CONFIGS)

    def test_kernel_that_is_missing(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            kill.find_kernel("no-such-kernel")
        self.assertIn("next: scripts/kbuild x86_64-torture stack x86_64 torture", said.getvalue())


if __name__ == "__main__":
    unittest.main()
