"""What a user who mistypes something reads: one line, the nearest word, the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placement_gym.base.errors import warn_user
from placement_gym.cli.main import main

SIM = ["--env", "DevicePlacementSim-v0", "--model", "tiny"]


NEAR = [
    (
        "compare SIM --agents heff",
        "agent cannot be 'heff'; did you mean 'heft'? (your own agent is",
    ),
    ("compare -m tiny --env DevicePlacementSym-v0", "did you mean 'DevicePlacementSim-v0'?"),
    ("compare SIM --set horizn=2", "'horizn'; did you mean 'horizon'?"),
    ("compare SIM --set schedule=lst", "did you mean 'list'?"),
    ("compare SIM --set reward=speedupp", "'speedupp'; did you mean 'speedup'? It must be one of"),
    ("compare SIM --set granularity=fuse", "did you mean 'fused'?"),
    ("compare SIM --granularity fuse", "did you mean 'fused'?"),
    ("compare SIM --seed 3", "no option '--seed'; did you mean '--seeds'?"),
    ("compare SIM --json=yes --modle tiny", "no option '--modle'; did you mean '--model'?"),
    ("plna -m tiny", "no command 'plna'; did you mean 'plan'?"),
    ("bench rnu paper", "no command 'rnu'; did you mean 'run'?"),
    ("bench run papers --out o", "did you mean 'paper'?"),
    ("bench run stdy.yaml --out o", "did you mean 'study.yaml'?"),
    pytest.param(
        f"bench run {'x' * 5000} --out o",
        "not a file, and those of the package are measured,",
        id="a name too long for a path",
    ),
    ("compare SIM --set costs=analytc", "did you mean 'analytic'?"),
    ("compare -m synthetic-layered--500", "did you mean 'synthetic-layered-1000'?"),
    (
        "compare --env DevicePlacementSim-v0 -m models",
        "'models' is a folder: name a file in it; did you mean",
    ),
    ("bench run misspelt_model.yaml --out o", "no model 'tinny'; did you mean 'tiny'?"),
    ("bench run misspelt_key.yaml --out o", "'bugdet' is not known among"),
    (
        "bench run misspelt_option.yaml --out o",
        "agent 'saved' has no option 'fil'; did you mean 'file'",
    ),
    ("compare SIM -d cpu+dgp", "did you mean 'cpu+dgpu'?"),
    ("compare SIM -d GPUU,CPU", "did you mean 'GPU'?"),
    ("plan -m tiny -d cpu-testbd", "did you mean 'cpu-testbed'?"),
    ("plan -m resnt -d cpu-testbed", "no model 'resnt'; did you mean 'resnet'?"),
    ("plan -m my_modl.xml -d cpu-testbed", "did you mean 'my_model.xml'?"),
    ("compare -m synthetic-layerd-500", "did you mean 'synthetic-layered-1000'?"),
    (
        "compare --env DevicePlacementSim-v0 -m family-atention-120-seed7",
        "did you mean 'family-attention-120-seed7'?",
    ),
    ("view my_placment.json", "No such file or directory; did you mean 'my_placement.json'?"),
    ("agents hsdg", "did you mean 'hsdag'?"),
]
"""What is typed, and the nearest word that is suggested."""
REMEDIES = [
    ("compare -m tiny --seeds x", "a number of seeds, as in 5 for the seeds 0 to 4, or the seeds"),
    ("compare -m tiny --seeds ", "as in 0,1,2 or 3-5, not ''"),
    ("compare -m tiny --seeds 0", "as in 0,1,2 or 3-5, not '0'"),
    ("compare -m tiny --seeds 2-0", "as in 0,1,2 or 3-5, not '2-0'"),
    ("compare SIM --set granularity", "KEY=VALUE, as in granularity=op"),
    ("compare SIM --budget 0", "--budget: must be a whole number of at least 1, not '0'"),
    ("compare SIM --agents heft,,random", "names separated by commas, as in random,annealing"),
    ("compare SIM --agents heft,heft", "two agents are called 'heft': remove one"),
    ("compare SIM --set model=resnet", "--set model=... would contradict --model"),
    ("compare SIM --out=", "--out: must name a folder, as in results"),
    ("compare SIM -d none.json", "devices is an empty list: name one or more, as in CPU,GPU"),
    ("compare SIM --agents gone:make", "No module named 'gone' in this folder or among installed"),
    (
        "compare --env DevicePlacementSim-v0 -m empty.onnx",
        "'empty.onnx' is empty: write or export it again",
    ),
    ("plan -m  -d cpu-testbed", "no model ''"),
    ("bench run twice.yaml --out o", "not valid YAML: duplicate key 'budget' (line 5)"),
    ("bench run seeds.yaml --out o", "a list of whole numbers, not -1"),
    ("bench run text.yaml --out o", "at least one entry, as in [tiny], not 'tiny'"),
    ("compare SIM random", "'random' is one word too many"),
    ("compare", "-m/--model is missing, as in `--model resnet`"),
    ("plan", "-m/--model is missing, as in `--model resnet`"),
    ("plan -m tiny --time-limit -3", "--time-limit: must be a number of seconds above 0, not '-3'"),
    ("plan -m tiny --time-limit inf", "seconds above 0, not 'inf'"),
    ("fidelity -m tiny --placements few", "whole number of at least 1, not 'few'"),
    ("bench run paper --out o --workers 0", "--workers: must be a whole number of at least 1"),
    ("bench run paper --out o --timeout 0", "seconds above 0, not '0'"),
    ("bench run study.yaml --out o --executor serial --workers 2", "for executor 'processes', not"),
    ("compare SIM --agents nobody", "random-blocks"),
    (
        "compare -m tiny --env placement_gym:DevicePlacementSim-v0",
        "named without a module here: 'DevicePlacementSim-v0'",
    ),
    ("compare SIM --agents json:nothing", json.__file__),
    ("compare SIM --set colour=red", "DevicePlacementSim-v0 must be one of constraints, costs,"),
    ("compare SIM --set horizon=abc", "horizon must be an integer of at least 1, not 'abc'"),
    ("compare SIM --set horizon=2.5", "horizon must be an integer of at least 1, not 2.5"),
    ("compare SIM --set observe_graph=yes", "observe_graph must be True or False, not 'yes'"),
    ("compare SIM --set noise=-1", "noise must be a number of at least 0, not -1"),
    ("compare -m gone.xml", "one of tiny, resnet,"),
    ("compare -m synthetic-layered-100", "only to simulate, as in DevicePlacementSim-v0"),
    ("compare -m tiny -d TPU", "can split its CPU by the presets cpu-testbed,"),
    ("compare -m tiny -d GPU,CPU", "'GPU' is not available; this machine has CPU and can"),
    ("plan -m tiny -d GPU,CPU", "its driver is missing, or your right to use it"),
    ("compare SIM -d CPU,CPU", "distinct names, as in CPU,GPU: 'CPU' is named twice"),
    ("compare SIM -d broken.json", "broken.json: invalid JSON"),
    ("compare SIM -d empty.json", "empty.json: devices must be a list"),
    ("compare SIM -d misspelt.json", "misspelt.json: device 'CPU': a key cannot be 'thread'"),
    ("compare SIM -d gone.json", "cannot read 'gone.json': No such file"),
    (
        "bench run binary.yaml --out o",
        "binary.yaml is not a valid study file: not valid YAML: unaccept",
    ),
    ("bench validate --out o", "run a study first"),
    ("bench board results --out o", "'board' was removed: use `bench run placement-bench-1` and"),
    ("bench known --update results", "'known' was removed: run benchmarks/known.py"),
    ("bench export results", "'export' was removed: use DataCollector of minari"),
    ("evaluate empty.json", "empty.json is not a placement file: it needs an object"),
    ("evaluate gone.json", "cannot read 'gone.json'"),
    ("evaluate", "PLACEMENT is missing"),
    ("view empty.json", "empty.json is not a placement file"),
    ("compare SIM --out empty.json", "--out: is a folder here, and 'empty.json' looks like a file"),
    ("compare SIM --out empty", "'empty': it is a file; name a folder"),
    ("plan -m my_model.xml -d cpu-testbed", "OpenVINO cannot read my_model.xml: Unable to read"),
]
"""What is typed, and the heart of what is printed."""
STUDY = b"env: DevicePlacementSim-v0\nmodels: [tiny]\nagents: [random]\nbudget: 2"
FILES = {
    "empty": b"",
    "broken.json": b'[{"name": "CPU"',
    "empty.json": b"{}",
    "misspelt.json": b'[{"name": "CPU", "thread": 2}]',
    "binary.yaml": b"\x80\x81\xff",
    "my_model.xml": b"<net",
    "empty.onnx": b"",
    "none.json": b"[]",
    "my_placement.json": b"{}",
    "models/one.xml": b"<net",
    "twice.yaml": STUDY + b"\nbudget: 3",
    "seeds.yaml": STUDY + b"\nseeds: [-1]",
    "text.yaml": STUDY.replace(b"[tiny]", b"tiny"),
    "study.yaml": STUDY,
    "misspelt_model.yaml": STUDY.replace(b"tiny", b"tinny"),
    "misspelt_option.yaml": STUDY.replace(b"random", b"{name: saved, kwargs: {fil: a}}"),
    "misspelt_key.yaml": STUDY.replace(b"budget", b"bugdet"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that are wrong in several ways."""
    path = tmp_path_factory.mktemp("messages")
    for name, content in FILES.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)
    return path


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands make their folder of results before they find the error."""
    monkeypatch.chdir(tmp_path)


def status_of(words: list[str]) -> int | str | None:
    """The exit status of the command."""
    try:
        return main(words)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(("typed", "printed"), [*NEAR, *REMEDIES])
def test_a_users_error_is_one_line_that_names_the_remedy(
    typed: str,
    printed: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    quiet = ["--quiet"] if not typed.startswith(("plna", "bench rnu")) else []
    words = typed.replace("SIM", "--env DevicePlacementSim-v0 -m tiny").split(" ")
    assert status_of([*words, *quiet]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("placement-gym")
    assert printed in line
    assert "environment creator" not in line


def test_words_of_the_process_are_checked_as_those_of_a_call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["placement-gym", "plna", "-m", "tiny"])
    with pytest.raises(SystemExit):
        main()
    assert "no command 'plna'; did you mean 'plan'?" in capsys.readouterr().err


def test_the_one_device_warning_shows_no_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(options: object) -> None:
        warn_user("this machine has 2 devices\nor one")

    monkeypatch.setattr("placement_gym.cli.lists.run_models", warn)
    main(["models"])
    assert capsys.readouterr().err == "placement-gym: warning: this machine has 2 devices or one\n"


def test_verbose_shows_where_an_error_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *SIM, "--agents", "nobody", "--verbose"]) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.splitlines()[-1].startswith("placement-gym: agent must be one of")


def test_a_failed_run_of_a_study_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(
        "env: DevicePlacementSim-v0\nmodels: [tiny]\nbudget: 2\nseeds: 2\n"
        "devices: [cpu+igpu]\nagents: [random, saved]\n"
    )
    words = ["bench", "run", str(study), "--out", str(tmp_path), "--executor", "serial", "-q"]
    assert main(words) == 1
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("saved, tiny: ")
    assert "4 rows" in printed.out


@pytest.mark.slow
def test_another_models_placement_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", *SIM, "--devices", "cpu-testbed", "--budget", "3", "--out", str(tmp_path)])
    placement = str(tmp_path / "tiny-window-seed0.json")
    assert main(["evaluate", "--model", "bert-8", placement]) == 2
    assert "'tiny'" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--model", "--devices"])
def test_a_name_that_is_too_long_for_a_path_is_a_users_error(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("x" * 5000, "x" * 5000 + ".json"):
        command = ["compare", *SIM, option, text]
        assert main([*command, "--out", str(tmp_path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
