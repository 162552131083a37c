"""A placement by the sequential placer, beside every single device and HEFT, all simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from placement_gym.arguments import check_integer
from placement_gym.arrays import IntArray
from placement_gym.bench.run.agents import AgentSpec
from placement_gym.bench.run.rows import to_plain
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import EngineError
from placement_gym.files import check_output_file
from placement_gym.placement import Placement
from placement_gym.progress import progress_bar
from placement_gym.tools.granularity import DEFAULT_GRANULARITY
from placement_gym.tools.saved import describe_saved
from placement_gym.tools.twin import make_twin

AGENT, HEFT = "sequential", "HEFT"
BATCH = 20
"""Evaluations between two movements of the progress bar."""
EQUAL = 5e-4
"""Relative difference of latencies that counts as none."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """A placement and what it cost to find.

    Attributes:
        label: Its name in tables.
        assignment: (n_units,) device indices.
        latency_ms: Simulated; None if it is infeasible.
        error: Why it is infeasible, or an empty string.
        own: Whether the sequential placer found it.
        evaluations: Placements that were simulated to find it.
        seconds: Wall time.
    """

    label: str
    assignment: IntArray
    latency_ms: float | None
    error: str
    own: bool
    evaluations: int
    seconds: float


def place(
    model: Any = "resnet",
    devices: Any = None,
    granularity: str = DEFAULT_GRANULARITY,
    checkpoint: str | Path | None = None,
    samples: int = 100,
    fine_tune: int = 0,
    seed: int = 0,
    out: str | Path = "placement.json",
    env_kwargs: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> Document:
    """Place a model with the sequential placer; nothing is measured.

    Latencies are simulated: with this machine's profile of the model and the devices where it
    keeps one, else with published or analytic costs. The fastest placement is written to ``out``.

    Args:
        model: As for ``DevicePlacementSim-v0``.
        devices: Likewise; None means this machine's, for a model that OpenVINO reads.
        granularity: As for ``gym.make``.
        checkpoint: A network of ``placement-gym pretrain``; None takes the agent's default.
        samples: Placements that a search evaluates after the zero-shot one; may be 0.
        fine_tune: Placements that another search evaluates, which trains the network on the way;
            may be 0.
        seed: Of the searches.
        out: The placement file.
        env_kwargs: Further arguments of ``gym.make``.
        quiet: Show no progress.

    Returns:
        ``model``, ``devices``, ``n_units``, ``costs`` (where they come from), ``schedule``,
        ``saved`` (what ``file`` holds, in one line), ``placement`` (its label), ``verdict``,
        ``wall_s``, ``file`` and ``rows``: for every single device, HEFT, the zero-shot placement
        and each search ``label``, ``latency_ms`` (None if infeasible), ``error``, ``speedup`` over
        the best single device and ``vs_heft`` (None if unknown), ``evaluations`` and ``seconds``.

    Raises:
        UserError: An argument is wrong, or ``out`` cannot be written.
        EngineError: No placement of the placer is feasible.
    """
    started = perf_counter()
    check_integer("samples", samples, 0)
    check_integer("fine_tune", fine_tune, 0)
    file = check_output_file(out)
    given = {"model": model, "devices": devices, "granularity": granularity}
    env = make_twin(given | dict(env_kwargs or {}))
    options = {} if checkpoint is None else {"checkpoint": str(checkpoint)}
    found = [*place_by_rule(env), *place_by_agent(env, options, samples, fine_tune, seed, quiet)]
    chosen = choose(found)
    placement = Placement.of(env.problem, chosen.assignment, env.graph)
    placement.save(file)
    rows = make_rows(found)
    semantics: Any = getattr(env.backend, "semantics", None)
    document: Document = to_plain(
        {
            "model": env.problem.units.graph.model,
            "devices": env.problem.device_names,
            "n_units": env.problem.n_units,
            "costs": env.cost_table().source,
            "schedule": semantics.schedule,
            "saved": describe_choice(placement, rows, chosen.label),
            "placement": chosen.label,
            "verdict": summarize(found, chosen),
            "wall_s": perf_counter() - started,
            "file": str(file),
            "rows": rows,
        }
    )
    return document


def describe_choice(placement: Placement, rows: Sequence[dict[str, Any]], label: str) -> str:
    """What is saved, in one line."""
    alone = [row for row in rows if row["speedup"] == 1.0 and row["label"].endswith(" alone")]
    speedup = next(row["speedup"] for row in rows if row["label"] == label)
    return describe_saved(placement, speedup, 0.0, alone[0]["label"] if alone else "")


def place_by_rule(env: DevicePlacementEnv) -> list[Found]:
    """Every single device that runs the model, and HEFT."""
    problem = env.problem
    alone = [
        judge(env, f"{name} alone", problem.single(device), 0.0)
        for device, name in enumerate(problem.device_names)
        if problem.runs_all[device]
    ]
    started = perf_counter()
    assignment = AgentSpec("heft").make(env, 0).assignment
    return [*alone, judge(env, HEFT, assignment, perf_counter() - started)]


def place_by_agent(
    env: DevicePlacementEnv,
    options: Mapping[str, Any],
    samples: int,
    fine_tune: int,
    seed: int,
    quiet: bool,
) -> list[Found]:
    """The sequential placer's placements: zero-shot, after a search, and after fine-tuning."""
    searches = [("zero-shot", 0, options)]
    if samples:
        searches.append((f"best of {samples}", samples, {**options, "horizon": samples}))
    if fine_tune:
        label = f"fine-tuned with {fine_tune}"
        searches.append((label, fine_tune, {**options, "fine_tune": True}))
    found = []
    with progress_bar(samples + fine_tune, "evaluations", quiet) as progress:
        task = progress.task_ids[0]
        for label, evaluations, kwargs in searches:
            progress.update(task, description=label)
            started = perf_counter()
            agent = AgentSpec(AGENT, kwargs).make(env, seed)
            search(agent, evaluations, lambda n: progress.advance(task, n))
            seconds = perf_counter() - started
            found.append(judge(env, label, agent.assignment, seconds, True, agent.evaluations))
    return found


def search(agent: Any, evaluations: int, report: Callable[[int], object]) -> None:
    """Let an agent evaluate so many placements, or as many as it finds new ones."""
    while (before := agent.evaluations) < evaluations:
        agent.learn(min(BATCH, evaluations - before))
        report(agent.evaluations - before)
        if agent.evaluations == before:
            return


def judge(
    env: DevicePlacementEnv,
    label: str,
    assignment: IntArray,
    seconds: float,
    own: bool = False,
    evaluations: int = 0,
) -> Found:
    """Simulate a placement; see ``Found`` for the arguments."""
    measurement = env.backend.evaluate(assignment)
    latency_ms = measurement.latency_ms if measurement.feasible else None
    return Found(label, assignment, latency_ms, measurement.error, own, evaluations, seconds)


def choose(found: Sequence[Found]) -> Found:
    """The fastest placement of the sequential placer, the first of equal ones.

    Raises:
        EngineError: None is feasible.
    """
    own = [one for one in found if one.own]
    fit = [one for one in own if one.latency_ms is not None]
    if not fit:
        reason = own[-1].error
        raise EngineError(f"no placement that was found fits: {reason}; try more --samples")
    return min(fit, key=latency_of)


def make_rows(found: Sequence[Found]) -> list[dict[str, Any]]:
    """The rows of the document."""
    single_ms, heft_ms = find_best_single_ms(found), find_heft_ms(found)
    return [
        {
            "label": one.label,
            "latency_ms": one.latency_ms,
            "error": one.error,
            "speedup": divide(single_ms, one.latency_ms),
            "vs_heft": divide(heft_ms, one.latency_ms),
            "evaluations": one.evaluations,
            "seconds": one.seconds,
        }
        for one in found
    ]


def summarize(found: Sequence[Found], chosen: Found) -> str:
    """One sentence that compares the placement with what needs no learning."""
    rules = [one for one in found if not one.own and one.latency_ms is not None]
    if not rules:
        return f"{chosen.label} fits; no single device does, nor HEFT's placement."
    best = min(rules, key=latency_of)
    gain = latency_of(best) / latency_of(chosen) - 1.0
    if abs(gain) < EQUAL:
        return f"{chosen.label} is as fast as {best.label}, by simulation."
    if gain < 0.0:
        lead = latency_of(chosen) / latency_of(best) - 1.0
        return f"{best.label} is {100 * lead:.1f} % faster than {chosen.label}: take that one."
    return f"{chosen.label} is {100 * gain:.1f} % faster than {best.label}, by simulation."


def latency_of(one: Found) -> float:
    """Latency in ms, infinite where it is infeasible."""
    return float("inf") if one.latency_ms is None else one.latency_ms


def find_best_single_ms(found: Sequence[Found]) -> float | None:
    """Latency of the fastest single device that fits, if there is one."""
    known = [one.latency_ms for one in found if not one.own and one.label != HEFT]
    return min((ms for ms in known if ms is not None), default=None)


def find_heft_ms(found: Sequence[Found]) -> float | None:
    """Latency of HEFT's placement, if it fits."""
    return next(one.latency_ms for one in found if one.label == HEFT)


def divide(above: float | None, below: float | None) -> float | None:
    """A ratio; None if a part is unknown."""
    return None if above is None or below is None else above / below
