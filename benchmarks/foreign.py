"""Plans of small networks of other libraries, with random weights.

    python benchmarks/foreign.py --rows rows.jsonl

This needs torchvision, timm, transformers and optimum-intel, and downloads nothing. Every network
is converted and planned in a separate process.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import BrokenExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from common import ROOT, Row, combine, run_apart, run_benchmark
from foreign_networks import NETWORKS

from placement_gym.base import PlacementGymError
from placement_gym.deployment import plan
from placement_gym.envs import placement_env

DEVICES = "cpu-testbed"
SCENARIO = "chat-16-8"
FOLDER = ROOT / "results" / "foreign"
"""Folder of converted and exported networks."""


def make_row(name: str, folder: Path) -> Row:
    """Convert and plan a network; a refusal is a result too."""
    row = describe(name)
    try:
        path = NETWORKS[name][1](folder)
    except Exception as error:  # exporters may raise anything
        return row | {"error": f"its exporter fails: {first_line(error)}"}
    inputs = find_inputs(path, folder)
    started = perf_counter()
    try:
        document = plan(path, DEVICES, out=folder, refresh=True, export=folder / "export", **inputs)
    except PlacementGymError as error:
        return row | {"error": str(error)}
    plan_s = perf_counter() - started
    best = next(one for one in document["rows"] if one["label"] == document["plan"])
    return row | {
        "budget": sum(one["measured_ms"] is not None for one in document["rows"]),
        "placement": json.loads(Path(document["file"]).read_text())["units"],
        "cpu_s": sum(os.times()[:4]),  # its children's, too
        "plan_s": plan_s,
        "halves": measure_halves(path, **inputs),
        "notes": document["notes"],
        "plan": document["plan"],
        "verdict": document["verdict"],
        "ms": best["measured_ms"],
        "failed": {one["label"]: one["error"] for one in document["rows"] if one["error"]},
        "fastest_split": max(
            (one["speedup"] for one in document["rows"] if not one["alone"] and one["speedup"]),
            default=None,
        ),
    }


def find_inputs(path: Path, folder: Path) -> Row:
    """Find the sizes of a network's inputs, and the scenario of a decoder."""
    shapes_file = folder / "shapes.json"
    inputs: Row = {"shapes": json.loads(shapes_file.read_text())} if shapes_file.exists() else {}
    return inputs | ({"scenario": SCENARIO} if b'type="ReadValue"' in path.read_bytes() else {})


def measure_halves(path: Path, **inputs: Any) -> Row:
    """Measure the split in two halves of the units."""
    env = gym.make("placement_gym:DevicePlacement-v0", model=path, devices=DEVICES, **inputs)
    backend = placement_env(env).backend
    n_units = backend.problem.n_units
    measurement = backend.evaluate(2 * np.arange(n_units) // n_units)
    env.close()
    return {name: value for name, value in asdict(measurement).items() if value is not None}


def describe(name: str) -> Row:
    """The columns of all rows, with defaults for networks that were not planned."""
    return {
        "name": name,
        "library": NETWORKS[name][0],
        "agent": "plan",
        "kwargs": {},
        "env": "DevicePlacement-v0",
        "env_kwargs": {"model": name, "devices": DEVICES},
        "seed": 0,
        "budget": 0,
        "curve": [],
        "cpu_s": 0.0,
        "error": "",
    }


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


def plan_apart(name: str) -> Row:
    """Make a row in a separate process."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    try:
        row: Row = run_apart(make_row, name, FOLDER / name)
    except BrokenExecutor as error:
        row = describe(name) | {"error": f"crashed: {first_line(error)}"}
    print(f"{name}: {row['error'] or row['verdict']}", flush=True)
    return row


if __name__ == "__main__":
    run_benchmark(__doc__, {"all": (partial(combine, name=NETWORKS), plan_apart)})
