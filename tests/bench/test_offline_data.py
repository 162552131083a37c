"""Placements of results as datasets of Minari."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import read_rows, study, write_rows

from placement_gym import UserError
from placement_gym.bench.offline_data import export_minari
from placement_gym.bench.study.runner import run_study
from placement_gym.cli.main import main

minari: Any = pytest.importorskip("minari", reason="Minari is an extra")
TINY, RESNET = "mine/tiny-on-hsdag-paper-v0", "mine/resnet-on-hsdag-paper-v0"


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def rows_of(folder: Path, **values: Any) -> list[dict[str, Any]]:
    rows = read_rows(folder)
    return [row for row in rows if all(row[key] == value for key, value in values.items())]


def test_an_episode_has_the_placement_and_the_speed_up_of_a_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "export", str(folder), "--minari", "mine", "-q"]) == 0
    assert capsys.readouterr().out == f"{TINY}: 12 episodes\n{RESNET}: 12 episodes\n"
    for name, model in ((TINY, "tiny"), (RESNET, "resnet")):
        dataset = minari.load_dataset(name)
        env = dataset.recover_environment()
        rows = [row for row in rows_of(folder, model=model) if not row["error"]]
        for episode, row in zip(dataset, rows, strict=True):
            about = next(iter(dataset.storage.get_episode_metadata([episode.id])))
            assert (about["agent"], about["seed_of_agent"]) == (row["label"], row["seed"])
            assert about["latency_ms"] == pytest.approx(row["latency_ms"])
            np.testing.assert_allclose(episode.rewards, [np.log(row["speedup"])])
            np.testing.assert_array_equal(episode.observations["placement"][1], episode.actions[0])
            env.reset()
            assert env.step(episode.actions[0])[1] == episode.rewards[0]


def test_agents_that_search_again_give_all_that_their_runs_evaluated(
    folder: Path, tmp_path: Path
) -> None:
    (row,) = rows_of(folder, agent="annealing", model="tiny", seed=1)
    results = write_rows(tmp_path / "results", [row])
    assert export_minari(results, "mine", rerun=True, quiet=True)[TINY] > 10
    dataset = minari.load_dataset(TINY)
    returns = [episode.rewards.sum() for episode in dataset]
    assert max(returns) == pytest.approx(np.log(row["speedup"]))
    assert len({episode.actions.tobytes() for episode in dataset}) == len(returns)


def test_one_unit_per_step_is_an_episode_of_many_steps(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"env": "DevicePlacementPerUnitSim-v0", "models": ["tiny"]}
    run_study(study(agents=["random-blocks"], seeds=2, **changes), tmp_path, "serial", quiet=True)
    assert export_minari(tmp_path, "mine", quiet=True) == {TINY: 2}
    for episode, row in zip(minari.load_dataset(TINY), rows_of(tmp_path), strict=True):
        assert len(episode.actions) == 7
        assert episode.terminations.tolist() == [False] * 6 + [True]
        assert episode.rewards.sum() == pytest.approx(1.0 - 1.0 / row["speedup"])


def test_what_cannot_be_exported_is_said_with_the_remedy(folder: Path, tmp_path: Path) -> None:
    (row,) = rows_of(folder, agent="annealing", model="tiny", seed=1)
    results = write_rows(tmp_path / "results", [row])
    with pytest.raises(UserError, match="run a study of one first"):
        export_minari(write_rows(tmp_path / "none", []), "mine")
    measured = write_rows(tmp_path / "measured", [row | {"env": "DevicePlacement-v0"}])
    with pytest.raises(UserError, match="measured cannot be evaluated again"):
        export_minari(measured, "mine")
    own = write_rows(tmp_path / "own", [row | {"agent": "my_agent:make"}])
    with pytest.raises(UserError, match="without --rerun"):
        export_minari(own, "mine", rerun=True)
    with pytest.raises(UserError, match="letters, digits"):
        export_minari(results, "my data?")
    export_minari(results, "mine", quiet=True)
    with pytest.raises(UserError, match="`minari delete mine/tiny"):
        export_minari(results, "mine")
