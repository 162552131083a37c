"""The commands ``placement-gym bench ...``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import EXECUTORS
from placement_gym.cli.options import add_out, call, output_of, print_json, set_command
from placement_gym.cli.parser import Command, describe
from placement_gym.cli.values import one_of, parse_names, positive_integer, positive_seconds

if TYPE_CHECKING:
    from placement_gym.bench.study import Study

MAX_REASONS = 5
RESULTS = "folder of the study's results"
NOTHING_TO_REPLAY = "no row states a problem to replay: only the columns were checked"


def add_bench(command: Command) -> None:
    describe(
        command,
        "Run, report and replay studies: YAML files that state agents, problems and seeds.",
        "bench run paper --out results/paper",
        "bench run --help",
        failure="a run failed, or a row is not valid",
    )
    add = command.add_commands()
    add_run(add("run", "run a study, or its missing runs"))
    add_report(add("report", "write a study's report.md, with pictures"))
    add_validate(add("validate", "replay the placements of a study"))
    add_publish(add("publish", "compress a study's rows, to be committed"))


def add_study(command: Command) -> None:
    command.add_argument(
        "study",
        metavar="STUDY",
        help="a study's YAML file, or the name of one that comes with the package, as in paper",
    )
    command.add_argument(
        "--agents",
        type=parse_names,
        help="agents in place of the study's, separated by commas, as in my_agent:make,annealing",
    )


def load_study(options: argparse.Namespace) -> Study:
    """Load a command's study, with the agents of ``--agents``."""
    from dataclasses import replace

    from placement_gym.bench.study import Study

    study = Study.load(options.study)
    return replace(study, agents=options.agents) if options.agents else study


def add_run(command: Command) -> None:
    describe(
        command,
        "Run a study, or the runs that FOLDER lacks. Each finished run adds a line to "
        "FOLDER/results.jsonl.",
        "bench run paper --out results/paper --dry-run",
        "bench run my_study.yaml --out results/mine --workers 4",
        "bench run placement-bench-1 --agents hsdag --out results/hsdag",
        failure="a run failed",
    )
    add_study(command)
    add_out(command, None)
    command.add_argument(
        "--executor",
        type=one_of(EXECUTORS),
        default="auto",
        metavar="|".join(EXECUTORS),
        help="where runs are executed; auto means processes, a single one if latencies are "
        "measured (default: %(default)s)",
    )
    command.add_argument(
        "--workers",
        type=positive_integer,
        metavar="N",
        help="number of processes (default: all cores; 1 if latencies are measured)",
    )
    command.add_argument(
        "--address", help="address of a running Ray cluster (default: start a local one)"
    )
    command.add_argument(
        "--timeout",
        dest="timeout_s",
        type=positive_seconds,
        metavar="SECONDS",
        help="fail a run that has evaluated nothing for this long (default: 3600)",
    )
    command.add_argument(
        "--retry-failed", action="store_true", help="repeat failed runs; the new rows count"
    )
    command.add_argument("--dry-run", action="store_true", help="only print what would run")
    command.add_argument(
        "--trust",
        action="store_true",
        help="allow agents given as module:attribute, extensions, and logs where the study says; "
        "read the code first",
    )
    set_command(command, run_run, "finished runs are kept; rerun the command to continue")


def add_report(command: Command) -> None:
    describe(
        command,
        "Write report.md into the folder of a study's results: scores against the best known "
        "placements, gaps to proven optima, pictures, and pages to explore placements.",
        "bench report paper --out results/paper",
    )
    add_study(command)
    add_out(command, None, RESULTS)
    set_command(
        command, run_report, "the results in {out}/ are kept; rerun the command to report them"
    )


def add_validate(command: Command) -> None:
    describe(
        command,
        "Evaluate the placement of every row again: simulated numbers must be the same, measured "
        "speed-ups must agree within noise. Replays open the files that rows name, and may take "
        "any time and memory: validate only rows that you trust. For rows of an earlier schema the "
        "missing columns are listed; for rows of other benchmarks only the columns are checked.",
        "bench validate --out results/paper",
        "bench validate --out docs/results/go-scale-rows.jsonl",
        failure="a row is not valid",
    )
    command.add_argument(
        "--out", required=True, metavar="PATH", help=f"{RESULTS}, or a file of rows"
    )
    set_command(
        command, run_validate, "the results in {out} are kept; rerun the command to start again"
    )


def add_publish(command: Command) -> None:
    describe(
        command,
        "Compress the rows of a study, to commit them. Simulated rows are also replayed, as by "
        "`bench validate`.",
        "bench publish paper --out results/paper --to docs/results/paper",
        failure="a row is not valid",
    )
    add_study(command)
    add_out(command, None, RESULTS)
    command.add_argument(
        "--to", required=True, metavar="FOLDER", help="folder for results.jsonl.xz"
    )
    set_command(command, run_publish, "the results in {out}/ are kept")


def run_run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.base import UserError, join_words, make_lines_printable
    from placement_gym.bench.run import ROWS
    from placement_gym.bench.study import choose_executor, describe_study, run_study

    # A study may be anyone's file: before it may import code, it is only read and described.
    study = load_study(options)
    call(choose_executor, options, study=study, name=options.executor)
    if options.trust or not study.needs_trust:
        study.check()
    about = make_lines_printable(describe_study(study, options.out, options.retry_failed))
    if options.dry_run or not options.quiet:
        Console(stderr=True).print(about, highlight=False, markup=False)
    if options.dry_run:
        print_json(options, {"study": options.study, "about": about})
        return 0
    if study.needs_trust and not options.trust:
        raise UserError(
            f"the study {options.study} {join_words(study.needs_trust)}: read it, and code from "
            "this folder or an installed package that it runs, then add --trust"
        )
    rows = call(run_study, options, study=study)
    failed, file = [row for row in rows if row["error"]], f"{options.out}/{ROWS}"
    if not print_json(options, {"rows": len(rows), "failed": len(failed), "file": file}):
        remedy = ": --retry-failed runs them again" if failed else ""
        summary = f"{len(rows)} rows in {file}, {len(failed)} of them failed{remedy}"
        print(make_lines_printable(summary))
    for line in list_reasons(failed):
        print(make_lines_printable(line), file=sys.stderr)
    return 1 if failed else 0


def run_report(options: argparse.Namespace) -> None:
    from placement_gym.bench.report import report_study

    agents = f" --agents {','.join(options.agents)}" if options.agents else ""
    command = f"placement-gym bench run {options.study}{agents} --out {options.out}"
    written = str(report_study(load_study(options), options.out, command, options.quiet))
    if not print_json(options, {"file": written}):
        print(written)


def run_validate(options: argparse.Namespace) -> int:
    from placement_gym.bench.run import list_files
    from placement_gym.bench.study import describe_older

    path = Path(options.out)
    rows, wrong = replay(path, options)
    older = {str(file): text for file in list_files(path) if (text := describe_older(file))}
    if not print_json(options, {"rows": rows, "wrong": wrong, "older": older}):
        print("\n".join(f"{file}: {text}" for file, text in older.items()), end="\n" * bool(older))
        print(f"{rows - len(wrong)} of {rows} rows are valid" if rows else NOTHING_TO_REPLAY)
    return 1 if wrong else 0


def run_publish(options: argparse.Namespace) -> int:
    from placement_gym.bench.study import publish_rows

    study = load_study(options)
    path, missing = publish_rows(study, options.out, options.to)
    # Only `bench validate` measures measured rows again.
    _, wrong = (0, []) if study.measured else replay(path, options)
    size = path.stat().st_size
    document = {"file": str(path), "bytes": size, "missing": missing, "wrong": wrong}
    if not print_json(options, document):
        print(f"{path}: {size:,} bytes, {missing} runs of the study are missing")
    return 1 if wrong else 0


def replay(path: Path, options: argparse.Namespace) -> tuple[int, list[dict[str, str]]]:
    """Replay the rows of a folder or a file; print and return those that are not valid.

    Returns also the number of all rows.
    """
    from placement_gym.base import make_printable
    from placement_gym.bench.study import validate

    rows, wrong = 0, list[dict[str, str]]()
    for verdict in validate(path, options.quiet):
        rows += 1
        if verdict.error:
            wrong.append({"run": verdict.label, "key": verdict.key, "error": verdict.error})
            key = f" ({verdict.key})" if verdict.key else ""
            line = f"{verdict.label}{key}: {verdict.error}"
            print(make_printable(line), file=output_of(options), flush=True)
    return rows, wrong


def list_reasons(failed: list[dict[str, Any]]) -> list[str]:
    """List a few reasons why runs failed, each with its first run."""
    first = {row["error"]: row for row in reversed(failed)}
    lines = [f"{row['label']}, {row['model']}: {error}" for error, row in reversed(first.items())]
    more = [f"and {len(lines) - MAX_REASONS} more reasons"] if len(lines) > MAX_REASONS else []
    return lines[:MAX_REASONS] + more
