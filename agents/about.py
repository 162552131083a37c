"""What each agent does, in one line: read without importing any of them."""

from __future__ import annotations

from typing import NamedTuple

CHOICE, SEARCH, SOLVER, LEARNED = "fixed choice", "search", "solver", "learned"
FORMS = ("default", "paper")
TRAINED = "inception-hsdag-paper"
"""A policy of that problem, which comes with some agents."""


class About(NamedTuple):
    """A line of `placement-gym agents`.

    Attributes:
        kind: ``CHOICE``, ``SEARCH``, ``SOLVER`` (needs a cost table) or ``LEARNED``.
        line: What it does.
        settings: What its option ``preset``, or ``checkpoint`` of ``sequential``, may name.
        trained: What its option ``weights`` or ``checkpoint`` may name, a policy of its own.
    """

    kind: str
    line: str
    settings: tuple[str, ...] = ()
    trained: str = ""


ABOUT: dict[str, About] = {
    "single-device": About(CHOICE, "everything on one device, by default the fastest"),
    "saved": About(CHOICE, "a placement file (option file)"),
    "openvino-hetero": About(CHOICE, "HETERO's own choice; where latencies are measured"),
    "openvino-auto": About(CHOICE, "AUTO's choice; where latencies are measured"),
    "random": About(SEARCH, "a random device for every unit"),
    "random-blocks": About(SEARCH, "random devices for runs of units"),
    "prefix": About(SEARCH, "the first units on one device, the others on another"),
    "window": About(SEARCH, "one run of units on another device"),
    "hill-climb": About(SEARCH, "moves runs and regions of units while that is faster"),
    "annealing": About(SEARCH, "the same, and sometimes accepts what is slower"),
    "cross-entropy": About(SEARCH, "samples devices from what was best so far"),
    "genetic": About(SEARCH, "crosses and mutates a population of placements"),
    "list-sampling": About(SEARCH, "list schedules with noise and a price of memory"),
    "fill-in-order": About(CHOICE, "fills one device after another by weights"),
    "heft": About(SOLVER, "list scheduling: the earliest finish, by rank"),
    "critical-path": About(SOLVER, "list scheduling: the critical path on one device"),
    "m-topo": About(SOLVER, "list scheduling in topological order, by memory"),
    "m-etf": About(SOLVER, "list scheduling: the earliest task first, by memory"),
    "min-cut": About(SOLVER, "the optimum of two devices without memory limits"),
    "milp": About(SOLVER, "the optimum of serial schedules, with memory limits"),
    "alpha-expansion": About(SOLVER, "minimum cuts over many devices, approximate"),
    "multilevel": About(SOLVER, "coarsens the graph, places it, refines every level"),
    "neighbourhood": About(SOLVER, "frees a block of units and rebuilds it"),
    "dp": About(SOLVER, "the best contiguous pipeline, for throughput"),
    "dpl": About(SOLVER, "the best pipeline along one order, for throughput"),
    "balance": About(SOLVER, "any split that balances loads, for throughput"),
    "greedy-fill": About(SOLVER, "for accelerators that are called like functions"),
    "call-milp": About(SOLVER, "the same, by a mixed-integer program"),
    "path-load": About(SOLVER, "a program of paths and loads, for event and list schedules"),
    "beam": About(SOLVER, "keeps the best partial placements, for list schedules"),
    "hsdag": About(
        LEARNED,
        "learns which units to place together, and where",
        ("hsdag", "search", "paper"),
        TRAINED,
    ),
    "placeto": About(LEARNED, "moves one unit a step", FORMS, TRAINED),
    "placeto-transfer": About(LEARNED, "is trained on some graphs and places others"),
    "rnn": About(LEARNED, "places one unit after another by a recurrent network", FORMS),
    "hdp": About(LEARNED, "the same, after it has grouped the units", FORMS),
    "post": About(LEARNED, "one distribution a unit, by cross-entropy and PPO", FORMS, TRAINED),
    "gdp": About(
        LEARNED,
        "GO: GraphSAGE and segments of attention for graphs of any size",
        ("default", "search", "paper", "gcn"),
        TRAINED,
    ),
    "sequential": About(
        LEARNED, "list scheduling with learned preferences, trained", ("trained", "none")
    ),
    "doppler": About(
        LEARNED, "one policy chooses the next unit, another its device", FORMS, TRAINED
    ),
}
