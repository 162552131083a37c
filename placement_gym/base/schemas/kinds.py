"""Kinds of files, to name the one that was given in place of another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placement_gym.base import UserError

KEYS: Mapping[str, frozenset[str]] = {
    "placement file": frozenset(("units", "members")),
    "cost table": frozenset(("operator_ms", "transfer_size")),
    "cost graph": frozenset(("ms", "edge_bytes")),
    "dnn-partitioning workload": frozenset(("maxFPGAs", "nodes")),
    "file of plans": frozenset(("models", "plans")),
    "plan's report": frozenset(("plan", "verdict", "rows")),
    "comparison": frozenset(("env", "verdict", "rows")),
    "study file": frozenset(("env", "models", "agents")),
    "list policy": frozenset(("shift", "hidden", "output")),
}
"""Kind -> keys that files of no other kind have together."""
RULES = frozenset(("keep_on", "keep_off", "max_submodels"))
"""Keys of a file of constraints, of which one is enough."""


def find_kind(values: Any) -> str:
    """The kind that contents of a file are of; empty if they are of none."""
    if isinstance(values, list):
        named = values and all(isinstance(one, str | Mapping) for one in values)
        return "list of devices" if named else ""
    keys = values.keys() if isinstance(values, Mapping) else set[str]()
    found = [kind for kind, needed in KEYS.items() if needed <= keys]
    return found[0] if found else "file of constraints" if RULES & keys else ""


def refuse_file(path: str | Path, kind: str, values: Any, error: UserError) -> UserError:
    """The error for a file whose contents were refused.

    Args:
        path: The file.
        kind: What it should be, as in ``"a placement file"``.
        values: Its contents; None if they could not be parsed.
        error: Why they were refused, which is said unless they are of another kind.
    """
    found = find_kind(values)
    reason = f"it is a {found}" if found and found not in kind else error
    return UserError(f"{path} is not {kind}: {reason}")
