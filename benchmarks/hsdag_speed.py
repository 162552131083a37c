"""HSDAG's time for each placement; policy, Stable-Baselines3 and environment together.

    python benchmarks/hsdag_speed.py --data DIR

DIR holds the inputs of dnn-partitioning; without it the largest graph is left out.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import torch
from common import BERT_12, make_env, make_parser
from summaries import print_table

from agents.common import REINFORCE
from agents.hsdag import make

GRAPHS: dict[str, tuple[dict[str, Any], float]] = {
    "resnet": ({"model": "resnet"}, 40.0),
    "bert-8": ({"model": "bert-8"}, 105.0),
    "resnet-fp16 raw": ({"model": "resnet-fp16", "graph": "raw"}, 40.0),
    "bert-fp16 raw": ({"model": "bert-fp16", "graph": "raw"}, 105.0),
}
"""Environment, and ms a placement of the published code."""
FORMS = {"paper's episodes": {"preset": "paper"}, "default": {}}
PAPER, DEFAULT = FORMS
PLACEMENTS = 200


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="inputs of dnn-partitioning")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for name, (env_kwargs, published_ms) in GRAPHS.items():
        runs += [(name, env_kwargs, PAPER, published_ms), (name, env_kwargs, DEFAULT, None)]
    if options.data is not None:
        env_kwargs = {"model": options.data / BERT_12, "granularity": "op"}
        runs.append(("bert_l-12", env_kwargs, DEFAULT, None))
    print_table(time_form(*run) for run in runs)


def time_form(
    name: str, env_kwargs: dict[str, Any], form: str, published_ms: float | None
) -> dict[str, object]:
    """The line of a graph and a form of the agent."""
    env = make_env(**env_kwargs)
    ms = time_placement_ms(make(env, 0, **FORMS[form]))
    return {
        "graph": name,
        "units": env.problem.n_units,
        "form": form,
        "ms a placement": f"{ms:.2f}",
        "published code, ms": published_ms or "",
        "ratio": f"{published_ms / ms:.0f}" if published_ms else "",
    }


def time_placement_ms(agent: REINFORCE) -> float:
    """Time learning after a first update; returns ms of one core a placement."""
    agent.learn(agent.n_steps * agent.n_envs)
    started = process_time()
    agent.learn(PLACEMENTS, reset_num_timesteps=False)
    return (process_time() - started) / PLACEMENTS * 1e3


if __name__ == "__main__":
    main()
