"""The tables of HSDAG from its rows.

Rows of raw graphs and of parts are made by ``hsdag.py``, those of folded graphs by ``learning.py``.
Latencies are in ms, of the best placement where nothing else is said, and means over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from common import Row
from summaries import Tables, group_by

from placement_gym.bench.study import Study

SMALLER, WHOLE = "colocated", "op"
"""Units after the paper's co-location, and without coarsening."""
HSDAG, CODE, RL, PLACETO, RNN = "HSDAG", "HSDAG, code", "HSDAG, rl", "Placeto", "RNN-based"
SINGLES = "HSDAG, rl without grouping"
GROUPS = "graph-groups"
ANNEALING, OPTIMUM = "annealing", "proven optimum"
ARMS = (HSDAG, RL, GROUPS, SINGLES, ANNEALING, PLACETO, RNN)
"""Of the tables, in their order."""
MODELS = ("inception-fp16", "resnet-fp16", "bert-8-fp16")
NUMBERS = {HSDAG: "paper", CODE: "code", RL: "rl", SINGLES: "rl, depth=0"}
"""Presets of HSDAG, by arm; ``"code"`` had the numbers of the published code."""
OF_LEARNING = {
    "hsdag paper": HSDAG,
    "hsdag code": CODE,
    "hsdag": RL,
    "hsdag, single units": SINGLES,
}
"""The same by the names of ``learning.py``."""
SINGLE = {"CPU-only": 0, "GPU-only": 1, "OpenVINO-CPU": 0, "OpenVINO-GPU": 1}
"""Number of the device; OpenVINO's own choices put the whole model on one, as ``hsdag-paper``
supports all operators on both."""
MARKS = ("100", "500", "2000")
"""Placements after which runs are compared."""
KEYS = ("best_ms", "mean_ms")


def shorten(model: str) -> str:
    """The name without its precision, which is that of the fp32 model."""
    return model.removesuffix("-fp16")


def of_raw(granularity: str, rows: Iterable[Row]) -> list[Row]:
    """Those of raw graphs with such units."""
    return [row for row in rows if row.get("granularity") == granularity]


def best_ms(row: Row) -> float:
    """The latency of the best placement of a run."""
    return float(row["best_ms"][str(row["budget"])])


def list_numbers(rows: Sequence[Row]) -> list[Row]:
    """Every number of HSDAG: folded graphs, and raw ones after co-location."""
    folded = [
        row | {"graph": "folded", "model": row["problem"], "arm": OF_LEARNING[row["arm"]]}
        for row in rows
        if row["arm"] in OF_LEARNING
    ]
    raw = [row | {"graph": "raw, fp16"} for row in of_raw(SMALLER, rows) if row["arm"] in NUMBERS]
    published = Study.load("paper").published[HSDAG]
    lines: list[Row] = []
    for (graph, model, arm), mine in group_by([*folded, *raw], "graph", "model", "arm").items():
        best = [best_ms(row) for row in mine]
        lines.append(
            {
                "model": shorten(model),
                "graph": f"{graph}, {mine[0]['units']} units",
                "preset": NUMBERS[arm],
                "budget": mine[0]["budget"],
                "seeds": len(mine),
                "best, ms": f"{np.mean(best):.4g} ({min(best):.4g} to {max(best):.4g})",
                "published, ms": published[shorten(model)],
            }
        )
    return sorted(lines, key=lambda line: (line["graph"], line["model"], line["preset"]))


def list_gains(rows: Sequence[Row]) -> list[Row]:
    """The paper's Table 2."""
    return compare(collect(of_raw(SMALLER, rows)))


def list_claims(rows: Sequence[Row]) -> list[Row]:
    """The paper's claims."""
    return check_claims(collect(of_raw(SMALLER, rows)))


def collect(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Mean best latency in ms, by method and model."""
    found: dict[str, dict[str, float]] = {name: {} for name in (*SINGLE, *ARMS, OPTIMUM)}
    for row in rows:
        for name, device in SINGLE.items():
            found[name][row["model"]] = row["single_ms"][device]
        found[OPTIMUM][row["model"]] = row["optimum_ms"]
    for arm in ARMS:
        for model in MODELS:
            best = [best_ms(row) for row in rows if (row["arm"], row["model"]) == (arm, model)]
            if best:
                found[arm][model] = float(np.mean(best))
    return {name: values for name, values in found.items() if values}


def read_published() -> dict[str, dict[str, float]]:
    """Table 2 in ms, by method and model."""
    known = Study.load("paper").published.items()
    return {name: {f"{m}-fp16": ms for m, ms in values.items()} for name, values in known}


def gain(found: dict[str, dict[str, float]], method: str, model: str) -> float:
    """How much shorter than on the CPU alone, in %; nan if it is not known."""
    ms = found.get(method, {}).get(model, np.nan)
    return 100.0 * (1.0 - ms / found["CPU-only"][model])


def compare(ours: dict[str, dict[str, float]]) -> list[Row]:
    """A line for each method: its published gain and ours on each model."""
    published = read_published()
    lines = []
    for method in ours:
        line: Row = {"method": method}
        for model in MODELS:
            for whose, found in (("published", published), ("ours", ours)):
                ms = found.get(method, {}).get(model)
                cell = f"{gain(found, method, model):.1f} ({ms:.4g})" if ms else "-"
                line[f"{shorten(model)}, {whose}"] = cell
        lines.append(line)
    return lines


def check_claims(ours: dict[str, dict[str, float]]) -> list[Row]:
    """The paper's figures, from its own table and from our runs."""
    published, models = read_published(), ours[OPTIMUM]
    methods = [name for name in ours if name not in (*SINGLE, PLACETO, RNN)]
    sources = [("published", published, HSDAG), *((name, ours, name) for name in methods)]

    def write(claim: str, value: Callable[[dict[str, dict[str, float]], str], float]) -> Row:
        return {"claim": claim} | {name: f"{value(*source):.2f}" for name, *source in sources}

    def over_single(model: str, found: dict[str, dict[str, float]], method: str) -> float:
        best = min(found[name][model] for name in ("CPU-only", "GPU-only"))
        return 100.0 * (1.0 - found[method][model] / best)

    return [
        write("over CPU-only, most", lambda *a: max(gain(*a, model) for model in models)),
        write(
            "less Placeto's, most",
            lambda found, method: max(
                gain(found, method, model) - gain(found, PLACETO, model) for model in models
            ),
        ),
        *(write(f"over best single, {shorten(m)}", partial(over_single, m)) for m in models),
    ]


def list_arms(granularity: str, rows: Sequence[Row]) -> list[Row]:
    """How far each arm is at some numbers of placements."""
    lines = []
    rows = of_raw(granularity, rows)
    for model in MODELS:
        for arm in ARMS:
            mine = [row for row in rows if (row["model"], row["arm"]) == (model, arm)]
            if not mine:
                continue
            line: Row = {"model": shorten(model), "units": mine[0]["units"], "arm": arm}
            for n in MARKS:
                having = [row for row in mine if n in row["best_ms"]]
                pair = [f"{np.mean([row[k][n] for row in having]):.4g}" for k in KEYS if having]
                line[f"best / mean at {n}"] = " / ".join(pair)
            line["CPU s"] = f"{np.mean([row['cpu_s'] for row in mine]):.1f}"
            lines.append(line | {"runs": len(mine)})
    return lines


def list_parts(rows: Sequence[Row]) -> list[Row]:
    """How far the best placement of each variant of ``rl`` is above the optimum, %."""
    lines = []
    for (part,), mine in group_by((row for row in rows if "part" in row), "part").items():
        line: Row = {"variant": part}
        for (problem,), runs in group_by(mine, "problem").items():
            above = [100.0 * (best_ms(row) / row["optimum_ms"] - 1.0) for row in runs]
            line[problem] = f"{np.mean(above):.1f} ({min(above):.1f} to {max(above):.1f})"
        lines.append(line | {"CPU s": f"{np.mean([row['cpu_s'] for row in mine]):.1f}"})
    return lines


TABLES: Tables = {
    "numbers": list_numbers,
    "gains": list_gains,
    "claims": list_claims,
    "arms": partial(list_arms, SMALLER),
    "arms-whole": partial(list_arms, WHOLE),
    "parts": list_parts,
}
"""Name -> the table; ``arms-whole`` is without coarsening."""
