# White-box tests of agents, agents.common
"""Observations as graphs: one batch for encoders, or PyTorch Geometric's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learned import first_observation, several, simulated
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import GATv2Conv, NNConv, SAGEConv

import agents
from agents.common import Encoder, GraphBatch, MissingGraphError
from agents.common.encoder import CONVOLUTIONS
from agents.common.graphs import Graphs
from agents.pyg import read_data, to_data
from placement_gym.base import UserError
from placement_gym.envs import FEATURES, read_graph_id


def batch(*models: str) -> tuple[GraphBatch, torch.Tensor]:
    return Graphs().batch(first_observation(several(*models)))


def test_rows_of_the_same_graph_are_one_graph_of_the_batch() -> None:
    graphs, row = batch("tiny", "resnet", "tiny", "tiny")
    assert len(graphs.ids) == 2
    assert row[0] == row[2] == row[3] != row[1]


def test_a_batch_holds_the_graphs_without_padding() -> None:
    graphs, row = batch("resnet", "tiny")
    for model, index in zip(("resnet", "tiny"), row.tolist(), strict=True):
        quotient = simulated(model).problem.units.quotient
        nodes = slice(*graphs.ptr[index : index + 2].tolist())
        of_graph = graphs.batch[graphs.edge_index[0]] == index
        edges = (graphs.edge_index[:, of_graph] - nodes.start).numpy()
        np.testing.assert_array_equal(edges, quotient.edge_index)
        assert len(graphs.x[nodes]) == len(quotient)
        assert (graphs.batch[nodes] == index).all()


def test_a_table_gives_what_observations_give_and_the_masks() -> None:
    env = simulated("tiny", max_nodes=20, max_edges=30)
    observation = {key: torch.as_tensor(v)[None] for key, v in env.reset()[0].items()}
    seen, _ = Graphs().batch(observation)
    small = {key: observation[key] for key in ("graph_id", "node_mask", "placement", "step")}
    known, _ = Graphs(env.graph_table()).batch(small)
    for name in ("edge_index", "batch", "ptr", "node_mask"):
        assert torch.equal(getattr(seen, name), getattr(known, name))
    torch.testing.assert_close(seen.x, known.x)
    assert known.action_mask is not None
    assert known.action_mask.shape == (env.problem.n_units, 2)


def test_an_observation_without_a_graph_asks_for_the_table() -> None:
    observation, _ = simulated(observe_graph=False).reset()
    tensors = {key: torch.as_tensor(v)[None] for key, v in observation.items()}
    with pytest.raises(MissingGraphError, match="graph_table"):
        Graphs().batch(tensors)
    with pytest.raises(MissingGraphError, match="graph_table"):
        Graphs(simulated("resnet").graph_table()).batch(tensors)


def test_the_remedy_for_an_unknown_graph_helps_a_made_agent() -> None:
    model = agents.make("hsdag", simulated())
    other = simulated(devices="cpu+igpu")
    with pytest.raises(MissingGraphError, match=r"policy\.add_graphs\(env\.unwrapped.*make"):
        model.predict(other.reset()[0])
    model.policy.add_graphs(other.unwrapped.graph_table())
    assert other.action_space.contains(model.predict(other.reset()[0])[0])


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_embeddings_do_not_depend_on_what_else_is_in_the_batch(conv: str, directed: bool) -> None:
    torch.manual_seed(0)
    encoder = Encoder(hidden=16, conv=conv, directed=directed)
    both, row = batch("resnet", "tiny")
    alone, _ = batch("tiny")
    nodes = slice(*both.ptr[int(row[1]) : int(row[1]) + 2].tolist())
    torch.testing.assert_close(encoder(both)[nodes], encoder(alone), atol=1e-5, rtol=1e-4)


def test_a_directed_encoder_tells_producers_from_consumers() -> None:
    torch.manual_seed(0)
    graphs, _ = batch("tiny")
    turned = GraphBatch(**{**vars(graphs), "edge_index": graphs.edge_index.flip(0)})
    for directed in (True, False):
        encoder = Encoder(hidden=16, directed=directed)
        same = torch.allclose(encoder(graphs), encoder(turned), atol=1e-5)
        assert same != directed


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_block_that_is_switched_off_is_not_read(name: str) -> None:
    torch.manual_seed(0)
    graphs, _ = batch("tiny")
    changed = graphs.x.clone()
    changed[:, FEATURES[name]] += torch.rand_like(changed[:, FEATURES[name]])
    other = GraphBatch(**{**vars(graphs), "x": changed})
    without = Encoder([f for f in FEATURES if f != name], hidden=16)
    assert torch.equal(without(graphs), without(other))
    assert not torch.allclose(Encoder([name], hidden=16)(graphs), Encoder([name], hidden=16)(other))


def test_only_a_noisy_pass_drops_values() -> None:
    graphs, _ = batch("tiny")
    encoder = Encoder(hidden=16, dropout=0.5)
    assert torch.equal(encoder(graphs), encoder(graphs))
    assert not torch.equal(encoder(graphs, noisy=True), encoder(graphs, noisy=True))


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="fractal_dimension"):
        Encoder(["colour"])


def test_jointly_scaled_costs_show_which_device_is_faster() -> None:
    graphs, _ = batch("tiny", "resnet")
    cost = FEATURES["cost"]
    first, second = cost.start, cost.start + 1
    slower = graphs.x[:, first] > graphs.x[:, second]
    assert slower.any()
    assert not slower.all()
    joint = graphs.jointly_scaled
    busy = graphs.x[:, first] > 0
    assert ((joint[:, first] > joint[:, second]) == slower)[busy].all()
    assert not joint[:, first + 2 : cost.stop].any()
    alone = graphs.scaled
    assert ((alone[:, first] > alone[:, second]) != slower)[busy].any()
    others = [column for column in range(joint.shape[1]) if column not in range(*cost.indices(999))]
    assert torch.equal(joint[:, others], alone[:, others])


PADDED = {"max_nodes": 80, "max_edges": 120}


def observe(model: str, **kwargs: Any) -> dict[str, Any]:
    return simulated(model, **PADDED, **kwargs).reset()[0]


def test_data_is_the_graph_without_padding() -> None:
    env = simulated("resnet", **PADDED)
    data = to_data(env.reset()[0])
    problem, table = env.problem, env.graph_table()[env.observer.graph_id]
    assert data.num_nodes == problem.n_units
    np.testing.assert_array_equal(data.edge_index, problem.units.quotient.edge_index)
    np.testing.assert_allclose(read_data(data).x, table["x"][: problem.n_units], rtol=1e-6)
    np.testing.assert_array_equal(data.placement, problem.single(problem.reference_device))
    assert read_graph_id(data).item() == env.observer.graph_id
    data.validate()


@pytest.mark.parametrize("devices", [False, True])
def test_a_batch_is_encoded_as_the_padded_observations_are(devices: bool) -> None:
    torch.manual_seed(0)
    encoder = Encoder(hidden=16)
    seen = [observe(model, observe_devices=devices) for model in ("tiny", "resnet")]
    seen.sort(key=lambda one: one["graph_id"].item())
    found = encoder(read_data(Batch.from_data_list([to_data(one) for one in seen])))
    rows = {key: torch.as_tensor(np.stack([one[key] for one in seen])) for key in seen[0]}
    torch.testing.assert_close(found, encoder(Graphs().batch(rows)[0]))
    torch.testing.assert_close(
        found[: int(seen[0]["node_mask"].sum())], encoder(read_data(to_data(seen[0])))
    )


def test_an_observation_without_a_graph_names_the_option() -> None:
    with pytest.raises(UserError, match="observe_graph=True"):
        to_data(observe("tiny", observe_graph=False))


@pytest.mark.parametrize("conv", [SAGEConv, GATv2Conv])
def test_a_class_of_convolutions_is_accepted(conv: type[nn.Module]) -> None:
    encoder = Encoder(hidden=16, conv=conv)
    assert any(isinstance(module, conv) for module in encoder.modules())
    encoder(read_data(to_data(observe("tiny")))).sum().backward()
    assert all(one.grad is not None for one in encoder.parameters())


ACCEPTED = r"conv\(in_channels, out_channels\).*layer\(x, edge_index"


@pytest.mark.parametrize(
    ("conv", "remedy"),
    [*((one, ACCEPTED) for one in (NNConv, nn.Linear, dict)), ("sage", r"gat, gcn, gin.*SAGEConv")],
)
def test_another_convolution_is_refused_with_what_is_accepted(conv: Any, remedy: str) -> None:
    with pytest.raises(UserError, match=remedy):
        Encoder(conv=conv)


def test_pytorch_geometric_is_imported_in_one_place() -> None:
    folder = Path(agents.__file__).parent
    found = [path for path in folder.rglob("*.py") if "torch_geometric" in path.read_text()]
    assert found == [folder / "common/graphs.py"]


@pytest.mark.slow
def test_import_hides_deprecations_and_keeps_warnings() -> None:
    code = "import warnings, agents.common.graphs\nwarnings.warn('seen', DeprecationWarning)"
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.stderr.endswith("DeprecationWarning: seen\n")
