# SPDX-License-Identifier: GPL-2.0
"""Tests of the workload fsload: what each operation does, its JSON, its errors."""

import json
import os
import resource
import signal
import subprocess
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../workloads/fsload.c")
GCC = ["gcc", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"]
TIMED = ("create", "rename", "fsync", "append", "mix", "dirs")

# Prints value and top of its bucket, around every power of two and between.
BUCKETS = """\
#define main fsload_main
#include "%s"
#undef main

static void show(uint64_t value)
{
    printf("%%" PRIu64 " %%" PRIu64 "\\n", value, bucket_top(bucket_of(value)));
}

int main(void)
{
    int bit, i;

    for (bit = 0; bit < 64; bit++)
        for (i = -3; i < 130; i++)
            show((UINT64_C(1) << bit) + i * ((UINT64_C(1) << bit) / 128 + !!i));
    return bucket_of(UINT64_MAX) != NR_BUCKETS - 1;
}
"""


def setUpModule():
    global work, fsload
    work = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(work.cleanup)
    fsload = os.path.join(work.name, "fsload")
    subprocess.run([*GCC, "-static", "-o", fsload, SOURCE], check=True)


class Case(unittest.TestCase):
    def setUp(self):
        # On tmpfs, if there is one, as syncfs() of the disk may take long.
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.make_dir(dir=shm)

    def make_dir(self, **where):
        temp = tempfile.TemporaryDirectory(**where)
        self.addCleanup(temp.cleanup)
        self.dir = temp.name

    def mount(self, *arguments):
        """Mount on self.dir, or skip the test."""
        if os.geteuid():
            self.skipTest("only root can mount")
        mount = subprocess.run(["mount", *arguments, self.dir], stderr=subprocess.PIPE, text=True)
        if mount.returncode:
            self.skipTest(f"cannot mount: {mount.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", self.dir], check=True)

    def mount_ext4(self):
        image = os.path.join(work.name, "ext4")
        with open(image, "wb") as file:
            file.truncate(64 << 20)
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", image], check=True)
        except FileNotFoundError:
            self.skipTest("there is no mkfs.ext4")
        self.make_dir()
        self.mount("-o", "loop", image)

    def start(self, *arguments, on_start=None, **process_arguments):
        """Its status and output, when nothing of its process group is left."""
        command = [fsload, *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True, **process_arguments) as process:
            try:
                if on_start:
                    on_start(process)
                out, errors = process.communicate(timeout=60)
            except Exception:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        with self.assertRaises(ProcessLookupError, msg="a worker is left"):
            os.killpg(process.pid, 0)
        return process.returncode, out, errors

    def run_op(self, op, *arguments, workers=2):
        status, out, errors = self.start(op, "--dir", self.dir, "--workers", workers, *arguments)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(out.count("\n"), 1)
        result = json.loads(out)
        self.assertEqual((result["op"], result["workers"]), (op, workers))
        self.assertEqual((len(result["ops"]), len(result["ns"])), (workers, workers))
        self.assertGreater(min(result["ns"]), 0)
        return result

    def check_error(self, *message, arguments):
        status, out, errors = self.start(*arguments)
        self.assertEqual((status, out), (1, ""))
        for text in message:
            self.assertIn(text, errors)

    def tree(self, suffix=""):
        """All files below a directory, relative to it, with their sizes."""
        top = os.path.join(self.dir, suffix)
        paths = [os.path.join(path, name) for path, _, names in os.walk(top) for name in names]
        return {os.path.relpath(path, top): os.stat(path).st_size for path in paths}

    def assert_empty(self):
        self.assertLessEqual(set(os.listdir(self.dir)), {"lost+found"})


class TestOperations(Case):
    def test_count(self):
        for op in TIMED:
            for shared in ([], ["--shared"])[:2 if op in ("create", "rename", "mix") else 1]:
                with self.subTest(op=op, shared=shared):
                    result = self.run_op(op, "--count", 7, *shared, workers=3)
                    self.assertEqual(result["ops"], [7, 7, 7])
                    self.assertEqual(set(result), {"op", "workers", "seed", "ops", "ns",
                                                   "wall_ns"})
                    self.assert_empty()

    def test_hold(self):
        """Nothing happens before the first line, nothing is removed before the second."""
        with subprocess.Popen([fsload, "unlink", "--dir", self.dir, "--workers", "2", "--files",
                               "5", "--hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, bufsize=1) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.assertEqual(len(self.tree()), 10)
            process.stdin.write("\n")
            result = json.loads(process.stdout.readline())
            self.assertEqual(result["ops"], [5, 5])
            self.assertGreaterEqual(result["wall_ns"], max(result["ns"]))
            self.assertEqual(len(self.tree()), 0)
            self.assertEqual(len(os.listdir(self.dir)), 3)
            process.stdin.write("\n")
            self.assertEqual(process.wait(timeout=60), 0)
        self.assert_empty()

    def test_hold_after_any_setup(self):
        """Also where the workers wait for each other while they set up or run."""
        for op in (*TIMED, "rmtree"):
            with self.subTest(op=op):
                end = ["--ms", 20] if op in TIMED else ["--files", 50]
                command = [fsload, op, "--dir", self.dir, "--workers", 2, *end, "--hold"]
                done = subprocess.run(list(map(str, command)), input="\n\n", text=True,
                                      capture_output=True, timeout=20)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                ready, result = done.stdout.splitlines()
                self.assertEqual(ready, "ready")
                self.assertGreater(min(json.loads(result)["ops"]), 0)
                self.assert_empty()

    def test_hold_without_input(self):
        done = subprocess.run([fsload, "create", "--dir", self.dir, "--hold"], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, "ready\n"))
        self.assertIn("no more input", done.stderr)
        self.assert_empty()

    def test_time(self):
        for op in TIMED:
            with self.subTest(op=op):
                # A busy machine may not let a worker run in so short a time.
                for milliseconds in (20, 200, 2000, 20000):
                    done = min(self.run_op(op, "--ms", milliseconds)["ops"])
                    if done:
                        break
                self.assertGreater(done, 0)
                self.assert_empty()

    def test_create(self):
        self.run_op("create", "--count", 3, "--size", 5000, "--keep")
        self.assertEqual(self.tree(), {f"fsload.{w}/f{w}.{n}": 5000
                                       for w in range(2) for n in range(3)})

    def test_create_shared(self):
        self.run_op("create", "--count", 3, "--shared", "--keep")
        self.assertEqual(self.tree(), {f"fsload.shared/f{w}.{n}": 0
                                       for w in range(2) for n in range(3)})

    def test_unlink(self):
        for shared in ([], ["--shared"]):
            result = self.run_op("unlink", "--files", 37, "--keep", *shared, workers=3)
            self.assertEqual(result["ops"], [37, 37, 37])
            self.assertEqual(self.tree(), {})
            for name in os.listdir(self.dir):
                os.rmdir(os.path.join(self.dir, name))

    def test_rename(self):
        self.run_op("rename", "--count", 3, "--keep", workers=1)
        self.assertEqual(self.tree(), {"fsload.0/f0.1": 0})

    def test_rename_shared(self):
        for count, place in ((3, "fsload.shared/f0.1"), (4, "fsload.0/f0.0")):
            with self.subTest(count=count):
                self.make_dir()
                self.run_op("rename", "--count", count, "--shared", "--keep", workers=1)
                self.assertEqual(self.tree(), {place: 0})

    def test_fsync_overwrites(self):
        for flag in ([], ["--fdatasync"]):
            self.make_dir()
            self.run_op("fsync", "--count", 5, "--size", 3000, "--keep", *flag, workers=1)
            self.assertEqual(self.tree(), {"fsload.0/f0.0": 3000})

    def test_append(self):
        self.run_op("append", "--count", 5, "--size", 3000, "--keep", workers=1)
        self.assertEqual(self.tree(), {"fsload.0/f0.0": 15000})

    def test_append_limit(self):
        self.run_op("append", "--count", 5, "--size", 20 << 20, "--keep", workers=1)
        self.assertEqual(self.tree(), {"fsload.0/f0.0": 40 << 20})

    def writes(self, *arguments, workers=3):
        self.make_dir()
        self.run_op("writes", "--size", 4096, "--area", 12 << 12, "--keep", *arguments,
                    workers=workers)

    def mapped(self, name):
        """Which blocks of a file have data that was written."""
        with open(os.path.join(self.dir, name), "rb") as file:
            data = file.read()
        return [data[at:at + 4096] == b"\xcc" * 4096 for at in range(0, len(data), 4096)]

    def test_writes_each_block_once(self):
        for flags in ("--holes", "--fallocated"):
            with self.subTest(flags=flags):
                # Four blocks a worker are all of a shared file, and of a third of a private one.
                self.writes(flags, "--shared", "--count", 4)
                self.assertEqual(self.mapped("fsload.shared/f0"), [True] * 12)
                self.writes(flags, "--count", 4)
                self.assertEqual(sum(self.mapped("fsload.2/f2.0")), 4)
                # The next ones go to the next file.
                self.writes(flags, "--shared", "--count", 5, "--files", 2)
                self.assertEqual(self.mapped("fsload.shared/f0"), [True] * 12)
                self.assertEqual(sum(self.mapped("fsload.shared/f1")), 3)

    def test_writes_appends(self):
        self.writes("--append", "--shared", "--count", 3)
        self.assertEqual(self.tree(), {"fsload.shared/f0": 9 << 12})
        self.writes("--append", "--count", 13, "--files", 2, workers=1)
        self.assertEqual(self.tree(), {"fsload.0/f0.0": 12 << 12, "fsload.0/f0.1": 1 << 12})

    def test_writes_overwrites(self):
        self.writes("--count", 30)
        self.assertEqual(set(self.tree().values()), {12 << 12})
        self.assertEqual(self.mapped("fsload.1/f1.0"), [True] * 12)

    def test_writes_full(self):
        self.check_error("--files has to be larger", arguments=(
            "writes", "--holes", "--area", 65536, "--count", 5, "--dir", self.dir))

    def test_mix_sizes(self):
        for size in (1, 1024, 10240, 10241):
            for limit, status in ((size, 0), (size - 1, 1)):
                with self.subTest(size=size, limit=limit):
                    result = self.start(
                        "mix", "--count", 3, "--size", size, "--dir", self.dir,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit,) * 2))
                    self.assertEqual(result[0], status, result)

    def dirs(self, *arguments):
        self.make_dir()
        self.run_op("dirs", "--files", 20, "--dirs", 5, "--keep", *arguments)
        return self.tree("fsload.shared")

    def test_dirs(self):
        names = self.dirs("--count", 1000)
        self.assertEqual(len(os.listdir(os.path.join(self.dir, "fsload.shared"))), 5)
        for worker in "01":
            own = [name for name in names if f"/f{worker}." in name]
            self.assertTrue(10 <= len(own) <= 30, own)
            # All directories are used, all three kinds of operations happened.
            self.assertEqual({name[:2] for name in own}, {"d0", "d1", "d2", "d3", "d4"})
            self.assertTrue(all(int(name.split(".")[1]) < 1020 for name in own))
        self.assertGreater(max(int(name.split(".")[1]) for name in names), 900)

    def test_dirs_renames(self):
        # With the numbers of the files kept, only renaming moves them.
        before, after = self.dirs("--count", 1), self.dirs("--count", 8)
        places = [{os.path.basename(name): os.path.dirname(name) for name in names}
                  for names in (before, after)]
        moved = [name for name in places[0] if places[1].get(name, "") not in
                 ("", places[0][name])]
        self.assertTrue(moved)

    def test_seed(self):
        first = self.dirs("--count", 50)
        self.assertEqual(first, self.dirs("--count", 50, "--seed", 1))
        self.assertNotEqual(first, self.dirs("--count", 50, "--seed", 2))

    def test_seed_in_result(self):
        self.assertEqual(self.run_op("dirs", "--count", 1, "--seed", 77)["seed"], 77)


class TestLatency(Case):
    def check(self, result):
        latency = result["latency_ns"]
        self.assertEqual(set(latency), {"p50", "p90", "p99", "max", "n"})
        self.assertEqual(latency["n"], sum(result["ops"]))
        self.assertGreater(latency["p50"], 0)
        values = [latency[name] for name in ("p50", "p90", "p99", "max")]
        self.assertEqual(values, sorted(values))
        # At least one operation of the slowest took its maximum.
        self.assertLessEqual(latency["max"], max(result["ns"]))

    def test_latency(self):
        for op in TIMED:
            with self.subTest(op=op):
                self.check(self.run_op(op, "--count", 200, "--latency"))
        self.check(self.run_op("unlink", "--files", 200, "--latency"))

    def test_one(self):
        latency = self.run_op("create", "--count", 1, "--latency", workers=1)["latency_ns"]
        self.assertEqual(len({latency[name] for name in ("p50", "p90", "p99", "max")}), 1)

    def test_buckets(self):
        source = os.path.join(work.name, "buckets.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(BUCKETS % SOURCE)
        program = os.path.join(work.name, "buckets")
        subprocess.run([*GCC, "-Wno-unused", "-o", program, source], check=True)
        out = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
        pairs = sorted(tuple(map(int, line.split())) for line in out.splitlines())
        self.assertGreater(len(pairs), 8000)
        for value, top in pairs:
            self.assertTrue(value <= top and 64 * (top - value) <= value, (value, top))
        tops = [top for _, top in pairs]
        self.assertEqual(tops, sorted(tops))


class TestErrors(Case):
    def check_op(self, *message, arguments):
        self.check_error(*message, arguments=[*arguments, "--dir", self.dir])
        self.assert_empty()

    def test_options(self):
        for message, arguments in (
                ("exclude each other", ("create", "--ms", 10, "--count", 1)),
                ("'nonsense' is not an operation", ("nonsense",)),
                ("no operation", ()),
                ("'more' is not an option", ("create", "more")),
                ("unlink does not take --count", ("unlink", "--count", 1)),
                ("bigunlink does not take --ms", ("bigunlink", "--ms", 1)),
                ("rename does not take --direct", ("rename", "--direct")),
                ("--direct needs --size", ("create", "--direct")),
                ("fsync needs --size 1", ("fsync", "--size", 0)),
                ("append takes --size", ("append", "--size", 1 << 30)),
                ("dirs needs --dirs 2", ("dirs", "--dirs", 1)),
                ("--append exclude each other", ("writes", "--holes", "--append")),
                ("--area is too small", ("writes", "--shared", "--workers", 65)),
                ("--workers: '0' is not a number", ("create", "--workers", 0)),
                ("--count: '1x' is not a number", ("create", "--count", "1x")),
                ("unrecognized option", ("create", "--nonsense"))):
            with self.subTest(arguments=arguments):
                self.check_op(message, arguments=arguments)

    def test_no_dir(self):
        missing = os.path.join(self.dir, "missing")
        self.check_error(missing, "No such file or directory",
                         arguments=("create", "--count", 1, "--dir", missing))
        self.check_error("--dir is needed", arguments=("create", "--count", 1))

    def test_names_exist(self):
        # The last that is made: those made before it must be gone again.
        for name in ("fsload.0", "fsload.shared"):
            path = os.path.join(self.dir, name)
            os.mkdir(path)
            self.check_error(path, "File exists",
                             arguments=("create", "--count", 1, "--dir", self.dir))
            self.assertEqual(os.listdir(self.dir), [name])
            os.rmdir(path)

    def test_no_space(self):
        self.mount("-t", "tmpfs", "-o", "size=64k", "fsload-test")
        for op in ("create", "append", "mix", "rmtree"):
            limit = [] if op == "rmtree" else ["--count", 1000]
            with self.subTest(op=op):
                self.check_op(f"fsload: {op}: write {self.dir}/fsload.",
                              "No space left on device",
                              arguments=[op, *limit, "--workers", 4, "--size", 40000])

    def test_short_write(self):
        self.mount("-t", "tmpfs", "-o", "size=64k", "fsload-test")
        self.check_op("No space left on device",
                      arguments=["create", "--count", 1, "--size", 1000000])

    def test_no_fiemap(self):
        self.mount("-t", "tmpfs", "-o", "size=1m", "fsload-test")
        self.check_op("bigunlink: FIEMAP", "not supported",
                      arguments=["bigunlink", "--size", 65536, "--workers", 3])

    def test_worker_killed(self):
        def kill_one(process):
            children = []
            while len(children) < 3:
                self.assertIsNone(process.poll())
                with open(f"/proc/{process.pid}/task/{process.pid}/children",
                          encoding="ascii") as file:
                    children = file.read().split()
            os.kill(int(children[1]), signal.SIGKILL)

        status, out, errors = self.start("rename", "--dir", self.dir, "--workers", 3,
                                         "--ms", 1000000, on_start=kill_one)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("a worker was killed by signal 9", errors)
        self.assert_empty()

    def test_help(self):
        status, out, errors = self.start("--help")
        self.assertEqual((status, errors), (0, ""))
        for text in (*TIMED, "unlink", "bigunlink", "rmtree", "--workers", "--dir", "--ms",
                     "--count", "--size", "--direct", "--shared", "--latency", "--extents",
                     "--files", "--dirs", "--fdatasync", "--keep", "--hold", "--seed"):
            self.assertRegex(out, f"(?m)^  {text} .*[a-z]")
        for name in ("ops", "ns", "wall_ns", "latency_ns", "space_back_ns", "extents"):
            self.assertRegex(out, rf"\b{name}\b")


class TestSpace(Case):
    def setUp(self):
        self.mount_ext4()

    def test_bigunlink(self):
        result = self.run_op("bigunlink", "--count", 3, "--size", 4 << 20, "--extents", 400)
        self.assertEqual(result["ops"], [3, 3])
        self.assertGreaterEqual(min(result["extents"]), 400)
        self.check(result, 6)

    def test_bigunlink_one_extent(self):
        result = self.run_op("bigunlink", "--size", 1 << 20, workers=1)
        self.assertEqual(result["ops"], [1])
        self.assertGreaterEqual(min(result["extents"]), 1)
        self.check(result, 1)

    def test_bigunlink_extents_limit(self):
        size = (2 * 10 - 1) * 4096
        result = self.run_op("bigunlink", "--extents", 10, "--size", size, workers=1)
        self.assertEqual(result["extents"], [10])
        self.check_error("10 extents need --size 77824", arguments=(
            "bigunlink", "--extents", 10, "--size", size - 1, "--dir", self.dir))
        self.assert_empty()

    def test_rmtree(self):
        result = self.run_op("rmtree", "--files", 301, "--dirs", 20)
        self.assertEqual(result["ops"], [301, 301])
        self.check(result, 2)

    def test_direct(self):
        for op in ("create", "fsync", "append"):
            self.run_op(op, "--count", 5, "--size", 4096, "--direct")
        self.check_error("Invalid argument", "fsload: create: write", arguments=(
            "create", "--count", 5, "--size", 100, "--direct", "--dir", self.dir))

    def check(self, result, values):
        self.assertEqual(result["latency_ns"]["n"], sum(result["ops"]))
        self.assertEqual(len(result["space_back_ns"]), values)
        self.assertGreater(min(result["space_back_ns"]), 0)
        self.assert_empty()


if __name__ == "__main__":
    unittest.main()
