"""An agent that always fails, for tests of what becomes of that."""

from typing import Any, NoReturn


def make(env: Any, seed: int) -> NoReturn:
    raise RuntimeError("nothing works today")
