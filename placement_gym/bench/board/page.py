"""The page of a leader board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from placement_gym.base.files import make_output_folder
from placement_gym.bench.board.entries import SET, Entries, collect_entries
from placement_gym.bench.folders import find_folders
from placement_gym.bench.known.identity import LIMITS
from placement_gym.bench.report.document import Block, Code, Heading, Table, Text, write_report
from placement_gym.bench.report.overview import format_estimate
from placement_gym.bench.report.problems import describe_problem
from placement_gym.bench.report.scores import StudyResults
from placement_gym.bench.report.stats import bootstrap, mean_of_medians
from placement_gym.bench.report.wording import INFEASIBLE, summarize_effort
from placement_gym.bench.run.rows import Json
from placement_gym.bench.study.spec import TEST, Study
from placement_gym.graph.generated import is_generated

ALL, LIMITED, GENERATED, BUILT_IN = "score", "limited memory", "generated graphs", "built-in models"
LEGEND = (
    "A score is the best known latency divided by that of a run; 1 is the best known. Columns of "
    "scores have the mean over problems, of the median of each problem's runs, where a failed run "
    "counts 0; the interval is of 95 %, by stratified bootstrap. Trivial problems are left out. A "
    "row counts only if replaying its placement gives its latency, and an agent only if it has "
    "such a row of each problem and seed. Evaluations and seconds are those of a median run; "
    "seconds depend on the entrant's machine, and with the commit of this package they are what "
    f"rows say. Infeas.: {INFEASIBLE}."
)
ENTER = "Anyone can enter: run an agent on the set, publish its rows, and open a pull request."
STEPS = (
    ("Run it:", "placement-gym bench run {set} --agents my_agent:make --trust --out results/mine"),
    (
        "Write the folder of the pull request:",
        "placement-gym bench publish {set} --agents my_agent:make --out results/mine "
        "--to docs/results/board/my-agent",
    ),
    (
        "Write this page again, which replays all rows:",
        "placement-gym bench board docs/results/board --out docs/results/board",
    ),
)


def write_board(
    results: Sequence[str | Path],
    out: str | Path = "results",
    study: Study | str | Path = SET,
    quiet: bool = False,
) -> Entries:
    """Write the leader board of a set of problems as ``board.md`` and ``board.html``.

    Args:
        results: Folders of result rows, searched with all folders below them.
        out: Folder for both files.
        study: The set: a study, its file, or the name of one that comes with the package.
        quiet: Show no progress.

    Returns:
        The entries of the board, and what was left out.

    Raises:
        UserError: A folder has no rows, or none has a row of the set.
    """
    study = study if isinstance(study, Study) else Study.load(study)
    folders = [folder for root in results for folder in find_folders(root)]
    entries = collect_entries(study, folders, quiet)
    write_report(describe_board(entries), make_output_folder(out), name="board")
    return entries


def describe_board(entries: Entries) -> list[Block]:
    """The standings, the problems, what was left out, and how to enter."""
    results, study = entries.results, entries.study
    lines = rank_entries(results)
    first = "No entry is complete."
    if lines:
        verb = "leads with" if len(lines) > 1 else "is alone on this board:"
        first = f"{lines[0]['agent']} {verb} {lines[0][ALL]}."
    problems = [
        {"problem": results.names[problem], "class": classify(results, problem)}
        | describe_problem(results, problem)
        for problem in results.problems
    ]
    for line in problems:
        del line["role"]  # a set has none
    about = (
        f"{len(problems)} problems, seeds {', '.join(map(str, study.all_seeds))}, "
        f"{study.budget} evaluations a run; identity {entries.identity}."
    )
    left_out: list[Block] = [Heading("Left out"), *map(Text, entries.left_out)]
    return [
        Heading(f"Leader board: {study.about.removesuffix('.')}", 1),
        Text(first, "summary"),
        Table.of(lines),
        Text(LEGEND),
        Heading("Problems"),
        Text(about),
        Table.of(problems),
        *(left_out if entries.left_out else []),
        Heading("How to enter"),
        Text(ENTER),
        *(Code(text, command.format(set=SET)) for text, command in STEPS),
    ]


def rank_entries(results: StudyResults) -> list[dict[str, str]]:
    """A line for each agent as cells by column, the best first."""
    classes: dict[str, list[str]] = {
        ALL: results.counted(TEST),
        BUILT_IN: [],
        GENERATED: [],
        LIMITED: [],
    }
    for problem in classes[ALL]:
        classes[classify(results, problem)].append(problem)
    parts = {name: results.only(problems) for name, problems in classes.items() if problems}
    return [
        {
            "agent": agent,
            **{name: format_score(part, agent, name == ALL) for name, part in parts.items()},
            **summarize_effort(parts[ALL].rows_of(agent)),
            "commit": ", ".join(sorted({name_source(row) for row in results.rows_of(agent)})),
        }
        for agent in (parts[ALL].ranking if parts else [])
    ]


def format_score(results: StudyResults, agent: str, interval: bool) -> str:
    """The mean over problems of the median score, with its interval or without."""
    scores = results.scores(agent)
    if interval:
        return format_estimate(bootstrap(mean_of_medians, scores))
    return f"{mean_of_medians(scores):.3f}"


def classify(results: StudyResults, problem: str) -> str:
    """The class of a problem: by memory limits first, then by the kind of its model."""
    # those of a run that failed are what its row says
    finished_rows = (row for row in results.rows if row["problem"] == problem and row["latency_ms"])
    devices: list[Json] = next((row["devices"] for row in finished_rows), [])
    if any(name in device for device in devices for name in LIMITS):
        return LIMITED
    return GENERATED if is_generated(results.model(problem)) else BUILT_IN


def name_source(row: Json) -> str:
    """The commit of this package that a run was made with, or its version outside a checkout."""
    return str(row["commit"] or row["version"] or "-")
