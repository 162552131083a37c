# White-box tests of agents, cli
"""What there is: devices, models and agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents import AGENTS
from agents.about import ABOUT
from placement_gym.bench.run import load_agent
from placement_gym.cli import main
from placement_gym.cli.lists import BUILT_IN as LISTED
from placement_gym.cli.lists import describe_options, describe_spec
from placement_gym.hardware import PRESETS, TESTBED_PRESETS
from placement_gym.models import BUILT_IN


def printed_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_devices_lists_machine_and_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    printed = capsys.readouterr().out
    assert "CPU" in printed
    assert "cpu-testbed-limited" in printed
    assert main(["devices", "-v"]) == 0
    assert "holds 50% of the weights" in capsys.readouterr().out


def test_devices_of_one_kind_differ_in_what_is_printed() -> None:
    for specs in PRESETS.values():
        words = [describe_spec(spec).partition(" ")[2] for spec in specs if spec.virtual]
        assert len(set(words)) == len(words)


def test_presets_say_what_runs_here(capsys: pytest.CaptureFixture[str]) -> None:
    presets = printed_json(capsys, "devices")["presets"]
    runs = {row["name"]: row["runs"] for row in presets}
    assert set(runs) == set(PRESETS)
    assert {runs[name] for name in TESTBED_PRESETS} == {"measured, simulated"}
    assert runs["hsdag-paper"] == "simulated only"


def test_every_built_in_model_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    names = [row["name"] for row in printed_json(capsys, "models")["models"]]
    assert set(BUILT_IN) <= set(names)
    assert set(LISTED) - {"NAME-fp16"} == set(BUILT_IN)


def test_every_agent_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*ABOUT] == [*AGENTS]
    assert [row["name"] for row in printed_json(capsys, "agents")["agents"]] == [*AGENTS]


def test_an_agents_options_have_defaults_and_meanings() -> None:
    options = describe_options(load_agent("prefix"))
    assert not {"env", "seed", "self"} & set(options)
    options = describe_options(load_agent("search"))
    assert options.keys() == {"seconds"}
    assert options["seconds"]["default"] is None
    assert options["seconds"]["meaning"].startswith("learn ends after this wall time")
    assert describe_options(load_agent("annealing"))["patience"]["default"] == 300
    learned = describe_options(load_agent("hdp"))
    assert learned["weights"]["meaning"].startswith("What the policy begins with")
    assert learned["learning_rate"] == {
        "default": 1e-3,
        "meaning": "A number or a function of the remaining progress.",
    }
    assert "attention" in learned["policy"]["meaning"]
    assert not learned.keys() & {"env", "settings", "kwargs"}
    json.dumps(learned, allow_nan=False)
