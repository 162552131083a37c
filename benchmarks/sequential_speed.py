"""Time of the sequential decoder: 32 placements at once, with a network that prefers something.

    python benchmarks/sequential_speed.py --data DIR

DIR holds the inputs of dnn-partitioning. Prints CPU time, the least of some repetitions: on a busy
machine wall time would say little.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time

import numpy as np
import torch
from agents.sequential import Network
from agents.sequential.placer import Placer
from placement_gym.solvers.list_sampling import draw_noise, draw_prices

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.costs.semantics import parse_schedule
from placement_gym.env import DevicePlacementEnv

SAMPLES, REPETITIONS = 32, 30
BY_RANK = {"preset": "list", "order": "priority"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="inputs of dnn-partitioning")
    options = parser.parse_args()
    models = ("LayerGraphs/inceptionv3_inference", "OperatorGraphs/bert_l-12_inference")
    paths = [str(options.data / "latency-inputs" / f"{model}.json") for model in models]
    for model in (*paths, "synthetic-layered-417", "synthetic-layered-800"):
        for devices in ("1cpu+2acc@0.3", "1cpu+4acc@0.2") if model in paths else ("cpu+2dgpu",):
            print(f"{Path(model).stem}, {devices}: {describe_time(model, devices)}")


def describe_time(model: str, devices: str) -> str:
    """Milliseconds to decode, and to encode the graph."""
    built = build_simulated_problem(model, devices, "op")
    semantics = parse_schedule(BY_RANK, "latency")
    env = DevicePlacementEnv(SimulatedBackend(built.problem, built.costs, semantics))
    torch.set_num_threads(1)
    network = Network()
    torch.nn.init.normal_(network.out.weight)
    placer, rng = Placer(network, env), np.random.default_rng(0)
    decoder = placer.board.decoder
    noise = draw_noise(decoder, rng, draw_prices(decoder, rng, SAMPLES))
    decode_ms = min(clock(lambda: placer.sample(noise)) for _ in range(REPETITIONS))
    encode_ms = min(clock(placer.refresh) for _ in range(REPETITIONS))
    size = f"{env.problem.n_units} units on {len(env.problem.devices)} devices"
    return f"{size}, {SAMPLES} placements in {decode_ms:.1f} ms, encoder {encode_ms:.1f} ms"


def clock(run: object) -> float:
    """CPU milliseconds of a call."""
    assert callable(run)
    started = process_time()
    run()
    return 1e3 * (process_time() - started)


if __name__ == "__main__":
    main()
