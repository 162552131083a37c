"""The blocks of docs/how_to/other_libraries.md, those of libraries each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env

PAGE = Path(__file__).parent.parent / "docs" / "how_to" / "other_libraries.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
NAMES = (
    "sb3_contrib", "gymnasium", "torchrl", "tianshou", "skrl", "ray.rllib",
    "placement_gym", "minari",
)  # fmt: skip
"""The library of each block; the last but one registers the id for CleanRL's scripts."""
TO_INSTALL = ("torchrl", "tianshou", "skrl", "ray", "minari")
"""Libraries that the package does not install, but for an extra."""


def test_scripts_of_cleanrl_can_make_the_id_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    exec(BLOCKS[-2], {})
    env = gym.make("FlatPlacement-v0")
    assert (env.observation_space.dtype, env.observation_space.shape) == (np.float32, (16,))
    check_env(env)


def installed(name: str) -> bool:
    return find_spec(name.partition(".")[0]) is not None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), zip(NAMES, BLOCKS, strict=True), ids=NAMES)
def test_the_block_of_a_library_runs(name: str, code: str, tmp_path: Path) -> None:
    if not installed(name):
        pytest.skip(f"not installed; {PAGE.name} has the pip command")
    if name == "minari":
        pytest.importorskip("jax", reason="jax is of the extra test")
    (tmp_path / "block.py").write_text(code.replace("learn(1_000)", "learn(128)"))
    command = [sys.executable, "-W", "ignore", "block.py"]
    # small networks: further threads only wait for each other
    datasets = str(tmp_path / "datasets")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MINARI_DATASETS_PATH": datasets}
    found = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500
    )
    assert found.returncode == 0, found.stderr[-3000:]


def test_the_page_says_how_to_install_each_library() -> None:
    commands = re.findall(r"^pip install \"?(\w+)", PAGE.read_text(), re.MULTILINE)
    assert set(commands) == {*TO_INSTALL, "rl_zoo3"}
