# SPDX-License-Identifier: GPL-2.0
"""Mutants: their files, what each net says about them, and the score."""

import collections
import glob
import hashlib
import json
import os
import re

import console
from workbench import read

FEWEST, LEAST = 3, 90           # mutants of a subsystem; percent that are to be caught
HEADERS = ("What", "Harm", "Net")
NETS = {"kunit": r"test_\w+", "smoke": r"[1-9]\d?", "torture": r"[\w-]+/\w+( \w+)*"}
DEFAULT_CPUS = "2"
# Directories, and files elsewhere, by subsystem.
SUBSYSTEMS = {"arch/um/": "um", "arch/x86/um/": "um", "drivers/md/": "dm",
              "fs/ext4/": "ext4", "fs/jbd2/": "jbd2", "fs/quota/": "quota",
              "fs/xfs/": "xfs", "include/linux/jbd2.h": "jbd2",
              "include/linux/percpu-gate.h": "gate", "kernel/": "gate",
              "include/kunit/": "gate", "lib/": "gate",
              "include/trace/events/ext4.h": "ext4", "include/trace/events/jbd2.h": "jbd2"}
CAUGHT, MISSED, ERROR = "caught", "missed", "error"


class Bad(Exception):
    """What is wrong with a mutant's file."""


def subsystem_of(path):
    for prefix, name in SUBSYSTEMS.items():
        if path.startswith(prefix):
            return name
    return "/".join(path.split("/")[:2])


class Mutant:
    """One file, SERIES/WHAT.diff: headers, an empty line, a diff."""

    def __init__(self, path):
        self.path = path
        name = "/".join(path.split(os.sep)[-2:])
        found = re.fullmatch(r"(([a-z0-9-]+)/([a-z0-9-]+))\.diff", name)
        if not found:
            raise Bad(f"{name}: not a name like jbd2-errors/no-flush.diff")
        self.name, self.series, self.slug = found.groups()
        head, empty, self.diff = read(path).partition("\n\n")
        lines = [line.partition(": ") for line in head.splitlines()]
        if tuple(line[0] for line in lines) != HEADERS or not all(line[2] for line in lines):
            raise Bad(f"{name}: it does not begin with one line each of {', '.join(HEADERS)}")
        self.what, self.harm, net = (line[2].strip() for line in lines)
        kind, _, self.argument = net.partition(" ")
        if kind == "smoke":
            self.argument = self.argument or DEFAULT_CPUS
        if kind not in NETS or not re.fullmatch(NETS[kind], self.argument):
            raise Bad(f"{name}: there is no net '{net}'")
        self.kind, self.net = kind, f"{kind} {self.argument}"
        self.files = re.findall(r"^\+\+\+ b/(\S+)", self.diff, re.M)
        subsystems = {subsystem_of(file) for file in self.files}
        if not empty or len(subsystems) != 1:
            raise Bad(f"{name}: not a diff of one subsystem behind the headers")
        self.subsystem = subsystems.pop()


def load(directory):
    """All mutants, series by series."""
    for path in glob.glob(os.path.join(directory, "*.diff")):
        raise Bad(f"{os.path.basename(path)}: not in the directory of a series")
    paths = glob.glob(os.path.join(directory, "*", "*.diff"))
    return sorted(map(Mutant, paths), key=lambda mutant: (mutant.series, mutant.slug))


def digest(paths):
    """Of all files below paths: what a net's verdict depends on besides the kernel."""
    total = hashlib.sha256()
    for path in paths:
        files = [path] if os.path.isfile(path) else sorted(
            os.path.join(top, name) for top, _, names in os.walk(path) for name in names
            if not name.endswith((".pyc", ".rst")))
        for file in files:
            total.update(os.path.basename(file).encode())
            with open(file, "rb") as data:
                total.update(hashlib.file_digest(data, "sha256").digest())
    return total.hexdigest()


def key(diff, net, **more):
    """A result counts for exactly this: diff ("" is the control), net, stack, seed..."""
    return hashlib.sha256(json.dumps([diff, net, more], sort_keys=True).encode()).hexdigest()


def new_warnings(log, files):
    """What the compiler said about these files; the stack's own have no warnings."""
    return [line.strip() for line in log.splitlines()
            if "warning: " in line and any(f"{file}:" in line for file in files)]


def cause(output):
    """The line of a program's output that says most."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror:|\*\*\*", line)),
                lines[-1] if lines else "no output")[:160]


# What a net's end means: (verdict, why).

def judge_torture(status, output):
    if status == 0:
        return MISSED, "nothing found"
    if status == 1:
        found = re.search(r"FOUND at .*\n *(.*)", output)
        return CAUGHT, found.group(1)[:160] if found else cause(output)
    return ERROR, f"not judged, exit status {status}: {cause(output)}"


def judge_smoke(status, output):
    if status == 0:
        return MISSED, "passed"
    # 124 to 126 are those of vm/boot; from 126 on there was no guest to judge.
    if 0 < status < 126:
        return CAUGHT, {124: "the guest hung", 125: "kernel report"}.get(status, cause(output))
    return ERROR, f"not judged, exit status {status}: {cause(output)}"


def judge_kunit(status, log, test):
    reports = console.find_reports(log)
    if reports:
        return CAUGHT, f"kernel report: {reports[0][1]}"[:160]
    result = re.search(rf"^(?:\[ *[\d.]+\])? *(not ok|ok) \d+ {test}\b(.*)", log, re.M)
    if not result and "KTAP version" in log and re.search(r"# Subtest: ", log):
        return (CAUGHT, "the test did not end") if status else (ERROR, f"there is no {test}")
    if not result or "# SKIP" in result.group(2):
        return ERROR, f"{test} did not run, exit status {status}"
    return (CAUGHT, "the test failed") if result.group(1) == "not ok" else (MISSED, "passed")


def score(mutants, verdicts):
    """(lines, percent) for the mutants that were run."""
    total, caught = collections.Counter(), collections.Counter()
    for mutant in mutants:
        total[mutant.subsystem] += 1
        caught[mutant.subsystem] += verdicts[mutant.name] == CAUGHT
    lines = [f"{name}: {caught[name]} of {total[name]} caught" for name in sorted(total)]
    percent = 100 * caught.total() / total.total() if total else 0
    return lines + [f"total: {caught.total()} of {total.total()} caught, {percent:.0f} %"], percent


def too_few(mutants, touched):
    """The subsystems among the touched files that have too few mutants: {name: number}."""
    have = collections.Counter(mutant.subsystem for mutant in mutants)
    # A page cannot be broken in a way that a test notices.
    code = {subsystem_of(path) for path in touched
            if not path.startswith(("Documentation/", "MAINTAINERS"))}
    return {name: have[name] for name in sorted(code)
            if have[name] < FEWEST}
