"""The command line, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement_gym.cli.main import main

SIM = ["--env", "DevicePlacementSim-v0", "--model", "tiny"]


def test_json_is_one_document_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", *SIM, "--agents", "random,window", "--budget", "3"]
    assert main([*words, "--seeds", "0,1", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["model"] == "tiny"
    assert len(document["rows"]) == 2 + 2 * 2
    assert document["optimum_ms"] <= min(row["latency_ms"] for row in document["rows"])


def test_the_table_has_every_column_and_a_conclusion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *SIM, "--budget", "3", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for word in ("p90", "x ref", "x best", "subm.", "evals", "wall s", "optimum", "gap", "beats"):
        assert word in printed
    assert "beats the best single device" in printed


def test_settings_reach_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", *SIM, "--agents", "random", "--budget", "2", "--out", str(tmp_path)]
    assert main([*words, "--json", "--set", "granularity=op", "--set", "horizon=2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["env_kwargs"]["granularity"] == "op"
    assert document["env_kwargs"]["horizon"] == 2
    assert len(document["rows"][-1]["placement"]) == 13


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["compare", *SIM, "--agents", "nobody"], "random-blocks"),
        (["compare", *SIM, "--set", "granularity=layer"], "colocated"),
        (["compare", *SIM, "--set", "colour=red"], "colour"),
        (["compare", "--model", "gone.xml"], "resnet"),
        (["compare", "--model", "tiny", "--devices", "TPU"], "cpu-testbed"),
        (["compare", *SIM, "--budget", "0"], "at least 1"),
        (["evaluate", "--model", "tiny", "--placement", "gone.json"], "gone.json"),
    ],
)
def test_a_users_error_is_one_line_that_names_the_remedy(
    words: list[str],
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert remedy in error
    assert "Traceback" not in error


def test_another_models_placement_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", *SIM, "--devices", "cpu-testbed", "--budget", "3", "--out", str(tmp_path)])
    placement = str(tmp_path / "tiny-window-seed0.json")
    assert main(["evaluate", "--model", "bert-8", "--placement", placement]) == 2
    assert "'tiny'" in capsys.readouterr().err


def test_a_simulated_placement_can_be_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", *SIM, "--devices", "cpu-testbed", "--budget", "3", "--out", str(tmp_path)])
    capsys.readouterr()
    placement = str(tmp_path / "tiny-window-seed0.json")
    assert main(["evaluate", "--model", "tiny", "--placement", placement, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["n_submodels"] == values["n_submodels_expected"]


def test_agents_are_found_in_the_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "from agents.static import window\n\n\ndef make(env, seed):\n    return window(env, seed)\n"
    )
    (tmp_path / "my_own_agent.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *SIM, "--agents", "my_own_agent:make", "--budget", "2"]) == 0


def test_a_file_that_openvino_cannot_read_is_a_users_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.xml"
    broken.write_text("<net")
    assert main(["compare", "--model", str(broken), "--out", str(tmp_path)]) == 2
    assert "broken.xml" in capsys.readouterr().err


def test_devices_lists_machine_and_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    printed = capsys.readouterr().out
    assert "CPU" in printed
    assert "cpu-testbed-limited" in printed


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "--set", "granularity"])
