"""All pages of results: the version of their rows, the hours and commands that make them.

    python benchmarks/all.py                                             # a table
    PIPEDREAM=DIR python benchmarks/all.py --out FOLDER --run paper,floors
    PIPEDREAM=DIR python benchmarks/all.py --out FOLDER --run all

``--run`` makes pages whose rows are of an earlier version, the shortest first. A second call
continues with the rows in FOLDER. When all rows of a page are there, they replace its former ones,
and the page is written. DIR holds the profiles of pipedream.
"""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO

from common import PARTITIONING, RESULTS, ROOT, load_rows, make_parser
from summaries import print_table

from placement_gym.base import join_words
from placement_gym.version import VERSION

RELEASE = VERSION.partition(".dev")[0]


@dataclass(frozen=True)
class Page:
    """A page of ``docs/results``.

    Attributes:
        hours: Of one core, for all rows.
        rows: Its files, relative to ``docs/results``, each with the script of this folder that
            makes it; empty if commands do.
        commands: Other commands that make rows. ``{out}`` is a folder for them, ``{results}`` is
            ``docs/results``, ``{inputs}`` a copy of dnn-partitioning.
        after: Commands that make pictures and documents from the new rows, before ``figures.py``.
        kept: Files of rows that are not made again.
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
        {
            "measured-rows.jsonl": "",
            "measured-twin-rows.jsonl": "",
            "measured-profiles.jsonl": "profiles.py",
        },
        (f"{GYM}bench run measured --out {{out}}/measured",
         "cp {out}/measured/results.jsonl {out}/measured-rows.jsonl",
         "python benchmarks/twin.py --out {out}/twin",
         "cat {out}/twin/*/results.jsonl > {out}/measured-twin-rows.jsonl"),
        (f"{PICTURES}measured twin", "python docs/pictures/draw.py"),
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
         f"{GYM}bench report mismatch --out {{out}}/mismatch", f"{PICTURES}fixed"),
    ),
    "throughput.md": Page(
        1.6,
        {
            "throughput-rows.jsonl.gz": "algorithms.py bounds",
            "algorithms-rows.jsonl": "algorithms.py solvers",
            "throughput-measured-rows.jsonl": "throughput_measured.py",
        },
        after=(f"{PICTURES}throughput",),
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
        note="`python benchmarks/releases.py` adds a release",
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
        after=(f"{PICTURES}stream online",),
        kept=("stream-trainings-rows.jsonl", "stream-trained-rows.jsonl.gz",
              "stream-published-rows.jsonl.gz"),
    ),
}  # fmt: skip
"""Page -> its rows and commands."""
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    ".xz": lzma.compress,
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--run", default="", help="pages, as in paper,floors, or all")
    parser.add_argument("--out", type=Path, default=Path("results/all"), help="%(default)s")
    options = parser.parse_args()
    if not options.run:
        print_table(map(describe, sorted(PAGES, key=lambda page: PAGES[page].hours)))
        print(f"{sum(page.hours for page in PAGES.values()):.0f} hours of a core for all pages")
        return
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for page in choose(options.run):
        make(page, out)


def describe(page: str) -> dict[str, str]:
    about = PAGES[page]
    return {
        "page": page,
        "rows": describe_origin(page),
        "hours": f"{about.hours:g}",
        "made by": f"`--run {name(page)}`" + f": {about.note}" * bool(about.note),
    }


def name(page: str) -> str:
    """The short name of a page, as ``paper`` of ``paper/report.md``."""
    return page.partition("/")[0].removesuffix(".md")


def choose(names: str) -> list[str]:
    pages = sorted(PAGES, key=lambda page: PAGES[page].hours)
    known = [name(page) for page in pages]
    wanted = known if names == "all" else names.split(",")
    if unknown := set(wanted) - set(known):
        sys.exit(f"no page {', '.join(unknown)}: choose of {', '.join(known)}")
    return [page for page in pages if name(page) in wanted and not is_made(page)]


def make(page: str, out: Path) -> None:
    """Make the rows of a page that are missing, and the page."""
    about, printed = PAGES[page], out / f"{name(page)}.txt"
    scripts = [
        f"python benchmarks/{script} --rows {find_made(rows, out)}"
        for rows, script in about.rows.items()
        if script
    ]
    print(f"{page}: about {about.hours:g} hours; messages are in {printed}", flush=True)
    with printed.open("a") as file:
        for command in (*scripts, *about.commands):
            run(command, out, file)
        for rows in about.rows:  # packed as the former ones
            if (made := find_made(rows, out)).exists():
                pack = PACKERS.get(Path(rows).suffix, bytes)
                (RESULTS / rows).write_bytes(pack(made.read_bytes()))
        for command in (*about.after, "python benchmarks/figures.py"):
            run(command, out, file)


def run(command: str, out: Path, printed: IO[str]) -> None:
    """Run a command in the root of the repository, with this Python."""
    filled = command.format(out=out, inputs=PARTITIONING, results=RESULTS)
    print(f"  {filled}", flush=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(filled, shell=True, check=True, cwd=ROOT, stdout=printed, stderr=printed,
                   env={**os.environ, "PATH": path})  # fmt: skip


def find_made(rows: str, out: Path) -> Path:
    """The file of new rows, not packed, for a file of a page."""
    return out / Path(rows).name.removesuffix(".gz").removesuffix(".xz")


@cache
def find_origins(page: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the versions, and the commits, that made the rows of a page."""
    rows = load_rows(*PAGES[page].rows)
    versions, commits = {row["version"] for row in rows}, {row["commit"][:8] for row in rows}
    return tuple(sorted(versions)), tuple(sorted(commits))


def describe_origin(page: str) -> str:
    parts = zip(("version", "commit"), find_origins(page), strict=True)
    return ", ".join(f"{name}{'s' * (len(of) > 1)} {join_words(of)}" for name, of in parts)


def is_made(page: str) -> bool:
    """Return whether all rows of a page are of this version or its development."""
    return all(version.partition(".dev")[0] == RELEASE for version in find_origins(page)[0])


def describe_rows(page: str) -> str:
    """The origin of a page's rows, and how long they take."""
    text = describe_origin(page)
    if is_made(page):
        return text
    return f"{text}; to make them again takes about {PAGES[page].hours:g} hours of a core"


if __name__ == "__main__":
    main()
