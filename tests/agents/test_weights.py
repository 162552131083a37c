"""Weights: files of them, what these hold, and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

import agents
from agents.common import load_weights, read_safetensors, save_weights
from agents.hsdag import HSDAGPolicy
from placement_gym.base import FileError, UserError

TENSORS = {"a.b": torch.arange(6.0).reshape(2, 3), "one": torch.tensor(3), "none": torch.empty(0)}


class Holder(torch.nn.Module):
    """A network that has these tensors."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.tensors = tensors

    def state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self.tensors


def make_file(header: object, numbers: bytes = b"") -> bytes:
    """A file with a header as it should be laid out, whatever the header says."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def state(dtype: str = "F32", shape: tuple[int, ...] = (1,), end: int = 4, begin: int = 0) -> bytes:
    """A file of four bytes whose header states one tensor."""
    return make_file({"a": {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}, b"1234")


def test_tensors_come_back(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    save_weights(Holder(TENSORS), file)
    arrays = read_safetensors(file)
    assert {name: (a.shape, a.dtype.name) for name, a in arrays.items()} == {
        "a.b": ((2, 3), "float32"),
        "one": ((), "int64"),
        "none": ((0,), "float32"),
    }
    assert all((array == TENSORS[name].numpy()).all() for name, array in arrays.items())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 40,
        make_file([]),
        make_file({"__metadata__": {"a": 1}}),
        state(shape=(2,), end=8),
        state(begin=4, end=0),
        state(dtype="O"),
        state(shape=(-1,)),
        state(dtype="F8_E4M3", shape=(4,)),
    ],
)
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    file.write_bytes(content)
    with pytest.raises(UserError, match="not a safetensors file, or damaged"):
        read_safetensors(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="gone"):
        read_safetensors(tmp_path / "gone.safetensors")


def test_counters_are_kept_beside_weights(tmp_path: Path) -> None:
    file, network = tmp_path / "weights.safetensors", torch.nn.BatchNorm1d(8)
    torch.nn.init.uniform_(network.weight)
    save_weights(network, file)
    arrays = read_safetensors(file)
    assert arrays["num_batches_tracked"].dtype.name == "int64"
    np.testing.assert_array_equal(arrays["weight"], network.weight.detach().numpy())


def test_tensors_that_share_memory_are_kept(tmp_path: Path) -> None:
    file, whole = tmp_path / "weights.safetensors", torch.arange(6.0)
    save_weights(Holder({"whole": whole, "part": whole[::2]}), file)
    arrays = read_safetensors(file)
    assert arrays["part"].tolist() == [0.0, 2.0, 4.0]
    assert arrays["whole"].tolist() == whole.tolist()


def toy() -> gym.Env[Any, Any]:
    return gym.make("placement_gym:DevicePlacementSim-v0", model="tiny", devices="hsdag-paper")


def weights_of(model: Any) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in model.policy.state_dict().values()])


def test_weights_are_saved_and_loaded_from_a_file(tmp_path: Path) -> None:
    env, file = toy(), tmp_path / "mine.safetensors"
    for name in ("placeto", "post", "rnn", "hdp", "doppler"):
        model = agents.make(name, env, 3)
        save_weights(model, file)
        assert torch.equal(weights_of(agents.make(name, env, weights=file)), weights_of(model))


@pytest.mark.parametrize("name", ["annealing", "list-policy", "heft"])
def test_an_agent_without_a_network_has_no_weights(name: str, tmp_path: Path) -> None:
    agent, file = agents.make(name, toy()), tmp_path / "mine.safetensors"
    for use in (save_weights, load_weights):
        with pytest.raises(UserError, match="has no network, and so no weights"):
            use(agent, file)
    assert not file.exists()


def test_weights_of_a_policy_are_saved_and_loaded_alone(tmp_path: Path) -> None:
    env, file = toy(), tmp_path / "mine.safetensors"
    first, other = (PPO(HSDAGPolicy, env, seed=seed, device="cpu") for seed in (0, 1))
    agents.save_weights(first.policy, file)
    agents.load_weights(other, file)
    assert torch.equal(weights_of(first), weights_of(other))


def test_wrong_weights_are_refused_with_the_remedy(tmp_path: Path) -> None:
    env, file = toy(), tmp_path / "mine.safetensors"
    with pytest.raises(FileError, match="absent"):
        agents.make("placeto", env, weights="absent.safetensors")
    save_weights(agents.make("placeto", env), file)
    with pytest.raises(UserError, match=r"mine\.safetensors does not fit this policy"):
        agents.make("hsdag", env, weights=file)
    file.write_text("nothing")
    with pytest.raises(UserError, match="not a safetensors file"):
        agents.make("hsdag", env, weights=file)
