"""The commands of the sequential placer: train it, and place with it."""

from __future__ import annotations

import argparse
import json

from placement_gym.cli.options import (
    add_data_shapes,
    add_devices,
    add_granularity,
    add_json,
    add_model,
    add_out,
    add_scenario,
    add_settings,
    add_shapes,
    env_settings,
    set_command,
    shape_arguments,
)
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import natural_number, positive_integer, positive_number


def add_pretrain(command: Command) -> None:
    """Add the arguments of ``placement-gym pretrain``."""
    describe(
        command,
        "Train the network of the sequential placer on generated problems. FOLDER gets "
        "network.safetensors, the network that did best on validation problems, and what the same "
        "command needs to go on; an hour on two cores is a beginning.",
        "pretrain --out trained --minutes 60",
    )
    add_out(command, None)
    command.add_argument(
        "--steps",
        type=positive_integer,
        metavar="N",
        help="updates in all, those done before included",
    )
    command.add_argument(
        "--minutes",
        type=positive_number,
        metavar="N",
        help="stop after this time; the same command goes on from there",
    )
    command.add_argument("--seed", type=natural_number, help="of weights, problems and searches")
    add_settings(
        command,
        "a field of agents.sequential.training.TrainingSettings, as in learning_rate=0.001",
    )
    add_json(command)
    set_command(
        command,
        run_pretrain,
        "the last saved state is kept in {out}/; the same command goes on from there",
    )


def add_place(command: Command) -> None:
    """Add the arguments of ``placement-gym place``."""
    describe(
        command,
        "Place a model with the sequential placer, in seconds, also of 80,000 operators; the first "
        "run takes a minute to compile its loops. Nothing is measured: latencies are simulated, "
        "with the profile that `profile` has kept, or else with analytic costs. `evaluate` "
        "measures the file.",
        "place --model resnet",
        "place -m synthetic-layered-80000 -d cpu+2dgpu --samples 0",
    )
    add_model(command)
    add_shapes(command)
    add_data_shapes(command)
    add_scenario(command)
    add_devices(command)
    add_granularity(command)
    command.add_argument(
        "--checkpoint", metavar="FILE", help="a network of `pretrain` (default: the agent's own)"
    )
    command.add_argument(
        "--samples",
        type=natural_number,
        default=100,
        metavar="N",
        help="placements to simulate besides the zero-shot one; with 0 that is the answer "
        "(default: %(default)s)",
    )
    command.add_argument(
        "--fine-tune",
        type=natural_number,
        default=0,
        metavar="N",
        help="simulate N more, which train the network on this problem (default: %(default)s)",
    )
    command.add_argument(
        "--seed", type=natural_number, default=0, help="of the samples (default: %(default)s)"
    )
    add_settings(
        command,
        "a further argument of DevicePlacementSim-v0, as in schedule=list",
    )
    add_out(command, "placement.json", file="placement file")
    add_json(command)
    set_command(command, run_place, "nothing is kept; the same command starts again")


def run_pretrain(options: argparse.Namespace) -> int:
    from placement_gym.bench.run.agents import load_bundled

    pretrain = load_bundled("agents.sequential.pretraining:pretrain")
    named = {"steps": options.steps, "seed": options.seed}
    settings = dict(options.set) | {key: value for key, value in named.items() if value is not None}
    document = pretrain(options.out, settings, options.minutes, options.quiet)
    if options.json:
        print(json.dumps(document))
        return 0
    print(
        f"{document['steps']} of {document['total']} steps in {document['seconds']:.0f} s; on "
        f"validation problems log(floor / latency) is {document['validation']:+.4f} at best"
    )
    print(f"The network is {document['network']}")
    if document["steps"] < document["total"]:
        print("The same command goes on from there")
    return 0


def run_place(options: argparse.Namespace) -> int:
    from placement_gym.cli.tables import place_table, print_result
    from placement_gym.files import name_output_file
    from placement_gym.tools.place import place

    document = place(
        model=options.model,
        devices=options.devices,
        granularity=options.granularity,
        checkpoint=options.checkpoint,
        samples=options.samples,
        fine_tune=options.fine_tune,
        seed=options.seed,
        out=name_output_file(options.out, "placement.json"),
        env_kwargs=env_settings(options) | shape_arguments(options),
        quiet=options.quiet,
    )
    print_result(options, document, lambda: place_table(document))
    return 0
