# White-box tests of base
"""Names that are gone: one clear error says what to use now."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

import agents
import placement_gym
from placement_gym import solvers
from placement_gym.base import UserError
from placement_gym.base.removed import REMOVED
from placement_gym.bench.run import AgentSpec
from placement_gym.cli import make_parser

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", REMOVED["agent"])
def test_an_agent_that_is_gone_names_one_in_its_place(name: str) -> None:
    assert name not in agents.AGENTS
    for find in (partial(agents.make, name, None), AgentSpec(name).load):
        with pytest.raises(UserError, match=f"'{name}' was removed: use ") as error:
            find()
        assert str(error.value).split(": use ")[1].split()[0] in agents.AGENTS


@pytest.mark.parametrize("name", REMOVED["name"])
def test_a_name_that_is_gone_says_so_on_import(name: str) -> None:
    package = solvers if name == "balance_loads" else placement_gym
    assert name not in dir(package)
    with pytest.raises(ImportError, match=f"'{name}' was removed: "):
        exec(f"from {package.__name__} import {name}")


def test_files_that_are_recommended_exist() -> None:
    remedies = [remedy for kind in REMOVED.values() for remedy in kind.values()]
    files = re.findall(r"[\w/]+\.(?:md|py)\b", " ".join(remedies))
    assert len(files) >= 4
    assert all((ROOT / file).is_file() for file in files)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("report-machine out.json", "use `devices` and `check`"),
        ("bench board", "use `bench run placement-bench-1`"),
        ("bench export", "minari"),
        ("bench known --update o", "benchmarks/known.py"),
        ("plan -m tiny --sweep", "file of devices"),
        ("plan -m x.xml --data-shape x[1,2]", "--inputs inputs.npz"),
        ("plan -m x.xml -data_shape x[1,2]", "--shape"),
    ],
)
def test_a_command_that_is_gone_says_what_to_use(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        make_parser().parse_args(words.split())
    printed = capsys.readouterr().err
    assert "was removed" in printed
    assert said in printed


def test_an_argument_that_is_gone_says_what_to_use() -> None:
    with pytest.raises(TypeError, match=r"'data_shapes' was removed: give inputs .*\(shapes\)"):
        placement_gym.plan("tiny", data_shapes={"x": [1, 2]})
