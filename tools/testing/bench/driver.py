# SPDX-License-Identifier: GPL-2.0
"""What bench and host share: tools, the choice of recipes, files of results."""

import json
import os
import time

import benchlib
import dbench
from workbench import BEGIN, BUILD, TOP, call, die, machine_facts, write

TOOLS = ("stress-unlink", "fsload")
BUSY_WINDOW = 0.3  # seconds
VERSION = 2


def build_tools():
    """The programs that recipes run, in one directory."""
    out = os.path.join(BUILD, "bench", "tools")
    os.makedirs(out, exist_ok=True)
    for name in TOOLS:
        call([os.environ.get("CC", "gcc"), "-O2", "-Wall", "-Wextra", "-static",
              "-o", os.path.join(out, name),
              os.path.join(TOP, "tools/testing/workloads", name + ".c")],
             os.path.join(BUILD, "log", name + ".log"), f"{name} does not build")
    dbench.cut_load(os.path.join(out, "dbench.load"))
    return out


def busy_cpus():
    """CPUs in use on this machine while nothing of ours runs."""
    def idle():
        with open("/proc/stat", encoding="utf-8") as stat:
            fields = stat.readline().split()
        return int(fields[4]) + int(fields[5])

    before, begin = idle(), time.monotonic()
    time.sleep(BUSY_WINDOW)
    seconds = time.monotonic() - begin
    share = (idle() - before) / os.sysconf("SC_CLK_TCK") / seconds
    return round(max(0.0, os.cpu_count() - share), 2)


def labels_of(recipe, args, device=None):
    """The cases to measure, in the order of the recipe."""
    return [case["label"] for case in benchlib.cases(recipe, args.quick, device)
            if (not args.core or case.get("core", True)) and
            (not getattr(args, "stack_mount", "") or case.get("fs") == "ext4") and
            (not args.case or case["label"] in args.case)]


def choose(args, device=None):
    """The recipes to run."""
    # First what gives its first numbers in seconds.
    known = sorted(benchlib.recipe_names(), key=lambda name: name != "jbench")
    for name in args.workload or []:
        if name not in known:
            die(f"there is no workload {name}", f"choose from {', '.join(known)}")
    recipes = [benchlib.load_recipe(name) for name in args.workload or known]
    if args.core:
        recipes = [recipe for recipe in recipes if getattr(recipe, "CORE", False)]
    recipes = [recipe for recipe in recipes if labels_of(recipe, args, device)]
    if not recipes:
        die("there is no such case", "tools/testing/bench/bench --list prints them")
    return recipes


def save(run, path):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    write(path, json.dumps(run, indent=1) + "\n")


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        die(f"cannot read {path}: {error}", "name a file written by this program")
    return None


def result(args, kernels, boots, base_note, device=None, setup=""):
    """All that is known about a run, from its boots; setup: what is not as by default."""
    return {"version": VERSION, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": machine_facts(), "base_note": base_note,
            "options": {"rounds": args.rounds, "quick": args.quick, "core": args.core,
                        "stack_mount": getattr(args, "stack_mount", ""), "setup": setup},
            "kernels": kernels, "boots": boots,
            "rows": [row for name in dict.fromkeys(boot["recipe"] for boot in boots)
                     for row in benchlib.summarise(benchlib.load_recipe(name), [
                         boot for boot in boots if boot["recipe"] == name], device)],
            "seconds": time.monotonic() - BEGIN}


def add_choice(parser, rounds=5, what=""):
    """The options that choose what is measured."""
    parser.add_argument("--workload", action="append", metavar="NAME",
                        help="run this recipe; may be repeated; default all")
    parser.add_argument("--core", action="store_true",
                        help="of each recipe, only what 'make run' shows")
    parser.add_argument("--case", action="append", metavar="LABEL",
                        help="only this case; may be repeated")
    parser.add_argument("--quick", action="store_true",
                        help="one round, short runs: shows that it works, not how fast")
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N",
                        help=" ".join(["rounds", *[what] * bool(what), f"(default {rounds})"]))
