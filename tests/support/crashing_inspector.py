"""An engine that crashes as it looks at a model: ``python -m crashing_inspector``."""

from __future__ import annotations

import os
import signal
from unittest.mock import patch

from placement_gym.backends.measured import inspection
from placement_gym.processes.serving import serve


def crash(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


if __name__ == "__main__":
    with patch.object(inspection, "query_primitives", crash):
        serve(inspection.Inspector)
