#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Is what the microscope counted what the code does?

PLANTED is a run of the operation "planted", whose accesses are known from jbench.c. AMONG is
one of "planted_all", the same while everything on all CPUs is counted, or of "disturbed", with
accesses of another task and of an interrupt in the middle, which must not be seen. NOTHING is
a run in which no CPU writes a line that another one touches, as when handles start and stop.
"""

import argparse
import json
import sys

# Of jbench_planted: the first byte of each line's cache line, and accesses per operation.
PLANTED = {"+0": (3, 0), "+64": (0, 1)}


def fields(line):
    return [field["name"] for field in line["fields"]]


def planted(seen):
    """What is wrong with a run of planted."""
    wrong = []
    found = {}
    for line in seen["lines"]:
        if line["object"] != "jbench_planted":
            wrong.append(f"{line['object']} {fields(line)} is shared")
            continue
        found[min(fields(line), key=lambda name: int(name))] = line
    for name, (atomics, writes) in PLANTED.items():
        line = found.pop(name, None)
        if not line:
            wrong.append(f"jbench_planted{name} is not seen as shared")
        elif (line["atomics"], line["writes"], line["reads"], line["cpus"]) != \
                (atomics, writes, 0, seen["cpus"]):
            wrong.append(f"jbench_planted{name}: {line['atomics']} atomic operations, "
                         f"{line['writes']} writes, {line['reads']} reads, {line['cpus']} CPUs")
    wrong += [f"jbench_planted{name} is shared" for name in found]
    if (seen["summary"]["atomics"], seen["summary"]["lines_written"]) != (3, 2):
        wrong.append(f"the summary says {seen['summary']}")
    return wrong


def among(seen):
    """What is wrong with planted accesses among others: sleeping and the like share lines, too."""
    mine = [line for line in seen["lines"] if line["object"] == "jbench_planted"]
    return planted({**seen, "lines": mine, "summary": {"atomics": 3, "lines_written": 2}})


def nothing(seen):
    """What is wrong with a run in which CPUs share nothing."""
    return [f"{line['object']} {fields(line)} is shared" for line in seen["lines"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planted", metavar="PLANTED", nargs="+", help="files of the microscope")
    parser.add_argument("--among", metavar="AMONG", nargs="+", required=True)
    parser.add_argument("--nothing", metavar="NOTHING", nargs="+", required=True)
    args = parser.parse_args()
    status = 0
    for check, paths in ((planted, args.planted), (among, args.among),
                         (nothing, args.nothing)):
        for path in paths:
            with open(path, encoding="utf-8") as file:
                seen = json.load(file)
            if seen["summary"]["ops"] < seen["cpus"]:
                wrong = ["hardly an operation was counted"]
            else:
                wrong = check(seen)
            for what in wrong:
                print(f"error: {seen['kernel']}, {seen['op']}, {seen['cpus']} CPUs: {what}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
