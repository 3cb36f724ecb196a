#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of what scripts/modules refuses before it builds, and of the tools around it."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import program
from program import TOP

RELEASE = "7.3.4+test-amd64"
CONFIG = """\
CONFIG_CC_VERSION_TEXT="%s"
CONFIG_JBD2=m
CONFIG_EXT4_FS=m
CONFIG_XFS_FS=m
"""
MAKEFILE = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = %d\nEXTRAVERSION =\n"


class Refusals(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.tmp = Path(tmp.name)
        self.kdir = self.tmp / "build"
        compiler = subprocess.run(["gcc", "--version"], check=True, capture_output=True,
                                  text=True).stdout.split("\n")[0]
        self.write("Makefile", MAKEFILE % 4)
        self.write(".config", CONFIG % compiler)
        self.write("Module.symvers", "")
        self.write("include/generated/utsrelease.h", f'#define UTS_RELEASE "{RELEASE}"\n')
        self.write("include/linux/fs.h", "")

    def write(self, name, text):
        path = self.kdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")

    def config(self, old, new):
        path = self.kdir / ".config"
        text = path.read_text(encoding="ascii")
        self.assertIn(old, text)
        path.write_text(text.replace(old, new), encoding="ascii")

    def modules(self, command, **env):
        return subprocess.run(
            [TOP / "scripts/modules", command], capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "O": str(self.tmp / "out"),
                 "KDIR": str(self.kdir), **env})

    def refused(self, expect, command="prepare", **env):
        done = self.modules(command, **env)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(expect, done.stderr)
        self.assertIn("\n  next: ", done.stderr)
        self.assertFalse(list(self.tmp.glob("out/modules/*")))

    def test_nothing_of_that_is_wrong(self):
        """What is refused below is not refused for this: it gets as far as the source."""
        self.refused("linux is missing")

    def test_no_headers(self):
        self.refused("does not exist", KDIR=str(self.tmp / "none"))
        for name, expect in (("include/linux/fs.h", "has no headers"),
                             ("include/generated/utsrelease.h", "has not been built"),
                             ("Module.symvers", "it has no Module.symvers"),
                             (".config", "it has no .config"), ("Makefile", "it has no Makefile")):
            with self.subTest(name):
                (self.kdir / name).unlink()
                self.refused(expect)

    def test_unknown_version(self):
        self.write("Makefile", MAKEFILE % 99)
        self.refused("the stack is known to work as modules of")
        self.refused("linux is missing", FORCE="1")

    def test_not_the_kernel_that_runs(self):
        name = "include/generated/utsrelease.h"
        self.write(name, f'#define UTS_RELEASE "{os.uname().release}"\n')
        name = "include/generated/utsversion.h"
        self.write(name, f'#define UTS_VERSION "{os.uname().version}"\n')
        self.refused("linux is missing")
        self.write(name, '#define UTS_VERSION "#99 SMP"\n')
        self.refused("#99 SMP, the kernel that runs is")
        self.refused("linux is missing", FORCE="1")

    def test_built_in(self):
        self.config("CONFIG_EXT4_FS=m", "CONFIG_EXT4_FS=y")
        self.refused("built into 7.3.4+test-amd64: ext4")

    def test_not_configured(self):
        self.config("CONFIG_XFS_FS=m", "# CONFIG_XFS_FS is not set")
        self.assertIn("left out: xfs", self.modules("prepare").stdout)

    def test_other_compiler(self):
        self.config("CC_VERSION_TEXT=\"", "CC_VERSION_TEXT=\"gcc other ")
        self.refused("the kernel was built with")
        self.refused("linux is missing", FORCE="1")

    def test_no_compiler(self):
        self.refused("no-such-cc is not installed", CC="no-such-cc")

    def test_series(self):
        self.refused("there is no series", SERIES="no-such")
        self.refused("none of these series can be a module", SERIES="um-smp")

    def test_source_of_another_version(self):
        source = self.tmp / "source"
        (source / "fs/ext4").mkdir(parents=True)
        (source / "fs/ext4/super.c").touch()
        (source / "Makefile").write_text(MAKEFILE % 3, encoding="ascii")
        self.refused("is Linux 7.3.3, 7.3.4+test-amd64 is 7.3.4", KSRC=str(source))
        (source / "fs/ext4/super.c").unlink()
        self.refused("is no kernel source", KSRC=str(source))

    def test_headers_of_another_kernel(self):
        """What modules share with the running kernel has to be what the patches change."""
        source = self.tmp / "source"
        subprocess.run(["mkdir", "-p", source / "fs/ext4", source / "fs/jbd2", source / "fs/xfs",
                        source / "include/linux"], check=True)
        for name in ("fs/ext4/super.c", "fs/jbd2/journal.c", "fs/xfs/xfs_log.c"):
            (source / name).touch()
        (source / "Makefile").write_text(MAKEFILE % 4, encoding="ascii")
        (source / "include/linux/jbd2.h").write_text("one\n", encoding="ascii")
        self.write("include/linux/jbd2.h", "another\n")
        done = self.modules("prepare", KSRC=str(source))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not that of Linux 7.3.4", done.stderr)

    def test_install_without_build(self):
        self.refused("nothing is built for", "install")

    def test_uninstall_without_install(self):
        self.refused("nothing of the stack is installed", "uninstall")

    def test_no_such_command(self):
        self.refused("there is no command 'list'", "list")


class Initramfs(unittest.TestCase):
    def test_modules_that_are_loaded(self):
        initramfs = program.load("tools/testing/vm/initramfs")
        with tempfile.TemporaryDirectory() as root:
            directory = Path(root, "lib/modules", RELEASE)
            directory.mkdir(parents=True)
            Path(directory, "modules.builtin").touch()
            Path(directory, "modules.order").touch()
            with self.assertRaises(SystemExit):
                initramfs.dependencies(root, RELEASE, ["ext4"])


if __name__ == "__main__":
    unittest.main()
