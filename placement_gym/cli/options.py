"""Arguments that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

Command = argparse.ArgumentParser
MAX_SEEDS = 100_000
WHOLE = re.compile("[0-9]{1,10}")
SHAPE = re.compile(r"(?P<name>[^\[\],]+)\[(?P<sizes>[-0-9?., ]+)\]")


def add_model(command: Command) -> None:
    command.add_argument(
        "--model",
        default="resnet",
        help="tiny, resnet, inception, bert, bert-8, ...-fp16, gpt, gpt-12, mobilenet, densenet, "
        "vit, swin, wavenet, gnmt, or a file (default: %(default)s)",
    )


def add_shapes(command: Command) -> None:
    command.add_argument(
        "--shape",
        default={},
        type=parse_shapes,
        metavar="NAME[SIZES]",
        help='sizes of the inputs\' dynamic dimensions, as in "input_ids[1,64],mask[1,64]"',
    )


def add_scenario(command: Command) -> None:
    command.add_argument(
        "--scenario",
        help="what a run of a model with state is: chat-128-32 for a prompt of 128 tokens and 32 "
        "decoded ones (default: chat, 64 and 16)",
    )


def add_devices(command: Command) -> None:
    command.add_argument(
        "--devices",
        help="preset, comma-separated OpenVINO names, or a .json file of devices (default: this "
        "machine's)",
    )


def add_granularity(command: Command) -> None:
    command.add_argument(
        "--granularity",
        default="fused",
        help="what one unit is: op, colocated or fused (default: %(default)s)",
    )


def add_out(command: Command) -> None:
    command.add_argument(
        "--out", default="results", help="folder for the results (default: %(default)s)"
    )


def add_settings(command: Command, meaning: str) -> None:
    """Add ``--set KEY=VALUE``, which may be repeated; ``meaning`` is its help."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=parse_setting,
        help=f"{meaning}; repeatable",
    )


def add_json(command: Command) -> None:
    command.add_argument(
        "--json", action="store_true", help="print one JSON document and nothing else"
    )


def set_command(command: Command, run: Callable[[argparse.Namespace], int], kept: str) -> None:
    """Set what a command runs, and what it prints after Ctrl-C.

    Args:
        command: The command.
        run: Runs it; returns the exit status.
        kept: What is kept and how to continue; ``{name}`` is the value of an argument.
    """
    command.set_defaults(run=run, kept=kept)


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE``; a value that is not valid JSON is text."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form KEY=VALUE, as in granularity=op"
        )
    from placement_gym.errors import UserError
    from placement_gym.schemas.reading import parse_json

    try:
        return key, parse_json(value)
    except UserError:
        return key, value


def parse_shapes(text: str) -> dict[str, list[int | str]]:
    """Read ``name[1,64],other[1,?]``: the shapes of inputs by name."""
    found = list(SHAPE.finditer(text))
    if not found or ",".join(match[0] for match in found) != text:
        raise argparse.ArgumentTypeError(
            f'shapes have the form "name[1,64],other[1,?]", not {text!r:.80}'
        )
    return {
        match["name"].strip(): [parse_size(size.strip()) for size in match["sizes"].split(",")]
        for match in found
    }


def parse_size(text: str) -> int | str:
    """A number where it is one: ``"?"`` and ``"1..8"`` stay text."""
    return int(text) if WHOLE.fullmatch(text) else text


def parse_seeds(text: str) -> list[int]:
    """Read comma-separated seeds and ranges of seeds: ``0,2,5-7`` means 0, 2, 5, 6 and 7."""
    found: list[int] = []
    for part in text.split(","):
        first, separator, last = part.strip().partition("-")
        last = last if separator else first
        numbers = WHOLE.fullmatch(first) and WHOLE.fullmatch(last)
        if not numbers or int(first) > int(last):
            raise argparse.ArgumentTypeError(
                "seeds are whole numbers of at most ten digits and ranges of them, as in 0,1,2 or "
                f"0-2, not {text!r:.80}"
            )
        if int(last) - int(first) >= MAX_SEEDS - len(found):
            raise argparse.ArgumentTypeError(f"more than {MAX_SEEDS} seeds in {text!r:.60}")
        found += range(int(first), int(last) + 1)
    return list(dict.fromkeys(found))


def positive_integer(text: str) -> int:
    """Read a whole number of at least 1."""
    if not WHOLE.fullmatch(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r:.80}")
    return int(text)


def natural_number(text: str) -> int:
    """Read a whole number of at least 0."""
    if not WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not {text!r:.80}")
    return int(text)


def positive_seconds(text: str) -> float:
    """Read a time limit: a number above 0."""
    return positive_number(text, "number of seconds")


def positive_number(text: str, what: str = "number") -> float:
    """Read a number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0.0:
        raise argparse.ArgumentTypeError(f"must be a {what} above 0, not {text!r:.80}")
    return value
