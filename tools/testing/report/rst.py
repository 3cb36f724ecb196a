# SPDX-License-Identifier: GPL-2.0
"""Documentation/results.rst: what runs of the recipes have measured, with a few words on it."""

import os
import re

import benchlib
from workbench import TOP, die

WORDS = os.path.join(TOP, "Documentation", "results")
MAX_WORDS = 10      # lines of a section that are not generated
HEAD = ("", "base", "+-%", "stack", "+-%", "ratio", "rounds", "")
# The parts that are measured one by one, and their titles; the first three are runs of recipes.
PARTS = {"bench": "Workloads", "fsync": "fsync on slow devices",
         "inactivate": "With inactivate=auto", "microscope": "Cache lines that CPUs share",
         "model": "Model of more CPUs"}
RUNS = ("bench", "fsync", "inactivate")
CODE = "* the code of the stack, without Documentation: "
MISSING = "Not measured on this commit."
INTRO = """\
Written by ``make results``, all of it on one stack; each part has a run of its own. The words
between the tables are in ``results/``, one file for each section. Medians of all samples; +-%:
median absolute deviation in percent of the median; ratio: stack by base; rounds: smallest and
largest ratio of the single rounds; better, worse: all rounds agree. ``results/bench.txt``,
``results/fsync.txt`` and ``results/inactivate.txt`` have every value of every case."""


def heading(text, line):
    return [text, line * len(text), ""]


def table(head, rows):
    """A simple table; the first column is aligned to the left, the others to the right."""
    widths = [max(1, *(len(row[column]) for row in (head, *rows))) for column in range(len(head))]
    rule = "  ".join("=" * width for width in widths)

    def line(cells):
        first = cells[0] or "\\"
        return "  ".join([first.ljust(widths[0]), *(
            cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]).rstrip()
    return [rule, line(head), rule, *map(line, rows), rule, ""]


def words(name):
    """What has been written by hand on a section."""
    path = os.path.join(WORDS, name + ".rst")
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    if len(lines) > MAX_WORDS:
        die(f"Documentation/results/{name}.rst has {len(lines)} lines",
            f"say it in {MAX_WORDS}, the tables have the figures")
    return [*lines, ""] if lines else []


def shown(recipe):
    """The values of a recipe that the page has."""
    return getattr(recipe, "RESULTS", getattr(recipe, "PLOTS", tuple(recipe.METRICS)[:1]))


def rows_of(rows, metric):
    return [[row["case"], *(text for side in benchlib.SIDES for text in (
        benchlib.number(row[side]["median"]), f"{row[side]['spread']:.1f}")),
        benchlib.ratio_text(row["ratio"]), benchlib.rounds_text(row), benchlib.verdict(row)]
        for row in rows if row["metric"] == metric]


def agreeing(rows):
    """'12 of 48 (25 %)': how many rows have rounds that all agree."""
    agree = sum(benchlib.verdict(row) != "" for row in rows)
    return f"{agree} of {len(rows)} ({100 * agree / max(1, len(rows)):.0f} %)"


def measured(run):
    return [f"* {line}" for line in (*benchlib.head(run), run["date"], benchlib.chance(run))]


def recipes(run, prefix):
    """A subsection for each recipe; a prefix names the words."""
    for name in dict.fromkeys(row["recipe"] for row in run["rows"]):
        recipe = benchlib.load_recipe(name)
        rows = [row for row in run["rows"] if row["recipe"] == name]
        yield from heading(name, "-")
        yield from [*recipe.__doc__.strip().split("\n\n")[0].splitlines(), ""]
        yield from words(prefix + name)
        for metric in shown(recipe):
            found = rows_of(rows, metric)
            if found:
                yield from table((metric, *HEAD[1:]), found)
        lines = getattr(recipe, "extra", lambda _: [])(rows)
        if lines:
            yield from ["::", "", *(f"    {line}" for line in lines if line), ""]


def run_part(name, run):
    """A part that is a run of recipes."""
    lines = [*heading(PARTS[name], "="), *measured(run)]
    for fs in ("ext4", "xfs"):
        mine = [row for row in run["rows"] if fs in row["case"].split(",")[0].split()]
        if mine:
            lines.append(f"* {fs}: all rounds agree in {agreeing(mine)} of the rows.")
    return [*lines, "", *words(name),
            *recipes(run, "inactivate-" if name == "inactivate" else "")]


def table_part(name, head, rows):
    return [*heading(PARTS[name], "="), *words(name), *table(head, rows)]


def parse(page):
    """(which code it is of, or None, {part: lines}) of a page that was written earlier."""
    lines = page.splitlines()
    starts = {name: lines.index(title) for name, title in PARTS.items() if title in lines}
    ends = [*list(starts.values())[1:], len(lines)]
    found = [line[len(CODE):] for line in lines if line.startswith(CODE)]
    return found[0] if found else None, {
        name: lines[start:end] for (name, start), end in zip(starts.items(), ends)
        if MISSING not in lines[start:end]}


def results(parts, code):
    """The page, of {part: lines}; a part that there is not has a line that says so.

    code: names that of the stack, whatever its messages say.
    """
    lines = [".. SPDX-License-Identifier: GPL-2.0", "", "=======", "Results", "=======", "",
             *INTRO.splitlines(), "", f"{CODE}{code}", ""]
    for name, title in PARTS.items():
        lines += [*parts.get(name, [*heading(title, "="), MISSING]), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"
