# White-box tests of bench.report
"""What the latencies of a problem are compared with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from studies import study

from placement_gym.bench import VALUES, identify_row, load_values
from placement_gym.bench.report import KnownLatencies, load_known_latencies
from placement_gym.bench.report.known_latencies import FILE, find_recorded, reopen_env
from placement_gym.bench.run import BenchEnvs, Json
from placement_gym.bench.study import run_task
from placement_gym.version import VERSION


@pytest.mark.parametrize("weight_share", [1.0, 0.9])
def test_device_that_cannot_hold_the_model_is_no_best_single(
    weight_share: float, tmp_path: Path
) -> None:
    devices = [{"name": name, "weight_share": weight_share} for name in ("CPU", "GPU")]
    task = study(models=["tiny"], devices=[devices], agents=["random"], budget=20).tasks()[0]
    with BenchEnvs() as envs:
        row = run_task(task, envs)
        (known,) = load_known_latencies([row], {task.problem: task}, tmp_path, envs).values()
        base = envs.get(task.env, task.make_kwargs).base
        fastest_ms = base.backend.evaluate(base.problem.single(0)).reference_ms
        fastest_ms /= base.singles.fastest().speedup
    assert known.best_single_ms == (pytest.approx(fastest_ms) if weight_share == 1.0 else None)


@pytest.mark.parametrize("changed", ["costs_fingerprint", "model_fingerprint"])
def test_rows_of_another_table_of_the_same_name_share_no_value(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, known = load_values(VALUES)[0], "placement_gym.bench.report.known_latencies"
    task = study(models=["tiny"], agents=["random-blocks"]).tasks()[0]
    with BenchEnvs() as envs:
        row = run_task(task, envs)
        own = identify_row(row)
        monkeypatch.setattr(
            f"{known}.find_best_known", lambda identity: value if identity == own else None
        )
        other = row | {changed: "0" * 16}
        assert list(find_recorded([row, row])) == [row["problem"]]
        assert find_recorded([row, other]) == find_recorded([other]) == {}
        assert reopen_env(task, [row, row], envs) is not None
        assert reopen_env(task, [row, other], envs) is None
        assert reopen_env(task, [other], envs) is None


FALSE_REFERENCES = [
    {"optimum_ms": 0.5, "bound_ms": 0.5},  # as 0.3.0 wrote them
    {"bound_ms": 0.5, "version": "0.3.0a1"},
    {"bound_ms": 9.0, "version": VERSION},
    {"bound_ms": 9.0, "version": VERSION, "placement": [0, 7]},
]


@pytest.mark.parametrize("false", FALSE_REFERENCES)
def test_a_folder_is_not_believed_what_its_placements_refute(false: Json, tmp_path: Path) -> None:
    task = study(models=["tiny"], agents=["random-blocks"], devices=["cpu+igpu"]).tasks()[0]
    with BenchEnvs() as envs:
        row = run_task(task, envs)

        def load() -> KnownLatencies:
            return load_known_latencies([row], {row["problem"]: task}, tmp_path, envs)[
                row["problem"]
            ]

        proven = load()
        assert proven.optimum_ms is not None
        (key,) = kept = json.loads((tmp_path / FILE).read_text())
        assert set(kept[key]) == {"bound_ms", "placement", "version"}
        (tmp_path / FILE).write_text(json.dumps({key: false}))
        assert load() == proven
        # the optimum is what the placement takes: without it and its run there is none
        (tmp_path / FILE).write_text(json.dumps({key: kept[key] | {"placement": None}}))
        row["latency_ms"] *= 2.0
        assert load().optimum_ms is None
