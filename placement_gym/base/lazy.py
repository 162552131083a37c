"""Names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from placement_gym.base.removed import explain_removal


def import_name(source: str) -> Any:
    """Import what ``"package.module:name"`` names: one of several, so that others stay unread."""
    module, _, name = source.partition(":")
    return getattr(import_module(module), name)


def export_lazily(
    package: str, sources: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Make ``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: Its name.
        sources: Name -> module below the package, with ``:attribute`` where that has another name.
    """

    def get(name: str) -> Any:
        if removal := explain_removal("name", name):  # an AttributeError says nothing on import
            raise ImportError(f"{package}: {removal}")
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = sources[name].partition(":")
        return getattr(import_module(f"{package}.{module}"), attribute or name)

    names = sorted(sources)
    return names, get, lambda: names
