"""Where the published workloads lie."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data/dnn-partitioning"
