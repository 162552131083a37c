"""Keywords that all environments share."""

from __future__ import annotations

from dataclasses import dataclass

from placement_gym.base import MAX_HORIZON, check_choice, check_flag, parse_count

RENDER_MODES = ["ansi", "human", "rgb_array"]


@dataclass(frozen=True, kw_only=True)
class EnvOptions:
    """Options of observations, rewards and episodes; ``DevicePlacementEnv`` documents each.

    They do not depend on what evaluates placements.
    """

    reward: str = "log_speedup"
    horizon: int = 1
    repair: bool = False
    max_nodes: int | None = None
    max_edges: int | None = None
    max_devices: int | None = None
    observe_graph: bool = True
    observe_devices: bool = False
    render_mode: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", parse_count("horizon", self.horizon, 1, MAX_HORIZON))
        check_flag("repair", self.repair)
        if self.render_mode is not None:
            check_choice("render_mode", self.render_mode, RENDER_MODES)
