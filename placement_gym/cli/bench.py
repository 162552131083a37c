"""The commands ``placement-gym bench ...``."""

from __future__ import annotations

import argparse

from rich.console import Console

from placement_gym.bench.report.study import report_study
from placement_gym.bench.study.replay import validate
from placement_gym.bench.study.runner import EXECUTORS, describe_study, run_study
from placement_gym.bench.study.spec import Study


def add_bench(command: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    add_run(commands.add_parser("run", help="run a study, or what is missing of it"))
    add_report(commands.add_parser("report", help="write a study's report.md and report.html"))
    add_validate(commands.add_parser("validate", help="replay the placements of a study"))


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("study", metavar="STUDY.yaml", help="what to run")
    command.add_argument("--out", required=True, help="folder for the results")
    command.add_argument(
        "--executor", default="auto", choices=EXECUTORS, help="where (%(default)s)"
    )
    command.add_argument("--workers", type=int, help="processes (all cores)")
    command.add_argument("--address", help="of a running Ray cluster (a local one is started)")
    command.add_argument(
        "--retry-failed", action="store_true", help="do failed runs again; the new rows count"
    )
    command.add_argument("--dry-run", action="store_true", help="print the plan alone")
    command.set_defaults(run=run_run)


def add_report(command: argparse.ArgumentParser) -> None:
    command.add_argument("study", metavar="STUDY.yaml", help="what was run")
    command.add_argument("--out", required=True, help="folder of the results")
    command.set_defaults(run=run_report)


def add_validate(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", required=True, help="folder of the results")
    command.set_defaults(run=run_validate)


def run_run(options: argparse.Namespace) -> int:
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
    remedy = ": --retry-failed does them again" if failed else ""
    print(f"{len(rows)} rows in {options.out}/results.jsonl, {len(failed)} of them failed{remedy}")
    return 1 if len(failed) == len(rows) else 0


def run_report(options: argparse.Namespace) -> int:
    command = f"placement-gym bench run {options.study} --out {options.out}"
    for path in report_study(Study.load(options.study), options.out, command):
        print(path)
    return 0


def run_validate(options: argparse.Namespace) -> int:
    rows = wrong = 0
    for verdict in validate(options.out):
        rows += 1
        if verdict.error:
            wrong += 1
            print(f"{verdict.label} ({verdict.key}): {verdict.error}", flush=True)
    print(f"{rows - wrong} of {rows} rows hold")
    return 1 if wrong else 0
