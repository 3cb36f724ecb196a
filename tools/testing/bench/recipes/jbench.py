# SPDX-License-Identifier: GPL-2.0
"""Single operations, timed inside the kernel by jbench, each thread on its own files."""

import benchlib

METRICS = {"ns/op": "less", "kops/s": "more"}
CORE = True
SHARED_FS = True    # cases one after the other are on one filesystem
OPS = ((None, "null"), ("ext4", "handle"), ("ext4", "block"), ("ext4", "chmod"),
       ("ext4", "create_unlink"), ("xfs", "chmod"), ("xfs", "create_unlink"),
       ("xfs", "commit of 1 item"), ("xfs", "commit of 10 items"))
COMMIT = "commit"
THREADS = (1, 2)
NULL = "null (control)"
MIN_WINDOW = 0.9  # of the time asked for: less is no measurement
AXIS, AXIS_LABEL = "threads", "CPUs"
PLOTS = ("kops/s",)
RESULTS = ("ns/op",)


def _name(fs, op):
    return f"{fs} {op}" if fs else NULL


def cases(quick):
    del quick
    for fs, op in OPS:
        for threads in THREADS:
            case = {"label": f"{_name(fs, op)}, {benchlib.count(threads, 'CPU')}",
                    "op": op.split()[0], "threads": threads}
            if case["op"] == COMMIT:
                case.update(items=int(op.split()[2]), core=False)
            yield {**case, "fs": fs} if fs else case


def check(sample, ms):
    for key in ("ops", "ns", "cpus"):
        if len(sample[key]) != sample["threads"]:
            raise benchlib.BenchError(f"{len(sample[key])} value(s) of {key}")
    if min(sample["ops"]) <= 0:
        raise benchlib.BenchError("a thread completed no operation")
    if min(sample["ns"]) < ms * 1e6 * MIN_WINDOW:
        raise benchlib.Spoilt(f"measured for {min(sample['ns']) / 1e6:.0f} ms, "
                              f"asked for {ms} ms")
    if len(set(sample["cpus"])) != sample["threads"]:
        raise benchlib.BenchError("threads shared a CPU")


def measure(context, case):
    passes, ms = (1, 50) if context.quick else (4, 150)
    words = {"op": case["op"], "threads": case["threads"], "ms": ms, "warmup": 50}
    if "items" in case:
        words["items"] = case["items"]
    if context.fs:
        words["dirs"] = ",".join(context.fs.dirs(case["threads"]))
    samples = []
    for _ in range(passes):
        if context.fs:
            context.fs.sync()
        samples.append(context.jbench(**words))
        check(samples[-1], ms)
    return {"ns/op": [sum(s["ns"]) / sum(s["ops"]) for s in samples],
            "kops/s": [sum(o * 1e6 / n for o, n in zip(s["ops"], s["ns"])) for s in samples],
            }, {"jbench": samples}


def scaling(rows):
    """{operation: {side: (rate of 2 threads by that of 1, the same as a share of null's)}}"""
    rates = {row["case"]: row for row in rows
             if row["recipe"] == "jbench" and row["metric"] == "kops/s"}
    gains = {}
    for fs, op in OPS:
        one, two = (rates.get(f"{_name(fs, op)}, {n}") for n in ("1 CPU", "2 CPUs"))
        if one and two:
            gains[_name(fs, op)] = {side: two[side]["median"] / one[side]["median"]
                                    for side in benchlib.SIDES}
    null = gains.get(NULL)
    return {name: {side: (gain[side], gain[side] / null[side]) for side in gain}
            for name, gain in gains.items()} if null else {}


def extra(rows):
    """Lines for below the table."""
    gains = scaling(rows)
    if not gains:
        return []
    lines = ["", f"{'rate of 2 CPUs by that of 1':30}{'base':>8}{'of null':>9}{'stack':>10}"
             f"{'of null':>9}"]
    for name, gain in gains.items():
        lines.append(f"{name:30}{gain['base'][0]:>8.2f}{100 * gain['base'][1]:>8.0f}%"
                     f"{gain['stack'][0]:>10.2f}{100 * gain['stack'][1]:>8.0f}%")
    return [*lines, "null: private memory only, what the machine itself gives."]
