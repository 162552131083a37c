"""The commands that list devices, models and agents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from placement_gym.base import format_bytes
from placement_gym.cli.options import set_command
from placement_gym.cli.parser import Command, describe

if TYPE_CHECKING:
    from rich.console import Group

    from placement_gym.hardware import DeviceSpec

NOTHING_RUNS = "nothing was running"
MEASURED, SIMULATED = "measured, simulated", "simulated only"
BUILT_IN = {
    "tiny": "13 operators, whose best placement is known",
    "cnn": "small residual CNN, 64 x 64; cnn-int8 is quantised",
    "resnet": "ResNet-50, 224 x 224",
    "inception": "Inception-v3, 299 x 299",
    "bert": "BERT-base, 128 tokens; bert-8 has 8",
    "gpt": "decoder with state, 4 small layers; gpt-12 is as large as GPT-2",
    "moe": "gpt with 8 experts in each layer, 2 for each token; moe-16 has 16",
    "mobilenet": "MobileNet-V2, 224 x 224; mobilenet-50 is half as wide",
    "vit": "ViT-S/16, 224 x 224; vit-12 is as large as ViT-B/16",
    "NAME-fp16": "any of these with compressed weights; gpt-int8 and gpt-int4 integers",
}
GENERATED = {
    "synthetic-layered-N": "layers of random edges, N operators; also -series-parallel-N",
    "unrolled-lstm-N": "an LSTM step by step; also stacked-bert-N",
    "family-NAME-N-seedS": "generated like real networks, NAME one of {}",
    "FILE.json": "a CostGraph, or a workload of dnn-partitioning",
}


def add_list_devices(command: Command) -> None:
    describe(
        command,
        "List the devices that OpenVINO finds on this machine, and the presets that can be "
        "measured or only simulated here.",
        "devices",
    )
    set_command(command, run_devices, NOTHING_RUNS)


def add_models(command: Command) -> None:
    describe(
        command,
        "List the models that --model takes: built-in ones, files, and generated graphs, which can "
        "only be simulated.",
        "models",
    )
    set_command(command, run_models, NOTHING_RUNS)


def add_agents(command: Command) -> None:
    describe(
        command,
        "List the agents that --agents takes, or the options of one.",
        "agents",
        "agents hsdag",
    )
    command.add_argument("name", nargs="?", metavar="AGENT", help="show the options of this one")
    set_command(command, run_agents, NOTHING_RUNS)


def run_devices(options: argparse.Namespace) -> None:
    import openvino as ov
    from rich.console import Group

    from placement_gym.base import Column, FittedTable, FittedText, word_table
    from placement_gym.cli.tables import print_result
    from placement_gym.hardware import PRESETS, usable_cores

    core = ov.Core()
    name_of = {name: core.get_property(name, "FULL_DEVICE_NAME") for name in core.available_devices}
    presets: list[dict[str, Any]] = [
        {
            "name": name,
            "devices": [spec.to_json() for spec in specs],
            "runs": MEASURED if can_measure(specs, name_of) else SIMULATED,
        }
        for name, specs in PRESETS.items()
    ]

    def make() -> Group:
        title = f"This machine, {usable_cores()} cores, OpenVINO {ov.__version__.split('-')[0]}"
        machine = word_table(("device", "what it is"), name_of.items(), title)
        columns = [
            Column("preset", text=True, whole=True, meaning="a name for --devices"),
            Column("devices", text=True, whole=not options.verbose),
            Column("runs here", text=True, whole=True, meaning="what this machine can do with it"),
        ]
        table = FittedTable(columns, "Presets")
        for row in presets:
            specs = PRESETS[row["name"]]
            devices = map(describe_spec, specs) if options.verbose else (one.name for one in specs)
            table.add_row(row["name"], "; ".join(devices), row["runs"])
        more = "" if options.verbose else " -v describes the devices of the presets."
        end = f"--devices takes names (GPU,CPU), a preset, or a .json file with settings.{more}"
        return Group(machine, FittedText(""), table, FittedText(end, "dim"))

    print_result(options, {"devices": name_of, "cores": usable_cores(), "presets": presets}, make)


def can_measure(specs: tuple[DeviceSpec, ...], available: dict[str, str]) -> bool:
    """Return whether OpenVINO has a preset's devices here; calibrated presets are simulated."""
    from placement_gym.hardware import identify_device

    names = set(map(identify_device, available))
    is_present = all(identify_device(spec.plugin or spec.name) in names for spec in specs)
    return is_present and not any(spec.roofline.startswith("HSDAG") for spec in specs)


def describe_spec(spec: DeviceSpec) -> str:
    words = []
    if spec.virtual:
        words.append(f"a second {spec.plugin}")
    if spec.precision != "f32":
        words.append(spec.precision)
    if spec.threads is not None:
        words.append("1 thread" if spec.threads == 1 else f"{spec.threads} threads")
    if spec.weight_share is not None:
        words.append(f"holds {spec.weight_share:.0%} of the weights")
    if spec.memory_bytes is not None:
        words.append(f"holds {format_bytes(spec.memory_bytes)}")
    if spec.allocation_bytes is not None:
        words.append(f"allocates {format_bytes(spec.allocation_bytes)} at once")
    if spec.reported_bytes is not None:
        words.append(f"reports {format_bytes(spec.reported_bytes)}")
    if spec.memory_pool:
        words.append(f"memory of the {spec.memory_pool}")
    words += [f"{key}={value}" for key, value in spec.properties.items()]
    if spec.roofline:
        words.append(f"as {spec.roofline}")
    return f"{spec.name} ({', '.join(words)})" if words else spec.name


def run_models(options: argparse.Namespace) -> None:
    from rich.console import Group

    from placement_gym.base import FittedText, word_table
    from placement_gym.cli.tables import print_result
    from placement_gym.graph import FAMILIES

    files = {"FILE": "what OpenVINO reads: .xml, .onnx, .tflite, .pb, .pdmodel"}
    rows: list[dict[str, str]] = [
        {"name": name, "about": line.format(", ".join(FAMILIES)), "runs": runs}
        for lines, runs in ((BUILT_IN | files, MEASURED), (GENERATED, SIMULATED))
        for name, line in lines.items()
    ]

    def make() -> Group:
        lines = [(row["name"], row["about"], row["runs"]) for row in rows]
        table = word_table(("model", "what it is", "runs here"), lines)
        end = "Built-in models have random weights: good for latencies, not for predictions."
        return Group(table, FittedText(end, "dim"))

    print_result(options, {"models": rows}, make)


def run_agents(options: argparse.Namespace) -> None:
    from placement_gym.bench.run import load_agent, load_bundled
    from placement_gym.cli.tables import print_result

    about = load_bundled("agents.about:ABOUT")
    if options.name:
        name = options.name
        options_of = describe_options(load_agent(name))
        goal = load_bundled("agents.about:describe_goal")(name) if name in about else ""
        document = {"name": name, "goal": str(goal), "options": options_of}
        print_result(options, document, lambda: options_table(document))
        return
    rows = [{"name": name, **line._asdict()} for name, line in about.items()]
    print_result(options, {"agents": rows}, lambda: agents_table(rows))


def describe_options(factory: Any) -> dict[str, Any]:
    """Describe the options of an agent's factory: default and meaning of each."""
    from placement_gym.bench.run import load_bundled

    options = load_bundled("agents.options:list_options")(factory)
    return {name: option._asdict() for name, option in options.items()}


def agents_table(rows: Sequence[dict[str, Any]]) -> Group:
    from rich.console import Group

    from placement_gym.base import Column, FittedTable, FittedText

    table = FittedTable(
        [
            Column("agent", text=True, whole=True),
            Column("kind", spare=2, text=True),
            Column("what it does", text=True),
            Column("settings", spare=1, text=True, meaning="values of its option preset"),
        ]
    )
    for row in rows:
        table.add_row(row["name"], row["kind"], row["line"], " ".join(row["settings"]))
    end = "Name your own agent as module:make_agent. Solvers read the cost table."
    return Group(table, FittedText(end, "dim"))


def options_table(document: dict[str, Any]) -> Group:
    from rich.console import Group

    from placement_gym.base import FittedText, word_table

    rows = [
        (name, repr(option["default"]), option["meaning"])
        for name, option in document["options"].items()
    ]
    table = word_table(("option", "default", "meaning"), rows, document["name"])
    example = f"{{name: {document['name']}, kwargs: {{...}}}}"
    end = f"Options are given in a study or to placement_gym.compare, as in {example}."
    goal = [FittedText(document["goal"])] if document["goal"] else []
    return Group(table, *goal, FittedText(end, "dim"))
