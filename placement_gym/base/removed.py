"""Names that version 0.4 removed, and what to use in their place."""

from __future__ import annotations

REMOVED: dict[str, str] = {
    # agents
    "balance": "use the agent search",
    "genetic": "use the agent search or annealing",
    "logits-groups": "use the agent graph-groups",
    "logits-multiscale": "use the agent graph-groups",
    # names of the package
    "Pipeline": "use compile_model and openvino.AsyncInferQueue, as docs/throughput.md shows",
    "Pipelines": "use split_placement, compile_model and openvino.AsyncInferQueue for each model",
    "StageError": "an openvino.AsyncInferQueue raises OpenVINO's own errors",
    "serve_plans": "simulate requests with DevicePlacementOnline-v0",
    "write_board": "use report_study",
    # commands and options
    "board": "use `bench run placement-bench-1` and `bench report`",
    "known": "run benchmarks/known.py",
    "list": "use `bench report STUDY --out FOLDER`",
    "export": "use DataCollector of minari on the environment",
    "report-machine": "use `devices` and `check`",
    "--genai": "name the device in the pipeline's own arguments",
    "--sweep": "state properties in a file of devices",
}
"""Name -> the rest of the sentence that says what to use."""


def explain_removal(name: object) -> str:
    """``"'genetic' was removed: use the agent search"``; empty if nothing of that name was."""
    remedy = REMOVED.get(str(name))
    return f"{name!r} was removed: {remedy}" if remedy else ""
