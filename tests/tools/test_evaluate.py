"""Measuring a saved placement again."""

from __future__ import annotations

from typing import Any

import pytest
from testbed import CHESSBOARD, placement

from placement_gym.bench.run.environment import BenchEnv
from placement_gym.tools import evaluate


def test_the_environment_is_closed_when_measuring_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the device caught fire")

    closed: list[BenchEnv] = []
    monkeypatch.setattr(BenchEnv, "close", lambda bench_env: closed.append(bench_env))
    monkeypatch.setattr(evaluate, "choose_finalist", fail)
    with pytest.raises(RuntimeError, match="caught fire"):
        evaluate.evaluate_placement("tiny", placement("tiny", CHESSBOARD))
    assert len(closed) == 1
