# SPDX-License-Identifier: GPL-2.0
"""What fstests left of one test, and what is different between two kernels."""

import fnmatch
import os
import re
import shutil
from statistics import median

SIDES = ("base", "stack")
# A test that did not pass, and why: its own verdict, no end in time, a kernel report, a guest
# that is gone without one.
BAD = ("fail", "hung", "report", "lost")
VERDICTS = ("pass", "not run", *BAD, "no verdict")
SLOW_RATIO, SLOW_SECONDS = 1.5, 5
NEW = ("newly failing", "newly passing", "newly slow")
CLASSES = (*NEW, "different", "unstable", "no verdict")
WIDTH = 100


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def programs_found(config):
    """fstests' common/config with the paths of programs in place of a shell that looks for each."""
    return re.sub(r'"?\$\(type -P ([\w.-]+)\)"?',
                  lambda match: f'"{shutil.which(match[1]) or ""}"', config)


def group_lists(fstests, fs):
    """{test: groups} of generic and of a filesystem, from the lists that fstests' build makes."""
    tests = {}
    for name in ("generic", fs):
        for line in read(os.path.join(fstests, "tests", name, "group.list")).splitlines():
            words = line.split("#")[0].split()
            if words:
                tests[f"{name}/{words[0]}"] = words[1:]
    return tests


def select(tests, groups, patterns, without=()):
    """Names of tests, and what of groups and patterns names none. Patterns win over groups, and
    over those that are left out."""
    chosen, unknown = set(), []
    for word in patterns or groups:
        if patterns:
            found = fnmatch.filter(tests, word)
        else:
            directory, _, group = word.rpartition("/")
            found = [test for test, its in tests.items()
                     if (group == "all" or group in its) and test.startswith(directory)]
        chosen.update(found)
        unknown += [] if found else [word]
    for group in without:
        found = {test for test, its in tests.items() if group in its}
        unknown += [] if found else [group]
        if not patterns:
            chosen -= found
    return sorted(chosen), unknown


def verdict(test, results, status, output):
    """(verdict, seconds or None, why) of `check TEST`, from all that it left in results."""
    log = read(os.path.join(results, "check.log")).splitlines()
    said = {key: [word for line in log if line.startswith(key + ":")
                  for word in line.split(":", 1)[1].split()]
            for key in ("Ran", "Not run", "Failures")}
    times = dict(line.split()[:2] for line in
                 read(os.path.join(results, "check.time")).splitlines() if " " in line)
    stem = os.path.join(results, test)
    found = {end: os.path.exists(stem + end) for end in (".notrun", ".out.bad")}
    if said["Ran"] == [test]:
        if said["Failures"] == [test] and not said["Not run"] and status:
            return "fail", None, failure(stem, output)
        if said["Not run"] == [test] and found[".notrun"] and not said["Failures"]:
            return "not run", None, " ".join(read(stem + ".notrun").split())[:WIDTH]
        if (not said["Not run"] and not said["Failures"] and not any(found.values())
                and "Passed all 1 tests" in log and times.get(test, "").isdigit() and status == 0):
            return "pass", int(times[test]), ""
    last = ([line.strip() for line in output.splitlines() if line.strip()] or ["no output"])[-1]
    return "no verdict", None, f"check ended with {status}: {last}"[:WIDTH]


def failure(stem, output):
    """One line of what check printed that says most about a failure."""
    for pattern in (r"^(_check_\S+: .*)", r"^ {4}\+(?!\+\+)(.*\S)", r"^ {4}-(?!--)(.*\S)",
                    r"(\[failed, .*?\]|no qualified output)"):
        found = re.search(pattern, output, re.MULTILINE)
        if found:
            missing = "missing: " if pattern.startswith("^ {4}-") else ""
            why = re.sub(r" \(see .*?\)", "", missing + found.group(1).strip())
            break
    else:
        why = "see .out.bad"
    dmesg = read(stem + ".dmesg") if "_check_dmesg" in why else ""
    found = re.search(r"(WARNING|BUG|INFO|Oops|Assertion).*", dmesg)
    return (f"kernel log: {found.group(0)}" if found else why)[:WIDTH]


def slower(base, stack):
    """Seconds of both sides: whether that is worth saying."""
    return stack > SLOW_RATIO * base and stack - base > SLOW_SECONDS


def classify(runs):
    """The class of a test from all runs of it, [{side: {"verdict", "seconds"}}]; None: the same.
    Base has None where a test has passed on the stack and was not run there."""
    if not runs[0]["base"]:
        return None
    base, stack = ([run[side]["verdict"] for run in runs] for side in SIDES)
    if "no verdict" in base + stack:
        return "no verdict"
    if set(base + stack) == {"pass"}:
        slow = [slower(*(run[side]["seconds"] for side in SIDES)) for run in runs]
        return "newly slow" if all(slow) else None
    if set(stack) <= set(BAD) and not set(base) & set(BAD):
        return "newly failing"
    if set(base) <= set(BAD) and set(stack) == {"pass"}:
        return "newly passing"
    if len(set(base + stack)) == 1:
        return None
    return "different" if len(set(base)) == len(set(stack)) == 1 else "unstable"


def sequence(runs, side):
    """As in 'fail, pass'; with seconds where all passed."""
    timed = all(run[s]["verdict"] == "pass" for run in runs for s in SIDES)
    return ", ".join(f"{run[side]['seconds']} s" if timed else run[side]["verdict"]
                     for run in runs)


def reason(runs, side):
    return next((run[side]["why"] for run in runs if run[side]["why"]), "")


def difference(result):
    """What is printed: the tests that are not the same on both sides, and the counts."""
    classes = {test: classify(runs) for test, runs in result["runs"].items()}
    lines = []
    for kind in CLASSES:
        tests = [test for test in classes if classes[test] == kind]
        if tests or kind in NEW:
            lines.append(f"{kind}: {len(tests) or 'none'}")
        for test in tests:
            runs = result["runs"][test]
            lines.append(f"    {test:13} base: {sequence(runs, 'base')}; "
                         f"stack: {sequence(runs, 'stack')}")
            why = {reason(runs, side) for side in SIDES} - {""}
            lines += [f"        {text}" for text in sorted(why)]
    firsts = [runs[0] for runs in result["runs"].values()]
    lines += ["", f"{'first runs':14}{'base':>7}{'stack':>7}"]
    for kind in VERDICTS:
        counts = [sum((run[side] or {}).get("verdict") == kind for run in firsts)
                  for side in SIDES]
        if any(counts) or kind in VERDICTS[:3]:
            lines.append(f"{kind:14}{counts[0]:7}{counts[1]:7}")
    alone = sum(not run["base"] for run in firsts)
    if alone:
        lines.append(f"not run on base, as they pass on the stack: {alone}")
    timed = [run for run in firsts if all(run[side] and run[side]["verdict"] == "pass"
                                          for side in SIDES)]
    seconds = [sum(run[side]["seconds"] for run in timed) for side in SIDES]
    lines.append(f"{'seconds':14}{seconds[0]:7}{seconds[1]:7}   of the {len(timed)} tests that "
                 "pass on both")
    return lines


def heading(result):
    setup = result["setup"]
    mounts = setup.get("mounts", {})
    sides = [f"{side + ':':8}{kernel['name']}, commit {kernel['commit'][:12]}, "
             f"config {kernel['config_sha256'][:12]}" +
             (f", mounted with {mounts[side]}" if mounts.get(side) else "")
             for side, kernel in setup["kernels"].items()]
    options = "".join(f", {key}='{setup[key]}'" for key in ("mkfs_options", "mount_options")
                      if setup[key])
    return [f"{setup['fs']}{options}; {result['choice']}: {len(result['runs'])} tests; guests on "
            f"{setup['kernels']['base']['platform']}, {setup['cpus']} CPUs, {setup['mem']}, "
            f"disks of {setup['disk_mib']} MiB",
            *sides, f"fstests: commit {setup['fstests']}",
            f"{result['boots']} boots, {result['seconds'] / 60:.0f} min; load average of the host "
            f"{median(run['load'] for runs in result['runs'].values() for run in runs):.1f}"]


def report(result):
    """All of it, as plain text: also what is the same but does not pass."""
    lines = [*heading(result), "", *difference(result), ""]
    same = {test: runs for test, runs in result["runs"].items() if not classify(runs)}
    bad = [test for test, runs in same.items() if runs[0]["stack"]["verdict"] in BAD]
    lines.append(f"fails on both: {len(bad) or 'none'}")
    for test in bad:
        lines += [f"    {test:13} {sequence(same[test], 'stack')}: {reason(same[test], 'stack')}"]
    reasons = {}
    for test, runs in same.items():
        if runs[0]["stack"]["verdict"] == "not run":
            reasons.setdefault(reason(runs, "stack"), []).append(test)
    lines.append(f"not run on both, and why: {sum(map(len, reasons.values())) or 'none'}")
    for why, tests in sorted(reasons.items()):
        lines += [f"    {why}", *(f"        {' '.join(tests[i:i + 7])}"
                                  for i in range(0, len(tests), 7))]
    return [*lines, "",
            "Each test runs on both kernels at the same time. What is not the same is run again on",
            "both: newly failing, passing, slow is what all runs agree in; unstable is the rest.",
            f"newly slow: more than {SLOW_RATIO:g} times as long, and more than {SLOW_SECONDS} s "
            "longer, by fstests' check.time."]
