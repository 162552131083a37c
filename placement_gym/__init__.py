"""Device placement of neural networks as a Gymnasium environment, measured with OpenVINO.

Everything in ``__all__`` is public; so are the modules of ``solvers``, and ``observation``,
``measured_env``, ``simulated_env``, ``per_unit``, ``vector`` and ``online.rules`` of ``envs``.
Names are imported when they are first used, so that ``import placement_gym`` stays quick; it
registers the environments.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from envs_registry import register_envs
from placement_gym.version import VERSION

if TYPE_CHECKING:
    from placement_gym.backends.pipeline.stage import StageError
    from placement_gym.base.errors import EngineError, PlacementGymError, UserError
    from placement_gym.bench.board.page import write_board
    from placement_gym.bench.compare import compare
    from placement_gym.bench.report.comparison import comparison_table
    from placement_gym.bench.report.scores import StudyResults
    from placement_gym.bench.report.study import report_study
    from placement_gym.bench.study.row_checks import validate
    from placement_gym.bench.study.runner import run_study
    from placement_gym.bench.study.spec import Study
    from placement_gym.deployment.compile import (
        Pipeline,
        apply_placement,
        compile_model,
        compile_phases,
    )
    from placement_gym.deployment.evaluate import evaluate_placement
    from placement_gym.deployment.export import export_phases, export_placement
    from placement_gym.deployment.fidelity import fidelity
    from placement_gym.deployment.plan import plan
    from placement_gym.deployment.several import Pipelines, split_placement
    from placement_gym.envs.env import DevicePlacementEnv
    from placement_gym.envs.episode import play_episode
    from placement_gym.envs.online.serving import serve_plans
    from placement_gym.envs.placement_env import placement_env
    from placement_gym.envs.placing import place
    from placement_gym.envs.twin import make_twin
    from placement_gym.hardware.devices import DeviceSpec
    from placement_gym.models import load as load_model
    from placement_gym.problem.costs.table import CostTable
    from placement_gym.problem.placement import Placement, PlacementMismatchError

__version__ = VERSION
__all__ = [
    "CostTable",
    "DevicePlacementEnv",
    "DeviceSpec",
    "EngineError",
    "Pipeline",
    "Pipelines",
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
    "make_twin",
    "place",
    "placement_env",
    "plan",
    "play_episode",
    "report_study",
    "run_study",
    "serve_plans",
    "split_placement",
    "validate",
    "write_board",
]

SOURCES = {
    "CostTable": "problem.costs.table",
    "DevicePlacementEnv": "envs.env",
    "DeviceSpec": "hardware.devices",
    "EngineError": "base.errors",
    "Pipeline": "deployment.compile",
    "Pipelines": "deployment.several",
    "Placement": "problem.placement",
    "PlacementGymError": "base.errors",
    "PlacementMismatchError": "problem.placement",
    "StageError": "backends.pipeline.stage",
    "Study": "bench.study.spec",
    "StudyResults": "bench.report.scores",
    "UserError": "base.errors",
    "apply_placement": "deployment.compile",
    "compare": "bench.compare",
    "comparison_table": "bench.report.comparison",
    "compile_model": "deployment.compile",
    "compile_phases": "deployment.compile",
    "evaluate_placement": "deployment.evaluate",
    "export_phases": "deployment.export",
    "export_placement": "deployment.export",
    "fidelity": "deployment.fidelity",
    "load_model": "models:load",
    "make_twin": "envs.twin",
    "place": "envs.placing",
    "placement_env": "envs.placement_env",
    "plan": "deployment.plan",
    "play_episode": "envs.episode",
    "report_study": "bench.report.study",
    "run_study": "bench.study.runner",
    "serve_plans": "envs.online.serving",
    "split_placement": "deployment.several",
    "validate": "bench.study.row_checks",
    "write_board": "bench.board.page",
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
