# SPDX-License-Identifier: GPL-2.0
"""Recipes, checks, statistics and tables of the base/stack comparison."""

import importlib.util
import math
import os
from statistics import median

SIDES = ("base", "stack")
RECIPES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "recipes")
WIDTH = 100
MIN_ROUNDS = 3  # for a verdict
MAX_BUSY = 0.25  # CPUs
TRIES = 3       # of a sample


class BenchError(Exception):
    """A sample that cannot be right."""


class Spoilt(BenchError):
    """A sample that a noisy machine has made useless. It is measured again."""


def recipe_names():
    return sorted(name[:-3].replace("_", "-") for name in os.listdir(RECIPES)
                  if name.endswith(".py"))


def load_recipe(name):
    """The module of a recipe.

    It has a docstring; METRICS, a dict of the name of each value to "more" or "less", whichever
    is better; PLOTS and RESULTS, if it has them, those that are drawn along AXIS, and that
    Documentation/results.rst has; cases(quick), which yields dicts with a "label" and, when
    there is a filesystem, what guestlib.Filesystem takes; and measure(context, case), which
    returns a dict of the values (a number, or a list of samples) and a dict of raw data.
    """
    path = os.path.join(RECIPES, name.replace("-", "_") + ".py")
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.NAME = name
    return module


def cases(recipe, quick, device=None):
    """The cases of a recipe. On a given device those that differ in the model of it are one."""
    found = {}
    for case in recipe.cases(quick):
        if device and "device" in case:
            case = {**case, "device": device,
                    "label": case["label"].replace(f" on {case['device']}", "")}
        found.setdefault(case["label"], case)
    return list(found.values())


def check_values(recipe, case, values):
    """Raise BenchError unless these can be what a case of a recipe measured."""
    if not values:
        raise BenchError("nothing was measured")
    for name, value in values.items():
        if name not in recipe.METRICS:
            raise BenchError(f"{recipe.NAME} has no value '{name}'")
        for number_ in value if isinstance(value, list) else [value]:
            if not math.isfinite(number_) or number_ < 0:
                raise BenchError(f"{case['label']}: {name} is {number_}")


def check_samples(recipe, samples, labels):
    """Raise BenchError unless one boot measured these cases."""
    found = [sample["case"] for sample in samples]
    if found != labels:
        raise BenchError(f"{recipe.NAME}: not the cases expected: "
                         f"{sorted(set(found) ^ set(labels)) or found}")
    for sample in samples:
        if not sample.get("spoilt"):
            check_values(recipe, {"label": sample["case"]}, sample["values"])


def measured(function, tries=TRIES):
    """What function() returns, and why its last try was of no use, or None."""
    for attempt in range(tries):
        try:
            return function(), None
        except Spoilt as error:
            print(f"    {error}: {'measured again' if attempt + 1 < tries else 'left out'}",
                  flush=True)
            reason = str(error)
    return ({}, {}), reason


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
    if not b:
        return 1.0 if not a else math.inf
    return a / b


def verdict(row):
    """better, worse, or nothing when the rounds do not agree, or are few."""
    ratios = row["round_ratios"]
    if len(ratios) < MIN_ROUNDS:
        return ""
    if min(ratios) > 1:
        return "better" if row["better"] == "more" else "worse"
    if max(ratios) < 1:
        return "worse" if row["better"] == "more" else "better"
    return ""


def log_ratio(row):
    """How far the ratio is from 1, in either direction; infinite when a side is 0."""
    return abs(math.log(row["ratio"])) if 0 < row["ratio"] < math.inf else math.inf


def summarise(recipe, boots, device=None):
    """The rows of a recipe, from the raw samples of its boots."""
    params = {case["label"]: {name: value for name, value in case.items()
                              if name not in ("label", "core")}
              for case in cases(recipe, False, device)}
    keys = {}
    for boot in boots:
        for sample in boot["samples"]:
            # Nothing, if it was spoilt.
            for name, value in sample["values"].items():
                sides = keys.setdefault((sample["case"], name), {side: {} for side in SIDES})
                sides[boot["side"]].setdefault(boot["round"], []).extend(
                    value if isinstance(value, list) else [value])
    rows = []
    for (case, name), sides in keys.items():
        # Pairs: a host may have measured one side only in some rounds.
        both = sorted(sides["base"].keys() & sides["stack"].keys())
        rounds = {side: [sides[side][number] for number in both] for side in SIDES}
        # Like the acquisitions of a lock that only one of the kernels has.
        if not rounds["base"] or not rounds["stack"]:
            continue
        rows.append({"recipe": recipe.NAME, "case": case, "metric": name,
                     "better": recipe.METRICS[name], "params": params.get(case, {}),
                     **compare(rounds)})
    return rows


def count(many, one, more="s"):
    """'1 worker', '2 workers'; more is what the plural adds."""
    return f"{many} {one}{more * (many > 1)}"


def number(value):
    """Four significant digits at most, no exponent."""
    for limit, digits in ((1000, 0), (100, 1), (10, 2)):
        if abs(value) >= limit:
            return f"{value:.{digits}f}"
    return f"{value:.3f}"


def ratio_text(value):
    return f"{value:.2f}" if value < 99 else ">99"


def rounds_text(row):
    ratios = row["round_ratios"]
    return f"{ratio_text(min(ratios))}..{ratio_text(max(ratios))}"


def table(rows):
    """The rows of one recipe; a case that has several values has a line of its own."""
    lines = [f"{rows[0]['recipe']:38}{'base':>10}{'+-%':>6}{'stack':>11}{'+-%':>6}{'ratio':>7}"
             f"{'rounds':>14}"]
    single = len({row["metric"] for row in rows}) == 1
    case = None
    for row in rows:
        if single:
            name = f"{row['case']}: {row['metric']}"
        else:
            if row["case"] != case:
                case = row["case"]
                lines.append(case)
            name = f"    {row['metric']}"
        lines.append(f"{name:38}" + " ".join(
            f"{number(row[side]['median']):>10}{row[side]['spread']:>6.1f}" for side in SIDES)
            + f"{ratio_text(row['ratio']):>7}{rounds_text(row):>14} {verdict(row)}".rstrip())
    return lines


NOTES = """\
Medians of all samples. +-%: median absolute deviation, in percent of the median. ratio: stack by
base. rounds: smallest and largest ratio of the single rounds; better, worse: all rounds agree."""


def warnings(run):
    """What a reader must know before the numbers."""
    kernels, boots = run["kernels"], run["boots"]
    if kernels["base"]["image_sha256"] == kernels["stack"]["image_sha256"]:
        mounted = run["options"].get("stack_mount")
        yield "base and stack are the same kernel: every difference below is " + (
            f"what {mounted} makes, or noise." if mounted else "noise.")
    else:
        yield run["base_note"]
    if run["options"].get("setup"):
        yield run["options"]["setup"]
    if run["options"]["quick"]:
        yield "warning: a quick run, which shows that it works, not how fast."
    disturbed = {}
    for boot in boots:
        if boot["busy_cpus"] > MAX_BUSY:
            name = boot["recipe"]
            disturbed[name] = max(disturbed.get(name, 0), boot["busy_cpus"])
    for name, busy in disturbed.items():
        yield (f"warning: {name}: other programs used up to {busy:.1f} CPUs: "
               "its times are noise.")
    retries = sum(sample.get("retries", 0) for boot in boots for case in boot["samples"]
                  for sample in case["raw"].get("jbench", ()))
    if retries:
        yield f"warning: {retries} measurement(s) of jbench took too long and were repeated."
    yield from left_out(run)


def left_out(run):
    """What is not in the table, as the machine was too noisy or a boot failed."""
    taken = [sample for boot in run["boots"] for sample in boot["samples"]]
    spoilt = [sample for sample in taken if sample.get("spoilt")]
    if spoilt:
        yield (f"warning: {len(spoilt)} of {len(taken)} samples left out, the last one: "
               f"{spoilt[-1]['case']}: {spoilt[-1]['spoilt']}")
    for failed in run.get("failed", ()):
        yield (f"warning: {failed['recipe']}, round {failed['round'] + 1}, {failed['side']}: "
               f"left out, {failed['why']}")
    if run.get("ended"):
        yield f"warning: not all was measured: {run['ended']}"


def rounds_of(run):
    return max(boot["round"] for boot in run["boots"]) + 1


def head(run):
    """Lines that say what was measured, where, and what to know before the numbers."""
    machine, kernels, boots = run["machine"], run["kernels"], run["boots"]
    lines = [f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mib']} MiB; "
             + ("the machine itself" if kernels["base"]["platform"] == "host" else
                f"guests on {kernels['base']['platform']}")]
    for side in SIDES:
        kernel = kernels[side]
        lines.append(f"{side + ':':7}{kernel['name']}, commit {kernel['commit'][:12]}, "
                     f"config {kernel['config_sha256'][:12]}")
    lines += warnings(run)
    booted = len({boot.get("boot_id", number) for number, boot in enumerate(boots)})
    lines.append(f"{rounds_of(run)} rounds, {booted} boots, {run['seconds']:.0f} s")
    return lines


def chance(run):
    rounds = rounds_of(run)
    return f"By chance alone all {rounds} round(s) agree in one row of {2 ** (rounds - 1)}."


def report(run):
    """The lines to print for a whole run, at most WIDTH columns wide."""
    lines = head(run)
    for name in dict.fromkeys(row["recipe"] for row in run["rows"]):
        lines += ["", *table([row for row in run["rows"] if row["recipe"] == name])]
        extra = getattr(load_recipe(name), "extra", None)
        if extra:
            lines += extra(run["rows"])
    lines += ["", *NOTES.splitlines(), chance(run)]
    return [line.rstrip() for line in lines]
