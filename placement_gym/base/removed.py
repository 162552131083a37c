"""Names that version 0.4 removed, and their replacements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

INPUTS = (
    "give inputs of these sizes, --inputs inputs.npz (inputs='inputs.npz'), or bind or bound the "
    "dimensions by --shape (shapes)"
)
REMOVED: dict[str, dict[str, str]] = {
    "agent": {
        "balance": "use search",
        "genetic": "use search or annealing",
        "logits-groups": "use graph-groups",
        "logits-multiscale": "use graph-groups",
    },
    "name": {
        "Pipeline": "use openvino.AsyncInferQueue: see docs/how_to/several_models.md",
        "Pipelines": "use split_placement, compile_model and openvino.AsyncInferQueue",
        "StageError": "openvino.AsyncInferQueue raises OpenVINO's own errors",
        "WeightsAction": "use DevicePlacementStream-v0, or the agent list-policy",
        "export_ppo": "use make_trainer of agents.list_policy, which trains for the best of k",
        "balance_loads": "use search of placement_gym.solvers.search",
        "serve_plans": "simulate requests with DevicePlacementOnline-v0",
        "write_board": "use report_study",
    },
    "command": {
        "board": "use `bench run placement-bench-1` and `bench report`",
        "export": "use DataCollector of minari on the environment (docs/how_to/other_libraries.md)",
        "known": "benchmarks/known.py writes the best known values",
        "list": "use `bench report STUDY --out FOLDER`",
        "report-machine": "use `devices` and `check`",
    },
    "format": {"genai": "name the device in the arguments of the GenAI pipeline"},
    "argument": {"data_shapes": INPUTS},
    "option": {
        "--data-shape": INPUTS,
        "-data_shape": INPUTS,
        "--sweep": "state properties in a file of devices (docs/how_to/deploy.md)",
    },
}
"""Kind -> name -> replacement."""


def explain_removal(kind: str, name: object) -> str:
    """Return ``"agent 'genetic' was removed: use search"``; empty for other names."""
    remedy = REMOVED[kind].get(str(name))
    return f"{kind} {name!r} was removed: {remedy}" if remedy else ""


def explain_on_import(package: str, find: Callable[[str], Any]) -> Callable[[str], Any]:
    """Add an error for removed names to ``__getattr__`` of a package."""

    def find_or_explain(name: str) -> Any:
        if removal := explain_removal("name", name):
            # "from package import name" would hide the message of an AttributeError.
            raise ImportError(f"{package}: {removal}")
        return find(name)

    return find_or_explain
