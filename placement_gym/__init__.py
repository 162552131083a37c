"""Device placement of neural networks as a Gymnasium environment, measured with OpenVINO.

Everything in ``__all__`` is public; so are the modules ``observation``, ``entry_points``,
``wrappers``, ``vector`` and ``solvers``. Names are imported when they are first used, so that
``import placement_gym`` stays quick; it registers the environments.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envs_registry import register_envs
from placement_gym.version import VERSION

if TYPE_CHECKING:
    from placement_gym.bench.compare import compare
    from placement_gym.bench.report.comparison import comparison_table
    from placement_gym.bench.report.scores import StudyResults
    from placement_gym.bench.report.study import report_study
    from placement_gym.bench.study.replay import validate
    from placement_gym.bench.study.runner import run_study
    from placement_gym.bench.study.spec import Study
    from placement_gym.costs.table import CostTable
    from placement_gym.deploy import apply_placement, compile_model, compile_phases
    from placement_gym.devices import DeviceSpec
    from placement_gym.env import DevicePlacementEnv, placement_env
    from placement_gym.episode import play_episode
    from placement_gym.errors import EngineError, PlacementGymError, UserError
    from placement_gym.models import load as load_model
    from placement_gym.pipeline.pipeline import Pipeline
    from placement_gym.pipeline.stage import StageError
    from placement_gym.placement import Placement, PlacementMismatchError
    from placement_gym.tools.evaluate import evaluate_placement
    from placement_gym.tools.export import export_phases, export_placement
    from placement_gym.tools.fidelity import fidelity
    from placement_gym.tools.plan import plan

__version__ = VERSION
__all__ = [
    "CostTable",
    "DevicePlacementEnv",
    "DeviceSpec",
    "EngineError",
    "Pipeline",
    "Placement",
    "PlacementGymError",
    "PlacementMismatchError",
    "StageError",
    "Study",
    "StudyResults",
    "UserError",
    "apply_placement",
    "compare",
    "comparison_table",
    "compile_model",
    "compile_phases",
    "evaluate_placement",
    "export_phases",
    "export_placement",
    "fidelity",
    "load_model",
    "placement_env",
    "plan",
    "play_episode",
    "report_study",
    "run_study",
    "validate",
]

SOURCES = {
    "CostTable": "costs.table",
    "DevicePlacementEnv": "env",
    "DeviceSpec": "devices",
    "EngineError": "errors",
    "Pipeline": "pipeline.pipeline",
    "Placement": "placement",
    "PlacementGymError": "errors",
    "PlacementMismatchError": "placement",
    "StageError": "pipeline.stage",
    "Study": "bench.study.spec",
    "StudyResults": "bench.report.scores",
    "UserError": "errors",
    "apply_placement": "deploy",
    "compare": "bench.compare",
    "comparison_table": "bench.report.comparison",
    "compile_model": "deploy",
    "compile_phases": "deploy",
    "evaluate_placement": "tools.evaluate",
    "export_phases": "tools.export",
    "export_placement": "tools.export",
    "fidelity": "tools.fidelity",
    "load_model": "models:load",
    "placement_env": "env",
    "plan": "tools.plan",
    "play_episode": "episode",
    "report_study": "bench.report.study",
    "run_study": "bench.study.runner",
    "validate": "bench.study.replay",
}
"""Name -> module of the package, with ``:attribute`` where that is another name."""


def __getattr__(name: str) -> Any:
    if name not in SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = SOURCES[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_envs()
