# SPDX-License-Identifier: GPL-2.0
"""Plots as SVG files that follow the reader's light or dark colours."""

import math
import re

try:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
except ImportError:
    matplotlib = None

SIDES = ("base", "stack")
# Each differs from the other in lightness too, and from white and black.
COLOURS = {"base": "#d9822b", "stack": "#3b82c4"}
# What is drawn in this colour takes that of the page's text.
INK = "#123456"
STYLE = "<style>:root{--ink:#222}@media (prefers-color-scheme:dark){:root{--ink:#ddd}}</style>"
PANEL = (3.6, 2.6)  # inches
COLUMNS = 3
RARE = 0.05  # changes of a line per operation: those with fewer are not drawn
EDGE = 32  # ratios beyond are drawn there
SETTINGS = {
    "svg.fonttype": "none", "svg.hashsalt": "report", "font.family": "sans-serif",
    "font.size": 8, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK,
    "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False,
    "axes.spines.right": False, "legend.frameon": False, "axes.titlesize": 8,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "grid.color": INK, "grid.alpha": 0.15,
}


def available():
    return matplotlib is not None


def save(figure, path):
    figure.savefig(path, format="svg", metadata={"Date": None}, bbox_inches="tight")
    pyplot.close(figure)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*", "", text, flags=re.DOTALL)
    text = text.replace(INK, "var(--ink)").replace("</metadata>", "</metadata>" + STYLE, 1)
    if STYLE not in text:
        text = re.sub(r"(<svg[^>]*>)", rf"\1{STYLE}", text, count=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def panels(count):
    """A figure and that many axes."""
    columns = min(COLUMNS, count)
    lines = math.ceil(count / columns)
    figure, axes = pyplot.subplots(lines, columns, squeeze=False, layout="constrained",
                                   figsize=(PANEL[0] * columns, PANEL[1] * lines))
    flat = [axis for line in axes for axis in line]
    for axis in flat[count:]:
        axis.set_visible(False)
    return figure, flat[:count]


def axis_figure(series, axis_label, path):
    """Small multiples: {title: (metric, {side: [(x, median, smallest, largest)]})}."""
    with matplotlib.rc_context(SETTINGS):
        figure, axes = panels(len(series))
        for axis, (title, (metric, sides)) in zip(axes, series.items()):
            for side in SIDES:
                x, middle, low, high = zip(*sides[side])
                axis.fill_between(x, low, high, color=COLOURS[side], alpha=0.25, linewidth=0)
                axis.plot(x, middle, "o-", color=COLOURS[side], markersize=3, linewidth=1.2,
                          label=side)
            axis.set_xscale("log", base=2)
            axis.set_xticks(x, [str(n) for n in x])
            axis.minorticks_off()
            axis.set_ylim(bottom=0)
            axis.set_title(title, loc="left")
            axis.set_ylabel(metric)
            axis.set_xlabel(axis_label)
            axis.grid(axis="y")
        axes[0].legend()
        save(figure, path)


def ratio_figure(rows, path):
    """One line a row: the ratio, and the smallest and largest of the rounds."""
    def clip(ratio):
        return min(max(ratio, 1 / EDGE), EDGE)

    with matplotlib.rc_context(SETTINGS):
        figure, axis = pyplot.subplots(figsize=(7.5, 0.6 + 0.17 * len(rows)),
                                       layout="constrained")
        colours = {"better": "#2e9e5b", "worse": "#d1495b", "": "#888888"}
        for y, row in enumerate(reversed(rows)):
            colour = colours[row["verdict"]]
            axis.plot([clip(min(row["round_ratios"])), clip(max(row["round_ratios"]))], [y, y],
                      color=colour, linewidth=1.5)
            axis.plot(clip(row["ratio"]), y, "o", color=colour, markersize=3.5)
        axis.axvline(1, color=INK, linewidth=0.8)
        axis.set_xscale("log", base=2)
        low, high = axis.get_xlim()
        ticks = (0.5, 0.8, 0.9, 1, 1.1, 1.25, 2) if high < 4 * low else \
            (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16, 64)
        ticks = [n for n in ticks if low <= n <= high]
        axis.set_xticks(ticks, [f"{n:g}" for n in ticks])
        axis.minorticks_off()
        axis.set_yticks(range(len(rows)), [f"{row['case']}: {row['metric']}"
                                           for row in reversed(rows)])
        axis.set_ylim(-0.7, len(rows) - 0.3)
        axis.set_xlabel("stack by base")
        axis.grid(axis="x")
        save(figure, path)


def cdf_figure(curves, path):
    """{title: {side: [one curve a round, each of (ms, share)]}}."""
    with matplotlib.rc_context(SETTINGS):
        figure, axes = panels(len(curves))
        for axis, (title, sides) in zip(axes, curves.items()):
            for side in SIDES:
                for number, curve in enumerate(sides[side]):
                    axis.step(*zip(*curve), where="post", color=COLOURS[side], linewidth=0.9,
                              alpha=0.8, label=side if not number else None)
            axis.set_xscale("log")
            axis.set_ylim(0, 1)
            axis.set_title(title, loc="left")
            axis.set_xlabel("ms")
            axis.grid()
        axes[0].legend()
        save(figure, path)


def lines_figure(sides, title, path, shown=40):
    """Shared cache lines as cells: {side: [microscope's lines]}, base above, stack below."""
    with matplotlib.rc_context(SETTINGS):
        figure, axes = pyplot.subplots(2, 1, figsize=(9, 3.1), layout="constrained")
        top = max([line["atomics"] + line["writes"] for lines in sides.values()
                   for line in lines] + [1])
        norm = matplotlib.colors.Normalize(0, top)
        colours = matplotlib.colormaps["viridis"]
        width = 0
        for axis, side in zip(axes, SIDES):
            written = sorted((line for line in sides[side] if line["atomics"] + line["writes"] > 0),
                             key=lambda line: -line["atomics"] - line["writes"])
            lines = [line for line in written if line["atomics"] + line["writes"] >= RARE][:shown]
            for x, line in enumerate(lines):
                changes = line["atomics"] + line["writes"]
                axis.add_patch(pyplot.Rectangle((x + 0.04, 0), 0.92, 1, color=colours(
                    norm(changes)), linewidth=0))
                axis.text(x + 0.5, 0.5, f"{changes:.1f}", ha="center", va="center", fontsize=6,
                          color="black" if norm(changes) > 0.6 else "white")
                name = line["object"].replace("non-slab/vmalloc", "other")[:22]
                axis.text(x + 0.5, -0.08, name, rotation=35, ha="right", va="top", fontsize=6)
            rest = f"; {len(written) - len(lines)} not shown" if len(written) > len(lines) else ""
            axis.set_title(f"{title}, {side}: {len(written)} shared lines that are written, "
                           f"{sum(line['atomics'] for line in written):.2f} atomic operations "
                           f"per operation{rest}", loc="left")
            width = max(width, len(lines))
        for axis in axes:
            axis.set_xlim(0, max(12, width))
            axis.set_ylim(-0.02, 1)
            axis.set_axis_off()
        save(figure, path)
