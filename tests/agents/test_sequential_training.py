"""Training of the sequential placer: steps, labels, and going on after an interruption."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from slow_decoder import drawn_problem

from agents.sequential.imitation import compute_loss
from agents.sequential.lessons import Lesson
from agents.sequential.network import Network
from agents.sequential.training import MOVES, Trainer, TrainingSettings
from placement_gym.backends.simulated.backend import SimulatedBackend
from placement_gym.costs.semantics import Semantics
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError

TINY = TrainingSettings(
    steps=10, renewal=2, batch=2, evaluations=5, teacher_evaluations=0, hidden=8, rounds=1,
    validation=2,
)  # fmt: skip


def drawn_envs(n: int) -> list[DevicePlacementEnv]:
    semantics = Semantics("list", contention="none", order="priority")
    return [
        DevicePlacementEnv(SimulatedBackend(*drawn_problem(seed), semantics), observe_graph=False)
        for seed in range(n)
    ]


def is_of_moves(name: str) -> bool:
    return name.startswith(MOVES)


def weights_of(network: Network) -> torch.Tensor:
    """All weights but those that propose moves."""
    kept = [weight for name, weight in network.named_parameters() if not is_of_moves(name)]
    return torch.nn.utils.parameters_to_vector(kept).detach()


def weights(trainer: Trainer) -> torch.Tensor:
    return weights_of(trainer.network)


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def test_a_resumed_training_goes_on_as_if_it_had_not_been_interrupted() -> None:
    first = Trainer(TINY, drawn_envs(2))
    for _ in range(3):
        first.step()
    second = Trainer(TINY, drawn_envs(2))
    second.load_state(through_a_file(first.state()))
    expected, reached = first.step(), second.step()
    assert reached == expected
    for one, same in zip(second.network.parameters(), first.network.parameters(), strict=True):
        assert (one == same).all()
    assert second.validate() == first.validate()


def test_seeds_decide_what_is_learned() -> None:
    same, other = Trainer(TINY), Trainer(replace(TINY, seed=1))
    again = Trainer(TINY)
    for trainer in (same, again, other):
        trainer.step()
    assert (weights(same) == weights(again)).all()
    assert (weights(same) != weights(other)).any()


def test_the_oldest_problem_makes_room() -> None:
    trainer = Trainer(replace(TINY, problems=2, renewal=1))
    seeds = []
    for _ in range(4):
        trainer.step()
        seeds.append(trainer.drawn[-1].seed)
    assert [lesson.seed for lesson in trainer.drawn] == seeds[-2:]


def test_a_teacher_gives_the_first_label() -> None:
    (env,) = drawn_envs(1)
    lesson = Lesson(Trainer(TINY).network, env)
    assert not len(lesson.search.parents)
    lesson.ask_teacher(40)
    speedups, feasible = env.backend.evaluate_batch(lesson.search.parents)
    assert feasible.all()
    np.testing.assert_allclose(speedups, lesson.search.speedups)


def test_on_its_own_way_the_label_of_each_unit_is_still_what_is_learned() -> None:
    (env,) = drawn_envs(1)
    trainer = Trainer(replace(TINY, learning_rate=3e-2), [env])
    (lesson,) = trainer.given
    lesson.ask_teacher(40)
    label = lesson.search.parents[0]
    trainer.drawn, trainer.examination = [], None

    def agreement() -> float:
        lesson.placer.refresh()
        return float((lesson.placer.place() == label).mean())

    before = agreement()
    for _ in range(60):
        lesson.placer.refresh()
        trainer.descend(compute_loss(lesson.search, 1, astray=1.0), trainer.learning_rate())
    assert agreement() > max(before, 0.9)


def test_a_blend_lies_between_the_first_and_the_last_weights() -> None:
    trainer = Trainer(TINY)
    first = weights(trainer)
    trainer.step()
    for share in (1.0, 0.25, 0.0):
        expected = share * first + (1.0 - share) * weights(trainer)
        torch.testing.assert_close(weights_of(trainer.blend(share)), expected)
    moves = [weight for name, weight in trainer.blend(1.0).named_parameters() if is_of_moves(name)]
    now = [weight for name, weight in trainer.network.named_parameters() if is_of_moves(name)]
    for one, same in zip(moves, now, strict=True):
        assert (one == same).all()


def test_the_state_of_another_training_is_refused() -> None:
    state = Trainer(TINY, drawn_envs(1)).state()
    with pytest.raises(UserError, match="another network"):
        Trainer(replace(TINY, hidden=4), drawn_envs(1)).load_state(state)
    with pytest.raises(UserError, match="other problems"):
        Trainer(TINY).load_state(state)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UserError, match="method"):
        Trainer(replace(TINY, method="guessing"))
