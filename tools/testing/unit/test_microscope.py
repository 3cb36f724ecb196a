# SPDX-License-Identifier: GPL-2.0
"""Tests of the contention microscope's table and of how it names memory."""

import collections
import os
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../microscope"), os.path.join(HERE, "../lib")]
import attribute  # noqa: E402
import guestlib  # noqa: E402
import program  # noqa: E402
import table  # noqa: E402
import verify  # noqa: E402

PC = "ffffffff81000000"
TABLE = f"""\
scope op
ops 0 10
0 {PC} 1000 ffff888000001000 8 a 30
0 {PC} 1040 ffff888000001040 8 w 10
0 {PC} 1080 ffff888000001080 8 r 10
0 {PC} 10c0 ffff8880000010c0 8 w 10
0 {PC} 113c ffff88800000113c 8 w 10
0 0 1000 0 64 L 10
0 0 1040 0 64 L 10
0 0 10c0 0 64 L 10
ops 1 10
1 {PC} 1000 ffff888000001000 8 a 30
1 {PC} 1048 ffff888000001048 8 w 10
1 {PC} 1080 ffff888000001080 8 r 10
1 {PC} 1144 ffff888000001144 4 r 5
1 0 1000 0 64 L 10
1 0 1040 0 64 L 10
"""
PAHOLE = """\
struct outer {
        int                        first;                /*     0     4 */
        unsigned int               bit:1;                /*     4: 0  4 */

        /* XXX 31 bits hole, try to pack */

        struct {
                rwlock_t           lock;                 /*     8     8 */
                union {
                        char       name[16];             /*    16    16 */
                        long       number;               /*    16     8 */
                };                                       /*    16    16 */
        } group;                                         /*     8    24 */
        int                        (*call)(void);        /*    32     8 */
        /* typedef spinlock_t */ struct spinlock {
                struct raw_spinlock {
                        unsigned int val __attribute__((__aligned__(4))); /* 40  4 */
                } rlock __attribute__((__aligned__(4))) __attribute__((__aligned__(4))); /* 40 4 */
        } __attribute__((__aligned__(4)))guard __attribute__((__aligned__(4))); /*    40     4 */

        /* size: 44, cachelines: 1, members: 5 */
};
"""


class TestTable(unittest.TestCase):
    def setUp(self):
        self.table = table.Table(TABLE.splitlines())

    def test_operations(self):
        self.assertEqual((self.table.ops, self.table.counted), (20, {0: 10, 1: 10}))

    def test_shared(self):
        # Locked, false sharing, straddling; not: read only, private.
        self.assertEqual([line.paddr for line in self.table.shared()], [0x1000, 0x1040, 0x1140])

    def test_straddles(self):
        line = self.table.lines[0x1140]
        self.assertEqual((line.vaddr, line.writers, line.readers), (0xffff888000001140, {0}, {1}))

    def test_summary(self):
        summary = self.table.summary()
        self.assertEqual(summary["lines_written"], 2.0)
        self.assertEqual(summary["atomics"], 3.0)

    def test_places(self):
        offsets = {offset for _, offset, _ in self.table.lines[0x1040].places}
        self.assertEqual(offsets, {0, 8})

    def test_at_most(self):
        everything = "\n".join(line for line in TABLE.splitlines() if " L " not in line)
        seen = table.Table(everything.replace("scope op", "scope all").splitlines())
        self.assertEqual((self.table.at_most, seen.at_most), (False, True))
        self.assertEqual(seen.summary()["lines_written"], 2.5)
        # No line has to be shared for it to be known.
        self.assertFalse(table.Table(["scope op", "ops 0 1"]).at_most)

    def test_bad(self):
        for text in ("", "scope op", "scope op\nops 0 0", "ops 0 1", TABLE + "scope x",
                     TABLE + "0 x", TABLE + f"0 {PC} 0 0 8 q 1", "ops"):
            with self.assertRaises(ValueError):
                table.Table(text.splitlines())


class TestStructs(unittest.TestCase):
    def setUp(self):
        self.structs = attribute.Structs("vmlinux", read=lambda *command: PAHOLE)

    def test_fields(self):
        for offset, name in ((0, "first"), (5, "bit"), (9, "group.lock"), (31, "group.name"),
                             (39, "call"), (41, "guard"), (44, None)):
            self.assertEqual(self.structs.field("outer", offset), name)

    def test_union_names_the_smaller(self):
        self.assertEqual(self.structs.field("outer", 16), "group.number")

    def test_unknown_struct(self):
        self.assertIsNone(attribute.Structs("vmlinux", read=lambda *command: "").field("x", 0))

    def test_looked_up_once(self):
        asked = []

        def read(*command):
            asked.append(command[command.index("-C") + 1])
            return PAHOLE + "\n" + PAHOLE.replace("struct outer", "struct other")
        structs = attribute.Structs("vmlinux", read)
        structs.load(["outer", "other", "kmalloc-32"])
        self.assertEqual([structs.field(name, 0) for name in ("outer", "other", "kmalloc-32")],
                         ["first", "first", None])
        self.assertEqual(asked, ["other,outer"])


class TestAttribution(unittest.TestCase):
    NM = """ffffffff81000000 0000000000000010 T code
ffffffff82000000 0000000000000040 D plain
ffffffff82100000 D __per_cpu_start
ffffffff82100f80 0000000000000040 d qnodes
ffffffff82101000 D __per_cpu_end
ffffffff82200000 0000000000000040 D behind
"""
    RUN = {"objects": [], "identified": {"1000": "page 3 of inode 2"},
           "percpu_offsets": ["ffff88800be00000", "ffff88800c000000"]}

    def name(self, vaddr, paddr=0):
        symbols = attribute.Symbols("vmlinux", read=lambda *command: self.NM)
        names = attribute.Attribution((symbols, None), self.RUN)
        return names.name(collections.namedtuple("Line", "vaddr paddr")(vaddr, paddr), 0)

    def test_symbols(self):
        self.assertEqual(self.name(0xffffffff82000008), ("plain", "+8"))
        self.assertEqual(self.name(0x1234, 0x1000), ("data of 3 of inode 2", "+564"))

    def test_percpu(self):
        for offset in self.RUN["percpu_offsets"]:
            vaddr = (0xffffffff82100f88 + int(offset, 16)) % 2 ** 64
            self.assertEqual(self.name(vaddr), ("per-CPU qnodes", "+8"))
            # No CPU's copy of anything.
            behind = (0xffffffff82200008 + int(offset, 16)) % 2 ** 64
            self.assertEqual(self.name(behind)[0], "unknown")


class TestVerify(unittest.TestCase):
    """What the check accepts, and that it refuses anything else."""

    @staticmethod
    def line(struct, names, atomics, writes=0, reads=0, cpus=2):
        return {"object": struct, "fields": [{"name": name} for name in names],
                "atomics": atomics, "writes": writes, "reads": reads, "cpus": cpus}

    def planted(self):
        return {"cpus": 2, "summary": {"atomics": 3, "lines_written": 2},
                "lines": [self.line("jbench_planted", ["+0"], 3),
                          self.line("jbench_planted", ["+72", "+64"], 0, writes=1)]}

    def test_good(self):
        self.assertEqual(verify.planted(self.planted()), [])
        self.assertEqual(verify.nothing({"cpus": 2, "lines": []}), [])

    def test_bad_planted(self):
        for change in (lambda s: s["lines"].pop(0), lambda s: s["lines"].pop(1),
                       lambda s: s["lines"][0].update(atomics=2),
                       lambda s: s["lines"][0].update(cpus=1),
                       lambda s: s["lines"][1].update(reads=1),
                       lambda s: s["lines"].append(self.line("jbench_planted", ["+128"], 0)),
                       lambda s: s["lines"].append(self.line("jbench_run", ["x"], 0, writes=1)),
                       lambda s: s["summary"].update(atomics=4)):
            seen = self.planted()
            change(seen)
            self.assertEqual(len(verify.planted(seen)), 1, seen)

    def test_disturbed(self):
        seen = self.planted()
        seen["lines"].append(self.line("workqueue_struct", ["flush_color"], 4))
        seen["summary"]["atomics"] = 7
        self.assertEqual(verify.among(seen), [])
        for offset in ("+192", "+256"):
            seen = self.planted()
            seen["lines"].append(self.line("jbench_planted", [offset], 1))
            self.assertEqual(len(verify.among(seen)), 1)

    def test_not_nothing(self):
        line = self.line("transaction_s", ["t_expires", "t_updates"], 5, reads=2)
        self.assertEqual(verify.nothing({"cpus": 2, "lines": [line]}),
                         ["transaction_s ['t_expires', 't_updates'] is shared"])


class Filesystems(unittest.TestCase):
    def test_can_be_made(self):
        guest = program.load("tools/testing/microscope/guest")
        for kind, nothing in (("ext4", "-n"), ("xfs", "-N")):
            with self.subTest(kind), tempfile.NamedTemporaryFile() as disk:
                fs = guestlib.Filesystem(kind, log_mib=guest.LOG_MIB[kind])
                disk.truncate(fs.size_mib << 20)
                fs.device = types.SimpleNamespace(path=disk.name)
                name, *args = fs._mkfs()
                subprocess.run([name, nothing, *args], check=True, capture_output=True, env={
                    **os.environ, **guestlib.MKFS_XFS_ENV, "PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})


if __name__ == "__main__":
    unittest.main()
