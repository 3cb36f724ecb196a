# SPDX-License-Identifier: GPL-2.0
"""fio(1): jobs as keyword arguments, results as dicts."""

import json

import benchlib


def fio(context, directory, common, jobs):
    """Run jobs, {name: {option: value}}, and return fio's result of each, by name."""
    command = ["fio", "--output-format=json", "--thread", f"--directory={directory}",
               *_options(common)]
    for name, options in jobs.items():
        command += [f"--name={name}", *_options(options)]
    said = context.run(*command)
    try:
        found = json.loads(said[said.index("{"):])["jobs"]
    except (ValueError, KeyError) as error:
        raise benchlib.BenchError(f"fio said: {said[:300]}") from error
    for job in found:
        if job["error"]:
            raise benchlib.BenchError(f"fio: job {job['jobname']}: error {job['error']}")
    return {job["jobname"]: job for job in found}


def _options(options):
    return [f"--{name}={value}" for name, value in options.items()]


def percentile_ms(latency, percentile):
    """A percentile of a latency of fio's, in ms."""
    values = latency.get("percentile")
    if not values:
        raise benchlib.BenchError("fio measured no latency")
    return values[f"{percentile:.6f}"] / 1e6


def cdf(latency):
    """A latency of fio's as points (ms, share of the operations that took no longer)."""
    return [(ns / 1e6, float(percentile) / 100)
            for percentile, ns in sorted(latency["percentile"].items(), key=lambda p: float(p[0]))]


def latency_curves(boots, key, wanted=lambda case: True):
    """The latency that samples have as key: {case: {side: [curve of a round]}}."""
    found = {}
    for boot in boots:
        for sample in boot["samples"]:
            if wanted(sample["case"]):
                sides = found.setdefault(sample["case"], {side: [] for side in benchlib.SIDES})
                sides[boot["side"]].append(cdf(sample["raw"][key]))
    return found
