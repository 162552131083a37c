"""The command line, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest
from fakes import diamond_costs, diamond_problem
from rich.console import Console

import placement_gym
from placement_gym.bench import compare
from placement_gym.bench.run.agents import find_modules_in
from placement_gym.cli.main import main
from placement_gym.cli.tables import profile_table
from placement_gym.cli.values import parse_seeds

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
        (["compare", *SIM, "--agents", "heff"], "did you mean 'heft'"),
        (["compare", *SIM, "--agents", "json:nothing"], json.__file__),
        (["compare", *SIM, "--env", "DevicePlacementSym-v0"], "mean 'DevicePlacementSim-v0'"),
        (["compare", *SIM, "--set", "horizn=2"], "did you mean 'horizon'"),
        (["bench", "run", "papers", "--out", "results"], "did you mean 'paper'"),
        (["compare", *SIM, "--set", "granularity=layer"], "colocated"),
        (["compare", *SIM, "--set", "colour=red"], "colour"),
        (["compare", "--model", "gone.xml"], "resnet"),
        (["compare", "--model", "tiny", "--devices", "TPU"], "cpu-testbed"),
        (["compare", *SIM, "--budget", "0"], "'budget' must be greater than or equal to 1"),
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
    assert "\n" not in error.strip()
    assert "environment creator" not in error


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["compare", "--seeds", "x"], "as in 0,1,2 or 0-2, not 'x'"),
        (["compare", "--seeds", ""], "as in 0,1,2 or 0-2, not ''"),
        (["compare", "--seeds", "2-0"], "as in 0,1,2 or 0-2, not '2-0'"),
        (["compare", "--set", "granularity"], "KEY=VALUE, as in granularity=op"),
        (["plan", "--time-limit", "-3"], "seconds above 0, not '-3'"),
        (["fidelity", "--placements", "few"], "whole number of at least 1, not 'few'"),
        (["bench", "run", "paper", "--out", "o", "--workers", "0"], "at least 1, not '0'"),
        (["pretrain", "--out", "o", "--minutes", "0"], "a number above 0, not '0'"),
        (["place", "--samples", "-1"], "at least 0, not '-1'"),
        (["bench", "run", "paper", "--out", "o", "--timeout", "0"], "seconds above 0, not '0'"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(
    words: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert remedy in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"), [("3", [3]), ("0-2", [0, 1, 2]), ("0, 4,2-4", [0, 4, 2, 3])]
)
def test_seeds_are_numbers_and_ranges(text: str, expected: list[int]) -> None:
    assert parse_seeds(text) == expected


def test_a_profile_names_the_slowest_units_of_each_device() -> None:
    problem = diamond_problem()
    console = Console(width=120)
    with console.capture() as captured:
        console.print(profile_table(problem, diamond_costs(problem)))
    (line,) = (line for line in captured.get().splitlines() if "GPU  " in line)
    assert "11.00" in line  # the whole model
    assert "d 5.00, c 3.00, b 2.00" in line


def test_a_defect_shows_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(**kwargs: Any) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr("placement_gym.bench.compare.compare", broken)
    with pytest.raises(TypeError, match="a defect"):
        main(["compare", *SIM, "--out", str(tmp_path)])


def test_a_failed_run_gives_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path)]
    assert main(["compare", *SIM, "--agents", "saved", "--budget", "2", *out]) == 1
    assert "failed" in capsys.readouterr().out


def test_a_single_device_that_cannot_hold_the_model_is_no_failure(tmp_path: Path) -> None:
    words = ["compare", *SIM, "--devices", "cpu-testbed-limited", "--agents", "heft"]
    assert main([*words, "--budget", "2", "--out", str(tmp_path)]) == 0


def test_a_failed_run_of_a_study_gives_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "env: DevicePlacementSim-v0\nmodels: [tiny]\nbudget: 2\nseeds: 1\n"
        "devices: [cpu+igpu]\nagents: [random, saved]\n"
    )
    words = ["bench", "run", str(study), "--out", str(tmp_path), "--executor", "serial"]
    assert main(words) == 1
    assert "2 rows" in capsys.readouterr().out


def test_a_study_gets_the_timeout_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        "placement_gym.bench.study.runner.run_study",
        lambda *args, timeout_s, **kwargs: given.append(timeout_s) or [],
    )
    words = ["bench", "run", "mismatch", "--out", str(tmp_path)]
    assert main([*words, "--timeout", "2.5"]) == main(words) == 0
    assert given == [2.5, None]


@pytest.mark.parametrize(
    ("words", "target", "kept"),
    [
        (["compare", *SIM], "bench.compare.compare", "rerun the command to continue"),
        (["plan"], "tools.plan.plan", "a profile that was complete is kept"),
        (["fidelity"], "tools.fidelity.fidelity", "a profile that was complete is kept"),
        (["profile"], "tools.granularity.build_backend_to_split", "measures again"),
        (
            ["evaluate", "--placement", "x.json"],
            "tools.evaluate.evaluate_placement",
            "nothing is kept",
        ),
        (
            ["bench", "run", "mismatch", "--out", "OUT"],
            "bench.study.runner.run_study",
            "finished runs are in OUT/results.jsonl; rerun the command to continue",
        ),
        (
            ["bench", "report", "paper", "--out", "OUT"],
            "bench.report.study.report_study",
            "the results in OUT/ are kept",
        ),
        (["bench", "validate", "--out", "OUT"], "bench.study.replay.validate", "OUT/ are kept"),
    ],
)
def test_an_interrupt_says_what_is_kept(
    words: list[str],
    target: str,
    kept: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"placement_gym.{target}", interrupted)
    assert main(words) == 130
    error = capsys.readouterr().err.splitlines()
    assert kept in error[-1]
    assert error[-1].startswith("placement-gym: interrupted: ")


def test_an_interrupt_that_knows_more_is_believed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt("3 of 8 runs are in OUT")

    monkeypatch.setattr("placement_gym.bench.study.runner.run_study", interrupted)
    assert main(["bench", "run", "mismatch", "--out", "OUT"]) == 130
    assert capsys.readouterr().err.endswith("interrupted: 3 of 8 runs are in OUT\n")


def test_an_interrupted_comparison_prints_what_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**kwargs: Any) -> dict[str, Any]:
        return {"rows": [], "interrupted": True}

    monkeypatch.setattr("placement_gym.bench.compare.compare", interrupted)
    assert main(["compare", *SIM, "--out", str(tmp_path)]) == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "0 finished runs" in printed.err


def test_another_models_placement_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", *SIM, "--devices", "cpu-testbed", "--budget", "3", "--out", str(tmp_path)])
    placement = str(tmp_path / "tiny-window-seed0.json")
    assert main(["evaluate", "--model", "bert-8", "--placement", placement]) == 2
    assert "'tiny'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_simulated_placement_can_be_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", *SIM, "--devices", "cpu-testbed", "--budget", "3", "--out", str(tmp_path)])
    capsys.readouterr()
    placement = str(tmp_path / "tiny-window-seed0.json")
    assert main(["evaluate", "--model", "tiny", "--placement", placement, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["n_submodels"] == values["n_submodels_expected"]


@pytest.mark.parametrize("start", ["script", "module"])
def test_modules_of_the_users_folder_are_found_and_hide_no_others(
    start: str, tmp_path: Path
) -> None:
    (tmp_path / "agents").mkdir()
    for name in ("agents/__init__.py", "colorsys.py"):
        (tmp_path / name).write_text("raise ImportError('the wrong one')\n")
    (tmp_path / "mine.py").write_text("import colorsys\nfrom agents import AGENTS\n")
    (tmp_path / "study.yaml").write_text(
        "env: DevicePlacementSim-v0\nmodels: [tiny]\nbudget: 2\n"
        "agents: ['mine:AGENTS', 'mine:missing']\n"
    )
    script = tmp_path / "bin" / "placement-gym"
    script.parent.mkdir()
    script.write_text("import sys\nfrom placement_gym.cli.main import main\nsys.exit(main())\n")
    command = [str(script)] if start == "script" else ["-m", "placement_gym"]
    done = subprocess.run(
        [sys.executable, *command, "bench", "run", "study.yaml", "--out", "results", "--trust"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("placement-gym: ")]
    assert "cannot import 'mine:missing': module 'mine' has no attribute 'missing'" in line
    assert f"'mine' was imported from {tmp_path / 'mine.py'}" in line


def test_the_users_folder_comes_after_this_package_wherever_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install is found by a hook that comes after all of ``sys.path``."""
    monkeypatch.setattr(sys, "path", ["first"])
    find_modules_in(tmp_path)
    find_modules_in(tmp_path)
    assert sys.path == ["first", str(Path(placement_gym.__file__).parent.parent), str(tmp_path)]


@pytest.mark.parametrize("option", ["--model", "--devices"])
def test_a_name_that_is_too_long_for_a_path_is_a_users_error(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("x" * 5000, "x" * 5000 + ".json"):
        command = ["compare", "--env", "DevicePlacementSim-v0", option, text]
        assert main([*command, "--out", str(tmp_path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_study_that_is_too_long_for_a_path_is_a_users_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "run", "x" * 5000, "--out", "never"]) == 2
    assert "a study that is not a file must be one of" in capsys.readouterr().err


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


def test_help_names_the_defaults_of_compare(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["compare", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert f"(default: {compare.DEFAULT_ENV})" in printed
    assert ", ".join(compare.SEARCH_AGENTS) in printed


def test_the_command_starts_without_heavy_modules() -> None:
    heavy = ("openvino", "torch", "matplotlib", "scipy", "numba", "rich")
    code = (
        "import sys\nimport placement_gym.cli.main as command\ncommand.make_parser()\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_console_script_is_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    (script,) = entry_points(group="console_scripts", name="placement-gym")
    assert script.value == "placement_gym.cli.main:main"
    with pytest.raises(SystemExit, match="0"):
        script.load()(["--version"])
    assert capsys.readouterr().out.strip() == version("placement-gym") == placement_gym.__version__
