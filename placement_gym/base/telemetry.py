"""OpenVINO's telemetry: left out of this package's own processes."""

from __future__ import annotations

import sys
from typing import Any

PACKAGE = "openvino_telemetry"


def leave_out_telemetry() -> None:
    """Have OpenVINO load as where its package for telemetry is not installed.

    Otherwise ``import openvino`` sends usage data from a separate process, while this one
    measures, and waits for it where a firewall drops it. A user's program is left unchanged.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault(PACKAGE, None)  # its import fails from now on
