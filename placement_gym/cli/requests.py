"""The comparison of policies under load, for ``compare`` and ``bench run``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placement_gym.bench.study.spec import Study

UNDER_LOAD = "DevicePlacementOnline-v0"
"""The environment whose actions are no placements."""


def compare_under_load(options: argparse.Namespace) -> int:
    """The command ``compare`` for policies that choose plans of requests."""
    from placement_gym.bench.study.spec import Study
    from placement_gym.envs.online.rules import RULES

    study = Study(
        env=options.env,
        models=options.model.split(","),
        agents=options.agents or [*RULES],
        budget=options.budget,
        devices=[options.devices],
        seeds=options.seeds,
        env_kwargs=dict(options.set),
    )
    return run_policies(options, study)


def run_policies(options: argparse.Namespace, study: Study) -> int:
    """Run what is missing of a study, and print its table."""
    from placement_gym.bench.requests import ROWS, compare_policies, policy_table
    from placement_gym.cli.tables import print_result

    rows = compare_policies(study, options.out, options.quiet)
    title = f"{', '.join(map(str, study.models))}: {study.env_kwargs or 'default settings'}"
    print_result(options, {"rows": rows}, lambda: policy_table(rows, title))
    if not options.json:
        print(f"Rows, plans and policies are in {options.out}/ ({ROWS})")
    return 0
