"""Tasks: the runs of a study."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from placement_gym.base import UserError, is_path, to_plain

VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Task:
    """One run of a study, in plain values, so that any process can do it.

    ``env_kwargs`` are arguments of ``gym.make`` other than model and devices. The finalist is
    scored again on ``score_on``: ``env`` and arguments of ``gym.make`` that differ, if any.
    """

    agent: str
    kwargs: Mapping[str, Any]
    env: str
    env_kwargs: Mapping[str, Any]
    model: str
    devices: Any
    seed: int
    budget: int
    score_on: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Task:
        """The task that made a row; its environment is that of the row's problem."""
        env, env_kwargs, model, devices = json.loads(row["problem"])
        own = {name: row[name] for name in ("agent", "kwargs", "seed", "budget", "score_on")}
        return cls(env=env, env_kwargs=env_kwargs, model=model, devices=devices, **own)

    @property
    def key(self) -> str:
        """Sixteen hex digits of all fields: equal tasks are one run."""
        # Keys of studies without `score_on` are those of versions that had none.
        fields = {name: value for name, value in vars(self).items() if value or name != "score_on"}
        text = json.dumps(to_plain(fields), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def problem(self) -> str:
        """The problem as JSON: environment, its arguments, model, devices."""
        parts = [self.env, self.env_kwargs, self.model, self.devices]
        return json.dumps(to_plain(parts), sort_keys=True)

    @property
    def make_kwargs(self) -> dict[str, Any]:
        """Arguments of ``gym.make``; environment variables in the model's path are replaced."""
        return {"model": expand_variables(self.model), "devices": self.devices, **self.env_kwargs}

    @property
    def elsewhere(self) -> Task | None:
        """The task with the problem where its finalist is scored again, if there is one."""
        if not self.score_on:
            return None
        changes = {**self.env_kwargs, **self.score_on}
        return replace(
            self,
            env=str(changes.pop("env", self.env)),
            model=changes.pop("model", self.model),
            devices=changes.pop("devices", self.devices),
            env_kwargs=changes,
            score_on={},
        )


def expand_variables(path: str) -> str:
    """Replace ``$VARIABLE`` and ``${VARIABLE}`` in a path; ``UserError`` unless each is a path.

    No other value, such as a password, gets into messages.
    """
    for name in VARIABLE.findall(path):
        if name not in os.environ:
            raise UserError(f"the study reads {path!r}: set the variable {name} first")
        if not is_path(os.environ[name]):
            raise UserError(
                f"the study reads {path!r}: the variable {name} has to name a folder or a file"
            )
    return os.path.expandvars(path)


def read_make_kwargs(row: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``gym.make`` that replay a row, but for an extension, which is code."""
    kwargs = {key: value for key, value in row["env_kwargs"].items() if key != "extension"}
    return {**kwargs, "model": expand_variables(str(row["env_kwargs"]["model"]))}


def describe_devices(devices: Any) -> str:
    """Devices in a word, such as ``"CPU+GPU@0.5"`` with the share of weights that fits."""
    if devices is None:
        return "the default devices"
    if not isinstance(devices, Sequence) or isinstance(devices, str):
        return str(devices)
    names = []
    for device in devices:
        values = device if isinstance(device, Mapping) else {"name": device}
        share = values.get("weight_share")
        names.append(f"{values['name']}" + (f"@{share}" if share is not None else ""))
    return "+".join(names)
