"""Makes what the gallery shows: ``python docs/gallery/make.py [NAME ...]``.

An entry is a problem that some agents place. ``NAME.json.gz`` keeps what the page of
``placement-gym view`` shows of it, from which the build of the site makes this page, and
``NAME.png`` is its picture in the gallery.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib import rc_context
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from PIL import Image

import agents
import placement_gym
from placement_gym.graph import contract, merge_cycles, sort_labels
from placement_gym.problem import Placement
from placement_gym.solvers import optimum_or_bound
from placement_gym.view import StatedPlacement, make_scene, make_view_data
from placement_gym.view.figures import WITHIN, render_pixels
from placement_gym.view.figures.style import CROSSING

FOLDER = Path(__file__).parent
BUDGET = 300
GPUS = [{"name": f"GPU.{index}", "roofline": "GPU"} for index in range(3)]
Placements = dict[str, Placement]


def find_none(kwargs: Mapping[str, Any]) -> Placements:
    return {}


@dataclass(frozen=True)
class Entry:
    """A problem and the agents that place it, of which the page shows the first one at first.

    Attributes:
        kwargs: Arguments of ``gym.make``.
        agents: Their names.
        find_more: Returns further placements by label, given these arguments.
    """

    kwargs: Mapping[str, Any]
    agents: tuple[str, ...]
    find_more: Callable[[Mapping[str, Any]], Placements] = find_none


def ignore_contention(kwargs: Mapping[str, Any]) -> Placements:
    """The best placement where transfers do not wait for each other."""
    alone = {**kwargs, "schedule": {"preset": kwargs["schedule"], "contention": "none"}}
    return {"search without waiting": place(make_env(alone), "search")}


def find_groups(kwargs: Mapping[str, Any]) -> Placements:
    """HSDAG's answer in the paper's form, whose units are the groups that it parses.

    Groups that depend on each other in a circle are one unit of the page.
    """
    env = make_env(kwargs)
    agent = agents.make("hsdag", env, seed=0, preset="paper")
    agent.learn(BUDGET)
    placement_gym.play_episode(env, agent)
    (group,) = [step.group for (_, at), step in agent.policy.greedy.steps.items() if at == 0]
    units, operators = env.problem.units, env.problem.units.graph
    labels = merge_cycles(operators, group.numpy()[units.of_operator])
    print(f"{len(np.unique(group))} groups, {len(np.unique(labels))} without circles")
    labels = sort_labels(operators, labels)
    quotient = contract(operators, labels)
    _, first = np.unique(labels, return_index=True)
    names = env.problem.device_names
    devices = env.assignment[units.of_operator][first]
    return {
        "hsdag": Placement(
            operators.model,
            operators.fingerprint(),
            "folded",
            env.problem.devices,
            {unit: names[device] for unit, device in zip(quotient.names, devices, strict=True)},
            dict(zip(quotient.names, quotient.members, strict=True)),
        )
    }


ENTRIES = {
    "resnet": Entry({"model": "resnet", "devices": "cpu+dgpu"}, ("prefix", "min-cut")),
    "inception": Entry(
        {"model": "inception", "devices": "hsdag-paper"}, ("min-cut", "prefix", "heft")
    ),
    "groups": Entry({"model": "inception", "devices": "hsdag-paper"}, (), find_groups),
    "bert": Entry(
        {"model": "bert", "devices": ["CPU", {"name": "GPU", "weight_share": 0.4}]},
        ("milp", "fill-in-order"),
    ),
    "gpt": Entry(
        {
            "model": "gpt-12",
            "scenario": "chat-128-32",
            "devices": ["CPU", *({**gpu, "weight_share": 0.6} for gpu in GPUS[:2])],
        },
        ("milp", "fill-in-order"),
    ),
    "pipeline": Entry(
        {"model": "resnet", "devices": "cpu-testbed-pair", "objective": "throughput"},
        ("dp", "search"),
    ),
    "two-models": Entry(
        {"model": "resnet+bert-8", "devices": "cpu-testbed-pair", "objective": "throughput"},
        ("dp", "model-per-device"),
    ),
    "wide": Entry(
        {"model": "synthetic-layered-200", "devices": "cpu+2dgpu", "schedule": "list"},
        ("search", "heft"),
    ),
    "contention": Entry(
        {
            "model": "family-attention-80-seed7",
            "devices": "cpu+2dgpu",
            "schedule": "event",
            "granularity": "op",
        },
        ("search",),
        ignore_contention,
    ),
}


def make_env(kwargs: Mapping[str, Any]) -> Any:
    return placement_gym.placement_env(gym.make("DevicePlacementSim-v0", **kwargs))


def place(env: Any, name: str) -> Placement:
    """Let an agent learn, if it does, and keep what it predicts."""
    agent = agents.make(name, env, seed=0)
    if hasattr(agent, "learn"):
        agent.learn(BUDGET)
    placement_gym.play_episode(env, agent)
    placed: Placement = env.placement()
    return placed


def make_data(entry: Entry) -> dict[str, Any]:
    """Place the problem of an entry, and make what its page shows."""
    env = make_env(entry.kwargs)
    found = {name: place(env, name) for name in entry.agents} | entry.find_more(entry.kwargs)
    sources = [
        StatedPlacement(label, one, {**entry.kwargs, "granularity": "op"}, prove(env, one))
        for label, one in found.items()
    ]
    return make_view_data(make_scene(sources))


def prove(env: Any, placement: Placement) -> str:
    """Say whether a solver proves that no placement is faster."""
    devices = placement.operator_devices(env.problem.units.graph)
    _, first = np.unique(env.problem.units.of_operator, return_index=True)
    known = env.backend.evaluate(devices[first]).latency_ms
    optimum_ms, bound_ms = optimum_or_bound(
        env.problem,
        env.cost_table(),
        env.backend.semantics,
        [known],
        lambda assignment: float(env.backend.evaluate(assignment).latency_ms),
    )
    if optimum_ms is None:
        return f"no placement of these units is faster than {bound_ms:.4g} ms"
    if known <= optimum_ms * (1 + 1e-6):
        return "proven: no placement of these units is faster"
    return f"proven optimum: {optimum_ms:.4g} ms"


def draw(data: Mapping[str, Any]) -> Figure:
    """The first placement: its graph, and what each device does when."""
    with rc_context({"font.size": 9, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(4.8, 2.8), layout="constrained")
        graph, timeline = figure.subplots(2, 1, height_ratios=[2.2, 1])
        draw_graph(graph, data)
        draw_timeline(timeline, data)
    return figure


def draw_graph(axes: Any, data: Mapping[str, Any]) -> None:
    shown, units, edges = data["placements"][0], data["units"], data["edges"]
    points = np.stack([units["layer"], units["position"]], axis=1).astype(float)
    ends = np.stack([edges["source"], edges["target"]])
    device = np.array(shown["device"])
    crossing = device[ends[0]] != device[ends[1]]
    colours = np.where(crossing, CROSSING, WITHIN)
    axes.add_collection(LineCollection(points[ends.T], colors=colours, linewidths=0.6, zorder=1))
    size = np.array(units["ms"]).max(axis=0)
    area = 5 + 40 * np.sqrt(size / size.max())
    axes.scatter(*points.T, area, [data["devices"][d]["colour"] for d in device], zorder=2)
    axes.margins(0.02, 0.1)
    axes.set_axis_off()


def draw_timeline(axes: Any, data: Mapping[str, Any]) -> None:
    shown, devices = data["placements"][0], data["devices"]
    runs, device = shown["runs"], np.array(shown["device"])
    axes.barh(
        device[runs["unit"]],
        runs["ms"],
        left=runs["start"],
        height=0.75,
        color=[devices[d]["colour"] for d in device[runs["unit"]]],
    )
    axes.set_yticks(range(len(devices)), [one["name"] for one in devices])
    axes.set_ylim(len(devices) - 0.5, -0.5)
    axes.tick_params(length=0)
    axes.text(1.01, -0.16, "ms", transform=axes.transAxes, va="top")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def save_picture(figure: Figure, name: str) -> None:
    """Write a picture of few colours, which takes a third of the bytes."""
    figure.set_dpi(150)
    picture = Image.fromarray(render_pixels(figure)).quantize(64)
    picture.save(FOLDER / f"{name}.png", optimize=True)


def main() -> None:
    for name in sys.argv[1:] or ENTRIES:
        data = make_data(ENTRIES[name])
        text = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
        (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
        save_picture(draw(data), name)
        for one in data["placements"]:
            print(f"{name}: {one['label']} {one['latency_ms']:.4f} ms, {one['result']}")


if __name__ == "__main__":
    main()
