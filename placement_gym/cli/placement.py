"""The commands that plan, measure and export the placement of one model."""

from __future__ import annotations

import argparse

from placement_gym.base import UserError
from placement_gym.cli.constraints import add_constraints, collect_constraints
from placement_gym.cli.options import add_model, add_out, add_shared, call, print_json, set_command
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import one_of, positive_integer, positive_seconds

REPEAT = "nothing is kept; rerun the command to measure again"
ENGINES = ("openvino", "onnxruntime")
PROFILE_KEPT = "a complete profile is kept; rerun the command to continue from there"


def add_evaluate(command: Command) -> None:
    describe(
        command,
        "Compile a saved placement and measure it next to the fastest single device. The file "
        "states the devices and their settings.",
        "evaluate results/plan-resnet.json",
        "evaluate plan-my_model.json --model my_model.xml",
    )
    add_model(command, required=False, several=True)
    add_shared(command, "--shape", "--inputs", "--extension")
    command.add_argument("placement", metavar="PLACEMENT", help="a placement file")
    add_shared(command, "--split", "--tolerance", "--objective")
    set_command(command, run_evaluate, REPEAT)


def add_plan(command: Command) -> None:
    describe(
        command,
        "Find the placement to deploy: measure roughly what operators and transfers cost, solve "
        "for the best placement, and measure it next to every single device. This takes about a "
        "minute. FOLDER gets plan-MODEL.json, the fastest placement; plan-MODEL-report.json; "
        "plan-MODEL-costs.json, which `view` reads; and a picture.",
        "plan --model resnet",
        "plan -m my_model.xml -d GPU,CPU",
        "plan -m resnet -m bert-8:2 --objective throughput",
        'plan -m model.onnx --shape "input_ids[1,64]"',
    )
    add_problem(command)
    command.add_argument(
        "--time-limit",
        dest="time_limit_s",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="time limit of the solver (default: %(default)s)",
    )
    add_shared(command, "--objective")
    add_constraints(command)
    command.add_argument(
        "--phases",
        action="store_true",
        help="for a model with state: also try one placement for the prompt, another for tokens",
    )
    command.add_argument(
        "--export",
        metavar="FOLDER",
        help="also export the plan for programs that use OpenVINO alone; see `export`",
    )
    add_out(command)
    set_command(command, run_plan, PROFILE_KEPT)


def add_profile(command: Command) -> None:
    describe(
        command,
        "Measure what each operator costs on each device, and what transfers cost. `plan`, `view` "
        "and simulated environments with costs=profiled use this profile. It takes some minutes.",
        "profile -m my_model.xml -d GPU,CPU",
    )
    add_problem(command)
    command.add_argument(
        "--out", metavar="PATH", help="also write the cost table to this file or folder"
    )
    set_command(command, run_profile, REPEAT)


def add_fidelity(command: Command) -> None:
    describe(
        command,
        "Measure placements that were not used to fit the profile, and show how well the simulator "
        "predicts and ranks them. FOLDER gets fidelity-MODEL.json and a scatter plot. It takes "
        "some minutes.",
        "fidelity --model resnet --placements 40",
    )
    add_problem(command)
    command.add_argument(
        "--placements",
        dest="n_placements",
        type=positive_integer,
        default=40,
        metavar="N",
        help="how many placements to measure (default: %(default)s)",
    )
    add_out(command)
    set_command(command, run_fidelity, PROFILE_KEPT)


def add_problem(command: Command) -> None:
    add_model(command, several=True)
    add_shared(command, "--shape", "--inputs", "--scenario", "--extension")
    add_shared(command, "--devices", "--granularity", "--tolerance")
    command.add_argument(
        "--refresh", action="store_true", help="measure a new profile even if one is kept"
    )


def run_evaluate(options: argparse.Namespace) -> None:
    from placement_gym.cli.tables import evaluation_table, print_result
    from placement_gym.deployment import evaluate_placement

    values = call(evaluate_placement, options)
    print_result(options, values, lambda: evaluation_table(values))


def run_plan(options: argparse.Namespace) -> None:
    from placement_gym.cli.tables import plan_table, print_result
    from placement_gym.deployment import plan

    document = call(plan, options, constraints=collect_constraints(options))
    print_result(options, document, lambda: plan_table(document, options.verbose))


def run_profile(options: argparse.Namespace) -> None:
    from placement_gym.cli.tables import print_result, profile_table
    from placement_gym.deployment import profile
    from placement_gym.models import ModelSpec

    document = call(profile, options, spec=call(ModelSpec, options))
    print_result(options, document, lambda: profile_table(document))


def run_fidelity(options: argparse.Namespace) -> None:
    from placement_gym.cli.tables import fidelity_table, print_result
    from placement_gym.deployment import fidelity

    document = call(fidelity, options) | {"out": options.out}
    print_result(options, document, lambda: fidelity_table(document))


def add_export(command: Command) -> None:
    describe(
        command,
        "Write a placement for programs that use OpenVINO alone, or for ONNX Runtime. FOLDER gets "
        "the model; run.py, which compiles it and prints a latency; and affinities.json, the "
        "device of each node in the format of benchmark_app.",
        "export results/plan-resnet.json --out deployed",
        "export plan-my_model.json -m my_model.xml --out deployed",
        "export plan-model.json -m model.onnx --to onnxruntime",
    )
    command.add_argument(
        "--to",
        type=one_of(ENGINES),
        default="openvino",
        metavar="|".join(ENGINES),
        help="engine that runs the export (default: %(default)s)",
    )
    command.add_argument("placement", metavar="PLACEMENT", help="a placement file")
    add_model(command, required=False, several=True)
    add_shared(command, "--shape", "--inputs", "--split", "--extension")
    command.add_argument(
        "--requests",
        type=positive_integer,
        help="requests in flight: run.py also makes a queue of this size, or for a model with "
        "state this many requests (default: none)",
    )
    add_out(command, "deployed", "folder for the model and its script")
    set_command(command, run_export, "the files written so far are complete")


def run_export(options: argparse.Namespace) -> None:
    from placement_gym.deployment import export_for_onnxruntime, export_placement

    is_openvino = options.to == "openvino"
    for option in ("requests", "extension"):
        if getattr(options, option) and not is_openvino:
            raise UserError(f"--{option} is for --to openvino: leave it out")
    files = call(export_placement if is_openvino else export_for_onnxruntime, options)
    if not print_json(options, [str(path) for path in files]):
        print(*files, sep="\n")
