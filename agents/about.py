"""Descriptions and objectives of all agents, read without importing any of them.

An agent that evaluates placements optimises the objective of its environment. A solver computes a
placement from costs, for one kind of schedule: it refuses environments with the other objective,
and is a heuristic under other schedules, as HEFT is under a serial one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from placement_gym.base import UserError
from placement_gym.workloads import LATENCY, OBJECTIVES, THROUGHPUT

if TYPE_CHECKING:
    from placement_gym.problem import Problem

CHOICE, SEARCH, SOLVER, LEARNED = "fixed choice", "search", "solver", "learned"
SERIAL, LIST, LOAD = ("serial",), ("list",), ("load",)


class About(NamedTuple):
    """A line of `placement-gym agents`.

    Attributes:
        kind: ``CHOICE``, ``SEARCH``, ``SOLVER`` (needs a cost table) or ``LEARNED``.
        line: What it does.
        model: Schedules whose latencies it models; empty if it optimises what the environment
            evaluates, or nothing.
        optimum: Problems whose optimum by that model it finds; empty if it is approximate.
        pools: Whether it respects the limits of memory that devices share.
    """

    kind: str
    line: str
    model: tuple[str, ...] = ()
    optimum: str = ""
    pools: bool = True

    @property
    def objectives(self) -> tuple[str, ...]:
        """The objectives that it accepts."""
        if not self.model:
            return tuple(OBJECTIVES)
        return ((THROUGHPUT if "load" in self.model else LATENCY).name,)


SUBSTITUTES = {LATENCY.name: "annealing", THROUGHPUT.name: "search"}
"""By objective, an agent that accepts it and that errors recommend."""
ABOUT: dict[str, About] = {
    "single-device": About(CHOICE, "everything on one device, by default the fastest"),
    "saved": About(CHOICE, "a placement file (option file)"),
    "openvino-hetero": About(CHOICE, "HETERO's own choice; where latencies are measured"),
    "openvino-auto": About(CHOICE, "AUTO's choice; where latencies are measured"),
    "random": About(SEARCH, "a random device for every unit"),
    "random-blocks": About(SEARCH, "random devices for runs of units"),
    "prefix": About(SEARCH, "the first units on one device, the others on another"),
    "window": About(SEARCH, "one run of units on another device"),
    "hill-climb": About(SEARCH, "moves runs and regions of units while latency falls"),
    "annealing": About(SEARCH, "hill climbing that sometimes accepts a slower placement"),
    "search": About(SEARCH, "chains of moves from many starts, in a model of the schedule"),
    "fill-in-order": About(CHOICE, "fills one device after another by weights"),
    "greedy": About(
        SOLVER,
        "unit by unit, where its time and input transfers are least or it ends first",
        ("serial", "list"),
    ),
    "heft": About(SOLVER, "list scheduling: the earliest finish, by rank", LIST),
    "critical-path": About(SOLVER, "list scheduling: the critical path on one device", LIST),
    "m-etf": About(SOLVER, "list scheduling: the earliest task first, by memory", LIST),
    "min-cut": About(
        SOLVER,
        "the optimum of two devices without memory limits",
        SERIAL,
        "two devices without memory limits or costs of submodels",
        pools=False,
    ),
    "milp": About(
        SOLVER,
        "the optimum of serial schedules, with memory limits",
        SERIAL,
        "any devices and memory limits, within its time limit",
    ),
    "dp": About(
        SOLVER,
        "the best contiguous pipeline, for throughput",
        LOAD,
        "stages that are contiguous",
        pools=False,
    ),
    "dpl": About(SOLVER, "the best pipeline along one order, for throughput", LOAD, pools=False),
    "pipedream": About(
        SOLVER, "PipeDream's partitioner without replication, for throughput", LOAD, pools=False
    ),
    "metis": About(SOLVER, "graph partitioning by METIS (extra metis)", LOAD),
    "model-per-device": About(
        SOLVER, "each of several models as a whole on a device, for throughput", LOAD
    ),
    "max-load": About(
        SOLVER,
        "the best split by a mixed-integer program, contiguous or not, for throughput",
        LOAD,
        "any split, or any of contiguous devices, within its time limit",
    ),
    "greedy-fill": About(SOLVER, "fills accelerators that are called like functions", ("calls",)),
    "list-policy": About(LEARNED, "list schedules, weighted by a policy trained on other graphs"),
    "logits": About(LEARNED, "REINFORCE on a logit for each unit and device: the simplest learner"),
    "graph-groups": About(
        LEARNED, "REINFORCE by a graph network, which learns which units follow a producer"
    ),
    "hsdag": About(LEARNED, "learns which units to place together, and where"),
    "placeto": About(LEARNED, "moves one unit a step"),
    "placeto-transfer": About(LEARNED, "is trained on some graphs and places others"),
    "rnn": About(LEARNED, "places one unit after another by a recurrent network"),
    "hdp": About(LEARNED, "groups the units and places the groups by a recurrent network"),
    "post": About(LEARNED, "one distribution a unit, by cross-entropy and PPO"),
    "gdp": About(LEARNED, "GO: GraphSAGE and segments of attention for graphs of any size"),
    "gcn": About(LEARNED, "two graph convolutions: the baseline for GO"),
    "doppler": About(LEARNED, "one policy chooses the next unit, another its device"),
}


def check_objective(name: str, objective: str) -> None:
    """Raise a ``UserError``, with another agent, unless an agent accepts an objective."""
    accepted = ABOUT[name].objectives
    if objective not in accepted:
        raise UserError(
            f"{name} places for {accepted[0]}, and this environment asks for {objective}: use "
            f"{SUBSTITUTES[objective]}, or make the environment with objective={accepted[0]!r}"
        )


def check_pools(name: str, problem: Problem, objective: str) -> None:
    """Raise a ``UserError``, with another agent, if one ignores a tight limit of shared memory."""
    if ABOUT[name].pools or not problem.tight_pools:
        return
    raise UserError(
        f"{name} does not keep the limit of memory that devices share, and pool "
        f"{problem.tight_pools[0]!r} is smaller than the model: use {SUBSTITUTES[objective]}"
    )


def describe_goal(name: str) -> str:
    """Say in a sentence or two what an agent places for, and what it refuses."""
    about = ABOUT[name]
    if about.kind == CHOICE:
        return "Optimises nothing: it places as it says, under any objective and schedule."
    if not about.model:
        return "Optimises what its environment evaluates, under any objective and schedule."
    (objective,) = about.objectives
    (other,) = set(OBJECTIVES) - {objective}
    schedules = " or ".join(about.model)
    quality = f"exactly for {about.optimum}" if about.optimum else "approximately"
    heuristic = (
        "" if not OBJECTIVES[objective].serial else " Under other schedules it is a heuristic."
    )
    return (
        f"Places for {objective} by its own model of schedule {schedules}, {quality}.{heuristic} "
        f"For {other} it refuses: {SUBSTITUTES[other]} is accepted there."
    )
