"""Training across generated problems, one update at a time, so that it can be stopped and resumed.

A training begins with a network that follows the cheapest plan. Each step visits a batch of
problems, new ones and earlier ones. Imitation raises the likelihood of the fastest placements that
are known: the answer of the multilevel placer, if it is asked, and what the search finds that the
network guides (self-labelling as in SLIM, Corsini et al. 2024, but labels are kept), refined by
moves. From these moves the network learns which ones make a placement cheaper under the decoder's
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.sequential.imitation import MAX_GRAD_NORM, compute_loss, compute_move_loss, join_logs
from agents.sequential.lessons import Examination, Lesson, draw_seed, make_lesson
from agents.sequential.network import Network
from agents.sequential.refining import Log
from placement_gym.env import DevicePlacementEnv
from placement_gym.errors import UserError, unknown_name

METHODS = ("imitation",)
MOVES = ("move.", "promise.")
"""Weights that say which moves are promising."""
MOVE_RATE, MOVE_BATCH = 3.0, 100
"""Learning rate for moves over that for labels, and moves of an update."""
FIRST_SHARE = 0.25
"""Of the first weights in what ``blend`` returns, chosen on validation problems."""
LAST_RATE = 0.02
"""Learning rate after all steps, over the first."""


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained.

    Attributes:
        seed: Of weights, problems and searches.
        steps: Updates over which the learning rate falls; more may follow at the last rate.
        problems: Generated problems that are kept at a time; the oldest makes room.
        renewal: Steps for each newly drawn problem.
        batch: Problems of a step.
        evaluations: Placements that the search of a problem evaluates when a step visits it.
        teacher_evaluations: Placements that the multilevel placer evaluates for the first label
            of a problem; 0 learns from the network's own searches alone.
        labels: How many of the fastest placements of a problem are imitated.
        astray: Weight of labels on the network's own way; see ``compute_loss``.
        moves: Moves that a visit tries from the fastest placement; 0 learns nothing of moves.
        learning_rate: Of Adam, at first.
        method: ``"imitation"`` of labels.
        hidden: Width of the encoder.
        rounds: Rounds of messages.
        validation: Problems of ``validate``.
    """

    seed: int = 0
    steps: int = 1000
    problems: int = 150
    renewal: int = 4
    batch: int = 8
    evaluations: int = 40
    teacher_evaluations: int = 0
    labels: int = 1
    astray: float = 0.0
    moves: int = 200
    learning_rate: float = 1e-3
    method: str = "imitation"
    hidden: int = 64
    rounds: int = 4
    validation: int = 48


class Trainer:
    """Trains a network on generated problems of the split ``train``.

    All that a step draws follows from the seed and the number of the step, so that a training goes
    on from ``state`` as if it had not been interrupted.

    Args:
        settings: See there.
        envs: Further problems, which are visited as often as generated ones.

    Attributes:
        network: The network.
        done: Steps so far.

    Raises:
        UserError: The method is unknown.
    """

    def __init__(self, settings: TrainingSettings, envs: Sequence[DevicePlacementEnv] = ()) -> None:
        if settings.method not in METHODS:
            raise unknown_name("method", settings.method, METHODS)
        self.settings, self.done = settings, 0
        self.network = self.make_network()
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        self.given = [Lesson(self.network, env) for env in envs]
        self.drawn: list[Lesson] = []
        self.examination: Examination | None = None

    def step(self) -> dict[str, float]:
        """Do one update.

        Returns:
            ``loss``, mean negative log-probability of a label's choice; ``move_loss``,
            cross-entropy of which moves paid; ``gain``, mean log of how
            much the visit made the fastest known placements faster; ``learning_rate``;
            ``sharpness`` of the greedy score; and the number of ``problems`` known.
        """
        rng = np.random.default_rng([self.settings.seed, self.done])
        if self.done % self.settings.renewal == 0 or len(self.drawn) < self.settings.batch:
            self.draw_lesson(rng)
        lessons = self.choose(rng)
        gains, logs = zip(*(self.visit(lesson, rng) for lesson in lessons), strict=True)
        loss, move_loss = self.update(lessons), self.update_moves(logs, rng)
        self.done += 1
        return {
            "loss": loss,
            "move_loss": move_loss,
            "gain": float(np.mean(gains)),
            "learning_rate": self.learning_rate(),
            "sharpness": self.network.sharpness.item(),
            "problems": float(len(self.given) + len(self.drawn)),
        }

    def draw_lesson(self, rng: np.random.Generator) -> None:
        """Draw a problem and ask the teacher; the oldest problem makes room."""
        lesson = make_lesson(self.network, draw_seed(rng))
        if self.settings.teacher_evaluations:
            lesson.ask_teacher(self.settings.teacher_evaluations)
        self.drawn = [*self.drawn, lesson][-self.settings.problems :]

    def choose(self, rng: np.random.Generator) -> list[Lesson]:
        """The problems of a step."""
        lessons = [*self.given, *self.drawn]
        size = min(self.settings.batch, len(lessons))
        return [lessons[i] for i in rng.choice(len(lessons), size, replace=False)]

    def visit(self, lesson: Lesson, rng: np.random.Generator) -> tuple[float, Log]:
        """Search for better labels; returns the log of how much faster the fastest became."""
        before = lesson.search.speedups.max(initial=0.0)
        lesson.placer.refresh()
        lesson.improve(self.settings.evaluations, rng)
        log = lesson.refine(self.settings.moves, rng)
        after = lesson.search.speedups.max(initial=0.0)
        return float(np.log(after / before)) if before else 0.0, log

    def update(self, lessons: Sequence[Lesson]) -> float:
        """Raise the likelihood of the labels; returns the loss before."""
        labels, astray = self.settings.labels, self.settings.astray
        losses = [compute_loss(lesson.search, labels, astray) for lesson in lessons]
        return self.descend(torch.stack(losses).mean(), self.learning_rate())

    def update_moves(self, logs: Sequence[Log], rng: np.random.Generator) -> float:
        """Learn which moves paid, a few at a time; returns the mean loss."""
        seen, paid = join_logs(logs)
        order, rate = torch.from_numpy(rng.permutation(len(seen))), MOVE_RATE * self.learning_rate()
        losses = [
            self.descend(compute_move_loss(self.network, seen[few], paid[few]), rate)
            for few in torch.split(order, MOVE_BATCH)
            if len(few)
        ]
        return float(np.mean(losses)) if losses else 0.0

    def descend(self, loss: Tensor, rate: float) -> float:
        """Take one step of the optimizer along the gradient of a loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), MAX_GRAD_NORM)
        self.optimizer.step()
        return loss.item()

    def learning_rate(self) -> float:
        """The rate of the next step: half a wave of a cosine."""
        passed = min(self.done / max(self.settings.steps, 1), 1.0)
        wave = 0.5 + 0.5 * np.cos(np.pi * passed)
        return float(self.settings.learning_rate * (LAST_RATE + (1.0 - LAST_RATE) * wave))

    def blend(self, share: float = FIRST_SHARE) -> Network:
        """Average the first weights and those of now (WiSE-FT, Wortsman et al. 2022).

        Imitation alone makes samples better, but the placement without noise worse; the average
        keeps both. What proposes moves is taken as it is now.

        Args:
            share: Of the first weights.
        """
        now, network = self.network.state_dict(), self.make_network()
        first = network.state_dict()
        network.load_state_dict(
            {
                name: last if name.startswith(MOVES) else share * first[name] + (1.0 - share) * last
                for name, last in now.items()
            }
        )
        return network

    def make_network(self) -> Network:
        """The network of the first step."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            network = Network(self.settings.hidden, self.settings.rounds)
        network.follow_plans()
        return network

    def validate(self) -> dict[str, float]:
        """Grade the placements of ``blend()`` without noise; see ``Examination.grade``."""
        if self.examination is None:
            self.examination = Examination(self.make_network(), self.settings.validation)
        self.examination.network.load_state_dict(self.blend().state_dict())
        return self.examination.grade()

    def state(self) -> dict[str, Any]:
        """All that a resumed training needs: plain values and tensors."""
        return {
            "settings": asdict(self.settings),
            "done": self.done,
            "network": {name: w.clone() for name, w in self.network.state_dict().items()},
            "optimizer": deepcopy(self.optimizer.state_dict()),
            "given": [lesson.state() for lesson in self.given],
            "drawn": [lesson.state() for lesson in self.drawn],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take what ``state`` returned, from a training with the same network and given problems.

        Raises:
            UserError: It is of another one.
        """
        try:
            self.network.load_state_dict(state["network"])
        except RuntimeError as error:
            raise UserError(
                "the training state is of another network; begin a new training"
            ) from error
        if len(state["given"]) != len(self.given):
            raise UserError("the training state is of other problems; begin a new training")
        self.optimizer.load_state_dict(state["optimizer"])
        self.done = int(state["done"])
        self.drawn = [make_lesson(self.network, int(kept["seed"])) for kept in state["drawn"]]
        for lesson, kept in zip(self.given, state["given"], strict=True):
            lesson.load_state(kept)
        for lesson, kept in zip(self.drawn, state["drawn"], strict=True):
            lesson.load_state(kept)
