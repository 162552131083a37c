"""Plans behind a program's requests: a policy chooses the plan of each."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np

from placement_gym.backends.pipeline.stage_threads import Outputs
from placement_gym.base.errors import UserError, unknown_name
from placement_gym.envs.online.choosers import make_chooser
from placement_gym.envs.online.env import OnlineEnv
from placement_gym.envs.online.executor import PlanExecutor
from placement_gym.envs.online.kernel import State
from placement_gym.envs.online.observation import observe
from placement_gym.envs.online.plans import PlanTable
from placement_gym.envs.online.rules import BY_STATE, Decide, make_rule


class PlanServer:
    """Runs each request by the plan that a policy chooses for it; see ``serve_plans``.

    Args:
        executor: Runs the plans.
        decide: Chooses plans.
        pace: Largest pace of a device that it can see.
    """

    def __init__(self, executor: PlanExecutor, decide: Decide, pace: float) -> None:
        self.executor, self.decide, self.pace = executor, decide, pace
        self.lock = Lock()
        self.numbers = {model.name: i for i, model in enumerate(executor.plans.models)}

    def submit(self, model: str, inputs: Any) -> Future[tuple[Outputs, float]]:
        """Choose the plan of a request, and queue it; from any thread.

        Args:
            model: Its model's name.
            inputs: As ``Pipeline.submit`` takes them.

        Returns:
            The future outputs, and seconds until they were there. ``StageError`` is what a stage
            raised.

        Raises:
            UserError: There is no such model, or an input is wrong.
        """
        if model not in self.numbers:
            raise unknown_name("a model", model, self.numbers)
        number, tables = self.numbers[model], self.executor.tables
        with self.lock:  # requests arrive one after another
            state = self.executor.look()
            np.minimum(state.pace, self.pace, out=state.pace)
            plan = self.decide(state, number)
            return self.executor.submit(number, plan if tables.allowed[number, plan] else 0, inputs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for the requests that are queued, and end the devices' threads."""
        self.executor.__exit__()


def serve_plans(
    plans: PlanTable | str | Path,
    policy: Any,
    models: Mapping[str, Any] | None = None,
    pace: float = 2.0,
) -> PlanServer:
    """Serve several models on common devices, each request by the plan that a policy chooses.

    ```python
    with placement_gym.serve_plans("plans.json", PPO.load("policy.zip")) as server:
        outputs, seconds = server.submit("resnet", image).result()
    ```

    What other programs do to a device is seen by how much longer than planned its stages take.

    Args:
        plans: Those that the policy was trained with, ``env.unwrapped.plans``, or their file. Their
            times should be this machine's: ``measured=True`` takes them.
        policy: A model of SB3 that was trained on ``DevicePlacementOnline-v0``, or the name of a
            rule, as in ``"lookahead"``.
        models: Model or path by name, for what is not built in.
        pace: That of the environment in which the policy was trained.

    Raises:
        UserError: The policy was trained with other plans, there is no such rule, or a plan cannot
            be run.
        PlacementMismatchError: A plan was made for another model.
    """
    env = OnlineEnv(plans=plans, pace=pace)
    decide = make_decide(policy, env)
    return PlanServer(PlanExecutor(env.plans, models or {}), decide, pace)


def make_decide(policy: Any, env: OnlineEnv) -> Decide:
    """Make the function by which a policy decides; see ``serve_plans``.

    Args:
        policy: Of SB3, or the name of a rule.
        env: Has the plans, and the pace.
    """
    if isinstance(policy, str) and policy in BY_STATE:
        return BY_STATE[policy](env.tables, env.pace)
    chooser = make_rule(policy, env) if isinstance(policy, str) else policy
    space, expected = getattr(chooser, "observation_space", None), env.observation_space
    if space is not None and space != expected:
        raise UserError(
            f"the policy was trained with other plans or another pace: it sees {space.shape[0]} "
            f"numbers, these plans and pace {env.pace:g} give {env.parts['rate'].stop} with other "
            "bounds. Pass the plans of its environment, env.unwrapped.plans, or train it on these: "
            "gym.make('DevicePlacementOnline-v0', plans=FILE)"
        )
    choose = make_chooser(chooser)

    def decide(state: State, model: int) -> int:
        return int(choose(observe(env.tables, state, model)))

    return decide
