"""Objects by the names of their modules."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_name(source: str) -> Any:
    """Import what ``"package.module:name"`` names: one of several, without the others."""
    module, _, name = source.partition(":")
    return getattr(import_module(module), name)
