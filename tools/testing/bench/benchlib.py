# SPDX-License-Identifier: GPL-2.0
"""Parsing, checks, statistics and tables of the base/stack comparison."""

import re
from statistics import median

SIDES = ("base", "stack")
NULL = ("", "null")
OPS = (NULL, ("ext4", "handle"), ("ext4", "chmod"), ("ext4", "create_unlink"),
       ("xfs", "chmod"), ("xfs", "create_unlink"))
STRESS = tuple((fs, fsync) for fs in ("ext4", "xfs") for fsync in (False, True))
BASIC_BLOCKS_PER_BLOCK = 8  # XFS counts its log in units of 512 bytes
MIN_WINDOW = 0.1  # of the time asked for: less is no measurement


class BenchError(Exception):
    """A sample that cannot be right."""


def parse_jbd2_info(text):
    """/proc/fs/jbd2/*/info as a dict; the averages are integers, rounded down."""
    match = re.match(r"(\d+) transactions \((\d+) requested\), each up to (\d+) blocks", text)
    if not match:
        raise BenchError(f"not a jbd2 info file: {text[:60]!r}")
    info = dict(zip(("transactions", "requested", "max_blocks"), map(int, match.groups())))
    for value, name in re.findall(r"^  (\d+)(?:ms|us)? (.*)$", text, re.MULTILINE):
        info[name] = int(value)
    return info


def parse_xfs_stat(text):
    """/proc/fs/xfs/stat as a dict of lists; 'gc xpc' and the like keep their full name."""
    stat = {}
    for line in text.splitlines():
        match = re.match(r"([a-z]\w*(?: [a-z]+)*)((?: \d+)+)$", line)
        if not match:
            raise BenchError(f"not a line of xfs stat: {line[:60]!r}")
        stat[match.group(1)] = [int(word) for word in match.group(2).split()]
    return stat


def check_jbd2_totals(counters):
    """The exact totals have to agree with the averages that /proc shows."""
    info, totals = parse_jbd2_info(counters["jbd2_info"]), counters["jbd2_totals"]
    if info["transactions"] != totals["transactions"]:
        raise BenchError(f"{totals['transactions']} transactions in the journal, "
                         f"{info['transactions']} in its info file")
    if not info["transactions"]:
        return
    for total, average in (("handles", "handles per transaction"),
                           ("blocks", "blocks per transaction"),
                           ("logged", "logged blocks per transaction")):
        if totals[total] // info["transactions"] != info[average]:
            raise BenchError(f"{totals[total]} {total} in {info['transactions']} transactions, "
                             f"but the info file says {info[average]} {average}")


def logged_blocks(counters):
    """Blocks of 4 KiB written to the log since the filesystem was mounted (ext4) or ever."""
    if "jbd2_totals" in counters:
        check_jbd2_totals(counters)
        return counters["jbd2_totals"]["logged"]
    return parse_xfs_stat(counters["xfs_stat"])["log"][1] / BASIC_BLOCKS_PER_BLOCK


def counter_deltas(run):
    """What a run of stress-unlink added to the counters of its filesystem."""
    before, after = run["before"], run["after"]
    delta = {"ctxt": after["ctxt"] - before["ctxt"],
             "logged": logged_blocks(after) - logged_blocks(before)}
    if "jbd2_totals" in after:
        for name in ("transactions", "requested", "handles", "blocks"):
            delta[name] = after["jbd2_totals"][name] - before["jbd2_totals"][name]
    else:
        old, new = parse_xfs_stat(before["xfs_stat"]), parse_xfs_stat(after["xfs_stat"])
        names = ("log_writes", "log_blocks", "log_noiclogs", "log_force", "log_force_sleep")
        delta.update({n: b - a for n, a, b in zip(names, old["log"], new["log"])})
    for name, value in delta.items():
        if value < 0:
            raise BenchError(f"counter {name} went down by {-value}")
    return delta


def rate(sample):
    """Operations per second of all threads of a jbench sample."""
    return sum(ops * 1e9 / ns for ops, ns in zip(sample["ops"], sample["ns"]))


def cost(sample):
    """Nanoseconds of one thread per operation."""
    return sum(sample["ns"]) / sum(sample["ops"])


def check_guest(result, threads, ms):
    """Raise BenchError unless the samples of one boot are complete and plausible."""
    if result["cpus"] < max(threads):
        raise BenchError(f"the guest had {result['cpus']} CPU(s)")
    for name, wanted, got in (
            ("jbench", {(fs, op, number) for fs, op in OPS for number in threads},
             {(s["fs"], s["op"], s["threads"]) for s in result["jbench"]}),
            ("stress-unlink", set(STRESS), {(s["fs"], s["fsync"]) for s in result["stress"]}),
            ("fsck", {fs for fs, _ in STRESS}, set(result["fsck"]))):
        if wanted != got:
            raise BenchError(f"{name}: not the samples expected: {sorted(wanted ^ got)}")
    for sample in result["jbench"]:
        what = f"{sample['fs']} {sample['op']}, {sample['threads']} thread(s)".strip()
        for key in ("ops", "ns", "cpus"):
            if len(sample[key]) != sample["threads"]:
                raise BenchError(f"{what}: {len(sample[key])} value(s) of {key}")
        if min(sample["ops"]) <= 0:
            raise BenchError(f"{what}: a thread completed no operation")
        if min(sample["ns"]) < ms * 1e6 * MIN_WINDOW:
            raise BenchError(f"{what}: measured for {min(sample['ns']) / 1e6:.0f} ms, "
                             f"asked for {ms} ms")
        if len(set(sample["cpus"])) != sample["threads"]:
            raise BenchError(f"{what}: threads shared a CPU")
    for run in result["stress"]:
        what = f"{run['fs']} stress-unlink"
        if run["ops"] != run["procs"] * run["loops"] * run["files"] or run["ops"] <= 0:
            raise BenchError(f"{what}: {run['ops']} operations")
        if run["ns"] <= 0:
            raise BenchError(f"{what}: took {run['ns']} ns")
        if not counter_deltas(run)["logged"]:
            raise BenchError(f"{what}: nothing was logged")


def mad(values):
    """Median absolute deviation from the median."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def summary(values):
    """Median and spread of the samples of one kernel; spread in percent of the median."""
    middle = median(values)
    return {"median": middle, "mad": mad(values), "min": min(values), "max": max(values),
            "spread": 100 * mad(values) / middle if middle else 0.0, "n": len(values)}


def compare(rounds):
    """Compare {side: [[samples of round 0], [samples of round 1], ...]}.

    The ratio is that of the medians of all samples. The ratios of the single rounds, whose
    two boots follow each other, show how far it can be trusted.
    """
    result = {side: summary([v for values in rounds[side] for v in values]) for side in SIDES}
    result["ratio"] = _ratio(result["stack"]["median"], result["base"]["median"])
    result["round_ratios"] = [_ratio(median(stack), median(base))
                              for base, stack in zip(rounds["base"], rounds["stack"])]
    return result


def _ratio(a, b):
    return a / b if b else float("nan")


def _stress_values(run):
    delta = counter_deltas(run)
    return {"loops/s": run["ops"] * 1e9 / run["ns"],
            "logged blocks/loop": delta["logged"] / run["ops"],
            "context switches/loop": delta["ctxt"] / run["ops"]}


def collect(boots, select):
    """{key: {side: [values by round]}} of the boots; select(samples) yields (key, value)."""
    keys = {}
    for boot in boots:
        for key, value in select(boot["samples"]):
            sides = keys.setdefault(key, {side: {} for side in SIDES})
            sides[boot["side"]].setdefault(boot["round"], []).append(value)
    return {key: {side: [values for _, values in sorted(sides[side].items())]
                  for side in SIDES} for key, sides in keys.items()}


def summarise(boots):
    """Everything the tables show, from the raw samples of all boots."""
    def micro(samples, value):
        for sample in samples["jbench"]:
            yield (sample["fs"], sample["op"], sample["threads"]), value(sample)

    def stress(samples):
        for run in samples["stress"]:
            for name, value in _stress_values(run).items():
                yield (run["fs"], run["fsync"], name), value

    rates = collect(boots, lambda samples: micro(samples, rate))
    costs = collect(boots, lambda samples: micro(samples, cost))
    jbench = [{"fs": fs, "op": op, "threads": threads,
               "ops_per_s": compare(rates[fs, op, threads]),
               "ns_per_op": compare(costs[fs, op, threads])} for fs, op, threads in rates]
    return {"jbench": jbench, "scaling": scaling(jbench),
            "stress": [{"fs": fs, "fsync": fsync, "value": name, **compare(values)}
                       for (fs, fsync, name), values in collect(boots, stress).items()]}


def scaling(jbench):
    """Rate of the most threads over the rate of one, and as a share of what null reaches."""
    by_op = {}
    for row in jbench:
        by_op.setdefault((row["fs"], row["op"]), {})[row["threads"]] = row["ops_per_s"]
    gain = {op: {side: _ratio(rows[max(rows)][side]["median"], rows[1][side]["median"])
                 for side in SIDES} for op, rows in by_op.items() if 1 in rows}
    return [{"fs": fs, "op": op, "threads": max(by_op[fs, op]), **gain[fs, op],
             "of_null": {side: _ratio(gain[fs, op][side], gain[NULL][side]) for side in SIDES}}
            for fs, op in gain]


def number(value):
    """Four significant digits at most, no exponent."""
    for limit, digits in ((1000, 0), (100, 1), (10, 2)):
        if abs(value) >= limit:
            return f"{value:.{digits}f}"
    return f"{value:.3f}"


def _name(row):
    if row["op"] == "null":
        return "null (control)"
    return f"{row['fs']} {row['op']}"


def ratio_text(value):
    return f"{value:.2f}" if value < 99 else ">99"


def _rounds(row):
    ratios = row["round_ratios"]
    return f"{ratio_text(min(ratios))}..{ratio_text(max(ratios))}"


def jbench_table(rows):
    lines = [f"{'':26}{'base':^24} {'stack':^24} {'stack / base':>19}",
             f"{'operation':20}{'CPUs':>5} " + f"{'kops/s':>9}{'ns/op':>9}{'+-%':>6} " * 2
             + f"{'ratio':>6}{'rounds':>14}"]
    for row in rows:
        line = f"{_name(row):20}{row['threads']:>5} "
        for side in SIDES:
            ops, ns = row["ops_per_s"][side], row["ns_per_op"][side]
            line += (f"{number(ops['median'] / 1000):>9}{number(ns['median']):>9}"
                     f"{ops['spread']:>6.1f} ")
        ratio = ratio_text(row["ops_per_s"]["ratio"])
        lines.append(line + f"{ratio:>6}{_rounds(row['ops_per_s']):>14}")
    return lines


def scaling_table(rows):
    lines = [f"{'':26}{'base':^20} {'stack':^20}",
             f"{'scaling':20}{'CPUs':>5} " + f"{'rate/1 CPU':>11}{'of null':>9} " * 2]
    for row in rows:
        lines.append(f"{_name(row):20}{row['threads']:>5} " + " ".join(
            f"{row[side]:>11.2f}{100 * row['of_null'][side]:>8.0f}%" for side in SIDES))
    return lines


def stress_table(rows):
    lines = [f"{'stress-unlink':39}{'base':>10}{'+-%':>6} {'stack':>10}{'+-%':>6}"
             f"{'ratio':>8}{'rounds':>14}"]
    for row in rows:
        name = f"{row['fs']}{' fsync' if row['fsync'] else ''}: {row['value']}"
        line = f"{name:39}"
        for side in SIDES:
            line += f"{number(row[side]['median']):>10}{row[side]['spread']:>6.1f} "
        lines.append(line.rstrip() + f"{ratio_text(row['ratio']):>8}{_rounds(row):>14}")
    return lines


NOTES = """\
kops/s: all threads together; ns/op: time of one thread per operation.
Medians of all samples. +-%: median absolute deviation, in percent of the median.
rounds: smallest and largest ratio of the single rounds. A ratio whose rounds lie on both
sides of 1.00 is no difference. null: private memory only, what the machine itself gives.
Logged blocks are of 4 KiB. Context switches are those of the whole guest."""


def report(run):
    """The lines to print for a whole run, at most 100 columns wide."""
    machine, kernels, boots = run["machine"], run["kernels"], run["boots"]
    lines = [f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB; "
             f"guests on {kernels['base']['platform']}"]
    for side in SIDES:
        kernel = kernels[side]
        lines.append(f"{side + ':':7}{kernel['name']}, commit {kernel['commit'][:12]}, "
                     f"config {kernel['config_sha256'][:12]}")
    if kernels["base"]["image_sha256"] == kernels["stack"]["image_sha256"]:
        lines.append("base and stack are the same kernel: every difference below is noise.")
    else:
        lines.append(run["base_note"])
    rounds = len({boot["round"] for boot in boots})
    lines.append(f"{rounds} rounds, {len(boots)} boots, {run['seconds']:.0f} s")
    result = run["summary"]
    lines += ["", *jbench_table(result["jbench"]), "", *scaling_table(result["scaling"]),
              "", *stress_table(result["stress"]), "", *NOTES.splitlines(),
              f"By chance alone all {rounds} round(s) of a row lie on one side in one row of "
              f"{2 ** (rounds - 1)}."]
    busy = max(boot["busy_cpus"] for boot in boots)
    if busy > 0.25:
        lines.append(f"warning: other programs used up to {busy:.1f} CPUs: the numbers are noise.")
    return [line.rstrip() for line in lines]
