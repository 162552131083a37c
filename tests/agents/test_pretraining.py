"""Trainings in folders: what is kept, how they go on, and what is refused."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from agents.common.archive import read_archive, write_archive
from agents.sequential import training
from agents.sequential.checkpoint import load_network
from agents.sequential.pretraining import defer_interrupt, pretrain
from agents.sequential.training import Trainer, TrainingSettings
from agents.sequential.training_folder import TrainingFolder
from placement_gym.cli.main import main
from placement_gym.errors import UserError
from placement_gym.files import FileError

SMALL = {
    **{"steps": 2, "problems": 2, "batch": 1, "evaluations": 2, "teacher_evaluations": 0},
    **{"hidden": 4, "rounds": 1, "validation": 1},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    pretrain(folder, SMALL, quiet=True)
    return folder


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def without_times(folder: Path) -> list[dict[str, Any]]:
    return [{**line, "seconds": 0.0} for line in read_metrics(folder)]


def test_a_training_leaves_a_network_metrics_and_its_state(whole: Path) -> None:
    lines = read_metrics(whole)
    assert [line["step"] for line in lines] == [0, 1, 2, 2]
    assert "loss" in lines[1]
    assert "validation_log_speedup" in lines[0]
    assert load_network(whole / "network.safetensors").settings == {"hidden": 4, "rounds": 1}
    assert list(whole.glob("events.out.tfevents.*"))


@pytest.mark.usefixtures("signals_on_the_main_stack")
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.step

    def interrupted(trainer: Trainer) -> dict[str, float]:
        signal.raise_signal(signal.SIGINT)
        return step(trainer)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"1 of 2 steps are kept .* the same command goes"):
        pretrain(tmp_path, SMALL, quiet=True)
    monkeypatch.setattr(Trainer, "step", step)
    with (tmp_path / "metrics.jsonl").open("a") as opened:
        opened.write('{"step": 2, "loss": 7.0}\n{"step": 1, "lo')
    assert pretrain(tmp_path, SMALL, quiet=True)["steps"] == 2
    assert without_times(tmp_path) == without_times(whole)
    network, other = (load_network(f / "network.safetensors") for f in (tmp_path, whole))
    for one, same in zip(network.parameters(), other.parameters(), strict=True):
        assert (one == same).all()


def test_a_finished_training_does_nothing_more(whole: Path) -> None:
    before = read_metrics(whole)
    assert pretrain(whole, SMALL, quiet=True)["steps"] == 2
    assert read_metrics(whole) == before


def test_the_command_continues_a_training_to_more_steps(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    words = [f"--set={key}={value}" for key, value in SMALL.items() if key != "steps"]
    assert main(["pretrain", "--out", str(folder), "--steps", "3", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3 of 3 steps in ")
    assert str(folder / "network.safetensors") in printed
    assert [line["step"] for line in read_metrics(folder)] == [0, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hidden": 8}, "holds a training with hidden=4, not 8: continue it"),
        ({"hiden": 8}, "did you mean 'hidden'"),
        ({"hidden": 8.5}, "without a fraction, as in hidden=64"),
        ({"batch": 0}, "batch must be greater than 0"),
        ({"learning_rate": "fast"}, "learning_rate is a number"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"method": "magic"}, "imitation"),
    ],
)
def test_other_settings_are_refused(settings: dict[str, Any], said: str, whole: Path) -> None:
    with pytest.raises(UserError, match=said):
        pretrain(whole, SMALL | settings, quiet=True)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.zip").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"state.zip is no state of a training"):
        pretrain(tmp_path, SMALL, quiet=True)


@pytest.mark.parametrize("problems", [None, [{"seed": 1}], [{"seed": "1"}], {}])
def test_a_state_without_its_problems_is_refused(problems: Any, tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path)
    folder.save(Trainer(TrainingSettings(hidden=4, rounds=1)))
    assert folder.load_settings()
    values = read_archive(folder.state)
    values["trainer"]["drawn"] = problems
    write_archive(folder.state, values)
    with pytest.raises(UserError, match="no state of a training"):
        folder.load()


def test_the_network_of_the_best_validation_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(training.TrainingSettings(hidden=4, rounds=1))
    grades = iter([0.1, 0.3, 0.2])
    monkeypatch.setattr(trainer, "validate", lambda: {"log_speedup": next(grades)})
    folder, kept = TrainingFolder(tmp_path), []
    for _ in range(3):
        folder.keep_if_best(trainer)
        kept.append((tmp_path / "network.safetensors").read_bytes())
        trainer.done += 1
    assert kept[0] != kept[1]
    assert kept[1] == kept[2]
    assert folder.best == 0.3


@pytest.mark.usefixtures("signals_on_the_main_stack")
def test_the_second_interrupt_is_not_deferred(request: pytest.FixtureRequest) -> None:
    """Also where the tests run in the background, which makes shells ignore the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with defer_interrupt() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((UserError, FileError), match="file"):
        pretrain(tmp_path / "file", SMALL, quiet=True)
