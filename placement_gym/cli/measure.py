"""The commands that measure one model on this machine, and the one that lists its devices."""

from __future__ import annotations

import argparse
import json
from contextlib import closing

from placement_gym.cli.options import (
    Command,
    add_devices,
    add_granularity,
    add_json,
    add_model,
    add_out,
    add_scenario,
    add_shapes,
    positive_integer,
    positive_seconds,
    set_command,
)

REPEAT = "nothing is kept; the same command measures again"
PROFILE_KEPT = "a profile that was complete is kept; rerun the command to continue from there"


def add_evaluate(command: Command) -> None:
    """Add the arguments of ``placement-gym evaluate``."""
    add_model(command)
    add_shapes(command)
    command.add_argument("--placement", required=True, metavar="FILE", help="a placement file")
    command.add_argument(
        "--split", default="auto", help="auto, alias or hetero (default: %(default)s)"
    )
    add_json(command)
    set_command(command, run_evaluate, REPEAT)


def add_plan(command: Command) -> None:
    """Add the arguments of ``placement-gym plan``."""
    add_model(command)
    add_shapes(command)
    add_scenario(command)
    add_devices(command)
    add_granularity(command)
    command.add_argument(
        "--time-limit",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="for the solver (default: %(default)s)",
    )
    command.add_argument("--refresh", action="store_true", help="profile again")
    command.add_argument(
        "--export",
        metavar="FOLDER",
        help="also write the plan for OpenVINO alone: model, affinities and a script",
    )
    add_out(command)
    add_json(command)
    set_command(command, run_plan, PROFILE_KEPT)


def add_profile(command: Command) -> None:
    """Add the arguments of ``placement-gym profile``."""
    add_model(command)
    add_shapes(command)
    add_scenario(command)
    add_devices(command)
    add_granularity(command)
    command.add_argument("--refresh", action="store_true", help="measure again")
    command.add_argument("--out", metavar="FILE", help="also write the cost table to this file")
    set_command(command, run_profile, REPEAT)


def add_fidelity(command: Command) -> None:
    """Add the arguments of ``placement-gym fidelity``."""
    add_model(command)
    add_shapes(command)
    add_scenario(command)
    add_devices(command)
    add_granularity(command)
    command.add_argument(
        "--placements",
        type=positive_integer,
        default=40,
        help="how many placements to measure (default: %(default)s)",
    )
    command.add_argument("--refresh", action="store_true", help="profile again")
    add_out(command)
    add_json(command)
    set_command(command, run_fidelity, PROFILE_KEPT)


def add_list_devices(command: Command) -> None:
    """Set what ``placement-gym devices`` runs."""
    set_command(command, run_devices, "nothing was measured")


def run_evaluate(options: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from placement_gym.cli.tables import show
    from placement_gym.tools.evaluate import evaluate_placement

    values = evaluate_placement(options.model, options.placement, options.split, options.shape)
    if options.json:
        print(json.dumps(values))
        return 0
    table = Table(show_header=False)
    for key, value in values.items():
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(key, show(shown))
    Console().print(table)
    return 0


def run_plan(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.cli.tables import plan_table
    from placement_gym.tools.plan import plan

    document = plan(
        model=options.model,
        devices=options.devices,
        granularity=options.granularity,
        out=options.out,
        time_limit_s=options.time_limit,
        refresh=options.refresh,
        shapes=options.shape,
        scenario=options.scenario,
        export=options.export,
    )
    if options.json:
        print(json.dumps(document))
    else:
        Console().print(plan_table(document))
        if options.export:
            print(f"For OpenVINO alone: {options.export}/run.py")
    return 0


def run_profile(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.backends.measured.profile import kept_profile, load_or_measure
    from placement_gym.cli.tables import profile_table
    from placement_gym.files import check_output_file
    from placement_gym.tools.granularity import build_backend_to_split
    from placement_gym.tools.interruption import explain_interrupt

    if options.out:
        check_output_file(options.out)
    backend, _ = build_backend_to_split(
        options.model,
        options.devices,
        options.granularity,
        shapes=options.shape,
        scenario=options.scenario,
    )
    with closing(backend), explain_interrupt(backend):
        costs = load_or_measure(backend, options.refresh)
    Console().print(profile_table(backend.problem, costs))
    if options.out:
        costs.save(options.out)
    print(f"The cost table is {options.out or kept_profile(backend) or 'not kept'}")
    return 0


def run_fidelity(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.cli.tables import fidelity_table
    from placement_gym.tools.fidelity import fidelity

    document = fidelity(
        model=options.model,
        devices=options.devices,
        granularity=options.granularity,
        n_placements=options.placements,
        out=options.out,
        refresh=options.refresh,
        shapes=options.shape,
        scenario=options.scenario,
    )
    if options.json:
        print(json.dumps(document))
    else:
        Console().print(fidelity_table(document))
        print(f"Every placement and the scatter plot are in {options.out}/")
    return 0


def run_devices(options: argparse.Namespace) -> int:
    import openvino as ov
    from rich.console import Console
    from rich.table import Table

    from placement_gym.devices import PRESETS

    core = ov.Core()
    table = Table("device or preset", "what it is")
    for name in core.available_devices:
        table.add_row(name, core.get_property(name, "FULL_DEVICE_NAME"))
    for name, specs in PRESETS.items():
        table.add_row(name, ", ".join(json.dumps(spec.to_json()) for spec in specs))
    Console().print(table)
    return 0
