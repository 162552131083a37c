"""Options that several commands share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from inspect import signature
from typing import Any, TextIO

from placement_gym.base import SPLITS
from placement_gym.cli.parser import Command
from placement_gym.cli.values import one_of, output_folder, parse_shapes, positive_number
from placement_gym.models import GRANULARITIES
from placement_gym.workloads import OBJECTIVES

SHARED: dict[str, dict[str, Any]] = {
    "--shape": {
        "dest": "shapes",
        "type": parse_shapes,
        "metavar": "NAME[SIZES]",
        "help": 'sizes of the inputs\' dynamic dimensions, as in "input_ids[1,64],mask[1,64]"; '
        '"image_*[1,3,64,64]" means several inputs',
    },
    "--inputs": {
        "metavar": "FILE",
        "help": "your own inputs: an .npz of named arrays, or a folder of .npy; one sample, or "
        "several along a first axis (default: generated)",
    },
    "--scenario": {
        "help": "one run of a model with state: chat-128-32 is a prompt of 128 tokens, then 32 "
        "decoded tokens; steps-16 is 16 equal steps of a model that reads no tokens (default: "
        "chat, 64 and 16, or steps-16)"
    },
    "--extension": {
        "metavar": "FILE",
        "help": "library with operators that OpenVINO lacks, for its add_extension; its code is "
        "run",
    },
    "--devices": {
        "help": "a preset, names separated by commas, as in GPU,CPU, or a .json file of devices; "
        "`placement-gym devices` lists them (default: this machine's; simulated, cpu+dgpu)",
    },
    "--granularity": {
        "type": one_of(GRANULARITIES),
        "default": "fused",
        "metavar": "|".join(GRANULARITIES),
        "help": "what one unit is: op, an operator; colocated, a chain without branches; fused, "
        "what the CPU executes as one primitive (default: fused; for `compare` colocated)",
    },
    "--tolerance": {
        "type": positive_number,
        "metavar": "ERROR",
        "help": "largest relative error of a placement's outputs (default: 1e-4 if all devices "
        "compute in f32, else 3e-2; for a quantised model it is measured)",
    },
    "--objective": {
        "type": one_of(tuple(OBJECTIVES)),
        "default": "latency",
        "metavar": "|".join(OBJECTIVES),
        "help": "latency, or throughput: the time between two results with several requests in "
        "flight (default: %(default)s)",
    },
    "--split": {
        "type": one_of(SPLITS),
        "default": "auto",
        "metavar": "|".join(SPLITS),
        "help": "how submodels are kept apart: alias, by second names of a device; hetero, as "
        "HETERO splits the model; auto, alias where possible (default: %(default)s)",
    },
}
SPELLINGS = {
    "--shape": ["--shape", "-shape"],
    "--inputs": ["--inputs", "-i"],
    "--extension": ["--extension", "-extensions"],
    "--devices": ["-d", "--devices"],
}
"""All spellings of an option, those of ``benchmark_app`` included."""


def add_shared(command: Command, *options: str) -> None:
    for option in options:
        command.add_argument(*SPELLINGS.get(option, [option]), **SHARED[option])


class Models(argparse.Action):
    """Stores one model, or a list of several."""

    def __call__(self, _: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        earlier = getattr(namespace, self.dest)
        models = earlier if isinstance(earlier, list) else [earlier]
        setattr(namespace, self.dest, values if earlier is None else [*models, values])


def add_model(command: Command, required: bool = True, several: bool = False) -> None:
    """Add ``--model``; if it is not required, a placement states the model."""
    more = "; repeat it for models that run at the same time, resnet:2 twice as often"
    default = " (default: the placement's own, if it is built in)"
    command.add_argument(
        "-m",
        "--model",
        required=required,
        action=Models if several else "store",
        help="a built-in model, as in resnet, or a file that OpenVINO reads; `placement-gym "
        f"models` lists them{more if several else ''}{'' if required else default}",
    )


def add_out(
    command: Command, default: str | None = "results", meaning: str = "folder for the results"
) -> None:
    """Add ``--out``, required if its default is None."""
    command.add_argument(
        "--out",
        default=default,
        required=default is None,
        type=output_folder,
        metavar="FOLDER",
        help=meaning if default is None else f"{meaning} (default: %(default)s)",
    )


def set_command(
    command: Command, run: Callable[[argparse.Namespace], int | None], resume_hint: str
) -> None:
    """Set what a command runs, and add the options of all commands.

    ``run`` returns 1 for a failure. ``resume_hint`` is printed after Ctrl-C: what is kept and how
    to continue, ``{name}`` being the value of an argument.
    """
    command.add_argument(
        "--json", action="store_true", help="print one JSON document to standard output, no table"
    )
    much = command.add_mutually_exclusive_group()
    much.add_argument(
        "-q", "--quiet", action="store_true", help="show no progress, only results and warnings"
    )
    much.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show all columns and details, and the traceback of an error",
    )
    command.set_defaults(run=run, resume_hint=resume_hint)


def print_json(options: argparse.Namespace, document: Any) -> bool:
    """Print a document if ``--json`` was given; return whether it was."""
    if options.json:
        print(json.dumps(document))
    return bool(options.json)


def output_of(options: argparse.Namespace) -> TextIO:
    """Return the stream for messages: standard error if ``--json`` reserves standard output."""
    return sys.stderr if options.json else sys.stdout


def call(function: Callable[..., Any], options: argparse.Namespace, **others: Any) -> Any:
    """Call a function with the options named as its parameters, and with others."""
    parameters = signature(function).parameters
    given = {name: value for name, value in vars(options).items() if name in parameters}
    return function(**(given | others))
