"""The key of a run, which identifies it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from placement_gym.base import to_plain

NAMES = ("agent", "kwargs", "env", "env_kwargs", "model", "devices", "seed", "budget", "score_on")
OF_RUN = ("agent", "kwargs", "seed", "budget", "score_on")
"""The fields of ``NAMES`` that a row has outside its problem."""


def compute_key(run: Mapping[str, Any]) -> str:
    """Sixteen hex digits of the fields ``NAMES`` of a run: equal ones are one run."""
    # An empty `score_on` is left out, so that keys of studies without one stay what they were.
    identity = {name: run[name] for name in NAMES if run[name] or name != "score_on"}
    text = json.dumps(to_plain(identity), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe_problem(run: Mapping[str, Any]) -> str:
    """The problem of a run as JSON: environment, its arguments, model, devices."""
    parts = [run[name] for name in ("env", "env_kwargs", "model", "devices")]
    return json.dumps(to_plain(parts), sort_keys=True)


def read_run(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields ``NAMES`` of a row's run; the environment is taken from its problem."""
    env, env_kwargs, model, devices = json.loads(row["problem"])
    problem = {"env": env, "env_kwargs": env_kwargs, "model": model, "devices": devices}
    return problem | {name: row[name] for name in OF_RUN}
