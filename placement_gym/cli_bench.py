"""The commands ``placement-gym bench ...``."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from placement_gym.bench.study import Study
from placement_gym.bench.study_run import EXECUTORS, plan_of, run_study

Commands = Any


def add_bench(command: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    add_run(commands.add_parser("run", help="run a study, or what is missing of it"))


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("study", metavar="STUDY.yaml", help="what to run")
    command.add_argument("--out", required=True, help="folder for the results")
    command.add_argument(
        "--executor", default="auto", choices=EXECUTORS, help="where (%(default)s)"
    )
    command.add_argument("--workers", type=int, help="processes (the machine's cores)")
    command.add_argument("--address", help="of a running Ray cluster (a local one is started)")
    command.add_argument("--dry-run", action="store_true", help="print the plan alone")
    command.set_defaults(run=run_run)


def run_run(options: argparse.Namespace) -> int:
    study = Study.load(options.study)
    Console(stderr=True).print(plan_of(study, options.out), highlight=False)
    if options.dry_run:
        return 0
    rows = run_study(study, options.out, options.executor, options.workers, options.address)
    failed = [row for row in rows if row["error"]]
    print(f"{len(rows)} rows are in {options.out}/results.jsonl, {len(failed)} of them failed")
    return 0
