"""Schemas of comparisons and of a report's references, as far as they are read again."""

from __future__ import annotations

from pydantic import FiniteFloat, RootModel

from placement_gym.base.schemas.reading import Fields, Name

Latency = FiniteFloat | None


class RowKey(Fields):
    """The key of a row."""

    key: Name


class ComparisonFields(Fields):
    """Which comparison a folder holds."""

    env: Name
    model: Name
    devices: list[Name]
    rows: list[RowKey]


class ReferenceFields(Fields):
    """The proven optimum of a problem, or a bound."""

    optimum_ms: Latency
    bound_ms: Latency


class ReferencesFile(RootModel[dict[str, ReferenceFields]]):
    """By model, costs and problem."""
