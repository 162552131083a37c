"""The command ``placement-gym``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from placement_gym.bench.compare import DEFAULT_ENV, SEARCH_AGENTS, compare
from placement_gym.bench.report.comparison import terminal
from placement_gym.cli.bench import add_bench
from placement_gym.cli.tables import fidelity_table, plan_table, profile_table
from placement_gym.devices import PRESETS
from placement_gym.tools.evaluate import evaluate_placement
from placement_gym.version import VERSION

TABLE_WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; a user's error ends it with status 2 and one line.

    Args:
        arguments: The words after the command's name; None takes the process's.

    Returns:
        Exit status: 0, 2 for a user's error, 130 after an interrupt.
    """
    options = parser().parse_args(arguments)
    sys.path.insert(0, str(Path.cwd()))  # so that --agents finds the user's own module
    try:
        status: int = options.run(options)
        return status
    except (ValueError, OSError, TypeError, RuntimeError) as error:
        print(f"placement-gym: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="placement-gym", description=__doc__)
    top.add_argument("--version", action="version", version=VERSION)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add_compare(commands.add_parser("compare", help="compare agents on one model"))
    add_evaluate(commands.add_parser("evaluate", help="measure a saved placement again"))
    add_plan(commands.add_parser("plan", help="find the placement to deploy, in a minute"))
    add_profile(commands.add_parser("profile", help="measure this machine's costs of a model"))
    add_fidelity(commands.add_parser("fidelity", help="compare the twin with measurements"))
    add_bench(commands.add_parser("bench", help="run and report studies"))
    devices = commands.add_parser("devices", help="list this machine's devices and the presets")
    devices.set_defaults(run=run_devices)
    return top


def add_compare(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("--env", default=DEFAULT_ENV, help="environment id (%(default)s)")
    add_devices(command)
    command.add_argument(
        "--agents",
        help="comma-separated names or module:attribute (OpenVINO's own choice and "
        f"{', '.join(SEARCH_AGENTS)}); every single device is always compared",
    )
    command.add_argument("--budget", type=int, default=10, help="evaluations a run (%(default)s)")
    command.add_argument("--seeds", default="0", help="comma-separated seeds (%(default)s)")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=setting,
        help="a further argument of gym.make, JSON or text; repeatable",
    )
    command.add_argument("--out", default="results", help="folder for the results (%(default)s)")
    add_json(command)
    command.set_defaults(run=run_compare)


def add_evaluate(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("--placement", required=True, metavar="FILE", help="a placement file")
    command.add_argument("--split", default="auto", help="auto, alias or hetero (%(default)s)")
    add_json(command)
    command.set_defaults(run=run_evaluate)


def add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model",
        default="resnet",
        help="tiny, resnet, inception, bert, bert-8, ...-fp16, or a file (%(default)s)",
    )


def add_plan(command: argparse.ArgumentParser) -> None:
    add_model(command)
    add_devices(command)
    add_granularity(command)
    command.add_argument(
        "--time-limit", type=float, default=10.0, help="seconds for the solver (%(default)s)"
    )
    command.add_argument("--refresh", action="store_true", help="profile again")
    command.add_argument("--out", default="results", help="folder for the results (%(default)s)")
    add_json(command)
    command.set_defaults(run=run_plan)


def add_profile(command: argparse.ArgumentParser) -> None:
    add_model(command)
    add_devices(command)
    add_granularity(command)
    command.add_argument("--refresh", action="store_true", help="measure again")
    command.add_argument("--out", metavar="FILE", help="also write the cost table there")
    command.set_defaults(run=run_profile)


def add_fidelity(command: argparse.ArgumentParser) -> None:
    add_model(command)
    add_devices(command)
    add_granularity(command)
    command.add_argument(
        "--placements", type=int, default=40, help="placements to measure (%(default)s)"
    )
    command.add_argument("--refresh", action="store_true", help="profile again")
    command.add_argument("--out", default="results", help="folder for the results (%(default)s)")
    add_json(command)
    command.set_defaults(run=run_fidelity)


def add_devices(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--devices", help="preset, comma-separated OpenVINO names, or a .json file of devices"
    )


def add_granularity(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--granularity",
        default="fused",
        help="op, colocated or fused (%(default)s); a finer one where it leaves too few units",
    )


def add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON document alone")


def setting(text: str) -> tuple[str, Any]:
    """``KEY=VALUE`` with a JSON value, or plain text where it is none."""
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def run_compare(options: argparse.Namespace) -> int:
    document = compare(
        model=options.model,
        agents=options.agents.split(",") if options.agents else None,
        env_id=options.env,
        devices=options.devices,
        budget=options.budget,
        seeds=[int(seed) for seed in options.seeds.split(",")],
        out=options.out,
        env_kwargs=dict(options.set),
    )
    if options.json:
        print(json.dumps(document))
    else:
        wide = Console(width=None if sys.stdout.isatty() else TABLE_WIDTH)
        wide.print(terminal(document))
        print(f"Rows, table, picture and placements are in {options.out}/")
    return 130 if document["interrupted"] else 0


def run_evaluate(options: argparse.Namespace) -> int:
    values = evaluate_placement(options.model, options.placement, options.split)
    if options.json:
        print(json.dumps(values))
        return 0
    table = Table(show_header=False)
    for key, value in values.items():
        table.add_row(key, f"{value:.4g}" if isinstance(value, float) else str(value))
    Console().print(table)
    return 0


def run_plan(options: argparse.Namespace) -> int:
    from placement_gym.tools.plan import plan

    document = plan(
        model=options.model,
        devices=options.devices,
        granularity=options.granularity,
        out=options.out,
        time_limit_s=options.time_limit,
        refresh=options.refresh,
    )
    if options.json:
        print(json.dumps(document))
    else:
        Console().print(plan_table(document))
    return 0


def run_profile(options: argparse.Namespace) -> int:
    from placement_gym.backends.measured.profile import cache_path, load_or_measure
    from placement_gym.files import check_output_file
    from placement_gym.tools.granularity import build_backend_to_split
    from placement_gym.tools.interruption import explain_interrupt

    if options.out:
        check_output_file(options.out)
    backend, _ = build_backend_to_split(options.model, options.devices, options.granularity)
    with closing(backend), explain_interrupt(backend):
        costs = load_or_measure(backend, options.refresh)
    if options.out:
        costs.save(options.out)
    Console().print(profile_table(backend.problem, costs))
    print(f"The cost table is {options.out or cache_path(backend)}")
    return 0


def run_fidelity(options: argparse.Namespace) -> int:
    from placement_gym.tools.fidelity import fidelity

    document = fidelity(
        model=options.model,
        devices=options.devices,
        granularity=options.granularity,
        n_placements=options.placements,
        out=options.out,
        refresh=options.refresh,
    )
    if options.json:
        print(json.dumps(document))
    else:
        Console().print(fidelity_table(document))
        print(f"Every placement and the scatter plot are in {options.out}/")
    return 0


def run_devices(options: argparse.Namespace) -> int:
    import openvino as ov

    core = ov.Core()
    table = Table("device or preset", "what it is")
    for name in core.available_devices:
        table.add_row(name, core.get_property(name, "FULL_DEVICE_NAME"))
    for name, specs in PRESETS.items():
        table.add_row(name, ", ".join(json.dumps(spec.to_json()) for spec in specs))
    Console().print(table)
    return 0
