r"""Searches and placers where memory is scarce, at equal evaluations and at equal CPU seconds.

    python benchmarks/floors.py --data DIR --out OUT --agents search --evaluations 100,500
    python benchmarks/floors.py --data DIR --out OUT --agents search --seconds 0.03,0.1,0.3,1,3,10

DIR holds workloads: the inputs of dnn-partitioning, or files of their format. OUT gets a line of
``floors.jsonl`` for each run; the same command continues what was interrupted. One long run serves
every budget of an anytime placer. Seconds are of this process, from when a placer is made, after an
untimed run on the smallest workload.

    python benchmarks/floors.py --generated synthetic-layered-80000,stacked-bert-80000 --out OUT \
        --devices 1cpu+2acc@0.3 --seconds 60 --agents heft,annealing,search

runs them on generated graphs in place of workloads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from common import (
    BY_RANK,
    Meter,
    Row,
    best_known_ms,
    combine,
    describe_env,
    describe_run,
    make_env,
    make_parser,
    run_missing,
    search,
)

from placement_gym.base import MAX_INTEGER
from placement_gym.bench.run import AgentSpec
from placement_gym.envs import DevicePlacementEnv
from placement_gym.hardware.device_requests import parse_counts
from placement_gym.solvers import load_ms

DEVICES = "1cpu+2acc@0.3,1cpu+4acc@0.2"
TRIAL = 50
"""Evaluations on the smallest workload before a run, so that compiled code is loaded."""
STARTS: Sequence[Mapping[str, Any]] = ({}, {"start": "quick"}, {"start": "random"})
PLACERS = {
    spec.label: spec
    for spec in (
        *map(AgentSpec, ("search", "greedy", "heft", "random-blocks", "graph-groups", "hsdag")),
        *(AgentSpec(name, start) for name in ("hill-climb", "annealing") for start in STARTS),
    )
}
"""Label of the runs -> agent."""
PLANNED = ("annealing", "graph-groups", "hsdag")
"""Agents whose search the budget shapes; one run of the others serves all budgets."""
Files = dict[str, tuple[Path, ...]]
"""Name of each workload -> its file and the smallest one; generated graphs have none."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of rows")
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="folders of workloads")
    parser.add_argument("--generated", default="", help="graphs to place, comma-separated")
    parser.add_argument("--evaluations", default="", help="budgets, as in 100,500")
    parser.add_argument("--seconds", default="", help="budgets of CPU time, as in 0.1,1,10")
    parser.add_argument("--seeds", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--agents", required=True, help="names, comma-separated")
    parser.add_argument("--devices", default=DEVICES, help="%(default)s")
    parser.add_argument("--repair", action="store_true", help="placements that do not fit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    generated: Files = {name: () for name in options.generated.split(",") if name}
    files = find_models(options.data) | generated
    run_missing(options.out / "floors.jsonl", plan_jobs(options, files), partial(run, files))


def plan_jobs(options: argparse.Namespace, files: Files) -> Iterator[Row]:
    """The runs that the options ask for: one for each budget that shapes what a placer does."""
    evaluations = [int(part) for part in options.evaluations.split(",") if part]
    seconds = sorted(float(part) for part in options.seconds.split(",") if part)
    names = options.agents.split(",")
    for job in combine(
        seed=range(options.seeds),
        model=files,
        devices=options.devices.split(","),
        repair=[options.repair],
        arm=[label for label, spec in PLACERS.items() if spec.name in names],
    ):
        if PLACERS[job["arm"]].name not in PLANNED:
            yield job | {"evaluations": evaluations, "cpu_seconds": seconds}
            continue
        for n in evaluations:
            yield job | {"evaluations": [n], "cpu_seconds": []}
        for limit_s in seconds:
            yield job | {"evaluations": [], "cpu_seconds": [limit_s]}


def find_models(folders: Sequence[Path]) -> Files:
    """See ``Files``."""
    files: dict[str, Path] = {}
    for folder in folders:
        inputs = folder / "latency-inputs"
        inputs = inputs if inputs.exists() else folder
        files |= {str(path.relative_to(inputs).with_suffix("")): path
                  for path in sorted(inputs.rglob("*.json"))}  # fmt: skip
    smallest = min(files.values(), key=lambda one: one.stat().st_size, default=Path())
    return {name: (path, smallest) for name, path in files.items()}


def load(model: str, file: Path | None, devices: str, repair: bool) -> DevicePlacementEnv:
    """The environment of a workload; devices of a generated graph are a CPU and GPUs."""
    kwargs: dict[str, Any] = {"observe_graph": False, "repair": repair}
    if file is not None:
        return make_env(file, **kwargs, granularity="op", schedule=BY_RANK, devices=devices)
    known = [device.to_json() for device in parse_counts(devices) or ()]
    renamed = [one | {"name": one["name"].replace("ACC", "GPU")} for one in known]
    return make_env(model, **kwargs, devices=renamed, schedule="list")


def run(
    files: Files,
    seed: int,
    model: str,
    devices: str,
    repair: bool,
    arm: str,
    evaluations: Sequence[int],
    cpu_seconds: Sequence[float],
) -> Row:
    """Run an agent until its budgets are reached; its row holds the curve of latencies, in ms."""
    spec, (file, smallest) = PLACERS[arm], files[model] or (None, None)
    warm_up(spec.label, smallest, devices, repair)
    open_env = partial(load, model, file, devices, repair)
    planned = plan_evaluations(open_env(), spec, seed, evaluations, cpu_seconds)
    env = open_env()
    reference_ms, error = env.reference.latency_ms, ""
    meter = Meter(env.backend, evaluations, cpu_seconds)
    try:
        search(env, meter, spec, seed, planned)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    cpu_s = meter.cpu_s
    about = describe_run(describe_env(env), spec, seed, planned, meter)
    return about | {
        "evaluations": evaluations,
        "curve": [(n, seconds, reference_ms / speedup) for n, seconds, speedup in meter.curve],
        "n_evaluations": meter.n,
        "best_known_ms": best_known_ms(env),
        "bound_ms": load_ms(env.problem, env.cost_table()),
        "cpu_s": cpu_s,
        "error": error or about["error"],
    }


@cache
def warm_up(arm: str, smallest: Path | None, devices: str, repair: bool) -> None:
    """Let a placer search a small problem of the same kind, so that its code is loaded."""
    env = load("synthetic-layered-100", smallest, devices, repair)
    with suppress(Exception):  # a run that fails says so in its row
        search(env, Meter(env.backend, (TRIAL,)), PLACERS[arm], 0, TRIAL)


def plan_evaluations(
    env: DevicePlacementEnv,
    spec: AgentSpec,
    seed: int,
    evaluations: Sequence[int],
    cpu_seconds: Sequence[float],
) -> int:
    """The budget that a search is given; of a planned one in seconds, by its speed in a trial."""
    if spec.name not in PLANNED:
        return MAX_INTEGER
    if evaluations:
        return evaluations[0]
    meter = Meter(env.backend, (10 * TRIAL,))
    search(env, meter, spec, seed, 10 * TRIAL)
    first_s = meter.curve[0][1] if meter.curve else 0.0
    speed = meter.n / max(meter.cpu_s - first_s, 1e-6)
    return max(int(speed * (cpu_seconds[0] - first_s)), 1)


if __name__ == "__main__":
    main()
