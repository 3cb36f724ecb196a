# SPDX-License-Identifier: GPL-2.0
"""Points of a kernel as addresses, for the plugin that has virtual CPUs sleep there."""

import collections
import hashlib
import os
import re
import shlex
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from workbench import BUILD, call, die, read, write  # noqa: E402

POINTS = os.path.join(HERE, "points")
KINDS = ("entry", "memory", "atomic")
DEFAULT = ["memory", "atomic"]
# What a compiler appends to the name of a static function, or of the part that is rarely run.
SUFFIX = re.compile(r"(\.(isra|constprop|part|cold|lto_priv)(\.\d+)?)+$")
IMAGE = "/arch/x86/boot/bzImage"
ONE_IN, MAX_US = 32, 2000

Point = collections.namedtuple("Point", "caller kinds")
Symbol = collections.namedtuple("Symbol", "name start end")
Range = collections.namedtuple("Range", "start end kind name")
Count = collections.namedtuple("Count", "looked slept seconds")


class Bad(Exception):
    """What is wrong with points or counts."""


def parse_points(text, name="points"):
    """{function: Point}, in the order of the lines."""
    points = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        found = re.fullmatch(r"([A-Za-z_]\w*)(?: in ([A-Za-z_]\w*))?((?: \w+)*)", " ".join(words))
        kinds = found and (found.group(3).split() or DEFAULT)
        if not found or not set(kinds) <= set(KINDS):
            raise Bad(f"{name}:{number}: not FUNCTION [in CALLER] [{'|'.join(KINDS)}]...: "
                      f"{' '.join(words)}")
        if found.group(1) in points:
            raise Bad(f"{name}:{number}: {found.group(1)} is there twice")
        points[found.group(1)] = Point(found.group(2), kinds)
    if not points:
        raise Bad(f"{name}: there are no points")
    for function, point in points.items():
        if point.caller and point.caller not in points:
            raise Bad(f"{name}: {point.caller}, the caller of {function}, is no point")
    return points


def parse_symbols(text):
    """The functions in what nm -S prints: {name without suffix: symbols}."""
    symbols = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT" and int(words[1], 16):
            start = int(words[0], 16)
            symbol = Symbol(words[3], start, start + int(words[1], 16))
            symbols.setdefault(SUFFIX.sub("", symbol.name), []).append(symbol)
    return symbols


def resolve(points, symbols):
    """(ranges, {function that was inlined: caller}, functions that are missing)."""
    ranges, inlined, missing = [], {}, []
    for function, point in points.items():
        if function not in symbols:
            if point.caller in symbols:
                inlined[function] = point.caller
            else:
                missing.append(function)
        for symbol in symbols.get(function, ()):
            for kind in point.kinds:
                # A cold part is never called.
                if kind != "entry" or ".cold" not in symbol.name:
                    ranges.append(Range(symbol.start, symbol.end, kind, function))
    return ranges, inlined, missing


def object_dir(kernel):
    """The build directory of a name in O/obj, a directory, or an image."""
    kernel = kernel if os.path.exists(kernel) else os.path.join(BUILD, "obj", kernel)
    path = os.path.realpath(kernel)
    if path.endswith(IMAGE):
        path = path[:-len(IMAGE)]
    if not os.path.isfile(os.path.join(path, "vmlinux")):
        die(f"there is no vmlinux of {kernel}",
            "name a finished x86_64 build in O/obj, or the bzImage in it")
    return path


def find_ranges(kernel):
    """What resolve() says of a kernel."""
    obj = object_dir(kernel)
    config = os.path.join(obj, ".config")
    if not os.path.exists(config) or "\nCONFIG_X86_64=y\n" not in read(config):
        die(f"{obj} is not an x86_64 kernel: there are no plugins for UML",
            "name one, like x86_64-torture")
    if "\nCONFIG_RANDOMIZE_BASE=y\n" in read(config):
        die(f"{obj} runs at addresses that vmlinux does not have",
            "build it without CONFIG_RANDOMIZE_BASE")
    try:
        points = parse_points(read(POINTS), POINTS)
    except Bad as error:
        die(str(error), "see the other lines of it")
    nm = subprocess.run(["nm", "-S", os.path.join(obj, "vmlinux")], stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, encoding="utf-8", check=False)
    if nm.returncode:
        die(f"nm does not read the vmlinux of {obj}: {nm.stderr.strip()}", "build it again")
    found = resolve(points, parse_symbols(nm.stdout))
    if not found[0]:
        die(f"{obj} has none of the points", f"see {POINTS}; is the kernel stripped?")
    return found


def build_plugin():
    source = os.path.join(HERE, "plugin.c")
    header = os.path.join(HERE, "../lib/qemu-plugin.h")
    command = [os.environ.get("CC", "gcc"), "-O2", "-Wall", "-Wextra", "-shared", "-fPIC",
               "-fvisibility=hidden", "-pthread"]
    key = hashlib.sha256(f"{command} {read(header)} {read(source)}".encode()).hexdigest()[:16]
    out = os.path.join(BUILD, "perturb", f"plugin-{key}.so")
    if not os.path.exists(out):
        for directory in (os.path.dirname(out), os.path.join(BUILD, "log")):
            os.makedirs(directory, exist_ok=True)
        # Others may be building it as well.
        new = f"{out}.{threading.get_native_id()}"
        call([*command, "-o", new, source], os.path.join(BUILD, "log", "perturb-plugin.log"),
             "the plugin does not build")
        os.replace(new, out)
    return out


def number_of(seed):
    """Seeds are words elsewhere."""
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8], "little")


def counts_path(out_dir):
    return os.path.join(os.path.abspath(out_dir), "perturb.counts")


def qemu_argument(kernel, out_dir, seed, only="", one_in=ONE_IN, max_us=MAX_US):
    """What "boot --qemu" needs for a perturbed run; read_counts(out_dir) says what it did.

    @only is a regular expression that functions must match, somewhere.
    """
    ranges = [r for r in find_ranges(kernel)[0] if re.search(only, r.name)]
    if not ranges:
        die(f"no point in {kernel} matches '{only}'", "perturb --list KERNEL lists them")
    out_dir = os.path.abspath(out_dir)
    plugin = build_plugin()
    for path in (plugin, out_dir):
        if "," in path:
            die(f"QEMU does not take {path}: there is a comma in it", "use another directory")
    os.makedirs(out_dir, exist_ok=True)
    listed = os.path.join(out_dir, "perturb.ranges")
    write(listed, "".join(f"{r.start:x} {r.end:x} {r.kind} {r.name}\n" for r in ranges))
    if os.path.exists(counts_path(out_dir)):
        os.unlink(counts_path(out_dir))
    return "-plugin " + shlex.quote(
        f"{plugin},ranges={listed},out={counts_path(out_dir)},seed={number_of(seed)},"
        f"one_in={one_in},max_us={max_us}")


def parse_counts(text):
    """({(function, kind): Count}, {CPU: Count})."""
    points, cpus = {}, {}
    for line in text.splitlines():
        words = line.split()
        try:
            if words[0] == "point":
                looked, slept, ns = map(int, words[3:])
                points[words[1], words[2]] = Count(looked, slept, ns / 1e9)
            elif words[0] == "cpu":
                slept, ns = map(int, words[2:])
                cpus[int(words[1])] = Count(None, slept, ns / 1e9)
            else:
                raise ValueError
        except (ValueError, IndexError):
            raise Bad(f"not a line of counts: {line}") from None
    return points, cpus


def read_counts(out_dir):
    """What the plugin did in a run: {(function, kind): Count}. Bad, if it never slept."""
    try:
        points, _ = parse_counts(read(counts_path(out_dir)))
    except OSError as error:
        raise Bad(f"the plugin left no counts: {error.strerror}") from error
    if not sum(count.looked for count in points.values()):
        raise Bad("no point was ever come by: are the addresses those of another kernel?")
    if not sum(count.slept for count in points.values()):
        raise Bad("no virtual CPU was ever put to sleep")
    return points


def summary(points):
    """A run in one line."""
    slept = [count for count in points.values() if count.slept]
    return (f"perturbed {sum(count.slept for count in slept)} times at {len(slept)} of "
            f"{len(points)} points, {sum(count.seconds for count in slept):.1f} s in all")
