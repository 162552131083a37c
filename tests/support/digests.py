# White-box tests of graph
"""What must be the same on every processor: generators, fingerprints, known values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from placement_gym.bench import VALUES, identify, load_values
from placement_gym.bench.report import evaluate_ms
from placement_gym.bench.run import BenchEnvs
from placement_gym.envs import StreamProblem
from placement_gym.graph import FAMILIES, OpGraph, build_family, name_graph
from placement_gym.graph.families import make_problem
from placement_gym.graph.synthetic import synthetic
from placement_gym.hardware import PRESETS
from placement_gym.problem.costs import analytic
from placement_gym.solvers.list_policy import MANY, ListPolicy

SYNTHETIC = ("synthetic-layered-2000", "synthetic-series-parallel-2000", "unrolled-lstm-200")
SEEDS = (*range(10), *range(10_000, 10_010), *range(20_000, 20_010))


def describe_graphs() -> Iterator[tuple[str, Any]]:
    """Fingerprints of generated graphs and of their costs, and every bit of their draws."""
    names = [name_graph(family, 300, seed) for family in FAMILIES for seed in range(3)]
    graphs = [*map(build_family, names), *map(synthetic, SYNTHETIC)]
    for graph in graphs:
        yield graph.model, (graph.fingerprint(), digest_draws(graph))
        for preset in ("cpu+igpu", "cpu+igpu+npu"):
            yield f"{graph.model} {preset}", analytic(graph, PRESETS[preset]).fingerprint


def digest_draws(graph: OpGraph) -> str:
    """A digest of all numbers of a graph."""
    parts = (graph.flops, graph.weight_bytes, graph.tensors.size_bytes, graph.edge_index)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


def describe_problems() -> Iterator[tuple[str, Any]]:
    """Arguments of the environments of sampled problems."""
    for seed in SEEDS:
        yield f"problem {seed}", make_problem(seed).env_kwargs()


def describe_lists() -> Iterator[tuple[str, Any]]:
    """List schedules whose weights a policy chooses by statistics."""
    policy = ListPolicy.load(MANY)
    for seed in SEEDS[::3]:
        problem, rng = StreamProblem(make_problem(seed), {}), np.random.default_rng(seed)
        actions = policy.draw(problem.statistics, 20, rng)
        places, _ = problem.scheduler.schedule(actions, rng)
        yield f"lists {seed}", hashlib.sha256(places.tobytes()).hexdigest()[:16]


def describe_known_values() -> Iterator[tuple[str, Any]]:
    """Identities and latencies of best known values of generated graphs, and of a small network."""
    values = [value for value in load_values(VALUES) if value.problem[2].startswith("synthetic")]
    with BenchEnvs() as envs:
        for value in values:
            env_id, env_kwargs, model, devices = value.problem
            kwargs = {"model": model, "devices": devices, **env_kwargs}
            backend = envs.get(env_id, kwargs).base.backend
            same = identify(backend) == value.identity
            latency_ms = evaluate_ms(backend, value.assignment)
            near = bool(np.isclose(latency_ms, value.latency_ms, rtol=1e-9))
            yield value.name, (same, near)


def digest() -> str:
    """All of it in JSON."""
    parts = (describe_graphs(), describe_problems(), describe_lists(), describe_known_values())
    return json.dumps(dict(pair for part in parts for pair in part))


if __name__ == "__main__":
    print(digest())
