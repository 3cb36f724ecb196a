#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests for the guest runner: report detection, hidden paths, verdicts."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
VM = os.path.join(HERE, "../vm")
sys.path[:0] = [HERE, VM]

import console  # noqa: E402
import program  # noqa: E402

boot = program.load("tools/testing/vm/boot")

REPORTS = """\
WARNING: CPU: 0 PID: 61 at fs/jbd2/transaction.c:348 start_this_handle+0x1/0x2
WARNING: fs/ext4/inode.c:120 at ext4_evict_inode+0x31/0x40, CPU#1: rm/61
WARNING: possible circular locking dependency detected
WARNING: suspicious RCU usage
BUG: KASAN: slab-use-after-free in jbd2_journal_commit_transaction+0x10/0x20
BUG: KCSAN: data-race in a / b
[ BUG: Invalid wait context ]
BUG: sleeping function called from invalid context at mm/page_alloc.c:10
BUG: kernel NULL pointer dereference, address: 0000000000000000
BUG kmalloc-64 (Not tainted): Poison overwritten
kernel BUG at fs/jbd2/journal.c:200!
INFO: possible recursive locking detected
INFO: trying to register non-static key.
INFO: task kjournald:55 blocked for more than 60 seconds.
INFO: task rm:55 is blocked on a mutex
rcu: INFO: rcu_sched detected stalls on CPUs/tasks:
rcu: INFO: rcu_preempt self-detected stall on CPU
watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [rm:1]
BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 30s!
UBSAN: shift-out-of-bounds in lib/x.c:1:2
Oops: 0000 [#1] SMP
Oops: general protection fault, probably for non-canonical address
general protection fault, probably for non-canonical address 0xdead: 0000 [#1]
Kernel panic - not syncing: sysrq triggered crash
Kernel mode fault at addr 0x0, ip 0x6000
list_add corruption. next->prev should be prev
refcount_t: underflow; use-after-free.
ODEBUG: free active (active state 0) object: 0000 object type: timer_list
DEBUG_LOCKS_WARN_ON(1)
kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
Assertion failure in jbd2_journal_commit_transaction() at fs/jbd2/commit.c:400
XFS (ram1): Assertion failed: ip->i_nblocks == 0, file: fs/xfs/xfs_inode.c, line: 1
""".splitlines()

HARMLESS = """\
kasan: KernelAddressSanitizer initialized
Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
EXT4-fs (ram0): mounted filesystem 7c91 r/w with ordered data mode. Quota mode: none.
EXT4-fs warning (device ram0): ext4_enable_quotas: x
rcu: Hierarchical RCU implementation.
rcu: srcu_init: Setting srcu_struct sizes based on contention.
debug: unmapping init memory
Unknown kernel command line parameters "BOOT_CTL=/x", will be passed to user space.
ODEBUG: selftest passed
workqueue: round-robin CPU selection forced, expect performance impact
""".splitlines()


class FindReports(unittest.TestCase):
    def test_every_kind_is_found(self):
        for message in REPORTS:
            for stamp in ("[    1.230000] ", "[12345.678901][  T61] ", "[    0.100000][    C1] "):
                with self.subTest(stamp + message):
                    self.assertEqual(console.find_reports(stamp + message), [(0, message)])

    def test_printed_in_the_middle_of_a_line(self):
        text = "a program printed th[    1.230000] " + REPORTS[0]
        self.assertEqual(len(console.find_reports(text)), 1)

    def test_harmless_kernel_messages(self):
        for message in HARMLESS:
            with self.subTest(message):
                self.assertEqual(console.find_reports("[    1.230000] " + message), [])

    def test_programs_are_not_the_kernel(self):
        self.assertEqual(console.find_reports("\n".join(REPORTS)), [])

    def test_position_and_excerpt(self):
        lines = [f"[    0.{n:06d}] line {n}" for n in range(100)]
        lines[50] = "[    0.000050] " + REPORTS[0]
        text = "\n".join(lines)
        [(index, _)] = console.find_reports(text)
        self.assertEqual(index, 50)
        self.assertIn(lines[50], console.excerpt(text, index))
        self.assertIn(lines[49], console.excerpt(text, index))
        self.assertIn(lines[80], console.excerpt(text, index))


class HiddenPaths(unittest.TestCase):
    def test_only_what_a_tmpfs_would_hide(self):
        self.assertEqual(boot.kept_paths(["/home/a", "/tmp/b", "/tmpfoo/c", "/run/d"]),
                         ["/run/d", "/tmp/b"])

    def test_parents_cover_their_children(self):
        self.assertEqual(boot.kept_paths(["/tmp/a/b", "/tmp/a", "/tmp/ab"]),
                         ["/tmp/a", "/tmp/ab"])


class Sizes(unittest.TestCase):
    def test_good(self):
        self.assertEqual(boot.size_bytes("512M"), 512 << 20)
        self.assertEqual(boot.size_bytes("3G"), 3 << 30)

    def test_bad(self):
        for text in ("3", "G", "3T", "-1G"):
            with self.subTest(text), self.assertRaises(Exception):
                boot.size_bytes(text)


class Platform(unittest.TestCase):
    def platform(self, data):
        with tempfile.NamedTemporaryFile() as image:
            image.write(data)
            image.flush()
            return boot.platform_of(image.name)

    def test_known(self):
        self.assertEqual(self.platform(b"\x7fELF" + bytes(1000)), "uml")
        self.assertEqual(self.platform(bytes(0x202) + b"HdrS" + bytes(100)), "x86_64")

    def test_unknown(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            self.platform(b"neither")


class Verdict(unittest.TestCase):
    ARGS = types.SimpleNamespace(log="x.log", timeout=5, ignore="^BUG: KCSAN")

    def verdict(self, text, status, timed_out):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            return boot.verdict(text, status, timed_out, self.ARGS), err.getvalue()

    def test_status_is_passed_on(self):
        self.assertEqual(self.verdict("fine", 0, False)[0], 0)
        self.assertEqual(self.verdict("bad", 7, False)[0], 7)

    def test_report_wins(self):
        status, err = self.verdict("[    1.000000] " + REPORTS[0], 0, False)
        self.assertEqual(status, boot.EXIT_REPORT)
        self.assertIn(REPORTS[0], err)

    def test_ignored_report(self):
        text = "[    1.000000] BUG: KCSAN: data-race in a / b"
        self.assertEqual(self.verdict(text, 0, False)[0], 0)

    def test_timeout_shows_last_lines(self):
        status, err = self.verdict("stuck here", None, True)
        self.assertEqual(status, boot.EXIT_TIMEOUT)
        self.assertIn("stuck here", err)

    def test_no_status_is_a_failure(self):
        self.assertEqual(self.verdict("gone", None, False)[0], boot.EXIT_LOST)


class StaleBreakpoint(unittest.TestCase):
    OOPS = "[    1.179157] Oops: int3: 0000 [#1] SMP NOPTI"
    RUN = "[    1.100000] boot-cafe: run"

    def test_before_the_command(self):
        self.assertTrue(boot.stale_breakpoint(f"[    1.0] fine\n{self.OOPS}", "cafe"))
        self.assertTrue(boot.stale_breakpoint(f"{self.RUN}\n{self.OOPS}", "beef"))

    def test_while_it_runs(self):
        self.assertFalse(boot.stale_breakpoint(f"{self.RUN}\n{self.OOPS}", "cafe"))

    def test_other_reports(self):
        self.assertFalse(boot.stale_breakpoint("fine", "cafe"))
        self.assertFalse(boot.stale_breakpoint(f"[    1.000000] {REPORTS[0]}\n{self.OOPS}", "cafe"))


class Watch(unittest.TestCase):
    """A shell stands in for the guest."""

    def watch(self, script, timeout=5):
        guest = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE,
                                 start_new_session=True)
        with guest.stdout:
            _, status, timed_out = boot.watch(guest, io.StringIO(), "cafe", timeout)
        return status, timed_out

    def test_marker(self):
        self.assertEqual(self.watch("echo 'x[ 1.0] boot-cafe: exit 3'"), (3, False))

    def test_marker_of_another_boot(self):
        self.assertEqual(self.watch("echo boot-beef: exit 0"), (None, False))

    def test_hang_is_ended(self):
        self.assertEqual(self.watch("sleep 60", timeout=0.3), (None, True))

    def test_reported_but_not_halted(self):
        grace, boot.HALT_GRACE = boot.HALT_GRACE, 0.3
        try:
            self.assertEqual(self.watch("echo boot-cafe: exit 0; sleep 60", 30), (0, False))
        finally:
            boot.HALT_GRACE = grace


if __name__ == "__main__":
    unittest.main()
