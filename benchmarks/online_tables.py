"""The tables of rows of ``online.py``, and a picture of their gains.

    python benchmarks/online_tables.py rows.jsonl gains.png        # draws it

A gain is how much less the mean log slow-down is than that of the shortest completion on the same
traces, with its 95 % interval over traces, of the mean of all trainings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from common import Row, make_parser, read_rows
from summaries import Tables, find_interval, group_by

FLOOR = "shortest-completion"
"""The rule that others are compared with."""
NAMES = {
    "static": "best static plan",
    "resident": "resident partition",
    "by-load": "fastest device by load",
    "shortest-completion": "shortest completion",
    "lookahead": "look-ahead",
    "rollouts": "rollouts",
    "clone": "clone of look-ahead",
    "ppo": "PPO",
    "clone-ppo": "PPO from the clone",
    "a2c": "A2C",
    "dqn": "DQN",
    "recurrent-ppo": "RecurrentPPO",
}
"""Agent -> its name on the page."""
RULES_DRAWN, LEARNERS_DRAWN = ("resident", "lookahead", "rollouts"), ("clone", "ppo", "clone-ppo")
"""Of those that play at all rates; choosing by load alone is far below."""
MODELS = "resnet,inception,vit,mobilenet"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    draw_gains(read_rows(options.rows), options.picture)


def draw_gains(rows: Sequence[Row], path: Path) -> None:
    """Draw what policies gain over the shortest completion, by the rate."""
    runs = group_by([row for row in read_simulated(rows) if row["sees"]], "agent", "rate")
    rates = sorted({rate for _, rate in runs})
    figure, axes = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for agent in (*RULES_DRAWN, *LEARNERS_DRAWN):
        gains = []
        for rate in rates:
            own = np.mean([row["log_slowdown"] for row in runs[agent, rate]], axis=0)
            gains.append(np.array(runs[FLOOR, rate][0]["log_slowdown"]) - own)
        half = [1.96 * gain.std(ddof=1) / len(gain) ** 0.5 for gain in gains]
        style = "-o" if agent in LEARNERS_DRAWN else "--s"
        axes.errorbar(rates, np.mean(gains, axis=1), half, fmt=style, capsize=3, label=NAMES[agent])
    axes.axhline(0.0, color="grey", linewidth=1)
    axes.set(xlabel="rate", ylabel="log slow-down below the shortest completion's", xticks=rates)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def read_simulated(rows: Sequence[Row]) -> list[Row]:
    """The rows of the four models, with what tells their tables' lines apart."""
    return [
        row | {"rate": row["env_kwargs"]["rate"], "sees": row["env_kwargs"].get("observe_load", 1)}
        for row in rows
        if row["model"] == MODELS
    ]


def list_rates(rows: Sequence[Row]) -> list[Row]:
    """A line for each rate and policy."""
    own = read_simulated(rows)
    floors, lines = {row["rate"]: row for row in own if row["agent"] == FLOOR}, []
    for (rate, sees, agent), runs in group_by(own, "rate", "sees", "agent").items():
        lines.append(
            {
                "rate": f"{rate:g}",
                "policy": NAMES[agent] + (not sees) * ", other programs hidden",
                "log slow-down": mean_of(runs, "log_slowdown", 3),
                **list_gains(floors[rate], runs),
                "slow-down": mean_of(runs, "slowdown", 1),
                "beyond 4 times": mean_of(runs, "late", 3),
                "MB a request": mean_of(runs, "loaded_mb", 1),
            }
        )
    return sorted(lines, key=lambda line: (float(line["rate"]), float(line["log slow-down"])))


def list_rivals(rows: Sequence[Row]) -> list[Row]:
    """A line for each rate: what learned policies gain over the rules that look ahead."""
    runs = group_by([row for row in read_simulated(rows) if row["sees"]], "rate", "agent")
    return [
        {"rate": f"{rate:g}"}
        | {
            f"{NAMES[agent]} over {NAMES[rival]}": list_gains(
                runs[rate, rival][0], runs[rate, agent]
            )["gain (95 %)"]
            for rival in ("lookahead", "rollouts")
            for agent in ("ppo", "clone-ppo")
        }
        for rate in sorted({rate for rate, _ in runs})
    ]


def mean_of(runs: Sequence[Row], field: str, digits: int) -> str:
    """Mean of a field over runs and traces."""
    return f"{np.mean([run[field] for run in runs]):.{digits}f}"


def list_gains(floor: Row, runs: list[Row]) -> Row:
    """Cells of the gain: with its interval, and from the least to the most of several trainings."""
    if runs[0] is floor:
        return {"gain (95 %)": "", "trainings": ""}
    gains = np.array(floor["log_slowdown"]) - [run["log_slowdown"] for run in runs]
    (low, high), each = find_interval(gains.mean(axis=0)), sorted(gains.mean(axis=1))
    return {
        "gain (95 %)": f"{gains.mean():+.3f} ({low:+.3f}, {high:+.3f})",
        "trainings": f"{each[0]:+.3f} to {each[-1]:+.3f}" if len(runs) > 1 else "",
    }


TABLES: Tables = {
    "rates": list_rates,
    "rivals": list_rivals,
}
"""Name -> what makes the table of rows."""


if __name__ == "__main__":
    main()
