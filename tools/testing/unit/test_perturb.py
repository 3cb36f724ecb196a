# SPDX-License-Identifier: GPL-2.0
"""Tests of the schedule perturber: points, symbols, counts; its plugin, without QEMU."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../perturb"))
import perturb  # noqa: E402

PLUGIN = os.path.join(HERE, "../perturb/plugin.c")
GCC = ["gcc", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-Wno-unused-function"]
NM = """\
ffffffff81000000 0000000000000040 T __jbd2_journal_remove_checkpoint
ffffffff81000040 0000000000000020 t stop_this_handle
ffffffff81000060 0000000000000010 t stop_this_handle.part.0
ffffffff81000070 0000000000000008 t stop_this_handle.cold
ffffffff81000080 0000000000000030 t commit_one.isra.0.constprop.1
ffffffff810000b0 0000000000000030 t stop_this_handle_too
ffffffff810000e0 t no_size
ffffffff82000000 0000000000000008 D data
                 U nothing
"""
COUNTS = """\
point stop_this_handle entry 100 0 0
point stop_this_handle memory 900 4 2000000
cpu 0 3 1500000
cpu 1 1 500000
"""

# What QEMU has to offer: one translation block, whose instructions are then executed.
STUBS = r"""
#include "%s"

struct qemu_plugin_insn {
    uint8_t code[16];
    size_t len;
    uint64_t pc;
    bool also_stores;
    exec_cb exec[8];
    mem_cb mem[8];
    void *exec_data[8];
    void *mem_data[8];
    int nr_exec;
    int nr_mem;
};

struct qemu_plugin_tb {
    struct qemu_plugin_insn insns[64];
    size_t n;
};

static tb_trans_cb translate;
static exit_cb at_exit;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb)
{
    (void)id;
    translate = cb;
}

void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, exit_cb cb, void *data)
{
    (void)id;
    (void)data;
    at_exit = cb;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb cb,
                        enum qemu_plugin_cb_flags flags, void *data)
{
    (void)flags;
    insn->exec_data[insn->nr_exec] = data;
    insn->exec[insn->nr_exec++] = cb;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb,
                      enum qemu_plugin_cb_flags flags,
                      enum qemu_plugin_mem_rw rw, void *data)
{
    (void)flags;
    (void)rw;
    insn->mem_data[insn->nr_mem] = data;
    insn->mem[insn->nr_mem++] = cb;
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
    return tb->n;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i)
{
    return (struct qemu_plugin_insn *)&tb->insns[i];
}

const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
    return insn->code;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
    return insn->len;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
    return info;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
    return insn->pc;
}
"""

# Lines of standard input: instructions in hexadecimal. Says what each is taken for.
DECODE = STUBS + r"""
int main(void)
{
    char line[128];

    while (scanf("%%127s", line) == 1) {
        uint8_t code[16] = {};
        size_t len = strlen(line) / 2, i;

        for (i = 0; i < len; i++)
            sscanf(line + 2 * i, "%%2hhx", &code[i]);
        printf("%%d%%d%%d%%d\n", accesses_memory(code, len), is_atomic(code, len),
               is_plain_rmw(code, len), is_call(code, len));
    }
    return 0;
}
"""

# The lengths of sleeps, then how long a CPU that looks all the time may sleep in 100 s.
NUMBERS = STUBS + r"""
int main(void)
{
    struct cpu c = { .random = 1 };
    struct bucket b = {}, share = {};
    uint64_t lengths[12] = {}, slept = 0, of_point = 0, now, i, us;

    for (i = 0; i < 110000; i++) {
        us = log_uniform(draw(&c), 2000);
        if (!us || us > 2000)
            return 1;
        lengths[63 - __builtin_clzll(us)]++;
    }
    for (i = 0; i < 11; i++)
        printf("%%" PRIu64 " ", lengths[i]);
    if (log_uniform(12345, 1) != 1)
        return 2;
    for (now = 1; now < 100 * NS_PER_SEC; now += 10000) {
        if (has_room(&b, now, 1)) {
            b.level += 1000000;
            now += 1000000;
            slept++;
        }
    }
    for (now = 1; now < 100 * NS_PER_SEC; now += 10000) {
        if (has_room(&share, now, POINT_SHARE)) {
            share.level += 1000000;
            now += 1000000;
            of_point++;
        }
    }
    printf("%%" PRIu64 " %%" PRIu64, slept, of_point);
    return 0;
}
"""

# What the odds are at 1600 places, in the phase after one with so many executions: lines of
# executions, sum of the odds at places that are not hot, their number, the same of the others.
ODDS = STUBS + r"""
int main(void)
{
    static const int executions[] = { 1, 20, 1000 };
    static const int levels[] = { 0, 2, 4 };
    struct cpu c = {};
    uint64_t place, got;
    size_t n;
    int i;

    seed = 5;
    for (n = 0; n < 3; n++) {
        uint64_t sum[2] = {}, number[2] = {};
        bool hot;

        for (place = 0; place < 1600; place++) {
            c.rates = calloc(MAX_RATES, sizeof(*c.rates));
            for (i = 0; i < executions[n]; i++)
                odds(&c, place, 8);
            got = odds(&c, place, 9);
            free(c.rates);
            hot = got != one_in << levels[n];
            sum[hot] += got;
            number[hot]++;
        }
        printf("%%d %%" PRIu64 " %%" PRIu64 " %%" PRIu64 " %%" PRIu64 "\n", executions[n],
               sum[0], number[0], sum[1], number[1]);
    }
    return 0;
}
"""

# Arguments: those of the plugin, then a number of executions by each of two CPUs.
RUN = STUBS + r"""
static struct qemu_plugin_tb tb = {
    .n = 5,
    .insns = {
        { { 0x55 }, 1, 0xffffffff81000040 },        /* push */
        { { 0x48, 0x8b, 0x07 }, 3, 0xffffffff81000041 },        /* mov (%%rdi),%%rax */
        { { 0xf0, 0xff, 0x08 }, 3, 0xffffffff81000044 },        /* lock decl (%%rax) */
        { { 0xff, 0x08 }, 2, 0xffffffff81000047, true },               /* decl (%%rax) */
        { { 0x48, 0x8b, 0x07 }, 3, 0xffffffff81000060 },            /* in no range */
    },
};

static void *run(void *arg)
{
    unsigned int cpu = (uintptr_t)arg & 1;
    uintptr_t rounds = (uintptr_t)arg >> 1;
    int n, store;
    size_t i;

    while (rounds--) {
        for (i = 0; i < tb.n; i++) {
            for (n = 0; n < tb.insns[i].nr_exec; n++)
                tb.insns[i].exec[n](cpu, tb.insns[i].exec_data[n]);
            for (store = 0; store <= tb.insns[i].also_stores; store++)
                for (n = 0; n < tb.insns[i].nr_mem; n++)
                    tb.insns[i].mem[n](cpu, store, 0, tb.insns[i].mem_data[n]);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uintptr_t rounds = strtoul(argv[argc - 1], NULL, 10);
    pthread_t thread[2];
    uintptr_t i;

    if (qemu_plugin_install(1, NULL, argc - 2, argv + 1))
        return 2;
    translate(1, &tb);
    for (i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, run, (void *)(rounds << 1 | i));
    for (i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    at_exit(1, NULL);
    return 0;
}
"""
RANGES = """\
ffffffff81000040 ffffffff81000060 entry stop_this_handle
ffffffff81000040 ffffffff81000060 memory stop_this_handle
ffffffff81000040 ffffffff81000060 atomic stop_this_handle
"""


def compiled(directory, name, source):
    path = os.path.join(directory, name)
    with open(path + ".c", "w", encoding="ascii") as out:
        out.write(source % PLUGIN)
    subprocess.run([*GCC, "-pthread", "-o", path, path + ".c"], check=True)
    return path


class TestPoints(unittest.TestCase):
    def test_lines(self):
        points = perturb.parse_points("# all\n\nfirst\t# which\nsecond in first entry atomic #\n")
        self.assertEqual(points, {"first": (None, ["memory", "atomic"]),
                                  "second": ("first", ["entry", "atomic"])})
        self.assertEqual(list(points), ["first", "second"])

    def test_refused(self):
        for text, what in (("one two", ":1: not FUNCTION"), ("9lives", "not FUNCTION"),
                           ("\na entry sometimes", ":2: not FUNCTION"), ("a\na", "twice"),
                           ("a in b", "b, the caller of a, is no point"), ("# a\n", "no points")):
            with self.assertRaisesRegex(perturb.Bad, what):
                perturb.parse_points(text)

    def test_own(self):
        """Each of the repository's points says which ordering it is about."""
        with open(perturb.POINTS, encoding="utf-8") as file:
            text = file.read()
        self.assertGreater(len(perturb.parse_points(text)), 50)
        for line in text.splitlines():
            if line and not line.startswith("#"):
                self.assertRegex(line, r"^\w+( in \w+)?( entry| memory| atomic)*\t+# \w")


class TestSymbols(unittest.TestCase):
    symbols = perturb.parse_symbols(NM)

    def test_suffixes(self):
        self.assertEqual([s.name for s in self.symbols["stop_this_handle"]],
                         ["stop_this_handle", "stop_this_handle.part.0", "stop_this_handle.cold"])
        self.assertIn("commit_one", self.symbols)
        self.assertEqual(self.symbols["__jbd2_journal_remove_checkpoint"][0].end,
                         0xffffffff81000040)
        for name in ("no_size", "data", "nothing"):
            self.assertNotIn(name, self.symbols)

    def test_resolve(self):
        ranges, inlined, missing = perturb.resolve(perturb.parse_points(
            "stop_this_handle entry atomic\nsub in stop_this_handle\ngone\nwith in gone\n"),
            self.symbols)
        self.assertEqual((inlined, missing), ({"sub": "stop_this_handle"}, ["gone", "with"]))
        self.assertEqual([(r.kind, r.start & 0xff) for r in ranges],
                         [("entry", 0x40), ("atomic", 0x40), ("entry", 0x60), ("atomic", 0x60),
                          ("atomic", 0x70)])
        self.assertEqual({r.name for r in ranges}, {"stop_this_handle"})


class TestKernel(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.build = os.path.join(self.work.name, "O")
        self.obj = os.path.join(self.build, "obj", "k")
        self.image = self.obj + perturb.IMAGE
        os.makedirs(os.path.dirname(self.image))
        with open(os.path.join(self.work.name, "a.c"), "w", encoding="ascii") as out:
            out.write("int jbd2_journal_stop(void) { return 1; }\n")
        subprocess.run(["gcc", "-c", "-o", self.obj + "/vmlinux",
                        os.path.join(self.work.name, "a.c")], check=True)
        open(self.image, "w", encoding="ascii").close()
        self.configure("CONFIG_64BIT=y\nCONFIG_X86_64=y\n")
        patch = mock.patch.object(perturb, "BUILD", self.build)
        patch.start()
        self.addCleanup(patch.stop)

    def configure(self, text):
        with open(self.obj + "/.config", "w", encoding="ascii") as out:
            out.write(text)

    def refused(self, *args):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            perturb.qemu_argument(*args)
        self.assertIn("next: ", said.getvalue())
        return said.getvalue()

    def test_argument(self):
        out = os.path.join(self.work.name, "out dir")
        for kernel in ("k", self.obj, self.image):
            argument = perturb.qemu_argument(kernel, out, "night-1")
            self.assertRegex(
                argument, r"^-plugin '.*/O/perturb/plugin-\w+.so,ranges=.*/out dir/perturb.ranges,"
                r"out=.*/perturb.counts,seed=\d+,one_in=\d+,max_us=\d+'$")
        with open(out + "/perturb.ranges", encoding="ascii") as file:
            self.assertEqual([line.split()[2:] for line in file],
                             [[kind, "jbd2_journal_stop"] for kind in perturb.DEFAULT])
        self.assertNotEqual(argument, perturb.qemu_argument("k", out, "night-2"))

    def test_built_once(self):
        plugin = perturb.build_plugin()
        made = os.stat(plugin).st_mtime_ns
        self.assertEqual(perturb.build_plugin(), plugin)
        self.assertEqual(os.stat(plugin).st_mtime_ns, made)

    def test_refused(self):
        self.assertIn("no vmlinux", self.refused("other", self.work.name, 1))
        self.assertIn("no point in k matches 'xfs'", self.refused("k", self.work.name, 1, "xfs"))
        self.assertIn("comma", self.refused("k", self.work.name + "/a,b", 1))
        self.configure("CONFIG_64BIT=y\nCONFIG_X86_64=y\nCONFIG_RANDOMIZE_BASE=y\n")
        self.assertIn("RANDOMIZE_BASE", self.refused("k", self.work.name, 1))
        self.configure("CONFIG_64BIT=y\nCONFIG_UML=y\n")
        self.assertIn("not an x86_64 kernel", self.refused("k", self.work.name, 1))

    def test_strict(self):
        program = os.path.join(HERE, "../perturb/perturb")
        env = {**os.environ, "O": self.build}
        done = subprocess.run([program, "--list", "k"], env=env, stdout=subprocess.PIPE,
                              encoding="utf-8", check=True)
        self.assertRegex(done.stdout, r"jbd2_journal_stop +memory atomic\n")
        self.assertRegex(done.stdout, r"\n1 functions, \d inlined, \d+ missing\n$")
        self.assertIn("missing: kjournald2", done.stdout)
        done = subprocess.run([program, "--list", "k", "--strict"], env=env, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"error: k has no .*kjournald2.*\n  next: ")


class TestCounts(unittest.TestCase):
    def counts(self, text):
        with tempfile.TemporaryDirectory() as work:
            if text is not None:
                with open(perturb.counts_path(work), "w", encoding="ascii") as out:
                    out.write(text)
            return perturb.read_counts(work)

    def test_read(self):
        points = self.counts(COUNTS)
        self.assertEqual(points["stop_this_handle", "memory"], (900, 4, 0.002))
        self.assertEqual(perturb.summary(points),
                         "perturbed 4 times at 1 of 2 points, 0.0 s in all")
        self.assertEqual(perturb.parse_counts(COUNTS)[1][0], (None, 3, 0.0015))

    def test_not_perturbed(self):
        for text, what in ((None, "left no counts"), ("", "ever come by"),
                           (COUNTS.replace("900 4", "900 0"), "ever put to sleep"),
                           (re.sub(r"[14]00|900", "0", COUNTS), "ever come by"),
                           ("point a entry 1 2\n", "not a line"), ("points a\n", "not a line")):
            with self.assertRaisesRegex(perturb.Bad, what):
                self.counts(text)


class TestPlugin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)

    def test_decode(self):
        # Accesses memory, is atomic, loads and stores without being atomic, calls.
        cases = {
            "488b07": ("1000", "mov (%rdi),%rax"), "4889f8": ("0000", "mov %rdi,%rax"),
            "48894708": ("1000", "mov %rax,8(%rdi)"), "488b442408": ("0000", "mov 8(%rsp),%rax"),
            "498b442408": ("1000", "mov 8(%r12),%rax"), "488d4708": ("0000", "lea 8(%rdi),%rax"),
            "488b0510000000": ("1000", "mov 16(%rip),%rax"),
            "65488b042500000000": ("0000", "mov %gs:0,%rax"),
            "f0ff08": ("1100", "lock decl (%rax)"),
            "f0480fb117": ("1100", "lock cmpxchg %rdx,(%rdi)"),
            "8707": ("1100", "xchg %eax,(%rdi)"), "87c7": ("0000", "xchg %eax,%edi"),
            "f0830c2400": ("0100", "lock orl $0,(%rsp)"),
            "f0480fba2f03": ("1100", "lock btsq $3,(%rdi)"), "90": ("0000", "nop"),
            "0f1f4000": ("0000", "nopl"), "0f0d08": ("0000", "prefetchw"), "55": ("0000", "push"),
            "c3": ("0000", "ret"), "e800000000": ("0001", "call"),
            "ff5708": ("1001", "call *8(%rdi)"), "7505": ("0000", "jne"),
            "0f8500000000": ("0000", "jne"), "f348a5": ("1000", "rep movsq"),
            "f3aa": ("1000", "rep stosb"), "a801": ("0000", "test $1,%al"),
            "833f00": ("1000", "cmpl $0,(%rdi)"), "f60701": ("1000", "testb $1,(%rdi)"),
            "0fb607": ("1000", "movzbl (%rdi),%eax"), "0fae38": ("1000", "clflush (%rax)"),
            "0faef0": ("0000", "mfence"), "480fa30f": ("1000", "bt %rcx,(%rdi)"),
            "480fab07": ("1010", "bts %rax,(%rdi)"), "836d4001": ("1010", "subl $1,0x40(%rbp)"),
            "ff4740": ("1010", "incl 0x40(%rdi)"), "480107": ("1010", "add %rax,(%rdi)"),
            "480307": ("1000", "add (%rdi),%rax"), "3907": ("1000", "cmp %eax,(%rdi)"),
            "f71f": ("1010", "negl (%rdi)"), "c70700000000": ("1000", "movl $0,(%rdi)"),
            "ffd0": ("0001", "call *%rax"),
        }
        program = compiled(self.work.name, "decode", DECODE)
        said = subprocess.run([program], input="\n".join(cases), stdout=subprocess.PIPE,
                              encoding="ascii", check=True).stdout.split()
        for (expected, name), got in zip(cases.values(), said, strict=True):
            self.assertEqual(got, expected, name)

    def test_numbers(self):
        program = compiled(self.work.name, "numbers", NUMBERS)
        *lengths, slept, of_point = map(int, subprocess.run(
            [program], stdout=subprocess.PIPE, check=True).stdout.split())
        for length in lengths:
            self.assertAlmostEqual(length, 10000, delta=500)
        # 30 % of 100 s, in sleeps of 1 ms, and an eighth of that; and what there is at first.
        self.assertAlmostEqual(slept, 30000, delta=100)
        self.assertAlmostEqual(of_point, 30000 / 8, delta=20)

    def test_odds(self):
        """Rarely executed places get more, hot ones 16 times as much."""
        program = compiled(self.work.name, "odds", ODDS)
        said = subprocess.run([program], stdout=subprocess.PIPE, encoding="ascii", check=True)
        for line, odds in zip(said.stdout.splitlines(), (32, 32 * 4, 32 * 16), strict=True):
            _, cold_sum, colds, hot_sum, hots = map(int, line.split())
            self.assertEqual(cold_sum, colds * odds)
            self.assertEqual(hot_sum, hots * odds // 16)
            self.assertAlmostEqual(hots, 1600 / 16, delta=35)

    def run_plugin(self, *args, rounds=1000):
        """(counts, what it said) of two CPUs that execute a few instructions."""
        program = os.path.join(self.work.name, "run")
        if not os.path.exists(program):
            compiled(self.work.name, "run", RUN)
        ranges, out = (os.path.join(self.work.name, name) for name in ("ranges", "out"))
        with open(ranges, "w", encoding="ascii") as file:
            file.write(RANGES)
        done = subprocess.run([program, f"ranges={ranges}", f"out={out}", *args, str(rounds)],
                              stderr=subprocess.PIPE, encoding="ascii", check=False, timeout=60)
        if done.returncode:
            return None, done.stderr
        with open(out, encoding="ascii") as file:
            return perturb.parse_counts(file.read()), done.stderr

    def test_counts(self):
        (points, cpus), _ = self.run_plugin("seed=7", "one_in=10", "max_us=100")
        looked = {kind: points["stop_this_handle", kind].looked for kind in perturb.KINDS}
        self.assertEqual(looked, {"entry": 2000, "memory": 8000, "atomic": 2000})
        self.assertEqual(set(cpus), {0, 1})
        slept = sum(count.slept for count in points.values())
        self.assertGreater(slept, 10)
        self.assertEqual(slept, sum(count.slept for count in cpus.values()))
        self.assertGreater(sum(count.seconds for count in points.values()), slept / 1e6)

    def test_refused(self):
        for arg in ("max_us=5000", "max_us=0", "one_in=0", "seed=-1", "seed=", "one_in=3x"):
            counts, said = self.run_plugin(arg)
            self.assertIsNone(counts)
            self.assertIn(f"not a number in its range: {arg}", said)
        self.assertIn("unknown argument", self.run_plugin("speed=1")[1])
        self.assertIn("not a list of ranges", self.run_plugin("ranges=/dev/null")[1])


if __name__ == "__main__":
    unittest.main()
