"""The command ``placement-gym``."""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import TextIOWrapper
from typing import TextIO, cast

from placement_gym.base import (
    PlacementGymError,
    PlacementGymWarning,
    explain_error,
    make_lines_printable,
    make_printable,
    raise_interrupt,
)
from placement_gym.base.processes import leave_out_telemetry
from placement_gym.cli.bench import add_bench
from placement_gym.cli.check import add_check
from placement_gym.cli.compare import add_compare
from placement_gym.cli.lists import add_agents, add_list_devices, add_models
from placement_gym.cli.parser import PROGRAM, Command, describe
from placement_gym.cli.placement import (
    add_evaluate,
    add_export,
    add_fidelity,
    add_plan,
    add_profile,
)
from placement_gym.cli.streams import LossyStream, replace_closed_streams, silence
from placement_gym.cli.view import add_view
from placement_gym.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the arguments of the process, or others; return its exit code.

    It is 0; 1 if runs failed or rows are not valid; 2 after a user's error, printed in one line;
    130 after an interrupt.
    """
    replace_closed_streams()
    leave_out_telemetry()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack ≤ and ±
    options = argparse.Namespace(verbose=False, resume_hint="nothing has begun")
    with redirect_stderr(cast(TextIO, LossyStream(sys.stderr))):
        try:
            with plain_warnings():
                options = make_parser().parse_args(arguments)
                return run(options)
        except PlacementGymError as error:
            if options.verbose:
                traceback.print_exc()
            print(f"{PROGRAM}: {make_printable(error)}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as interrupt:
            message = str(interrupt) or options.resume_hint.format(**vars(options))
            print(f"{PROGRAM}: interrupted: {make_lines_printable(message)}", file=sys.stderr)
            return 130
        except OSError as error:
            if options.verbose:
                traceback.print_exc()
            silence(sys.stdout)
            if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as `head` does
                return 0
            where = f"cannot use {error.filename!r}: " if error.filename else "the system refuses: "
            print(f"{PROGRAM}: {make_printable(where + explain_error(error))}", file=sys.stderr)
            return 2


def run(options: argparse.Namespace) -> int:
    try:
        failed = options.run(options)
        sys.stdout.flush()
    except (SystemError, ImportError) as error:  # of compiled code that was interrupted
        raise_interrupt(error)
        raise
    return int(bool(failed))


def make_parser() -> Command:
    """Make the parser of the command line."""
    top = Command(prog=PROGRAM)
    describe(
        top,
        "Plan, measure and compare placements of a neural network on devices.",
        "compare --model resnet",
        "plan --model my_model.xml --devices GPU,CPU",
        "plan --help",
        failure="a run failed, or a row is not valid",
    )
    top.add_argument("--version", action="version", version=VERSION)
    add = top.add_commands()
    add_plan(add("plan", "find the placement to deploy, in about a minute"))
    add_check(add("check", "find the operators that a device refuses or computes wrongly"))
    add_export(add("export", "write a placement for programs that use OpenVINO alone"))
    add_view(add("view", "write an HTML page to explore placements"))
    add_compare(add("compare", "compare agents on one model"))
    add_evaluate(add("evaluate", "measure a saved placement again"))
    add_profile(add("profile", "measure what a model's operators cost on this machine"))
    add_fidelity(add("fidelity", "compare the simulator with measurements"))
    add_bench(add("bench", "run, report and validate studies"))
    add_list_devices(add("devices", "list this machine's devices and the presets"))
    add_models(add("models", "list the models that --model takes"))
    add_agents(add("agents", "list the agents, or the options of one"))
    return top


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print this package's warnings as the command prints its errors."""
    show = warnings.showwarning

    def show_plainly(
        message: Warning | str, category: type[Warning], *args: object, **kwargs: object
    ) -> None:
        if issubclass(category, PlacementGymWarning):
            print(f"{PROGRAM}: warning: {make_printable(message)}", file=sys.stderr)
        else:
            show(message, category, *args, **kwargs)  # type: ignore[arg-type]

    warnings.showwarning = show_plainly
    try:
        yield
    finally:
        warnings.showwarning = show
