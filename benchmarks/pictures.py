"""Pictures of the pages of results, from their rows.

python benchmarks/pictures.py                   # draws all
python benchmarks/pictures.py learning stock    # draws these
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import measured_tables
import numpy as np
import online
import stock
import stream
import twin
from common import RESULTS, Row, load_rows, make_parser
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from online_trainings import LEARNERS
from scipy import stats
from summaries import group_by

from placement_gym.bench.report import StudyResults
from placement_gym.bench.report.known_latencies import find_recorded

DPI = 110
N_COLOURS = 10
"""Colours of curves; further curves are dashed."""
FIRST = 100
"""Place of episodes before learning on the logarithmic axis of steps."""
FIXED_DEVICES = {2: "a CPU and an integrated GPU", 3: "a CPU and two GPUs with little memory"}
"""Number of devices of a problem of ``placement-bench-1`` -> what they are."""
RULES = "stream-floors-rows.jsonl.gz"
"""Rows of rules, which play the problems of the stream."""
ANSWERING = ("earliest finish", "list-policy, many", "search", "lookahead", "annealing",
             "random blocks", "HEFT")  # fmt: skip
"""Arms of the stream in the picture; the table has all."""
GAINING = ("resident", "lookahead", "rollouts", "clone", "ppo", "clone-ppo")
"""Rules and learners that play at all rates, but for the load rule, which is far below."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(PICTURES))
    for name in parser.parse_args().names or PICTURES:
        file, picture, draw = PICTURES[name]
        draw(load_rows(file)).savefig(RESULTS / picture, dpi=DPI)


def draw_learning(rows: Sequence[Row]) -> Figure:
    """Mean sampled latency over the lowest of all runs, a panel for each problem."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    panels = figure.subplots(3, 3, sharex=True)
    names = [agent for (agent,) in group_by(rows, "arm")]
    for mine, panel in zip(group_by(rows, "problem").values(), panels.flat, strict=False):
        least = min(min(row["best_ms"].values()) for row in mine)
        for (agent,), runs in group_by(mine, "arm").items():
            curves = [dict(row["curve"]) for row in runs]
            at = sorted(set.intersection(*map(set, curves)))
            mean = [stats.gmean([curve[n] for curve in curves]) / least for n in at]
            number = names.index(agent)
            dashes = "--" if number >= N_COLOURS else "-"
            panel.plot(at, mean, dashes, color=f"C{number}", label=agent, lw=1.5)
        name = mine[0]["problem"].removesuffix("_inference")
        panel.set_title(f"{name}, {mine[0]['units']} units", size=9)
        panel.set(xscale="log", yscale="log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.2, 1.5, 2.0, 3.0, 5.0)))
        panel.yaxis.set_major_formatter("{x:.3g}")
        panel.yaxis.set_minor_locator(NullLocator())
    for panel in panels[-1]:
        panel.set_xlabel("placements")
    lines = {line.get_label(): line for panel in panels.flat for line in panel.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4)
    figure.supylabel("mean of the last 100 placements / the best of all runs")
    return figure


def draw_stock(rows: Sequence[Row]) -> Figure:
    """Speed-ups of policies as they learn, a panel for each of HSDAG's models."""
    shown = stock.select(rows, stock.UNLIMITED, stock.MODELS)
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, 3)
    for ((model,), mine), panel in zip(group_by(shown, "model").items(), panels, strict=True):
        arms = {arm: runs for (arm,), runs in group_by(mine, "arm").items()}
        for number, arm in enumerate(arm for arm in stock.TRAININGS if arm in arms):
            # Trainings of an arm play after the same steps.
            steps, values = np.moveaxis(np.array([row["greedy"] for row in arms[arm]]), 2, 0)
            marks = np.maximum(steps[0], FIRST)
            dashes = ("-o", "--s")[number % 2]  # PPO with and without masks is the same here
            panel.plot(marks, values.mean(axis=0), dashes, ms=3, color=f"C{number}", label=arm)
            panel.fill_between(marks, values.min(0), values.max(0), color=f"C{number}", alpha=0.12)
        for arm, dashes in ((stock.FLOOR, "--"), (stock.PROVEN, ":")):
            panel.axhline(arms[arm][0]["greedy"][-1][1], ls=dashes, color="black", lw=1, label=arm)
        panel.set(title=model, xscale="log", xlabel="steps, first before learning")
    panels[0].set_ylabel("deterministic episode,\nx the best single device")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def draw_measured(rows: Sequence[Row]) -> Figure:
    """The speed-ups of all agents on both test beds, a mark for each model."""
    names, beds = measured_tables.NAMES, measured_tables.BEDS
    ranks = {
        bed: group_by(runs, "arm") for bed in beds if (runs := measured_tables.rank(rows, bed))
    }
    figure = Figure(figsize=(5.0 * len(ranks), 5.2), layout="constrained")
    panels = figure.subplots(1, len(ranks), sharex=True, squeeze=False)[0]
    for panel, (bed, arms) in zip(panels, ranks.items(), strict=True):
        for place, mine in enumerate(arms.values()):
            estimate = mine[0]["score"]
            panel.plot([estimate.low, estimate.high], [place, place], color="black", lw=1.5)
            panel.plot(estimate.value, place, "o", color="black", ms=5)
            for number, model in enumerate(names):
                values = [row["speedup_vs_best_single"] for row in mine if row["model"] == model]
                panel.plot(values, [place] * len(values), "|", color=f"C{number}", ms=9)
        panel.axvline(1.0, color="grey", lw=1, ls="--")
        panel.set_yticks(range(len(arms)), [arm for (arm,) in arms])
        panel.invert_yaxis()
        panel.set(title=f"{beds[bed]} devices", xlabel="x the best single device, measured")
        panel.spines[["top", "right"]].set_visible(False)
    for number, name in enumerate(names.values()):
        panels[0].plot([], [], "|", color=f"C{number}", ms=9, label=name)
    panels[0].plot([], [], "-o", color="black", ms=5, label="interquartile mean, 95 %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def draw_twin(rows: Sequence[Row]) -> Figure:
    """Speed-ups of learners from scratch and after simulation, a panel for each network."""
    runs = [row | row["kwargs"] for row in rows if row["kwargs"]["arm"] in twin.ARMS]
    panels = group_by(runs, "model")
    figure = Figure(figsize=(1.2 + 4.4 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ((model,), mine), panel in zip(panels.items(), axes, strict=True):
        for (agent, arm), of_arm in group_by(mine, "agent", "arm").items():
            by_budget = sorted(group_by(of_arm, "budget").items())
            values = [[row["speedup_vs_best_single"] for row in group] for _, group in by_budget]
            at = [budget for ((budget,), _) in by_budget]
            learners = [learner for names in twin.LEARNERS.values() for learner in names]
            style = {twin.SCRATCH: "--o", twin.TWIN: "-o"}[arm]
            colour = f"C{learners.index(agent)}"
            panel.plot(at, [stats.gmean(group) for group in values], style, color=colour, ms=4)
            panel.fill_between(
                at, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.12
            )
            if arm == twin.TWIN:
                panel.plot([], [], "-", color=colour, label=agent)
        panel.axhline(1.0, color="grey", lw=1, ls=":")
        panel.set(title=model, xscale="log", xlabel="measured placements")
        panel.set_xticks(twin.BUDGETS, map(str, twin.BUDGETS))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("x the best single device")
    axes[0].plot([], [], "-o", color="grey", ms=4, label="simulation first")
    axes[0].plot([], [], "--o", color="grey", ms=4, label="from scratch")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
    return figure


def draw_fixed(rows: Sequence[Row]) -> Figure:
    """The median score of each agent on each problem, and its mean over problems."""
    results = StudyResults(rows, find_recorded(rows))
    agents = results.ranking
    n_devices = {row["problem"]: len(row["devices"]) for row in rows}
    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    axes = figure.subplots()
    for number, (count, devices) in enumerate(FIXED_DEVICES.items()):
        here = [n_devices[problem] == count for problem in results.problems]
        for place, agent in enumerate(agents):
            scores = np.median(results.scores(agent), axis=0)[here]
            places = np.full(len(scores), place + 0.16 * (2 * number - 1))
            axes.plot(scores, places, "|", color=f"C{number}", ms=9, mew=1.8)
        axes.plot([], [], "|", color=f"C{number}", ms=9, mew=1.8, label=f"a problem on {devices}")
    means = [results.means[agent, "latency_ms"] for agent in agents]
    axes.plot(means, range(len(agents)), "o", color="black", ms=5, label="mean of ten problems")
    axes.set_yticks(range(len(agents)), agents)
    axes.invert_yaxis()
    axes.set(xlabel="score (1 is the best known)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def draw_throughput(rows: Sequence[Row]) -> Figure:
    """The rates of all arms over that of two streams of one device, a panel for each model."""
    figure = Figure(figsize=(9.5, 3.2), layout="constrained")
    models = group_by(rows, "model")
    panels = figure.subplots(1, len(models), sharex=True, sharey=True)
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    for ((model,), mine), panel in zip(models.items(), panels, strict=True):
        for row in mine:
            colour = "C0" if row["arm"].startswith("one device") else "C1"
            place, ratio = arms.index(row["arm"]), row["ratio_to_two_streams"]
            panel.barh(place, ratio, xerr=row["noise"] or None, color=colour, alpha=0.75)
        panel.axvline(1.0, color="black", lw=1, ls="--")
        panel.set(title=model, xlabel="x two streams")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(arms)), arms)
    panels[0].invert_yaxis()
    return figure


def draw_stream(rows: Sequence[Row]) -> Figure:
    """The mean score of some arms on unseen graphs, by the time until their answers."""
    runs = group_by(stream.score_times([*rows, *load_rows(RULES)]), "arm", "after")
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    axes = figure.subplots()
    for arm in ANSWERING:
        means = [np.mean([run["score"] for run in runs[arm, f"{ms} ms"]]) for ms in stream.TIMES_MS]
        style = "-o" if arm.startswith("list-policy") else "--s"
        axes.plot(stream.TIMES_MS, means, style, ms=4, label=arm)
    axes.set(xscale="log", xlabel="ms of CPU time", ylabel="mean score, 0 without an answer")
    axes.set_xticks(stream.TIMES_MS, [f"{ms:,}" for ms in stream.TIMES_MS])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


def draw_online(rows: Sequence[Row]) -> Figure:
    """Gains of policies over the shortest completion, by rate."""
    runs = group_by([row for row in online.read_simulated(rows) if row["sees"]], "agent", "rate")
    rates = sorted({rate for _, rate in runs})
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.subplots()
    for agent in GAINING:
        gains = [
            online.measure_gains(runs[online.FLOOR, rate][0], runs[agent, rate]).mean(axis=0)
            for rate in rates
        ]
        half = [1.96 * gain.std(ddof=1) / len(gain) ** 0.5 for gain in gains]
        style = "-o" if agent in LEARNERS else "--s"
        name = online.NAMES[agent]
        axes.errorbar(rates, np.mean(gains, axis=1), half, fmt=style, capsize=3, label=name)
    axes.axhline(0.0, color="grey", linewidth=1)
    axes.set(xlabel="rate", ylabel="log slow-down below the shortest completion's", xticks=rates)
    axes.legend(frameon=False)
    return figure


PICTURES: dict[str, tuple[str, str, Callable[[Sequence[Row]], Figure]]] = {
    "learning": ("learning-rows.jsonl.gz", "learning.png", draw_learning),
    "stock": ("stock-rows.jsonl", "stock.png", draw_stock),
    "measured": ("measured-rows.jsonl", "measured.png", draw_measured),
    "twin": ("measured-twin-rows.jsonl", "twin.png", draw_twin),
    "fixed": (
        "placement-bench-1/results.jsonl.xz",
        "placement-bench-1/scores.png",
        draw_fixed,
    ),
    "throughput": ("throughput-measured-rows.jsonl", "throughput.png", draw_throughput),
    "stream": ("stream-rows.jsonl.gz", "online/answers.png", draw_stream),
    "online": ("online/requests.jsonl", "online/gains.png", draw_online),
}
"""Name -> its rows and file in ``docs/results``, and the function that draws it."""


if __name__ == "__main__":
    main()
