"""Device placement of neural networks as a Gymnasium environment, measured with OpenVINO.

What ``__all__`` names is public, here and in ``placement_gym.solvers``; so are the modules
``observation``, ``online.rules`` and ``rewards`` of ``envs``. Names are imported when they are
first used, so that ``import placement_gym`` stays quick; it registers the environments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs_registry import register_envs
from placement_gym.base.lazy import export_lazily
from placement_gym.version import VERSION

if TYPE_CHECKING:
    from placement_gym.base.errors import EngineError as EngineError
    from placement_gym.base.errors import PlacementGymError as PlacementGymError
    from placement_gym.base.errors import UserError as UserError
    from placement_gym.bench.benchmark import benchmark as benchmark
    from placement_gym.bench.compare import compare as compare
    from placement_gym.bench.report.comparison import comparison_table as comparison_table
    from placement_gym.bench.report.scores import StudyResults as StudyResults
    from placement_gym.bench.report.study import report_study as report_study
    from placement_gym.bench.study.row_checks import validate as validate
    from placement_gym.bench.study.runner import run_study as run_study
    from placement_gym.bench.study.spec import Study as Study
    from placement_gym.deployment.compile import apply_placement as apply_placement
    from placement_gym.deployment.compile import compile_model as compile_model
    from placement_gym.deployment.compile import compile_phases as compile_phases
    from placement_gym.deployment.compile import compile_stages as compile_stages
    from placement_gym.deployment.evaluate import evaluate_placement as evaluate_placement
    from placement_gym.deployment.export import export_phases as export_phases
    from placement_gym.deployment.export import export_placement as export_placement
    from placement_gym.deployment.fidelity import fidelity as fidelity
    from placement_gym.deployment.plan import plan as plan
    from placement_gym.deployment.several import split_placement as split_placement
    from placement_gym.envs.env import DevicePlacementEnv as DevicePlacementEnv
    from placement_gym.envs.episode import play_episode as play_episode
    from placement_gym.envs.measured_env import MeasuredEnv as MeasuredEnv
    from placement_gym.envs.online.env import OnlineEnv as OnlineEnv
    from placement_gym.envs.per_unit import PerUnitEnv as PerUnitEnv
    from placement_gym.envs.per_unit_vector import PerUnitVectorEnv as PerUnitVectorEnv
    from placement_gym.envs.placement_env import placement_env as placement_env
    from placement_gym.envs.placing import place as place
    from placement_gym.envs.scaling import edge_index as edge_index
    from placement_gym.envs.simulated_env import SimulatedEnv as SimulatedEnv
    from placement_gym.envs.stream import StreamEnv as StreamEnv
    from placement_gym.envs.stream_vector import StreamVectorEnv as StreamVectorEnv
    from placement_gym.envs.twin import make_twin as make_twin
    from placement_gym.envs.vector import MeasuredVectorEnv as MeasuredVectorEnv
    from placement_gym.envs.vector import PlacementVectorEnv as PlacementVectorEnv
    from placement_gym.envs.vector import SimulatedVectorEnv as SimulatedVectorEnv
    from placement_gym.hardware.devices import DeviceSpec as DeviceSpec
    from placement_gym.models import load
    from placement_gym.problem.costs.cost_graph import CostGraph as CostGraph
    from placement_gym.problem.costs.table import CostTable as CostTable
    from placement_gym.problem.placement import Placement as Placement
    from placement_gym.problem.problem import PlacementMismatchError as PlacementMismatchError

    load_model = load

__version__ = VERSION
SOURCES = {
    "CostGraph": "problem.costs.cost_graph",
    "CostTable": "problem.costs.table",
    "DevicePlacementEnv": "envs.env",
    "DeviceSpec": "hardware.devices",
    "EngineError": "base.errors",
    "MeasuredEnv": "envs.measured_env",
    "MeasuredVectorEnv": "envs.vector",
    "OnlineEnv": "envs.online.env",
    "PerUnitEnv": "envs.per_unit",
    "PerUnitVectorEnv": "envs.per_unit_vector",
    "Placement": "problem.placement",
    "PlacementGymError": "base.errors",
    "PlacementMismatchError": "problem.problem",
    "PlacementVectorEnv": "envs.vector",
    "SimulatedEnv": "envs.simulated_env",
    "SimulatedVectorEnv": "envs.vector",
    "StreamEnv": "envs.stream",
    "StreamVectorEnv": "envs.stream_vector",
    "Study": "bench.study.spec",
    "StudyResults": "bench.report.scores",
    "UserError": "base.errors",
    "apply_placement": "deployment.compile",
    "benchmark": "bench.benchmark",
    "compare": "bench.compare",
    "comparison_table": "bench.report.comparison",
    "compile_model": "deployment.compile",
    "compile_phases": "deployment.compile",
    "compile_stages": "deployment.compile",
    "edge_index": "envs.scaling",
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
    "split_placement": "deployment.several",
    "validate": "bench.study.row_checks",
}
"""Name -> module of the package, with ``:attribute`` where that is another name."""
__all__, __getattr__, __dir__ = export_lazily(__name__, SOURCES)

register_envs()
