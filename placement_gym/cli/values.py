"""Values of options from text; errors state the possible values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from placement_gym.base import explain_removal, is_folder, suggest

MAX_SEEDS = 100_000
"""Largest number of seeds, which are listed in memory."""
FILES = (".json", ".jsonl", ".html", ".md", ".png", ".csv", ".xml", ".onnx", ".yaml")
WHOLE_NUMBER = re.compile("[0-9]{1,10}")
SHAPE = re.compile(r"(?P<name>[^\[\],]+)\[(?P<sizes>[-0-9?., ]+)\]")


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE``; a value that is not valid JSON is text."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form KEY=VALUE, as in granularity=op"
        )
    from placement_gym.base import UserError
    from placement_gym.base.schemas import parse_json

    try:
        return key, parse_json(value)
    except UserError:
        return key, value


def parse_shapes(text: str) -> dict[str, list[int | str]]:
    """Read ``name[1,64],other[1,?]``: the shapes of inputs by name."""
    matches = list(SHAPE.finditer(text))
    if not matches or ",".join(match[0] for match in matches) != text:
        raise argparse.ArgumentTypeError(
            f'shapes have the form "name[1,64],other[1,?]", not {text!r:.80}'
        )
    return {
        match["name"].strip(): [
            int(size) if WHOLE_NUMBER.fullmatch(size) else size  # as "?" and "1..8"
            for size in map(str.strip, match["sizes"].split(","))
        ]
        for match in matches
    }


def parse_seeds(text: str) -> list[int]:
    """Read seeds as a study does: ``5`` means 0 to 4; ``0,2,5-7`` means 0, 2, 5, 6 and 7."""
    seeds: list[int] = []
    count = WHOLE_NUMBER.fullmatch(text.strip())
    for part in [f"0-{int(text) - 1}"] if count else text.split(","):
        first, separator, end = part.strip().partition("-")
        end = end if separator else first
        numbers = WHOLE_NUMBER.fullmatch(first) and WHOLE_NUMBER.fullmatch(end)
        if not numbers or int(first) > int(end):
            raise argparse.ArgumentTypeError(
                "must be a number of seeds (5 means 0 to 4), or a list of seeds, as in 0,1,2 or "
                f"3-5, not {text!r:.80}"
            )
        if int(end) - int(first) >= MAX_SEEDS - len(seeds):
            raise argparse.ArgumentTypeError(f"more than {MAX_SEEDS} seeds in {text!r:.60}")
        seeds += range(int(first), int(end) + 1)
    return list(dict.fromkeys(seeds))


def parse_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(
            f"must be names separated by commas, as in random,annealing, not {text!r:.80}"
        )
    return names


def output_folder(text: str) -> str:
    """Read the name of a folder; refuse one that looks like a file."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must name a folder, as in results")
    if Path(text).suffix in FILES and not is_folder(text):
        raise argparse.ArgumentTypeError(f"must be a folder, but {text!r:.80} looks like a file")
    return text


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Make a reader of one of several words."""

    def read(text: str) -> str:
        if text not in names:
            unknown = f"must be one of {', '.join(names)}, not {text!r:.80}{suggest(text, names)}"
            raise argparse.ArgumentTypeError(explain_removal("format", text) or unknown)
        return text

    return read


def positive_integer(text: str) -> int:
    if not WHOLE_NUMBER.fullmatch(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r:.80}")
    return int(text)


def positive_number(text: str, what: str = "number") -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a {what} above 0, not {text!r:.80}")
    return value


positive_seconds = partial(positive_number, what="number of seconds")
