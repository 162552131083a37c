"""The files of a training: its state, its best network, and its metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from pydantic import Field, FiniteFloat

from agents.common.archive import read_archive, write_archive
from agents.common.saving import check_step, read_moments, to_tensors
from agents.sequential.checkpoint import save_network
from agents.sequential.training import Trainer
from placement_gym.errors import UserError
from placement_gym.files import FileError, make_output_folder, write_text
from placement_gym.schemas.reading import Fields, check, parse_json

UNKNOWN = -1e9
"""Validation of a training that has none yet."""


class StateFields(Fields):
    """What ``state.zip`` holds."""

    trainer: dict[str, Any]
    seconds: float = Field(ge=0.0)
    best: FiniteFloat


class LessonFields(Fields):
    """What is kept of a problem; arrays are checked when the problem has been made again."""

    seed: int
    placements: Any
    speedups: Any
    prices: Any


class TrainerFields(Fields):
    """The part of a trainer's state that is checked before the trainer takes it."""

    settings: dict[str, Any]
    done: int = Field(ge=0, le=2**53)
    network: dict[str, Any]
    optimizer: dict[str, Any]
    given: list[LessonFields]
    drawn: list[LessonFields]


class TrainingFolder:
    """Keeps a training, each file replaced as a whole or not at all.

    Args:
        out: The folder.

    Attributes:
        path: The folder.
        network: Its file of the best network.
        seconds: Time of all steps so far.
        best: Best validation so far, mean log(floor / latency).

    Raises:
        UserError: The folder cannot be written.
    """

    def __init__(self, out: Any) -> None:
        self.path = make_output_folder(out)
        self.network = self.path / "network.safetensors"
        self.state, self.metrics = self.path / "state.zip", self.path / "metrics.jsonl"
        self.seconds, self.best = 0.0, UNKNOWN
        self.board: Any = None

    def load_settings(self) -> dict[str, Any] | None:
        """The settings of the training in the folder; None if there is none.

        Raises:
            UserError: Its state is damaged.
        """
        return self.load()[1].settings if self.state.exists() else None

    def load(self) -> tuple[StateFields, TrainerFields]:
        """The state that ``save`` wrote, by anyone: nothing in it is run.

        Raises:
            FileError: It cannot be read.
            UserError: It is damaged.
        """
        try:
            fields = check(StateFields, read_archive(self.state))
            return fields, check(TrainerFields, fields.trainer)
        except FileError:
            raise
        except UserError as error:
            raise UserError(f"{self.state} is no state of a training: {error}") from error

    def restore(self, trainer: Trainer) -> None:
        """Give a trainer the state that is kept, if there is one, and drop metrics after it.

        Raises:
            UserError: The state is damaged, or of another training.
        """
        if self.state.exists():
            fields, kept = self.load()
            try:
                weights = to_tensors(kept.network, trainer.network.state_dict())
                moments = read_moments(dict(kept.optimizer.get("state", {})), trainer)
                check_step(trainer.optimizer, moments)
                optimizer = {**trainer.optimizer.state_dict(), "state": moments}
                state = {**fields.trainer, "network": weights, "optimizer": optimizer}
                trainer.load_state(state)
            except UserError as error:
                raise UserError(f"{self.state} does not fit this version: {error}") from error
            self.seconds, self.best = fields.seconds, fields.best
        self.cut_metrics(trainer.done)
        self.board = open_board(self, trainer.done)

    def save(self, trainer: Trainer) -> None:
        """Replace the state."""
        values = {"trainer": trainer.state(), "seconds": self.seconds, "best": self.best}
        write_archive(self.state, values)

    def keep_if_best(self, trainer: Trainer) -> None:
        """Validate, log what was found, and keep the network if none before was better."""
        values = trainer.validate()
        self.log(trainer.done, {f"validation_{name}": value for name, value in values.items()})
        if values["log_speedup"] > self.best:
            self.best = values["log_speedup"]
            settings = asdict(trainer.settings)
            about = {"step": trainer.done, "seconds": self.seconds, "validation": values}
            save_network(trainer.blend(), self.network, {**settings, **about})

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Add a line to the metrics, and scalars to TensorBoard."""
        line = {"step": step, "seconds": round(self.seconds, 3), **values}
        try:
            with self.metrics.open("a") as opened:
                opened.write(json.dumps(line) + "\n")
        except OSError as error:
            reason = error.strerror or error
            raise FileError(f"cannot write {str(self.metrics)!r}: {reason}") from error
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(f"pretrain/{name}", value, step)

    def cut_metrics(self, done: int) -> None:
        """Drop lines of later steps, which will be done again, and a torn last one."""
        if not self.metrics.exists():
            return
        kept = []
        for line in self.metrics.read_text(errors="replace").splitlines():
            try:
                step = parse_json(line)["step"]
            except (UserError, KeyError, TypeError):
                continue
            if self.state.exists() and isinstance(step, int) and step <= done:
                kept.append(line + "\n")
        write_text(self.metrics, "".join(kept))

    def close(self) -> None:
        """Close TensorBoard's file."""
        if self.board is not None:
            self.board.close()


def open_board(folder: TrainingFolder, done: int) -> Any:
    """TensorBoard's writer, later events than the last step purged; None if it is not installed."""
    if find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder.path), purge_step=done + 1 if done else None)
