"""Exports for OpenVINO GenAI: one device, and the properties of each role."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import diamond_problem

from placement_gym.base.errors import UserError
from placement_gym.cli.main import main
from placement_gym.deployment.export_genai import export_for_genai, find_role
from placement_gym.problem.placement import Placement


def place(model: str, device: int = 1, **settings: str) -> Placement:
    """All units on one device."""
    problem = diamond_problem()
    devices = [replace(one, **settings) for one in problem.devices]
    placement = Placement.of(problem, problem.single(device))
    return replace(placement, model=model, devices=tuple(devices))


def read(folder: Path) -> tuple[str, dict[str, object]]:
    found: tuple[str, dict[str, object]] = runpy.run_path(str(folder / "arguments.py"))[
        "read_arguments"
    ]()
    return found


def test_roles_are_named_as_genai_names_their_files() -> None:
    names = ("language_model", "vision_embeddings_model", "vision_embeddings_merger_model", "model")
    assert [find_role(f"openvino_{name}") for name in names] == [
        "language_model", "vision_embeddings", "vision_embeddings_merger", "",
    ]  # fmt: skip


def test_a_pipeline_has_one_device_and_properties_of_roles(tmp_path: Path) -> None:
    export_for_genai(place("openvino_language_model"), tmp_path)
    export_for_genai(place("openvino_vision_embeddings_model", precision="f16"), tmp_path)
    roles = {
        "language_model": {"INFERENCE_PRECISION_HINT": "f32"},
        "vision_embeddings": {"INFERENCE_PRECISION_HINT": "f16"},
    }
    assert read(tmp_path) == ("GPU", {"MODEL_PROPERTIES": roles})
    export_for_genai(place("openvino_text_embeddings_model", device=0), tmp_path)
    with pytest.raises(ValueError, match="a pipeline has one device"):
        read(tmp_path)


def test_one_model_has_the_properties_of_the_pipeline(tmp_path: Path) -> None:
    place("openvino_model").save(tmp_path / "plan.json")
    words = ["export", str(tmp_path / "plan.json"), "--out", str(tmp_path / "out")]
    assert main([*words, "--to", "genai"]) == 0
    assert read(tmp_path / "out") == ("GPU", {"INFERENCE_PRECISION_HINT": "f32"})


def test_a_split_is_refused_with_the_remedy(tmp_path: Path) -> None:
    split = Placement.of(diamond_problem(), np.array([0, 1, 1, 1]))
    with pytest.raises(UserError, match=r"takes no affinities: run it by --to openvino"):
        export_for_genai(split, tmp_path)
