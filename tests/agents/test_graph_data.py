"""Observations as graphs of PyTorch Geometric, and its convolutions in our encoder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learned import simulated
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import GATv2Conv, NNConv, SAGEConv

import agents
from agents.common import to_data
from agents.common.encoder import Encoder
from agents.common.graph_data import Graphs
from placement_gym.base.errors import UserError

PADDED = {"max_nodes": 80, "max_edges": 120}


def observe(model: str, **kwargs: Any) -> dict[str, Any]:
    return simulated(model, **PADDED, **kwargs).reset()[0]


def test_data_is_the_graph_without_padding() -> None:
    env = simulated("resnet", **PADDED)
    data = to_data(env.reset()[0])
    problem, table = env.problem, env.graph_table()[env.observer.graph_id]
    assert data.num_nodes == problem.n_units
    np.testing.assert_array_equal(data.edge_index, problem.units.quotient.edge_index)
    np.testing.assert_array_equal(data.x, table["x"][: problem.n_units])
    np.testing.assert_array_equal(data.placement, problem.single(problem.reference_device))
    assert data.graph_id.item() == env.observer.graph_id
    data.validate()


@pytest.mark.parametrize("devices", [False, True])
def test_a_batch_is_encoded_as_the_padded_observations_are(devices: bool) -> None:
    torch.manual_seed(0)
    encoder = Encoder(hidden=16)
    seen = [observe(model, observe_devices=devices) for model in ("tiny", "resnet")]
    seen.sort(key=lambda one: one["graph_id"].item())
    found = encoder(Batch.from_data_list([to_data(one) for one in seen]))
    rows = {key: torch.as_tensor(np.stack([one[key] for one in seen])) for key in seen[0]}
    torch.testing.assert_close(found, encoder(Graphs().batch(rows)[0]))
    torch.testing.assert_close(found[: int(seen[0]["node_mask"].sum())], encoder(to_data(seen[0])))


def test_an_observation_without_a_graph_names_the_option() -> None:
    with pytest.raises(UserError, match="observe_graph=True"):
        to_data(observe("tiny", observe_graph=False))


@pytest.mark.parametrize("conv", [SAGEConv, GATv2Conv])
def test_a_class_of_convolutions_is_accepted(conv: type[nn.Module]) -> None:
    encoder = Encoder(hidden=16, conv=conv)
    assert any(isinstance(module, conv) for module in encoder.modules())
    encoder(to_data(observe("tiny"))).sum().backward()
    assert all(one.grad is not None for one in encoder.parameters())


@pytest.mark.parametrize("conv", [NNConv, nn.Linear, dict])
def test_another_class_is_refused_with_what_it_must_accept(conv: type[Any]) -> None:
    with pytest.raises(UserError, match=r"conv\(in_channels, out_channels\).*layer\(x, edge_index"):
        Encoder(conv=conv)


def test_unknown_convolution_name_says_that_a_class_will_do() -> None:
    with pytest.raises(UserError, match=r"gat, gcn, gin.*SAGEConv"):
        Encoder(conv="sage")


def test_pytorch_geometric_is_imported_in_one_place() -> None:
    folder = Path(agents.__file__).parent
    found = [path for path in folder.rglob("*.py") if "torch_geometric" in path.read_text()]
    assert found == [folder / "common/pyg.py"]


@pytest.mark.slow
def test_import_hides_deprecations_and_keeps_warnings() -> None:
    code = "import warnings, agents.common.pyg\nwarnings.warn('seen', DeprecationWarning)"
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.stderr.endswith("DeprecationWarning: seen\n")
