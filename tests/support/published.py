"""Where the published workloads lie, and the mark of tests that read them."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared/data/dnn-partitioning"
PUBLISHED = pytest.mark.skipif(not DATA.is_dir(), reason=f"no published workloads at {DATA}")
