# SPDX-License-Identifier: GPL-2.0
"""The scale model: throughput at 1..256 CPUs from counted cache lines and measured times.

Each cache line that CPUs write and share is a station that serves one transfer at a time;
all else is private work that CPUs do in parallel. N CPUs that repeat one operation are a
closed queueing network of N customers, one delay station and one queueing station for each
line, solved by exact mean value analysis (Reiser and Lavenberg, JACM 27(2), 1980):

    private work   time of the operation on one CPU, where no line moves
    demand         transfers of the line per operation x cost of a transfer

Transfers. The microscope counts the accesses k of an operation to a line, not how often the
line moves. Alone, the first access fetches the line and the others find it there: one
transfer. Where other CPUs already wait for it, it can be taken between any two accesses: k
transfers. Both ends are computed, and the truth is between them:

    one     an operation that writes the line moves it once; one that only reads it waits for
            its copy, but does not keep others waiting (delay, no queue)
    each    every access, read or write, moves it, and all of them queue

A line moves only if another CPU wrote it since. With the share w of operations that write it,
that is 1 - (1 - w)^(N - 1): nothing on one CPU, nearly always for a line that each operation
writes. A line that is read often and seldom written so becomes a cost with more CPUs.

Placement. CPUs are taken domain by domain: the first L3 or socket is full before the second
gets work. The owner before is any other CPU with the same probability, so the cost is the
mean over all pairs; with 2 sockets of s CPUs and N = 2s, s/(2s - 1) of them cross.

Fit. For this machine the cost of a transfer is fitted, for each end by itself, to one time: 2
CPUs of the base kernel in the operation named with --calibrate. All other times with 2 CPUs
are predicted and compared. For other machines the cost is the published one and nothing is
fitted; private work is that of this machine, so shapes and ratios say more than the rates.
With its own fit each end gives the same 2 CPUs for that operation, which would make the range
too narrow for more of them: beyond 2 CPUs it includes "each" at the cost fitted to "one", an
operation that keeps its lines while there are 2 CPUs and loses them when there are more.

Counts at several numbers of CPUs: N uses those of the largest number that is not above N.

Locks. A lock is a line like others here. That it is held, and the work done meanwhile, is
not in the counts: the microscope has no times. It sees the lock's atomic operations and the
lines written under it, each of which is a station of its own, not that they wait for one
another. So the range is no bound for an operation that works under a lock; the lines that
have a lock are listed. Read-write locks let readers work in parallel, but each reader writes
the lock's line: those the model does see. Spinning adds reads to the counts, and how many
depends on QEMU's order of CPUs; "each" takes them as they are, "one" ignores them. That a lock
is more than its hold time shows against lock_stat (reports.json): waits come out too short.

Left out: sleeping, commits and all I/O; waiting for the interconnect or the home directory;
that near CPUs get a contended line more often than far ones; SMT; clock frequency; caches
that the private work of many CPUs no longer fits; stores that retire before their line has
come (the fitted cost has them in it, a published one has not). Service times are taken as
exponential, those of a cache line vary less: waits come out too long, up to twofold. The
times are those of user-mode Linux, the counts those of x86_64: not the same instructions.
"""

import glob
import json
import os
from collections import Counter

SIDES = ("base", "stack")
ENDS = ("one", "each")
CPUS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PARTS = {"create_unlink": ("create", "unlink")}  # one operation of the bench, two of the microscope
NS_METRIC = "ns/op"
LINE_KEYS = ("reads", "writes", "atomics", "written_ops")


class ModelError(Exception):
    """What is wrong, and what to do next."""

    def __init__(self, what, next_step):
        super().__init__(what)
        self.next_step = next_step


def load_json(path, next_step):
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {path}: {error}", next_step) from error
    if not isinstance(data, dict):
        raise ModelError(f"{path} is not a JSON object", next_step)
    return data


def load_counts(paths):
    """{(fs, op): {kernel: {CPUs: microscope file}}} of files and of directories of files."""
    next_step = "name files written by tools/testing/microscope/microscope"
    counts, commits = {}, {}
    for path in paths:
        files = sorted(glob.glob(os.path.join(path, "*.json"))) if os.path.isdir(path) else [path]
        if not files:
            raise ModelError(f"{path} has no *.json", next_step)
        for name in files:
            data = load_json(name, next_step)
            try:
                seen = {}
                for line in data["lines"]:
                    what = (line["object"], *(str(f["name"]) for f in line["fields"]))
                    seen[what] = seen.get(what, 0) + 1
                    line["station"] = (*what, seen[what])
                    if min(float(line[key]) for key in LINE_KEYS) < 0:
                        raise ValueError("a count is negative")
                by_cpus = counts.setdefault((data["fs"] or "", data["op"]), {}).setdefault(
                    data["kernel"], {})
                cpus = int(data["cpus"])
                commit = commits.setdefault(data["kernel"], str(data["commit"]))
            except (KeyError, TypeError, ValueError) as error:
                raise ModelError(f"{name} is not of the microscope: {error!r}",
                                 next_step) from error
            if data["commit"] != commit:
                raise ModelError(f"{name} counts commit {data['commit'][:12]} of {data['kernel']}, "
                                 f"others {commit[:12]}", "remove it, and 'make microscope'")
            if cpus in by_cpus:
                raise ModelError(f"{name}: a second file of {data['op']} on {cpus} CPUs of "
                                 f"{data['kernel']}", "leave one of them out")
            by_cpus[cpus] = data
    return counts


def stations(lines):
    """[(counts of each line that is one station, number of such stations)]

    A line that several parts of an operation use is one station. Thousands of lines have the same
    counts: computed once, they do not take minutes.
    """
    by_station = {}
    for line in lines:
        by_station.setdefault(line["station"], []).append(tuple(line[key] for key in LINE_KEYS))
    return list(Counter(map(tuple, by_station.values())).items())


def stations_at(counts, fs, op, kernel, cpus):
    """Stations of the lines counted for that many CPUs, all parts of an operation; or None."""
    lines = []
    for part in PARTS.get(op, (op,)):
        by_cpus = counts.get((fs, part), {}).get(kernel)
        if not by_cpus:
            return None
        lines += by_cpus[max((n for n in by_cpus if n <= cpus), default=min(by_cpus))]["lines"]
    return stations(lines)


def read_times(path, op):
    """{(fs, op): {side: {CPUs: ns}}} of a file of the bench, whose format only this knows.

    Also takes {"base": {"1": ns, "2": ns}, "stack": ...}: times of the one operation op.
    """
    next_step = "name a file written by tools/testing/bench/bench, or see --help"
    run = load_json(path, next_step)
    times = {}
    try:
        if "base" in run:
            times[op] = {side: {int(n): float(ns) for n, ns in run[side].items()}
                         for side in SIDES}
        else:
            for row in run["rows"]:
                if row["metric"] != NS_METRIC:
                    continue
                case = row["params"]
                of_op = times.setdefault((case.get("fs", ""), case["op"]), {s: {} for s in SIDES})
                for side in SIDES:
                    of_op[side][int(case["threads"])] = float(row[side]["median"])
        if not times or any(ns <= 0 for sides in times.values() for of_side in sides.values()
                            for ns in of_side.values()):
            raise ValueError("no time per operation, or one that is not above 0")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} has no times of the bench: {error!r}", next_step) from error
    return times


def load_machines(path):
    """[{name, cpus, domains: [[CPUs, ns], ..., [null, ns]], source}], smallest domain first."""
    next_step = "repair it after the example of tools/testing/model/machines.json"
    machines = load_json(path, next_step).get("machines", [])
    for machine in machines:
        try:
            sizes = [size for size, _ in machine["domains"]]
            if sizes[-1] is not None or sizes[:-1] != sorted(sizes[:-1]) or not machine["source"]:
                raise ValueError("domains must grow and end with null; a source is needed")
            float(sum(ns for _, ns in machine["domains"]) + machine["cpus"])
            str(machine["name"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path}: {machine!r}: {error!r}", next_step) from error
    return machines


def locks(lines):
    """Names of the locks that the operation takes, from the fields with atomic operations."""
    return sorted({f"{line['object']}: {field['name']}" for line in lines
                   for field in line["fields"]
                   if field.get("a") and "lock" in str(field["name"])})


def transfer_cost(domains, cpus):
    """Mean ns of a transfer between two of the CPUs, taken domain by domain."""
    total, inner, outer = 0.0, 0, 0
    for size, ns in domains:
        full, rest = divmod(cpus, size or cpus)
        outer = full * (size or cpus) * ((size or cpus) - 1) + rest * (rest - 1)
        total += (outer - inner) * ns
        inner = outer
    return total / outer if outer else 0.0


def mva(think, demands, customers):
    """(rate, customers at each station) of a closed network with one delay station."""
    number, rate = Counter(demands), 0.0
    queues = dict.fromkeys(number, 0.0)     # stations of the same demand have the same queue
    for n in range(1, customers + 1):
        residences = {demand: demand * (1 + queue) for demand, queue in queues.items()}
        rate = n / (think + sum(number[demand] * time for demand, time in residences.items()))
        queues = {demand: rate * time for demand, time in residences.items()}
    return rate, [queues[demand] for demand in demands]


def transfers(line, cpus, end):
    """Transfers of a line, given its counts, per operation: (those that queue, that only delay)."""
    reads, writes, atomics, written_ops = line
    accesses = reads + writes + atomics
    # Runs that count all CPUs do not tell operations apart: no written_ops.
    written = min(1.0, written_ops or writes + atomics)
    gone = 1 - (1 - written) ** (cpus - 1)
    if end == "each":
        return accesses * gone, 0.0
    return written * gone, max(0.0, min(1.0, accesses) - written) * gone


def network(private, found, cost, cpus, end):
    """(think time, demands of the stations) of the operation on that many CPUs."""
    demands = []
    for lines, number in found:
        demand = 0.0
        for line in lines:
            queued, delayed = transfers(line, cpus, end)
            private += number * delayed * cost
            demand += queued * cost
        demands += [demand] * number
    return private, demands


def ns_per_op(private, found, cost, cpus, end):
    return cpus / mva(*network(private, found, cost, cpus, end), cpus)[0]


def knee(private, found, domains, end):
    """The CPUs from which on the busiest line is in use all the time; 257: more than 256."""
    for cpus in range(2, CPUS[-1] + 1):
        think, demands = network(private, found, transfer_cost(domains, cpus), cpus, end)
        if demands and cpus * max(demands) >= think + sum(demands):
            return cpus
    return CPUS[-1] + 1


def solve(function, target, high=1.0):
    """x >= 0 with function(x) = target; function grows."""
    low = 0.0
    while function(high) < target:
        low, high = high, 2 * high
        if high > 1e12:
            raise ValueError("no solution")
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return (low + high) / 2


def calibrate(times, found, end):
    """Cost of a transfer, in ns, with which the model gives the time measured with 2 CPUs."""
    next_step = "measure again, or name another operation with --calibrate"
    if times[2] <= times[1]:
        raise ModelError("the operation to calibrate with is not slower on 2 CPUs than on 1",
                         next_step)
    try:
        return solve(lambda cost: ns_per_op(times[1], found, cost, 2, end), times[2])
    except ValueError as error:
        raise ModelError("the operation to calibrate with shares no written line",
                         next_step) from error


def check_report(report):
    """Rows (what, reported, model) of a report that can be compared; else a reason, as text."""
    if "because" in report:
        return report["because"]
    if "curve" in report:
        # Two parameters from the first two points; the others are predictions.
        (_, single), (few, some), *rest = points = report["curve"]
        if some > few * single:
            return (f"it grows {some / single:.1f}-fold from 1 to {few} clients: one client waits "
                    "for something else than a CPU or a cache line, which the model leaves out")
        total = 1 / single
        demand = solve(lambda d: 1 / mva(total - d, [d], few)[0], 1 / some, total)
        return [(f"{points[n][0]} {report['clients']}", value,
                 mva(total - demand, [demand], points[n][0])[0])
                for n, (_, value) in enumerate(rest, 2)]
    rows = []
    for name, lock in report["locks"].items():
        # A customer finds what a network with one customer less has (arrival theorem). Think
        # time from the share that found the lock taken; the wait is the prediction.
        hold = lock["hold_us"] / lock["acquisitions"]
        busy, others = lock["contentions"] / lock["acquisitions"], report["threads"] - 1
        think = solve(lambda z: 1 - hold * mva(z, [hold], others)[0], 1 - busy)
        rows.append((f"{name}: us of wait per acquisition",
                     lock["wait_us"] / lock["acquisitions"],
                     hold * mva(think, [hold], others)[1][0]))
    return rows
