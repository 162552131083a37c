from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import openvino as ov
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from openvino import opset13 as ops
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

import placement_gym  # noqa: F401  registers the ids
from envs_registry import ENVS, register_envs

OWN_TESTS = {"DevicePlacementOnline-v0", "DevicePlacementStream-v0"}
"""Ids that do not place one model; see ``online`` and ``test_stream``."""
IDS = tuple(env["id"] for env in ENVS if env["id"] not in OWN_TESTS)
SIMULATED = tuple(env_id for env_id in IDS if "Sim" in env_id)
FAST = {"warmup": 1, "repeats": 2, "isolate": False}
QUICK = {env_id: {} if env_id in SIMULATED else FAST for env_id in IDS}

UNBOUNDED_FEATURES = {
    "A Box observation space minimum value is -infinity. This is probably too low.",
    "A Box observation space maximum value is infinity. This is probably too high.",
}
TWO_DIMENSIONAL = {
    f"Your observation {key} has an unconventional shape (neither an image, nor a 1D vector). "
    "We recommend you to flatten the observation to have only a 1D vector or use a custom policy "
    "to properly process the data."
    for key in ("x", "edges")
}
ONE_DEVICE = {
    "this machine has one device, CPU: using 'cpu-testbed', two virtual devices of one "
    "CPU. It tests methods and says nothing about a GPU."
}


Make = Callable[..., gym.Env[Any, Any]]


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a model of three units, whose eight placements are quickly measured."""
    inputs = ops.parameter((1, 8), np.float32, name="inputs")
    outputs = ops.add(ops.relu(inputs), ops.tanh(inputs))
    path = tmp_path_factory.mktemp("models") / "fork.xml"
    ov.save_model(ov.Model([ops.result(outputs)], [inputs], "fork"), path, False)
    return str(path)


@pytest.fixture
def make(fork: str) -> Make:
    """Makes an environment; a measured one on the small model."""

    def make_env(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
        model = "tiny" if env_id in SIMULATED else fork
        return gym.make(env_id, **({"model": model} | QUICK[env_id] | kwargs))

    return make_env


def allowed(env_id: str) -> set[str]:
    return UNBOUNDED_FEATURES | TWO_DIMENSIONAL | (set() if env_id in SIMULATED else ONE_DEVICE)


def texts(caught: Iterable[warnings.WarningMessage]) -> set[str]:
    plain = (re.sub(r"\x1b\[\d+m", "", str(warning.message)) for warning in caught)
    return {text.removeprefix("WARN: ") for text in plain}


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        *((env_id, {}) for env_id in IDS),
        ("DevicePlacementPerUnitSim-v0", {"start": "best"}),
        ("DevicePlacementPerUnitSim-v0", {"start": "random", "reward": "final"}),
    ],
)
def test_checks_of_gymnasium_and_sb3_pass_with_known_warnings_only(
    make: Make, env_id: str, kwargs: dict[str, Any]
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(make(env_id, **kwargs).unwrapped)
        check_env_for_sb3(make(env_id, **kwargs))
    assert texts(caught) <= allowed(env_id)


def test_the_four_ids_are_registered_two_as_deterministic() -> None:
    kinds = ("DevicePlacement", "DevicePlacementPerUnit")
    assert {env_id: gym.spec(env_id).nondeterministic for env_id in IDS} == {
        **{f"{kind}-v0": True for kind in kinds},
        **{f"{kind}Sim-v0": False for kind in kinds},
    }


def test_registering_again_restores_missing_ids_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, removed = IDS[1:], IDS[0]
    before = {env_id: gym.registry[env_id] for env_id in kept}
    monkeypatch.delitem(gym.registry, removed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_envs()
        register_envs()
    assert removed in gym.registry
    assert all(gym.registry[env_id] is before[env_id] for env_id in kept)


@pytest.mark.parametrize("env_id", IDS)
def test_an_unknown_argument_is_a_type_error(make: Make, env_id: str) -> None:
    with pytest.raises(TypeError, match="colour"):
        make(env_id, colour="blue")


@pytest.mark.parametrize("env_id", IDS)
def test_every_argument_has_a_default(env_id: str) -> None:
    module, _, name = str(gym.spec(env_id).entry_point).partition(":")
    parameters = inspect.signature(getattr(import_module(module), name)).parameters.values()
    assert parameters
    for parameter in parameters:
        assert parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD


@pytest.mark.parametrize("env_id", IDS)
def test_a_spec_in_json_reproduces_the_env(make: Make, env_id: str) -> None:
    devices = [{"name": "CPU", "threads": 1}, {"name": "CPU_B", "plugin": "CPU"}]
    own = {"start": "random"} if "PerUnit" in env_id else {"horizon": 3}
    env = make(env_id, devices=devices, granularity="op", max_nodes=20, max_edges=30, **own)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.spec == env.spec
    assert again.observation_space == env.observation_space
    assert again.action_space == env.action_space
    ours, theirs = env.reset(seed=7)[0], again.reset(seed=7)[0]
    for key in ours:
        np.testing.assert_array_equal(ours[key], theirs[key])


@pytest.mark.parametrize("env_id", IDS)
def test_info_keys_are_the_same_over_ids_and_steps(make: Make, env_id: str) -> None:
    env = make(env_id)
    infos = [make("DevicePlacementSim-v0").reset()[1]]
    for _ in range(2):
        infos.append(env.reset()[1])
        infos.append(env.step(env.action_space.sample())[4])
    assert [set(info) for info in infos] == [set(infos[0])] * 5


@pytest.mark.parametrize("env_id", SIMULATED)
def test_simulated_infos_are_finite_and_repeat(make: Make, env_id: str) -> None:
    env = make(env_id, devices="cpu-testbed-limited")
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(5)]
    runs = []
    for _ in range(2):
        infos = []
        for action in actions:
            env.reset(seed=0)
            infos.append(env.step(action)[4])
        runs.append(infos)
    for first, second in zip(*runs, strict=True):
        assert {key: str(value) for key, value in first.items()} == {
            key: str(value) for key, value in second.items()
        }
        numbers = [value for value in first.values() if isinstance(value, int | float)]
        assert np.isfinite(numbers).all()


@pytest.mark.slow
def test_the_prefixed_id_works_in_a_spawned_worker() -> None:
    envs = gym.make_vec(
        "placement_gym:DevicePlacementSim-v0",
        num_envs=1,
        vectorization_mode="async",
        vector_kwargs={"context": "spawn", "autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
        model="tiny",
    )
    try:
        _, start = envs.reset(seed=0)
        _, _, terminated, _, last = envs.step(np.zeros((1, 7), dtype=np.int64))
    finally:
        envs.close()
    assert terminated.all()
    np.testing.assert_array_equal(start["latency_ms"], last["final_info"]["latency_ms"])


@pytest.mark.parametrize("env_id", ["DevicePlacement-v0", "DevicePlacementPerUnitSim-v0"])
def test_every_render_mode_renders(
    make: Make, env_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rendered = {}
    for mode in ("ansi", "rgb_array", "human"):
        env = make(env_id, render_mode=mode)
        env.reset(seed=0)
        env.step(env.action_space.sample())
        rendered[mode] = env.render()
    text, picture = rendered["ansi"], rendered["rgb_array"]
    assert isinstance(text, str)
    assert " units " in text
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert rendered["human"] is None
    assert " units " in capsys.readouterr().out
