"""The table of releases is what its rows say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_table_of_releases_is_made_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("common", "releases"):
        sys.modules.pop(name, None)
    import releases

    rows = [*releases.read_columns(releases.ROWS)]
    assert {row["version"] for row in rows} >= {"0.1.0", "0.2.0"}
    text = releases.PAGE.read_text()
    assert text == releases.write_page(text, rows)
