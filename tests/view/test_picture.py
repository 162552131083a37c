"""The picture of the placement that a page shows first."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import LIMITED, diamond_backend, diamond_problem

from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.backends.simulated.build import build_simulated_problem
from placement_gym.models.spec import ModelSpec
from placement_gym.view.data import make_view_data
from placement_gym.view.page import make_title
from placement_gym.view.scene import Scene, Shown


@pytest.mark.parametrize("placed", [[0, 0, 0, 1], [1, 1, 1, 1]])
def test_title_has_the_pages_latency_and_says_what_does_not_fit(
    placed: list[int],
) -> None:
    problem = diamond_problem(LIMITED)
    backend = diamond_backend(problem)
    scene = Scene(backend, (Shown("mine", np.array(placed)),))
    shown = make_view_data(scene)["placements"][0]
    expected = f"diamond, mine: {shown['latency_ms']:.4g} ms (simulated)"
    assert make_title(scene) == expected + (f", but {shown['error']}" if shown["error"] else "")
    assert bool(shown["error"]) == all(placed)


def test_title_begins_with_what_was_saved_and_ends_with_cautions() -> None:
    simulated = build_simulated_problem(ModelSpec("tiny", "op"), "cpu-testbed")
    backend = SimulatedBackend(simulated.problem, simulated.costs)
    shown = Shown("mine", simulated.problem.single(0), saved="Saved: CPU alone")
    first, _, last = make_title(Scene(backend, (shown,))).splitlines()
    assert first == "Saved: CPU alone"
    assert "test bed" in last
