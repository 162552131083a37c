"""Problems that published agents are compared on: generated, published, and DOPPLER's graphs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import BY_RANK, Row, make_env
from floors import DEVICES
from summaries import ProblemName

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.graph.families.problems import SampledProblem, make_problem

DRAWN = "drawn"
"""In place of devices: those of the problem that the model's seed draws."""
FOUR = "0cpu+4acc"
"""Devices of DOPPLER's publication, whose simulator is schedule ``"giph"``."""
TWIN = "hsdag-paper"
"""Devices of ``examples/08_published.py``."""
DEARER = ", transfers x"
"""Between devices and the factor that all transfers are multiplied by."""
DOPPLER_UNIT = 1e10
"""Divisor of the costs in DOPPLER's publication."""
VALIDATED = ("LayerGraphs/resnet50_inference", "1cpu+2acc@0.3")
"""The one published workload that settings were chosen on."""
SMALL = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "OperatorGraphs/bert_l-3_inference",
    "LayerGraphs/inceptionv3_inference",
)


def draw(*names: str, devices: str = DRAWN) -> tuple[ProblemName, ...]:
    """Generated problems, from family, size and seed."""
    return tuple((f"family-{name}", devices) for name in names)


PARTS = draw(
    "recurrent-53-seed10005",
    "series-parallel-46-seed10021",
    "series-parallel-49-seed10030",
    "branching-91-seed10034",
)
TIGHT = draw(
    "layered-371-seed10020",
    "attention-383-seed10025",
    "experts-247-seed10133",
    "attention-393-seed10158",
    "series-parallel-331-seed10170",
    "attention-191-seed10204",
)
"""The first six that ``find`` lists."""
PROBLEMS = {
    "validation": (
        *draw("layered-81-seed57", "series-parallel-58-seed101"),
        *draw("recurrent-40-seed129", "attention-58-seed151"),
        VALIDATED,
    ),
    "test": (
        *PARTS,
        *draw("attention-77-seed10008", "attention-109-seed10013", "attention-82-seed10035"),
    ),
    "parts": PARTS,
    "published": (
        ("LayerGraphs/bert24_inference", "1cpu+2acc@0.3"),
        ("LayerGraphs/inceptionv3_inference", "1cpu+2acc@0.3"),
        ("OperatorGraphs/bert_l-3_inference", "1cpu+4acc@0.2"),
    ),
    "limited": tuple(
        problem
        for problem in ((model, devices) for model in SMALL for devices in DEVICES.split(","))
        if problem != VALIDATED
    ),
    "tight": TIGHT,
    "tight-dearer": tuple((model, f"{devices}{DEARER}5") for model, devices in TIGHT),
    "twin": tuple((model, TWIN) for model in ("inception", "resnet", "bert-8")),
    "doppler": (
        ("doppler/chain_mm_112nodes", FOUR),
        ("doppler/ffnn_192nodes", FOUR),
        ("doppler/transformer_block_215nodes", FOUR),
        ("doppler/full_transformer_layer_261nodes", FOUR),
    ),
}
"""Problems by role; those of ``"parts"`` are also test problems."""


def make_problem_env(data: Path, model: str, devices: str) -> DevicePlacementEnv:
    """The environment of a problem, with repair."""
    devices, _, factor = devices.partition(DEARER)
    if devices == DRAWN:
        kwargs = make_problem(int(model.rpartition("-seed")[2])).env_kwargs()
        env = make_env(**kwargs, observe_graph=False, repair=True)
    else:
        env = make_env(
            data / "latency-inputs" / f"{model}.json",
            devices=devices,
            schedule="giph" if devices == FOUR else BY_RANK,
            granularity="op",
            observe_graph=False,
            repair=True,
        )
    return multiply_transfers(env, float(factor)) if factor else env


def multiply_transfers(env: DevicePlacementEnv, factor: float) -> DevicePlacementEnv:
    """The same problem with transfers that take ``factor`` times as long."""
    known = env.cost_table()
    costs = replace(
        known, link_ms=factor * known.link_ms, link_ms_per_size=factor * known.link_ms_per_size
    )
    assert isinstance(env.backend, SimulatedBackend)
    backend = SimulatedBackend(env.problem, costs, env.backend.semantics)
    unit_ms = costs.unit_ms(env.problem.units)
    return DevicePlacementEnv(backend, observe_graph=False, unit_ms=unit_ms, repair=True)


def find_tight_problems() -> None:
    """Print the large problems with tight limits of 300 seeds of the test split.

    They have a list or event schedule, three or more devices and at least 150 units; to move every
    tensor once takes at least as long as to run every unit where it is fastest.
    """
    for seed in range(10_000, 10_300):
        problem = make_problem(seed)
        if has_tight_limits(problem):
            env = make_problem_env(Path(), problem.model, DRAWN)
            ratio = compare_transfers(env)
            if env.problem.n_units >= 150 and ratio >= 1.0:
                print(f"{problem.model}: {env.problem.n_units} units, {ratio:.1f}", flush=True)


def has_tight_limits(problem: SampledProblem) -> bool:
    """Tell whether the accelerators of three or more devices hold less than the model."""
    shares = [device.weight_share for device in problem.devices if not device.host]
    limits = [np.inf if share is None else share for share in shares]
    scheduled = problem.semantics.get("schedule") in ("list", "event")
    return scheduled and len(problem.devices) >= 3 and sum(limits) < 1.0


def compare_transfers(env: DevicePlacementEnv) -> float:
    """Time to move every tensor once, over the time to run every unit where it is fastest."""
    costs, problem = env.cost_table(), env.problem
    apart = ~np.eye(len(problem.devices), dtype=np.bool_)
    transfers_ms = costs.transfer_ms[:, apart].mean(axis=1).sum()
    fastest_ms = np.where(problem.supported, costs.unit_ms(problem.units), np.inf).min(axis=1)
    return float(transfers_ms / fastest_ms.sum())


def convert_graphs(graphs: Path, folder: Path) -> None:
    """Write DOPPLER's graphs as workloads for four equal accelerators without limits.

    Numbers are as in the publication's costs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(graphs.glob("gdp_*nodes.txt")):
        workload = read_graph(path)
        target = folder / f"{path.stem.removeprefix('gdp_')}.json"
        target.write_text(json.dumps(workload))
        total = sum(node["fpgaLatency"] for node in workload["nodes"])
        print(f"{target}: {len(workload['nodes'])} nodes, {total:.1f} on one device")


def read_graph(path: Path) -> Row:
    """A graph file: number of nodes, inputs, sources and targets of edges, then a line a node."""
    _, _, sources, targets, *lines = path.read_text().splitlines()
    ends = ([int(part) for part in line.split(",") if part.strip()] for line in (sources, targets))
    costs = [[float(part) / DOPPLER_UNIT for part in line.split(",")[:2]] for line in lines if line]
    common = {"supportedOnFpga": 1, "isBackwardNode": 0, "size": 0.0}
    nodes = [
        {"id": number, "cpuLatency": compute, "fpgaLatency": compute, **common}
        for number, (compute, _) in enumerate(costs)
    ]
    # between two accelerators a workload's tensor moves twice, by way of the host
    edges = [
        {"sourceId": a, "destId": b, "cost": costs[a][1] / 2.0} for a, b in zip(*ends, strict=True)
    ]
    return {"maxFPGAs": 4, "maxSizePerFPGA": 0.0, "nodes": nodes, "edges": edges}
