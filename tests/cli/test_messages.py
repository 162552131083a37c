"""What a user who mistypes something reads: one line, the nearest word, the remedy."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path

import pytest

from placement_gym.base import warn_user
from placement_gym.cli import main
from placement_gym.models import load_model, save_model

SIM = ["--env", "DevicePlacementSim-v0", "--model", "tiny"]


NEAR = [
    ("compare SIM --agents heff", "heff", "heft", "module:attribute", "`placement-gym agents`"),
    ("compare -m tiny --env DevicePlacementSym", "DevicePlacementSym", "DevicePlacementSim-v0"),
    ("compare SIM --set horizn=2", "horizn", "horizon"),
    ("compare SIM --set schedule=lst", "lst", "list"),
    ("compare SIM --set reward=speedupp", "speedupp", "speedup", "neg_sqrt_latency"),
    ("compare SIM --set granularity=fuse", "fuse", "fused"),
    ("compare SIM --granularity fuse", "fuse", "fused"),
    ("compare SIM --seed 3", "--seed", "--seeds"),
    ("compare SIM --json=yes --modle tiny", "--modle", "--model"),
    ("plna -m tiny", "plna", "plan"),
    ("bench rnu paper", "rnu", "run"),
    ("bench run papers --out o", "papers", "paper"),
    ("bench run stdy.yaml --out o", "stdy.yaml", "study.yaml"),
    ("compare SIM --set costs=analytc", "analytc", "analytic"),
    ("compare -m synthetic-layered--500", "synthetic-layered--500", "synthetic-layered-1000"),
    ("compare ENV -m models", "models", "models/one.xml", "folder"),
    ("bench run misspelt_model.yaml --out o", "tinny", "tiny"),
    ("bench run misspelt_key.yaml --out o", "bugdet", "budget"),
    ("bench run misspelt_option.yaml --out o", "fil", "file", "'saved'"),
    ("compare SIM -d cpu+dgp", "cpu+dgp", "cpu+dgpu"),
    ("compare SIM -d GPUU,CPU", "GPUU", "GPU"),
    ("compare SIM -d misspelt.json", "thread", "threads", "misspelt.json", "'CPU'"),
    ("compare SIM -d gone.json", "gone.json", "none.json"),
    ("evaluate gone.json", "gone.json", "none.json"),
    ("compare -m tiny -d TPU", "TPU", "CPU", "presets cpu-testbed,"),
    ("plan -m tiny -d cpu-testbd", "cpu-testbd", "cpu-testbed"),
    ("plan -m resnt -d cpu-testbed", "resnt", "resnet"),
    ("plan -m my_modl.xml -d cpu-testbed", "my_modl.xml", "my_model.xml"),
    ("compare -m gone.xml", "gone.xml", "my_model.xml", "tiny, resnet,"),
    ("compare -m synthetic-layerd-500", "synthetic-layerd-500", "synthetic-layered-1000"),
    ("compare ENV -m family-atention-9", "family-atention-9", "family-attention-120-seed7"),
    ("view my_placment.json", "my_placment.json", "my_placement.json"),
    ("agents hsdg", "hsdg", "hsdag"),
]
"""What is typed, the wrong word, the nearest right one, and more that has to be said."""
REMEDIES = [
    ("compare -m tiny --seeds x", "--seeds", "'x'", "0 to 4", "0,1,2 or 3-5"),
    ("compare -m tiny --seeds ", "--seeds", "''", "0,1,2 or 3-5"),
    ("compare -m tiny --seeds 0", "--seeds", "'0'", "0,1,2 or 3-5"),
    ("compare -m tiny --seeds 2-0", "--seeds", "'2-0'", "0,1,2 or 3-5"),
    ("compare SIM --set granularity", "--set", "'granularity'", "KEY=VALUE", "granularity=op"),
    ("compare SIM --set model=resnet", "--set model", "--model"),
    ("compare SIM --set colour=red", "'colour'", "DevicePlacementSim-v0", "constraints, costs,"),
    ("compare SIM --set horizon=abc", "horizon", "'abc'", "integer of at least 1"),
    ("compare SIM --set horizon=2.5", "horizon", "2.5", "integer of at least 1"),
    ("compare SIM --set observe_graph=yes", "observe_graph", "'yes'", "True or False"),
    ("compare SIM --set noise=-1", "noise", "-1", "at least 0"),
    ("compare SIM --budget 0", "--budget", "'0'", "whole number of at least 1"),
    ("compare SIM --agents heft,,random", "--agents", "'heft,,random'", "random,annealing"),
    ("compare SIM --agents heft,heft", "'heft'", "remove one"),
    ("compare SIM --agents gone:make", "'gone'", "this folder", "installed"),
    ("compare SIM --agents nobody", "'nobody'", "random-blocks"),
    ("compare SIM --agents json:nothing", "'nothing'", json.__file__),
    ("compare SIM --out=", "--out", "a folder, as in results"),
    ("compare SIM --out empty.json", "--out", "'empty.json'", "folder"),
    ("compare SIM --out empty", "'empty'", "file", "name a folder"),
    ("compare SIM -d none.json", "none.json", "empty list", "CPU,GPU"),
    ("compare SIM -d CPU,CPU", "'CPU'", "twice", "distinct", "CPU,GPU"),
    ("compare SIM -d broken.json", "broken.json", "invalid JSON"),
    ("compare SIM -d empty.json", "empty.json", "devices", "list", "{}"),
    ("compare -m tiny -d GPU,CPU", "'GPU'", "this machine has CPU"),
    ("plan -m tiny -d GPU,CPU", "'GPU'", "driver", "right to use"),
    ("compare SIM random", "unexpected", "'random'"),
    ("compare", "--model", "missing", "`--model resnet`"),
    ("plan", "--model", "missing", "`--model resnet`"),
    ("compare ENV -m empty.onnx", "'empty.onnx'", "empty", "export it again"),
    ("compare -m tiny --env a:DevicePlacementSim-v0", "module", "'DevicePlacementSim-v0'"),
    ("compare -m synthetic-layered-100", "'synthetic-layered-100'", "in DevicePlacementSim-v0"),
    ("plan -m  -d cpu-testbed", "''", "a file that OpenVINO reads", "tiny, resnet,"),
    ("plan -m my_model.xml -d cpu-testbed", "cannot read my_model.xml", "Unable to read"),
    ("plan -m tiny --time-limit -3", "--time-limit", "'-3'", "seconds above 0"),
    ("plan -m tiny --time-limit inf", "--time-limit", "'inf'", "seconds above 0"),
    ("plan -m weightless.xml -d cpu-testbed", "'weightless.bin'", "weights", "missing"),
    (
        "plan -m strange_weights.xml -d cpu-testbed",
        "'strange_weights.bin'",
        "not the file",
        "copy both",
    ),
    ("plan -m tiny -d HETERO:GPU,CPU", "'HETERO:GPU'", "write GPU,CPU", "by HETERO"),
    ("plan -m tiny -d MULTI:GPU,CPU", "'MULTI:GPU'", "write GPU,CPU", "not a device"),
    ("compare SIM -d AUTO", "'AUTO'", "write GPU,CPU", "not a device"),
    ("plan -m tiny -hint throughput", "'-hint'", "--objective throughput"),
    ("plan -m tiny -b 4", "'-b'", "--shape"),
    ("plan -m tiny -nstreams 2", "'-nstreams'", "file of devices", "NUM_STREAMS"),
    ("plan -m tiny --precision=f16", "'--precision'", "file of devices", '"f16"'),
    ("plan -m tiny --sweep", "'--sweep'", "removed", "file of devices"),
    ("export my_placement.json --to genai", "'genai'", "removed", "GenAI pipeline"),
    ("report-machine my.json", "'report-machine'", "removed", "`check`"),
    ("fidelity -m tiny --placements few", "--placements", "'few'", "whole number of at least 1"),
    (f"bench run {'x' * 5000} --out o", "'xxx", "not a file", "measured,"),
    ("bench run twice.yaml --out o", "twice.yaml", "duplicate", "'budget'", "line 5"),
    ("bench run seeds.yaml --out o", "seeds.yaml", "'seeds'", "-1", "list of whole numbers"),
    ("bench run huge.yaml --out o", "huge.yaml", "more than 64 bits", "line 5"),
    ("bench run role.yaml --out o", "validation", "{model, devices}", "'a': 1"),
    ("compare ENV -m a_name_in_latin_\udcff.xml", "UTF-8", "rename"),
    ("evaluate bom.json", "bom.json", "not a placement file", "object"),
    ("bench run text.yaml --out o", "text.yaml", "'models'", "'tiny'", "[tiny]"),
    ("bench run binary.yaml --out o", "binary.yaml", "not valid YAML", "position 0"),
    ("bench run paper --out o --workers 0", "--workers", "'0'", "whole number of at least 1"),
    ("bench run paper --out o --timeout 0", "--timeout", "'0'", "seconds above 0"),
    ("bench run paper --out o --executor serial --workers 2", "workers", "processes", "'serial'"),
    ("bench validate --out o", "o has no results.jsonl", "run a study"),
    ("evaluate empty.json", "empty.json", "not a placement file", "object"),
    ("evaluate", "PLACEMENT", "missing"),
    ("view empty.json", "empty.json", "not a placement file"),
]
"""What is typed, and words of the error: what is wrong, and the remedy."""
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
    "huge.yaml": STUDY + b"\nseeds: 0x" + b"f" * 5000,
    "role.yaml": STUDY
    + b"\ndevices: [cpu+igpu]\nroles: {validation: [{devices: cpu+igpu, model: {a: 1}}]}",
    "a_name_in_latin_\udcff.xml": b"<net",
    "bom.json": BOM_UTF8 + b"{}",
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
    for name in ("weightless.xml", "strange_weights.xml"):
        save_model(load_model("tiny"), path / name)
    (path / "weightless.bin").unlink()
    (path / "strange_weights.bin").write_bytes(b"abc")
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


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        *((typed, words) for typed, *words in REMEDIES),
        *(
            (typed, [repr(wrong), f"did you mean {right!r}?", *words])
            for typed, wrong, right, *words in NEAR
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_a_users_error_is_one_line_that_names_what_is_wrong_and_the_remedy(
    typed: str,
    words: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    typed = typed.replace("SIM", "ENV -m tiny").replace("ENV", "--env DevicePlacementSim-v0")
    assert status_of([*typed.split(" "), "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("placement-gym")
    assert not [word for word in words if word not in line], line
    assert "environment creator" not in line


def test_words_of_the_process_are_checked_as_those_of_a_call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["placement-gym", "plna", "-m", "tiny"])
    with pytest.raises(SystemExit):
        main()
    assert "did you mean 'plan'?" in capsys.readouterr().err


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
