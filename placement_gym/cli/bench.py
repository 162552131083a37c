"""The commands ``placement-gym bench ...``."""

from __future__ import annotations

import argparse

from placement_gym.cli.options import (
    Command,
    add_pictures,
    positive_integer,
    positive_seconds,
    set_command,
)


def add_bench(command: Command) -> None:
    """Add the sub-commands."""
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    add_run(commands.add_parser("run", help="run a study, or what is missing of it"))
    add_report(commands.add_parser("report", help="write a study's report.md and report.html"))
    add_validate(commands.add_parser("validate", help="replay the placements of a study"))
    add_publish(commands.add_parser("publish", help="compress a study's rows, to be committed"))
    add_known(commands.add_parser("known", help="list or update best known latencies"))


def add_study(command: Command) -> None:
    command.add_argument(
        "study",
        metavar="STUDY",
        help="a study's YAML file, or the name of one that comes with the package, as in paper",
    )


def add_run(command: Command) -> None:
    add_study(command)
    command.add_argument("--out", required=True, help="folder for the results")
    command.add_argument(
        "--executor",
        default="auto",
        help="serial, processes or ray; auto takes processes, a single one where latencies are "
        "measured (default: %(default)s)",
    )
    command.add_argument(
        "--workers",
        type=positive_integer,
        help="number of processes (default: all cores; 1 where latencies are measured)",
    )
    command.add_argument(
        "--address", help="address of a running Ray cluster (default: start a local one)"
    )
    command.add_argument(
        "--timeout",
        type=positive_seconds,
        metavar="SECONDS",
        help="end a run that evaluates nothing for so long, which then has failed (default: 3600)",
    )
    command.add_argument(
        "--retry-failed", action="store_true", help="run failed runs again; the new rows count"
    )
    command.add_argument("--dry-run", action="store_true", help="only print what would be run")
    command.add_argument(
        "--trust",
        action="store_true",
        help="allow agents given as module:attribute to run, and agents to write logs where the "
        "study says; read the code first",
    )
    set_command(
        command,
        run_run,
        "finished runs are in {out}/results.jsonl; rerun the command to continue",
    )


def add_report(command: Command) -> None:
    add_study(command)
    command.add_argument("--out", required=True, help="folder of the results")
    command.add_argument(
        "--compare", metavar="FOLDER", help="set other results of the study beside these"
    )
    add_pictures(command)
    command.add_argument(
        "--no-views", action="store_true", help="write no interactive pages of the placements"
    )
    set_command(
        command, run_report, "the results in {out}/ are kept; rerun the command to report them"
    )


def add_validate(command: Command) -> None:
    command.add_argument("--out", required=True, help="folder of the results")
    set_command(
        command, run_validate, "the results in {out}/ are kept; rerun the command to start again"
    )


def add_publish(command: Command) -> None:
    add_study(command)
    command.add_argument("--out", required=True, help="folder of the results")
    command.add_argument("--to", required=True, help="folder for results.jsonl.xz")
    set_command(command, run_publish, "the results in {out}/ are kept")


def add_known(command: Command) -> None:
    changes = command.add_mutually_exclusive_group()
    changes.add_argument(
        "--update",
        metavar="FOLDER",
        help="take faster placements from this folder's results.jsonl, if a replay confirms them",
    )
    changes.add_argument(
        "--bounds", action="store_true", help="compute all lower bounds again and keep higher ones"
    )
    command.add_argument(
        "--time-limit",
        type=positive_seconds,
        default=10.0,
        help="seconds for one lower bound (default: %(default)s)",
    )
    set_command(command, run_known, "every problem that was printed is kept")


def run_run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.bench.study.runner import describe_study, run_study
    from placement_gym.bench.study.spec import Study
    from placement_gym.errors import UserError
    from placement_gym.texts import make_lines_printable

    study = Study.load(options.study)
    about = make_lines_printable(describe_study(study, options.out, options.retry_failed))
    Console(stderr=True).print(about, highlight=False, markup=False)
    if options.dry_run:
        return 0
    if study.code and not options.trust:
        raise UserError(
            f"the study {options.study} runs code that does not come with this package, "
            f"{', '.join(study.code)}, from this folder or an installed package: read it, then "
            "add --trust"
        )
    if study.logging and not options.trust:
        raise UserError(
            f"the study {options.study} has agents write logs into folders that it names, "
            f"{', '.join(study.logging)}: remove tensorboard_log, or add --trust"
        )
    rows = run_study(
        study,
        options.out,
        options.executor,
        options.workers,
        options.address,
        options.retry_failed,
        timeout_s=options.timeout,
    )
    failed = [row for row in rows if row["error"]]
    remedy = ": --retry-failed runs them again" if failed else ""
    print(f"{len(rows)} rows in {options.out}/results.jsonl, {len(failed)} of them failed{remedy}")
    return 1 if failed else 0


def run_report(options: argparse.Namespace) -> int:
    from placement_gym.bench.report.study import report_study
    from placement_gym.bench.study.spec import Study

    command = f"placement-gym bench run {options.study} --out {options.out}"
    paths = report_study(
        Study.load(options.study),
        options.out,
        command,
        pictures=options.pictures,
        views=not options.no_views,
        other=options.compare,
    )
    for path in paths:
        print(path)
    return 0


def run_validate(options: argparse.Namespace) -> int:
    from placement_gym.bench.study.replay import validate
    from placement_gym.texts import make_printable

    rows = wrong = 0
    for verdict in validate(options.out):
        rows += 1
        if verdict.error:
            wrong += 1
            line = f"{verdict.label} ({verdict.key}): {verdict.error}"
            print(make_printable(line), flush=True)
    print(f"{rows - wrong} of {rows} rows are valid")
    return 1 if wrong else 0


def run_publish(options: argparse.Namespace) -> int:
    from placement_gym.bench.study.publish import publish_rows
    from placement_gym.bench.study.spec import Study

    path, missing = publish_rows(Study.load(options.study), options.out, options.to)
    print(f"{path}: {path.stat().st_size:,} bytes, {missing} runs of the study are missing")
    return 0


def run_known(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.bench.known import best_known
    from placement_gym.bench.known.table import describe_change, known_table
    from placement_gym.bench.known.update import update_bounds, update_values

    if not options.update and not options.bounds:
        Console().print(known_table(best_known.load_values(best_known.VALUES)))
        return 0
    limit_s = options.time_limit
    changes = (
        update_bounds(time_limit_s=limit_s)
        if options.bounds
        else update_values(options.update, time_limit_s=limit_s)
    )
    seen = changed = 0
    for change in changes:
        seen, changed = seen + 1, changed + (change.after is not change.before)
        for line in describe_change(change):
            print(line, flush=True)
    print(f"{changed} of {seen} problems changed in {best_known.VALUES}")
    return 0
