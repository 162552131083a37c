"""Values from files, checked against a schema."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, field_validator

from placement_gym.base.errors import UserError
from placement_gym.base.schemas.reading import check


class Named(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def refuse(cls, name: str) -> str:
        raise ValueError(f"no agent {name}")


def test_half_of_a_surrogate_pair_in_a_refused_value_is_the_files_fault() -> None:
    with pytest.raises(UserError, match="not valid Unicode"):
        check(Named, {"name": "\ud83d"})
