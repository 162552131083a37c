"""The commands ``placement-gym bench ...``."""

from __future__ import annotations

import argparse

from placement_gym.cli.options import Command, positive_integer, set_command


def add_bench(command: Command) -> None:
    """Add the sub-commands."""
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    add_run(commands.add_parser("run", help="run a study, or what is missing of it"))
    add_report(commands.add_parser("report", help="write a study's report.md and report.html"))
    add_validate(commands.add_parser("validate", help="replay the placements of a study"))


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
        "--workers", type=positive_integer, help="number of processes (default: all cores)"
    )
    command.add_argument(
        "--address", help="address of a running Ray cluster (default: start a local one)"
    )
    command.add_argument(
        "--retry-failed", action="store_true", help="run failed runs again; the new rows count"
    )
    command.add_argument("--dry-run", action="store_true", help="only print what would be run")
    set_command(
        command,
        run_run,
        "finished runs are in {out}/results.jsonl; the same command continues with the rest",
    )


def add_report(command: Command) -> None:
    add_study(command)
    command.add_argument("--out", required=True, help="folder of the results")
    set_command(
        command, run_report, "the results in {out}/ are kept; the same command reports them again"
    )


def add_validate(command: Command) -> None:
    command.add_argument("--out", required=True, help="folder of the results")
    set_command(
        command, run_validate, "the results in {out}/ are kept; the same command starts again"
    )


def run_run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from placement_gym.bench.study.runner import describe_study, run_study
    from placement_gym.bench.study.spec import Study

    study = Study.load(options.study)
    Console(stderr=True).print(
        describe_study(study, options.out, options.retry_failed), highlight=False
    )
    if options.dry_run:
        return 0
    rows = run_study(
        study,
        options.out,
        options.executor,
        options.workers,
        options.address,
        options.retry_failed,
    )
    failed = [row for row in rows if row["error"]]
    remedy = ": --retry-failed runs them again" if failed else ""
    print(f"{len(rows)} rows in {options.out}/results.jsonl, {len(failed)} of them failed{remedy}")
    return 1 if failed else 0


def run_report(options: argparse.Namespace) -> int:
    from placement_gym.bench.report.study import report_study
    from placement_gym.bench.study.spec import Study

    command = f"placement-gym bench run {options.study} --out {options.out}"
    for path in report_study(Study.load(options.study), options.out, command):
        print(path)
    return 0


def run_validate(options: argparse.Namespace) -> int:
    from placement_gym.bench.study.replay import validate

    rows = wrong = 0
    for verdict in validate(options.out):
        rows += 1
        if verdict.error:
            wrong += 1
            print(f"{verdict.label} ({verdict.key}): {verdict.error}", flush=True)
    print(f"{rows - wrong} of {rows} rows hold")
    return 1 if wrong else 0
