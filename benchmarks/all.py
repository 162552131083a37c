"""All pages of results: of which version they are, what they take, and the commands that make them.

    python benchmarks/all.py                                             # a table
    PIPEDREAM=DIR python benchmarks/all.py --out FOLDER --run paper,floors
    PIPEDREAM=DIR python benchmarks/all.py --out FOLDER --run all

``--run`` makes pages whose rows are of an earlier version, those that take least first. Rows are
kept in FOLDER, and every command does what is missing of them, so a second call continues where
the first was stopped. When all rows of a page are there they take the place of its former ones, and
the page is written. DIR holds the profiles of pipedream.
"""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from common import PARTITIONING, RESULTS, ROOT, make_parser
from result_pages import PAGES, Page, describe_origin, is_made
from summaries import print_table

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
    """A line of the table."""
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
    """The pages that are to be made, those that take least first."""
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
        replace_rows(about, out)
        for command in (*about.after, "python benchmarks/figures.py"):
            run(command, out, file)


def run(command: str, out: Path, printed: IO[str]) -> None:
    """Run a command in the root of the repository, by this Python and what is installed with it.

    Raises:
        CalledProcessError: It failed; rows until then are kept.
    """
    filled = command.format(out=out, inputs=PARTITIONING, results=RESULTS)
    print(f"  {filled}", flush=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(filled, shell=True, check=True, cwd=ROOT, stdout=printed, stderr=printed,
                   env={**os.environ, "PATH": path})  # fmt: skip


def find_made(rows: str, out: Path) -> Path:
    """The file of new rows, not packed, for a file of a page."""
    return out / Path(rows).name.removesuffix(".gz").removesuffix(".xz")


def replace_rows(about: Page, out: Path) -> None:
    """Put new rows, packed as the former ones are, in the place of those."""
    for file in about.rows:
        if (made := find_made(file, out)).exists():
            pack = PACKERS.get(Path(file).suffix, bytes)
            (RESULTS / file).write_bytes(pack(made.read_bytes()))


if __name__ == "__main__":
    main()
