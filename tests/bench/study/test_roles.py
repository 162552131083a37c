"""Train, validation and test problems of a study."""

from __future__ import annotations

from typing import Any

import pytest
from studies import study

from placement_gym.base.errors import UserError


def roles_of(**changes: Any) -> list[str]:
    return list(study(**changes).role_of.values())


def test_a_problem_without_a_role_is_a_test_problem() -> None:
    assert roles_of() == ["test", "test"]
    assert roles_of(roles={"validation": ["tiny"]}) == ["validation", "test"]


@pytest.mark.parametrize(
    "entry", ["${DATA}/a/net.json", "net", "a/net", {"model": "a/net", "devices": "x"}], ids=str
)
def test_model_is_named_as_in_the_study_or_by_its_paths_end(entry: Any) -> None:
    models = ["${DATA}/a/net.json", "${DATA}/b/other.json"]
    given = {"models": models, "devices": ["x"], "roles": {"validation": [entry]}}
    assert roles_of(**given) == ["validation", "test"]


def test_an_entry_may_mean_one_set_of_devices() -> None:
    given = {"models": ["tiny"], "devices": ["a", ["b", "c"]]}
    one = {"validation": [{"model": "tiny", "devices": ["b", "c"]}]}
    assert roles_of(**given, roles=one) == ["test", "validation"]
    assert roles_of(**given, roles={"validation": ["tiny"]}) == ["validation", "validation"]


def test_models_to_train_on_need_not_be_compared_on() -> None:
    assert roles_of(roles={"train": ["synthetic-layered-40", "tiny"]}) == ["train", "test"]


def test_half_a_name_is_no_name() -> None:
    with pytest.raises(UserError, match="not a problem of the study"):
        study(models=["${DATA}/a/net.json"], roles={"test": ["et"]})


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"validation": ["nothing"]}, "'nothing', which is not a problem"),
        ({"validations": ["tiny"]}, "did you mean 'validation'"),
        ({"validation": "tiny"}, "list of models"),
        ({"validation": ["tiny"], "test": ["tiny"]}, "both"),
        ({"validation": [{"model": "tiny"}]}, "devices"),
    ],
)
def test_wrong_roles_are_refused(roles: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        study(roles=roles)


def test_roles_do_not_change_the_keys_of_runs() -> None:
    keys = [task.key for task in study().tasks()]
    assert [task.key for task in study(roles={"validation": ["tiny"]}).tasks()] == keys
