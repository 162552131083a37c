"""Problems of ``published.py`` by role, and their environments.

    python benchmarks/published_problems.py        # the large problems with tight limits

A large problem with tight limits has a seed of the test split, a list or event schedule, three or
more devices and 150 to 400 units; each accelerator has a limit, and all of them together hold less
than the model. Its transfers are expensive: to move every tensor once takes at least as long as to
run every unit where it is fastest.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from classic import make_workload_env
from floor_runs import DEVICES
from published_tables import TWIN

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.entry_points import SimulatedEnv
from placement_gym.env import DevicePlacementEnv
from placement_gym.graph.families.problems import SampledProblem, make_problem

DRAWN = "drawn"
"""In place of devices: those of the problem that the model's seed draws."""
FOUR = "0cpu+4acc"
"""Devices of DOPPLER's publication, whose simulator is schedule ``"giph"``."""
DEARER = ", transfers x"
"""Between devices and the factor that all transfers are multiplied by."""
BY_RANK = {"preset": "list", "order": "priority"}
VALIDATED = ("LayerGraphs/resnet50_inference", "1cpu+2acc@0.3")
"""The one published workload that settings were chosen on."""
SMALL = (
    "LayerGraphs/bert24_inference",
    "LayerGraphs/resnet50_inference",
    "OperatorGraphs/bert_l-3_inference",
    "LayerGraphs/inceptionv3_inference",
)
LARGE = ("OperatorGraphs/resnet50_inference", "OperatorGraphs/bert_l-12_inference")
PARTS = (
    ("family-recurrent-53-seed10005", DRAWN),
    ("family-series-parallel-46-seed10021", DRAWN),
    ("family-series-parallel-49-seed10030", DRAWN),
    ("family-branching-91-seed10034", DRAWN),
)
TIGHT = (
    ("family-layered-371-seed10020", DRAWN),
    ("family-attention-383-seed10025", DRAWN),
    ("family-experts-247-seed10133", DRAWN),
    ("family-attention-393-seed10158", DRAWN),
    ("family-series-parallel-331-seed10170", DRAWN),
    ("family-attention-191-seed10204", DRAWN),
)
"""The first six that this file finds as a command."""
PROBLEMS = {
    "validation": (
        ("family-layered-81-seed57", DRAWN),
        ("family-series-parallel-58-seed101", DRAWN),
        ("family-recurrent-40-seed129", DRAWN),
        ("family-attention-58-seed151", DRAWN),
        VALIDATED,
    ),
    "test": (
        *PARTS,
        ("family-attention-77-seed10008", DRAWN),
        ("family-attention-109-seed10013", DRAWN),
        ("family-attention-82-seed10035", DRAWN),
    ),
    "parts": PARTS,
    "published": (
        ("LayerGraphs/bert24_inference", "1cpu+2acc@0.3"),
        ("LayerGraphs/inceptionv3_inference", "1cpu+2acc@0.3"),
        ("OperatorGraphs/bert_l-3_inference", "1cpu+4acc@0.2"),
    ),
    "limited": tuple(
        (model, devices) for model in SMALL for devices in DEVICES if (model, devices) != VALIDATED
    ),
    "limited-large": tuple((model, devices) for model in LARGE for devices in DEVICES),
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=300, help="looked at (%(default)s)")
    for seed in range(10_000, 10_000 + parser.parse_args().seeds):
        problem = make_problem(seed)
        if not has_tight_limits(problem):
            continue
        env = make_env(Path(), problem.model, DRAWN)
        share = compare_transfers(env)
        if env.problem.n_units >= 150 and share >= 1.0:
            print(problem.model, *problem.semantics.values(), f"{share:.1f}", problem.devices)


def has_tight_limits(problem: SampledProblem) -> bool:
    """Whether the accelerators of three or more devices hold less than the model."""
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


def make_env(data: Path, model: str, devices: str) -> DevicePlacementEnv:
    """The environment of a problem, with repair."""
    devices, _, factor = devices.partition(DEARER)
    if devices == DRAWN:
        kwargs = make_problem(int(model.rpartition("-seed")[2])).env_kwargs()
        env = SimulatedEnv(**kwargs, observe_graph=False, repair=True)
    else:
        env = make_workload_env(
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


if __name__ == "__main__":
    main()
