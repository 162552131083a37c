"""The pages of results: their rows, the commands that make them, and of which version they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from common import RESULTS, load_rows

from placement_gym.base import join_words
from placement_gym.version import VERSION

RELEASE = VERSION.partition(".dev")[0]


@dataclass(frozen=True)
class Page:
    """A page of ``docs/results``.

    Attributes:
        hours: Of one core, for all rows: measured where a page or its rows say so, else estimated.
        rows: Its files, relative to ``docs/results``, each with the script of this folder that
            makes it; empty if commands do.
        commands: What else makes rows. ``{out}`` is a folder for them, ``{results}`` is
            ``docs/results``, ``{inputs}`` a copy of dnn-partitioning.
        after: Commands that make pictures and documents from the new rows, before ``figures.py``.
        kept: Files of rows that are not made again, whose version the page says beside them.
        note: Why a page cannot be made by commands alone.
    """

    hours: float
    rows: Mapping[str, str]
    commands: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    note: str = ""


GYM, PICTURES = "placement-gym ", "python benchmarks/pictures.py "
PAGES: dict[str, Page] = {
    "measured.md": Page(
        9.0,
        {"measured-rows.jsonl": "", "measured-twin-rows.jsonl": ""},
        (f"{GYM}bench run measured --out {{out}}/measured",
         "cp {out}/measured/results.jsonl {out}/measured-rows.jsonl",
         "python benchmarks/twin.py --out {out}/twin",
         "cat {out}/twin/*/results.jsonl > {out}/measured-twin-rows.jsonl"),
        (f"{PICTURES}measured", "python docs/pictures/draw.py"),
        kept=("measured-limits-50-rows.jsonl", "measured-plans.jsonl"),
        note="it is measured, and wants an idle machine",
    ),
    "paper/report.md": Page(
        0.5,
        {"paper/results.jsonl.xz": ""},
        (f"{GYM}bench run paper --out {{out}}/paper --workers 1",),
        (f"{GYM}bench publish paper --out {{out}}/paper --to {{results}}/paper",
         f"{GYM}bench report paper --out {{results}}/paper",
         "python docs/_scripts/keep_views.py {results}/paper",
         "python docs/pictures/draw.py"),
    ),
    "index.md": Page(
        0.8,
        {"foreign-rows.jsonl": "foreign.py"},
        note="it needs torchvision, timm, Transformers and optimum-intel",
    ),
    "placement-bench-1.md": Page(
        0.7,
        {"placement-bench-1/results.jsonl.xz": "", "mismatch-rows.jsonl.xz": ""},
        (f"{GYM}bench run placement-bench-1 --out {{out}}/placement-bench-1 --workers 1",
         f"{GYM}bench run mismatch --out {{out}}/mismatch --workers 1"),
        (f"{GYM}bench publish placement-bench-1 --out {{out}}/placement-bench-1"
         " --to {results}/placement-bench-1",
         f"{GYM}bench publish mismatch --out {{out}}/mismatch --to {{out}}",
         "mv {out}/results.jsonl.xz {results}/mismatch-rows.jsonl.xz",
         f"{GYM}bench report mismatch --out {{out}}/mismatch"),
    ),
    "throughput.md": Page(
        1.6,
        {
            "throughput-rows.jsonl.gz": "algorithms.py bounds",
            "algorithms-rows.jsonl": "algorithms.py solvers",
            "throughput-measured-rows.jsonl": "throughput_measured.py",
        },
        kept=("pipelines-rows.jsonl",),
        note="a part is measured and wants an idle machine",
    ),
    "hsdag.md": Page(
        0.4,
        {
            "hsdag-rows.jsonl.gz": "hsdag.py raw",
            "hsdag-parts-rows.jsonl": "hsdag.py parts",
        },
        kept=("hsdag-folded-rows.jsonl", "hsdag-tried-rows.jsonl.gz"),
        note="what was tried on the way to 0.3.0, the published code's numbers, and ablations of"
        " 0.2.0 are not run again",
    ),
    "learning.md": Page(
        2.6,
        {"learning-rows.jsonl.gz": "learning.py", "stock-rows.jsonl": "stock.py"},
        after=(f"{PICTURES}learning", f"{PICTURES}stock"),
    ),
    "floors/floors.md": Page(
        2.0,
        {"floors/floors.jsonl.xz": "floors.py"},
        kept=("releases.jsonl.xz",),
        note="`python benchmarks/releases.py --run` adds a release",
    ),
    "published.md": Page(
        1.0,
        {
            "published-rows.jsonl.gz": "published.py",
            "published/runs.jsonl.gz": "",
            "go-joint-rows.jsonl": "go.py",
        },
        ("DNN_PARTITIONING={inputs} python examples/08_published.py --budget 200"
         " --data '${{DNN_PARTITIONING}}' --workers 1 --out {out}/published",
         "for study in $(find {out}/published -name study.yaml); do folder=$(dirname $study);"
         f" DNN_PARTITIONING={{inputs}} {GYM}bench publish $study --out $folder --to $folder; done",
         "find {out}/published -name results.jsonl.xz | sort | xargs xz -dc > {out}/runs.jsonl"),
        ("cp {out}/published/published.csv {out}/published/published.png {results}/published",),
        kept=("published/placeto-transfer-rows.jsonl", "go-scale-rows.jsonl",
              "go-transfer-rows.jsonl.xz", "learned-rows.jsonl"),
    ),
    "online.md": Page(
        2.5,
        {
            "stream-rows.jsonl.gz": "stream.py arms",
            "stream-floors-rows.jsonl.gz": "stream.py rules",
            "online/requests.jsonl": "online.py",
        },
        after=(f"{PICTURES}online",),
        kept=("stream-trainings-rows.jsonl", "stream-trained-rows.jsonl.gz",
              "stream-published-rows.jsonl.gz"),
    ),
}  # fmt: skip
"""Page -> its rows and commands, those that take least first."""


@cache
def find_origins(page: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the versions, and the commits, that made the rows of a page."""
    rows = [row for file in PAGES[page].rows for row in load_rows(RESULTS / file)]
    versions, commits = {row["version"] for row in rows}, {row["commit"][:8] for row in rows}
    return tuple(sorted(versions)), tuple(sorted(commits))


def describe_origin(page: str) -> str:
    """Say of which version, and commit, the rows of a page are."""
    parts = zip(("version", "commit"), find_origins(page), strict=True)
    return ", ".join(f"{name}{'s' * (len(of) > 1)} {join_words(of)}" for name, of in parts)


def is_made(page: str) -> bool:
    """Return whether all rows of a page are of this version, or of its development."""
    return all(version.partition(".dev")[0] == RELEASE for version in find_origins(page)[0])


def describe_rows(page: str) -> str:
    """A line of the last section of a page: the origin of its rows, and how long they take."""
    text = describe_origin(page)
    if is_made(page):
        return text
    return f"{text}; to make them again takes about {PAGES[page].hours:g} hours of a core"
