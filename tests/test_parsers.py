# White-box tests of bench.report, cli
"""Every parser, given files that someone has changed: documented errors only, and at once."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

import numpy as np
import pytest
from learned import hsdag, vectorize_toy
from mutations import mutate
from published_workloads import DATA

from agents.common import load_weights, save_weights
from placement_gym.base import UserError
from placement_gym.bench.report.known_latencies import FILE as REFERENCES
from placement_gym.bench.report.known_latencies import load_references
from placement_gym.bench.run import ROWS, load_runs
from placement_gym.bench.study import Study
from placement_gym.cli.values import parse_seeds, parse_setting, positive_integer, positive_seconds
from placement_gym.envs.online import PlanTable
from placement_gym.hardware import parse_counts, parse_devices
from placement_gym.problem import Constraints, Placement
from placement_gym.problem.costs import CostGraph, CostTable, Workload, load_workload
from placement_gym.solvers import list_policy
from placement_gym.solvers.list_policy import N_STATISTICS, N_WEIGHTS, ListPolicy

SAVED = Path(__file__).parent / "data" / "saved"
POLICIES = Path(list_policy.__path__[0])
WORKLOAD = DATA / "latency-inputs" / "LayerGraphs" / "resnet50_inference.json"
DEVICES = [
    "CPU",
    {"name": "GPU", "roofline": "iGPU", "memory_bytes": 4e9, "properties": {"NUM_STREAMS": 2}},
    {"name": "CPU_FAST", "plugin": "CPU", "threads": 2, "weight_share": 0.5},
]
STUDY = {
    "env": "E",
    "models": ["a"],
    "agents": ["heft", {"name": "random", "kwargs": {"a": [1, {"b": 2}]}, "label": "mine"}],
    "seeds": [1, 2],
    "budget": 3,
    "devices": [None, DEVICES],
    "env_kwargs": {"horizon": 2},
    "published": {"x": {"a": 1.5}},
}
CONSTRAINTS = b"keep_off:\n  NPU: [a, 'type:Softmax']\ninputs: CPU\nmax_submodels: 2\n"
SMALL_STUDY = b"env: E\nmodels: [a]\nagents: [b]\nbudget: 3\n"
LIMIT_S = 2.0
MAX_MESSAGE = 5_000
DOCUMENTED = (UserError, argparse.ArgumentTypeError)
FAST, SLOW = 30, 770
"""Inputs for each of sixteen parsers."""


@dataclass(frozen=True)
class Parser:
    """What reads a file, and a valid one.

    Attributes:
        name: Of the file.
        content: A valid file.
        read: Reads a path and uses what it finds.
    """

    name: str
    content: bytes
    read: Callable[[Path], Any]


def read_workload(path: Path) -> None:
    workload = Workload.load(path)
    workload.units()
    table = workload.costs(workload.devices or parse_devices("CPU"))
    assert np.isfinite(table.transfer_ms).all()


def read_graph(path: Path) -> None:
    graph = load_workload(path)
    assert np.isfinite(graph.costs(graph.devices).transfer_ms).all()
    assert len(graph.units())


def read_costs(path: Path) -> None:
    table = CostTable.load(path)
    assert np.isfinite(table.transfer_ms).all()
    assert table.fingerprint


def read_study(path: Path) -> None:
    study = Study.load(path)
    for task in study.tasks()[:10]:
        assert task.key
        assert task.problem


def read_rows(path: Path) -> None:
    load_runs(path)
    for row in load_runs(path.parent):
        json.loads(row["problem"])


def read_policy(path: Path) -> None:
    policy = ListPolicy.load(path)
    with np.errstate(all="ignore"):
        means, spreads = policy.compute(np.zeros(N_STATISTICS))
    assert means.shape == spreads.shape == (N_WEIGHTS,)


def read_references(path: Path) -> None:
    for known in load_references(path).values():
        assert set(known) == {"bound_ms", "placement", "version"}


def read_words(path: Path) -> None:
    """Arguments of the command line and of ``gym.make``, a word of the file for each."""
    text = path.read_text(errors="surrogateescape")
    for word in text.replace("\0", " ").split("\n")[:8]:
        for parse in (
            *(parse_seeds, parse_setting, positive_integer, positive_seconds),
            *(parse_counts, parse_devices),
        ):
            try:
                parse(word)
            except DOCUMENTED:
                continue


def costs(checked: bool) -> bytes:
    """A cost table with its checksum or without."""
    table = SAVED / "analytic-costs.json"
    values = CostTable.load(table).to_json()
    del values["checksum"]
    return table.read_bytes() if checked else json.dumps(values).encode()


@pytest.fixture(scope="module")
def saved_weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file of weights."""
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    save_weights(hsdag(vectorize_toy()), path)
    return path.read_bytes()


PLAN_STAGES = [{"device": "CPU", "ms": 1.5, "load_ms": 0.1, "held_bytes": 10}]
PLANS = {
    "format": 1,
    "models": [{"name": "a", "rate": 2}],
    "devices": [{"name": "CPU", "memory_bytes": 100}],
    "plans": [[{"label": "CPU alone", "stages": PLAN_STAGES, "placement": None}]],
}
OWN_GRAPH = CostGraph(
    ms=[[1, 2], [3, np.inf], [1, 1]],
    edges=[[0, 1], [1, 2]],
    edge_bytes=1e6,
    devices=["CPU", {"name": "GPU", "memory_bytes": 10}],
    gb_per_s=[[1, np.inf], [2, 1]],
    memory_bytes=4,
)
PARSERS = (
    Parser("plan.json", (SAVED / "tiny-placement.json").read_bytes(), Placement.load),
    Parser("costs-checked.json", costs(True), read_costs),
    Parser("costs.json", costs(False), read_costs),
    Parser("plans.json", json.dumps(PLANS).encode(), PlanTable.load),
    Parser("workload.json", WORKLOAD.read_bytes(), read_workload),
    Parser("graph.json", json.dumps(OWN_GRAPH.to_json()).encode(), read_graph),
    Parser("devices.json", json.dumps(DEVICES).encode(), lambda path: parse_devices(str(path))),
    Parser("study.yaml", (SAVED / "study.yaml").read_bytes(), read_study),
    Parser("study.json.yaml", json.dumps(STUDY).encode(), read_study),
    Parser(ROWS, (SAVED / "study" / ROWS).read_bytes(), read_rows),
    Parser("constraints.yaml", CONSTRAINTS, Constraints.parse),
    Parser("constraints.json", json.dumps({"keep_on": {"GPU": ["a"]}}).encode(), Constraints.parse),
    Parser("policy.json", (POLICIES / "one.json").read_bytes(), read_policy),
    Parser(
        REFERENCES,
        b'{"a b c": {"bound_ms": 1.5, "placement": [0, 1], "version": "1"}}',
        read_references,
    ),
    Parser(
        "words.txt",
        b'0,2,5-7\nkey={"a": [1, 2]}\n12\n3.5\n1cpu+2acc@0.3\nCPU,GPU\ncpu+igpu\n',
        read_words,
    ),
)


def check_parser(parser: Parser, seed: int, n: int, folder: Path) -> int:
    """Read ``n`` changed files; returns how many were accepted.

    A file is read for at most ``LIMIT_S`` seconds of this thread, and any error is documented.
    """
    random, accepted, messages = Random(seed), 0, [""]
    path = folder / parser.name
    for number in range(n):
        path.write_bytes(mutate(parser.content, random))
        before = thread_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parser.read(path)
            accepted += 1
        except DOCUMENTED as error:
            messages.append(str(error))
        except Exception as error:
            raise AssertionError(f"{parser.name}, seed {seed}, number {number}") from error
        took_s = thread_time() - before
        assert took_s < LIMIT_S, f"{parser.name}, seed {seed}, number {number}: {took_s:.1f} s"
    assert max(map(len, messages)) < MAX_MESSAGE
    return accepted


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_changed_file_is_read_or_refused(parser: Parser, tmp_path: Path) -> None:
    (tmp_path / parser.name).write_bytes(parser.content)
    parser.read(tmp_path / parser.name)
    check_parser(parser, 0, FAST, tmp_path)


def test_changed_weights_are_read_or_refused(saved_weights: bytes, tmp_path: Path) -> None:
    model = hsdag(vectorize_toy())
    parser = Parser("model.safetensors", saved_weights, partial(load_weights, model))
    check_parser(parser, 0, FAST, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_changed_files_are_read_or_refused(
    saved_weights: bytes, tmp_path: Path
) -> None:
    accepted = {parser.name: check_parser(parser, 1, SLOW, tmp_path) for parser in PARSERS}
    model = hsdag(vectorize_toy())
    parser = Parser("model.safetensors", saved_weights, partial(load_weights, model))
    accepted[parser.name] = check_parser(parser, 1, SLOW, tmp_path)
    assert all(accepted.values()), "a file that is always refused tests nothing"


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("study.yaml", SMALL_STUDY + b"env_kwargs: &a {b: *a}", "its aliases make more than"),
        ("study.yaml", b"[" * 2_000, "too many levels"),
        ("study.yaml", b"- " * 5_000, "too many levels"),
        ("study.yaml", b"x" * 2_000_000, "more than 1048576 bytes"),
        ("study.yaml", SMALL_STUDY + b"seeds: 4000000000", "runs"),
        ("study.yaml", b"env: E\nmodels: [a]\nagents: [b]\nbudget: 1e40", "budget"),
        ("plan.json", b"[" * 10_000_000, "recursion limit exceeded at line 1"),
        ("plan.json", b'{"format": 1e400}', "format"),
    ],
)
def test_a_bomb_is_refused(name: str, content: bytes, fault: str, tmp_path: Path) -> None:
    load: Callable[[Path], Any] = Study.load if name == "study.yaml" else Placement.load
    load(SAVED / ("study.yaml" if name == "study.yaml" else "tiny-placement.json"))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=fault):
        load(tmp_path / name)


@pytest.mark.parametrize(
    "text", ["1cpu+" + "9" * 40 + "acc", "9" * 100_000 + "cpu+1acc", "200cpu+200acc"]
)
def test_more_devices_than_there_are_bits_for_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="more devices than 256"):
        parse_counts(text)


def test_many_seeds_are_refused() -> None:
    for text in ("0-9999999999", "0-99999,0-99999,5", "9" * 100_000):
        with pytest.raises(argparse.ArgumentTypeError, match="seeds"):
            parse_seeds(text)
