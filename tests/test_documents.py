"""What the documents point to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placement_gym.bench.study.shipped import STUDIES
from placement_gym.bench.study.spec import Study

ROOT = Path(__file__).parent.parent
FOLDERS = ("agents", "docs", "placement_gym")
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(path for name in FOLDERS for path in (ROOT / name).rglob("*.md")),
]
LINK = re.compile(r"!?\[[^]]*\]\(([^)#]+)\)")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    assert not [link for link in links if not (path.parent / link).exists()]


@pytest.mark.parametrize("name", sorted(path.stem for path in STUDIES.glob("*.yaml")))
def test_studies_can_be_read(name: str) -> None:
    study = Study.load(name)
    assert study.about
    assert study.tasks()
    for spec in study.specs:
        assert callable(spec.load())
