# White-box tests of backends.measured, models
"""An engine that crashes on files, and as it looks at models: ``python -m crashing_inspector``."""

from __future__ import annotations

import os
import signal
from typing import Any
from unittest.mock import patch

from placement_gym.backends.measured import inspector
from placement_gym.base.processes import serve
from placement_gym.models import load_model, spec


def crash(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def crash_on_files(model: str, *sizes: Any) -> Any:
    if model.endswith(".xml"):
        crash()
    return load_model(model, *sizes)


if __name__ == "__main__":
    with (
        patch.object(inspector, "query_primitives", crash),
        patch.object(spec, "load_model", crash_on_files),
    ):
        serve(inspector.Inspector)
