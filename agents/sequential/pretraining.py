"""A training across generated problems that a user starts, watches, interrupts and continues."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from rich.progress import Progress

from agents.sequential.training import Trainer, TrainingSettings
from agents.sequential.training_folder import TrainingFolder
from placement_gym.errors import UserError, unknown_name
from placement_gym.progress import progress_bar

VALIDATE_STEPS = 50
"""Steps between two validations."""
SAVE_S = 60.0
"""Seconds after which the state is saved between validations too."""
MAY_BE_ZERO = ("seed", "evaluations", "teacher_evaluations", "rounds", "moves")
MAY_CHANGE = ("steps",)
"""Settings that a training may be continued with, though it began with other ones."""

Document = dict[str, Any]


def pretrain(
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    quiet: bool = False,
) -> Document:
    """Train the sequential placer on generated problems, or continue the training in ``out``.

    ``out`` gets ``network.safetensors``, the network with the best placements of validation
    problems; ``state.zip``, from which the training goes on; ``metrics.jsonl``; and, where
    TensorBoard is installed, its events.

    Args:
        out: Folder of the training.
        settings: Fields of ``TrainingSettings``. A training is continued with those that it began
            with; only ``steps`` may change.
        minutes: Stop after this time, whatever is left; None does all steps.
        quiet: Show no progress.

    Returns:
        ``steps`` done, ``total``, ``seconds`` of training in all, ``validation`` (the best mean
        log(floor / latency)), ``network`` and ``out``.

    Raises:
        UserError: A setting is unknown or out of range, ``out`` cannot be written, or it holds a
            training with other settings.
        KeyboardInterrupt: After an interrupt; everything up to the last step is kept.
    """
    chosen = read_settings(settings or {})
    folder, trainer = TrainingFolder(out), Trainer(chosen)
    check_settings(folder, chosen)
    folder.restore(trainer)
    until = monotonic() + 60.0 * minutes if minutes else float("inf")
    with (
        closing(folder),
        progress_bar(chosen.steps, "steps", quiet, "problems") as progress,
        defer_interrupt() as interrupted,
    ):
        train(trainer, folder, progress, lambda: interrupted() or monotonic() >= until)
        stopped = interrupted()
    if stopped:
        raise KeyboardInterrupt(
            f"{trainer.done} of {chosen.steps} steps are kept in {folder.path}/; the same command "
            "goes on from there"
        )
    return {
        "steps": trainer.done,
        "total": chosen.steps,
        "seconds": folder.seconds,
        "validation": folder.best,
        "network": str(folder.network),
        "out": str(folder.path),
    }


def train(
    trainer: Trainer, folder: TrainingFolder, progress: Progress, stop: Callable[[], bool]
) -> None:
    """Do the steps that are left until told to stop; validate, save and report on the way."""
    task, saved = progress.task_ids[0], monotonic()
    progress.update(task, completed=trainer.done, description="making problems")
    if not trainer.done:
        folder.keep_if_best(trainer)
    while trainer.done < trainer.settings.steps and not stop():
        started = monotonic()
        values = trainer.step()
        folder.seconds += monotonic() - started
        folder.log(trainer.done, values)
        progress.update(
            task,
            completed=trainer.done,
            count=int(values["problems"]),
            description=f"loss {values['loss']:.3f}, best {folder.best:+.3f}",
        )
        due = trainer.done % VALIDATE_STEPS == 0 or trainer.done == trainer.settings.steps
        if due:
            folder.keep_if_best(trainer)
        if due or monotonic() - saved > SAVE_S:
            folder.save(trainer)
            saved = monotonic()
    folder.save(trainer)


def read_settings(values: Mapping[str, Any]) -> TrainingSettings:
    """Settings from plain values.

    Raises:
        UserError: A name is unknown, or a value has another type or is out of range.
    """
    usual = asdict(TrainingSettings())
    for name, value in values.items():
        if name not in usual:
            raise unknown_name("setting", name, usual)
        kinds = (int, float) if isinstance(usual[name], float) else type(usual[name])
        if not isinstance(value, kinds) or isinstance(value, bool):
            kind = "text" if isinstance(usual[name], str) else "a number"
            whole = " without a fraction" if isinstance(usual[name], int) else ""
            raise UserError(f"{name} is {kind}{whole}, as in {name}={usual[name]}, not {value!r}")
        if not isinstance(value, str) and not allows(name, value, usual[name]):
            least = "at least" if name in MAY_BE_ZERO else "greater than"
            raise UserError(f"{name} must be {least} 0, not {value!r}")
    return TrainingSettings(**values)


def allows(name: str, value: float, usual: float) -> bool:
    """Whether a number is within the range of a setting."""
    return value > 0 or (value == 0 and (name in MAY_BE_ZERO or usual == 0))


def check_settings(folder: TrainingFolder, chosen: TrainingSettings) -> None:
    """Raise unless the folder is empty or holds a training with these settings."""
    kept = folder.load_settings()
    if kept is None:
        return
    names = [field.name for field in fields(chosen) if field.name not in MAY_CHANGE]
    for name in names:
        if kept.get(name) != getattr(chosen, name):
            raise UserError(
                f"{folder.path}/ holds a training with {name}={kept.get(name)}, not "
                f"{getattr(chosen, name)}: continue it with its own settings, or name another "
                "folder"
            )


@contextmanager
def defer_interrupt() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C wait until it is asked for; the second one interrupts at once.

    Yields:
        Whether there was one.
    """
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield seen.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def remember(number: int, frame: FrameType | None) -> None:
        seen.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, remember)
    try:
        yield seen.is_set
    finally:
        signal.signal(signal.SIGINT, before)
