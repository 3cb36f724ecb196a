# SPDX-License-Identifier: GPL-2.0
"""The scale model's plots; the only user of matplotlib."""

import os

from modellib import CPUS, ModelError

COLOURS = {"base": "#b35806", "stack": "#2166ac"}  # differ in grey, and to the colour-blind


def draw(rows, machine, directory):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise ModelError(f"cannot plot: {error}", "run scripts/setup") from error
    os.makedirs(directory, exist_ok=True)
    for op in dict.fromkeys(row["op"] for row in rows):
        figure, axes = pyplot.subplots(figsize=(8, 5), facecolor="white")
        axes.set_facecolor("white")
        for row in (row for row in rows if row["op"] == op):
            low, high = zip(*((min(r) / 1000, max(r) / 1000) for r in row["ops_per_s"].values()))
            side, colour = row["side"], COLOURS[row["side"]]
            axes.fill_between(CPUS, low, high, color=colour, alpha=0.3, label=f"{side}, model")
            for edge in (low, high):
                axes.plot(CPUS, edge, color=colour, linewidth=1)
            if machine["name"] == "here":
                points = [(n, n * 1e6 / ns) for n, ns in sorted(row["measured_ns"].items())]
                fitted = " (the model is fitted to it)" if row["fitted"] else ""
                axes.plot(*zip(*points), "o", color=colour, markeredgecolor="black",
                          label=f"{side}, measured{fitted}")
        if machine["cpus"] < CPUS[-1]:
            axes.axvline(machine["cpus"], color="black", linestyle=":", label="end of the machine")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xticks(CPUS, [str(n) for n in CPUS])
        axes.set(xlabel="CPUs", ylabel="kops/s",
                 title=f"model: {op}, {machine['name']}: {machine['cpu']}")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(os.path.join(directory, f"model-{op.replace(' ', '-')}-"
                                    f"{machine['name']}.png"), dpi=120, transparent=False)
        pyplot.close(figure)
