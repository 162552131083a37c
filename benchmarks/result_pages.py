"""The pages of results: their rows, the commands that make them, and of which version they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from common import load_rows

from placement_gym.base import join_words
from placement_gym.version import VERSION

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
RELEASE = VERSION.partition(".dev")[0]


@dataclass(frozen=True)
class Page:
    """A page of ``docs/results``.

    Attributes:
        hours: Of one core, for all rows: measured where a page or its rows say so, else estimated.
        rows: Its files, relative to ``docs/results``.
        commands: They make what is missing of the rows. ``{out}`` is a folder for them, ``{data}``
            one of copies of dnn-partitioning and pipedream, ``{results}`` is ``docs/results``.
        after: Commands that make the page, or print its tables, from the new rows.
        kept: Files of rows that are not made again, whose version the page says beside them.
        note: Why a page cannot be made by commands alone.
    """

    hours: float
    rows: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    note: str = ""


PY = "python benchmarks/"
GYM = "placement-gym "
ONLINE = f"{PY}online.py --rows {{out}}/requests.jsonl"
WORKLOADS = "--data {data}/dnn-partitioning {data}/pipedream"
PARTITIONING = "--data {data}/dnn-partitioning"
LEARNING = f"{PY}learning.py --data {{data}}/dnn-partitioning --rows {{out}}/learning-rows.jsonl"
PUBLISHED = f"{PY}published.py --rows {{out}}/published-rows.jsonl"
PAGES: dict[str, Page] = {
    "measured.md": Page(
        9.0,
        ("measured-rows.jsonl", "measured-twin-rows.jsonl"),
        (f"{GYM}bench run measured --out {{out}}/measured",
         "cp {out}/measured/results.jsonl {out}/measured-rows.jsonl",
         f"{PY}twin.py --out {{out}}/twin",
         "cat {out}/twin/*/results.jsonl > {out}/measured-twin-rows.jsonl"),
        (
            f"{PY}measured_tables.py {{results}}/measured-rows.jsonl {{results}}/measured.png",
            "python docs/pictures/draw.py",
            f"{PY}figures.py",
        ),
        kept=("measured-limits-50-rows.jsonl", "measured-plans.jsonl"),
        note="it is measured, and wants an idle machine",
    ),
    "paper/report.md": Page(
        0.5,
        ("paper/results.jsonl.xz",),
        (f"{GYM}bench run paper --out {{out}}/paper --workers 1",),
        (
            f"{GYM}bench publish paper --out {{out}}/paper --to {{results}}/paper",
            f"{GYM}bench report paper --out {{results}}/paper",
            "python docs/_scripts/keep_views.py {results}/paper",
            "python docs/pictures/draw.py",
        ),
    ),
    "index.md": Page(
        0.8,
        ("foreign-rows.jsonl",),
        (
            f"{PY}foreign.py --out {{out}}/foreign",
            "cp {out}/foreign/rows.jsonl {out}/foreign-rows.jsonl",
        ),
        note="it needs torchvision, timm, Transformers and optimum-intel",
    ),
    "placement-bench-1.md": Page(
        0.7,
        ("placement-bench-1/results.jsonl.xz", "mismatch-rows.jsonl.xz"),
        (
            f"{GYM}bench run placement-bench-1 --out {{out}}/placement-bench-1 --workers 1",
            f"{GYM}bench run mismatch --out {{out}}/mismatch --workers 1",
        ),
        (
            f"{GYM}bench publish placement-bench-1 --out {{out}}/placement-bench-1"
            " --to {results}/placement-bench-1",
            f"{GYM}bench publish mismatch --out {{out}}/mismatch --to {{out}}",
            "mv {out}/results.jsonl.xz {results}/mismatch-rows.jsonl.xz",
            f"{GYM}bench report mismatch --out {{out}}/mismatch",
            f"{PY}figures.py",
        ),
    ),
    "throughput.md": Page(
        1.6,
        (
            "throughput-rows.jsonl.gz",
            "algorithms-rows.jsonl",
            "pipelines-rows.jsonl",
            "throughput-measured-rows.jsonl",
        ),
        (
            f"{PY}throughput.py {PARTITIONING} --rows {{out}}/throughput-rows.jsonl"
            " --time-limit 60",
            f"{PY}algorithms.py {PARTITIONING} --rows {{out}}/algorithms-rows.jsonl"
            " --time-limit 15",
            f"{PY}pipelines.py {PARTITIONING} --rows {{out}}/pipelines-rows.jsonl",
            *(f"{PY}throughput_measured.py {models} --rows {{out}}/throughput-measured-rows.jsonl"
              for models in ("--model resnet", "--model gpt --scenario chat-16-8",
                             "--model resnet:2 bert-8")),
        ),
        (f"{PY}figures.py",),
        note="a part is measured and wants an idle machine; the publication's program is run by"
        " hand",
    ),
    "hsdag.md": Page(
        1.0,
        ("hsdag-rows.jsonl.gz", "hsdag-folded-rows.jsonl", "hsdag-parts-rows.jsonl"),
        (
            f"{PY}learning.py --rows {{out}}/hsdag-folded-rows.jsonl"
            " --agents 'hsdag;hsdag, single units;hsdag paper'",
            f"{PY}hsdag.py parts --rows {{out}}/hsdag-parts-rows.jsonl --budget 500",
            f"{PY}hsdag.py run --rows {{out}}/hsdag-rows.jsonl --arms 'HSDAG;HSDAG, rl;"
            "HSDAG, rl without grouping;graph-groups;annealing;Placeto'",
            f"{PY}hsdag.py run --rows {{out}}/hsdag-rows.jsonl --arms RNN-based --seeds 1"
            " --budget 200",
            f"{PY}hsdag.py run --rows {{out}}/hsdag-rows.jsonl --granularity op --seeds 3"
            " --arms 'HSDAG, rl without grouping;graph-groups;annealing'",
        ),
        (f"{PY}figures.py",),
        kept=("hsdag-tried-rows.jsonl.gz",),
        note="what was tried on the way to 0.3.0, the published code's numbers, and ablations of"
        " 0.2.0 are not run again",
    ),
    "learning.md": Page(
        2.6,
        ("learning-rows.jsonl.gz", "stock-rows.jsonl"),
        (
            f"{PY}stock.py --rows {{out}}/stock-rows.jsonl",
            f"{LEARNING} --agents 'annealing;logits;graph-groups;graph-groups, redrawn;hsdag;"
            "hsdag, single units;post'",
            f"{LEARNING} --seeds 1 --agents 'hsdag paper'",
        ),
        (
            f"{PY}learning_tables.py {{out}}/learning-rows.jsonl"
            " {results}/learning.png",
            f"{PY}stock.py --rows {{results}}/stock-rows.jsonl"
            " --picture {results}/stock.png",
            f"{PY}figures.py",
        ),
    ),
    "floors/floors.md": Page(
        2.0,
        ("floors/floors.jsonl.xz",),
        tuple(
            f"{PY}floors.py --out {{out}} {options}"
            for options in (
                *(f"{WORKLOADS} {options}"
                  for options in (
                      "--agents search --evaluations 1,20,100,500",
                      "--agents search --seconds 0.03,0.1,0.3,1,3,10",
                      "--repair --agents hill-climb,annealing,random-blocks,heft"
                      " --seeds 1 --evaluations 100,500 --seconds 0.1,1,10",
                      "--repair --agents hsdag,graph-groups --evaluations 100,500",
                  )),
                "--generated synthetic-layered-20000,synthetic-layered-80000,stacked-bert-80000"
                " --devices 1cpu+2acc@0.3 --agents heft,search --seeds 2 --seconds 3,10,30",
            )
        ),
        (f"{PY}figures.py",),
        kept=("releases.jsonl.xz",),
        note="`python benchmarks/releases.py --run` adds a release",
    ),
    "published.md": Page(
        3.7,
        (
            "published-rows.jsonl.gz",
            "published/runs.jsonl.gz",
            "published/placeto-transfer-rows.jsonl",
            "learned-rows.jsonl",
            "go-scale-rows.jsonl",
            "go-joint-rows.jsonl",
            "go-transfer-rows.jsonl.xz",
        ),
        (
            f"{PUBLISHED} --budget 500",
            f"{PUBLISHED} --budget '3 s' --arms 'heft;random-blocks;hill-climb;hill-climb, quick;"
            "search;rnn;hdp;post;placeto;doppler;gdp;hsdag;graph-groups'",
            f"{PY}transfer.py placeto --families recurrent --trainings 3 --folder {{out}}"
            " --rows {out}/placeto-transfer-rows.jsonl",
            "DNN_PARTITIONING={data}/dnn-partitioning python examples/08_published.py --budget 200"
            " --data '${{DNN_PARTITIONING}}' --workers 1 --out {out}/published",
            "for study in $(find {out}/published -name study.yaml); do folder=$(dirname $study);"
            " DNN_PARTITIONING={data}/dnn-partitioning "
            f"{GYM}bench publish $study --out $folder --to $folder; done",
            "find {out}/published -name results.jsonl.xz | sort | xargs xz -dc > {out}/runs.jsonl",
            f"{PY}learned.py {PARTITIONING} --rows {{out}}/learned-rows.jsonl",
            *(f"{PY}go.py {name} --rows {{out}}/go-{name}-rows.jsonl"
              for name in ("joint", "scale")),
            *(f"{PY}go.py scale --rows {{out}}/go-scale-rows.jsonl --arms 'search;gdp, gcn'"
              f" --seed {seed}" for seed in (1, 2)),
            f"{PY}transfer.py go --folder {{out}} --rows {{out}}/go-transfer-rows.jsonl",
            f"{PY}transfer.py go --folder {{out}} --rows {{out}}/go-transfer-rows.jsonl"
            " --families translation,dilated,dense --problems 6",
        ),
        (
            "cp {out}/published/published.csv {out}/published/published.png {results}/published",
            f"{PY}go_pictures.py {{results}}/go-scale-rows.jsonl {{results}}/go/scale.png",
            f"{PY}figures.py",
        ),
    ),
    "online.md": Page(
        2.5,
        (
            "stream-rows.jsonl.gz",
            "stream-floors-rows.jsonl.gz",
            "stream-trained-rows.jsonl.gz",
            "stream-trainings-rows.jsonl",
            "stream-published-rows.jsonl.gz",
            "online/requests.jsonl",
        ),
        (
            f"{PY}stream.py --rows {{out}}/stream-rows.jsonl --problems 1000",
            f"{PY}stream.py --rows {{out}}/stream-floors-rows.jsonl --problems 1000 --floors",
            f"{PY}stream_trainings.py --folder {{out}}/policies",
            f"{PY}stream_trainings.py --folder {{out}}/policies --arms 'PPO short' --seeds 5",
            "cp {out}/policies/rows.jsonl {out}/stream-trainings-rows.jsonl",
            f"{PY}stream.py --rows {{out}}/stream-trained-rows.jsonl --problems 1000"
            " --policies {out}/policies",
            f"{PY}stream.py --rows {{out}}/stream-published-rows.jsonl"
            " --data {data}/dnn-partitioning",
            f"{ONLINE} --rates 0.6,0.8,1,1.4 --seeds 5",
            f"{ONLINE} --rates 0.8 --seeds 5 --agents a2c",
            f"{ONLINE} --rates 0.8 --seeds 3 --agents ppo,clone-ppo --hidden",
            f"{ONLINE} --rates 0.8 --seeds 3 --agents recurrent-ppo",
            f"{ONLINE} --rates 0.8 --seeds 5 --agents dqn --budget 200064",
        ),
        (
            f"{PY}online_tables.py {{results}}/online/requests.jsonl"
            " {results}/online/gains.png",
            "python benchmarks/figures.py",
        ),
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
