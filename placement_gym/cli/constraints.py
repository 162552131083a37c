"""Options that constrain placements."""

from __future__ import annotations

import argparse
from typing import Any

from placement_gym.base import UserError, is_file, read_bytes
from placement_gym.cli.parser import Command
from placement_gym.cli.values import positive_integer

PINNED = ("inputs", "outputs")


def add_constraints(command: Command) -> None:
    command.add_argument(
        "--constraints",
        metavar="FILE",
        help="YAML or JSON file with any of keep_on, keep_off, inputs, outputs, max_submodels; "
        "`placement-gym check` writes one",
    )
    for option, text in (
        ("--keep-off", "operators that must not run on a device: names, patterns, type:SOME, "
         "layer:SOME, separated by commas, or a file with one in each line; repeatable"),
        ("--keep-on", "operators that run on a device and nowhere else, given in the same way"),
    ):  # fmt: skip
        command.add_argument(
            option, action="append", default=[], type=parse_rules, metavar="DEVICE=RULES", help=text
        )
    command.add_argument(
        "--pin",
        action="append",
        default=[],
        type=parse_pin,
        metavar="|".join(f"{pinned}=DEVICE" for pinned in PINNED),
        help="device of the operators that read the model's inputs, or make its outputs",
    )
    command.add_argument(
        "--max-submodels", type=positive_integer, metavar="N", help="largest number of submodels"
    )


def collect_constraints(options: argparse.Namespace) -> dict[str, Any] | None:
    """Collect the constraints of all options for ``gym.make``; None without any."""
    from placement_gym.problem import Constraints

    constraints = Constraints.parse(options.constraints).to_json()
    for key, entries in (("keep_on", options.keep_on), ("keep_off", options.keep_off)):
        for device, rules in entries:
            by_device = constraints.setdefault(key, {})
            by_device[device] = [*by_device.get(device, ()), *rules]
    limit = options.max_submodels
    single = [*options.pin, *([] if limit is None else [("max_submodels", limit)])]
    for key, value in single:
        if constraints.setdefault(key, value) != value:
            raise UserError(f"{key} is both {constraints[key]!r} and {value!r}: state it once")
    return constraints or None


def parse_rules(text: str) -> tuple[str, list[str]]:
    """Read ``DEVICE=RULES``, or ``DEVICE=FILE`` with a rule in each line and ``#`` comments."""
    device, separator, rules = text.partition("=")
    if not separator or not device or not rules:
        raise argparse.ArgumentTypeError(
            f"{text!r:.80} is not of the form DEVICE=RULES, as in NPU=type:Softmax,layer0/*"
        )
    entries = rules.split(",")
    if is_file(rules):
        from placement_gym.problem import MAX_FILE_BYTES

        entries = read_bytes(rules, MAX_FILE_BYTES).decode(errors="replace").splitlines()
    stripped = [entry.strip() for entry in entries]
    patterns = [entry for entry in stripped if entry and not entry.startswith("#")]
    if not patterns:
        raise argparse.ArgumentTypeError(f"{rules} has no rule")
    return device, patterns


def parse_pin(text: str) -> tuple[str, str]:
    """Read ``inputs=DEVICE`` or ``outputs=DEVICE``."""
    what, _, device = text.partition("=")
    if what not in PINNED or not device:
        raise argparse.ArgumentTypeError(
            f"must be inputs=DEVICE or outputs=DEVICE, as in inputs=CPU, not {text!r:.80}"
        )
    return what, device
