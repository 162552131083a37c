# White-box tests of solvers.list_policy
"""Values from files, checked against a schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import row_of_two
from pydantic import BaseModel, field_validator
from workload_files import contents, node

from placement_gym.base import UserError, write_json
from placement_gym.base.schemas import check, load_json
from placement_gym.bench.study import Study
from placement_gym.envs.online import PlanStage, PlanTable, ServingPlan
from placement_gym.hardware import parse_devices
from placement_gym.models import Member
from placement_gym.problem import Constraints, Placement
from placement_gym.problem.costs import CostGraph, CostTable, Workload
from placement_gym.solvers.list_policy import policy


class Named(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def refuse(cls, name: str) -> str:
        raise ValueError(f"no agent {name}")


def test_half_of_a_surrogate_pair_in_a_refused_value_is_the_files_fault() -> None:
    with pytest.raises(UserError, match="not valid Unicode"):
        check(Named, {"name": "\ud83d"})


READERS: dict[str, Callable[[Any], Any]] = {
    "placement file": Placement.load,
    "cost table": CostTable.load,
    "cost graph": CostGraph.load,
    "dnn-partitioning workload": Workload.load,
    "file of plans": PlanTable.load,
    "study file": Study.load,
    "list policy": policy.ListPolicy.load,
    "file of constraints": Constraints.parse,
    "list of devices": parse_devices,
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A file of each kind."""
    problem, costs = row_of_two()
    plans = ((ServingPlan("whole", (PlanStage(problem.device_names[0], 1.0, 0.1, 1),)),),)
    graph = CostGraph(ms=[[1.0, 2.0]], edges=[], edge_bytes=[], devices="CPU,GPU", gb_per_s=1.0)
    study = {"env": "DevicePlacementSim-v0", "models": ["tiny"], "agents": ["random"], "budget": 3}
    values = {
        "placement file": Placement.from_assignment(
            problem, np.zeros(problem.n_units, np.int64)
        ).to_json(),
        "cost table": costs.to_json(),
        "cost graph": graph.to_json(),
        "dnn-partitioning workload": contents([node(0)], []),
        "file of plans": PlanTable((Member("a"),), problem.devices, plans).to_json(),
        "study file": study,
        "list policy": load_json(Path(policy.__file__).parent / "one.json"),
        "file of constraints": Constraints(keep_on={"CPU": ["stem/*"]}).to_json(),
        "list of devices": ["CPU", "GPU"],
    }
    for kind, content in values.items():
        write_json(tmp_path / f"{kind}.json", content)
    return {kind: str(tmp_path / f"{kind}.json") for kind in values}


@pytest.mark.parametrize("kind", READERS)
def test_a_file_of_another_kind_is_named_by_its_kind(kind: str, files: dict[str, str]) -> None:
    READERS[kind](files.pop(kind))
    for other, file in files.items():
        with pytest.raises(UserError, match=f"is not .*{kind}.*: it is a {other}$"):
            READERS[kind](file)
