"""The entry points of ``gym.make`` that place one unit a step."""

from __future__ import annotations

from typing import Any

from placement_gym.envs.measured_env import MeasuredEnv
from placement_gym.envs.per_unit import PerUnitEnv, find_simulated
from placement_gym.envs.simulated_env import SimulatedEnv
from placement_gym.envs.twin import make_twin


def measured_per_unit(
    start: str | None = None,
    reward: str | None = None,
    observe: str = "graph",
    costs: str | None = None,
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnit-v0``: places one unit per step, measured with OpenVINO.

    ## Description
    The measured form of [DevicePlacementPerUnitSim-v0](per_unit.py). `costs="profiled"` measures
    times of operators and transfers once, which `observe="flat"` and `reward="saving"` need; then
    only the last placement of an episode is measured.

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacementPerUnit-v0", model="tiny", observe="flat", costs="profiled")
    ```

    Models, devices and measurements are those of [DevicePlacement-v0](env.py). `gym.make_vec` steps
    environments one after another.

    ## Action Space
    `Discrete(n_devices)`: the device of the current unit.

    ## Observation Space
    `Dict` of padded arrays, or with `observe="flat"` a `Box` of eight numbers for each device. See
    [DevicePlacementPerUnitSim-v0](per_unit.py#observation-space).

    ## Rewards
    `"improvement"`, which measures a placement at every step, `"saving"` or `"final"`, as in
    [DevicePlacementPerUnitSim-v0](per_unit.py#rewards).

    ## Starting State
    All units on the reference device, or another [start](per_unit.py#starting-state).

    ## Episode End
    The episode terminates after the last unit.

    ## References
    * Placeto (Addanki et al. 2019).

    ## Version History
    * v0: Initial version.

    Args:
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        observe: See ``PerUnitEnv``.
        costs: ``"profiled"``, needed by ``observe="flat"`` and ``reward="saving"``: times of
            operators and transfers are measured on this machine, once, and kept.
        final_reward: The reward of ``DevicePlacement-v0`` that ``reward="final"`` pays.
        kwargs: As for ``MeasuredEnv``.
    """
    base = MeasuredEnv(reward=final_reward, costs=costs, **kwargs)
    twin = None if costs is None else find_simulated(make_twin(base).backend)
    return PerUnitEnv(base, start, reward, observe, twin)


def simulated_per_unit(
    start: str | None = None,
    reward: str | None = None,
    observe: str = "graph",
    final_reward: str = "log_speedup",
    **kwargs: Any,
) -> PerUnitEnv:
    """``DevicePlacementPerUnitSim-v0``: places one unit per step, simulated.

    Args:
        start: See ``PerUnitEnv``.
        reward: See ``PerUnitEnv``.
        observe: See ``PerUnitEnv``.
        final_reward: The reward of ``DevicePlacementSim-v0`` that ``reward="final"`` pays.
        kwargs: As for ``SimulatedEnv``.
    """
    return PerUnitEnv(SimulatedEnv(reward=final_reward, **kwargs), start, reward, observe)
