"""The comparison of policies under load, for ``compare`` and ``bench run``."""

from __future__ import annotations

import argparse
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from placement_gym.base.errors import UserError

if TYPE_CHECKING:
    from placement_gym.bench.study.spec import Study

UNDER_LOAD = "DevicePlacementOnline-v0"
"""The environment whose actions are no placements."""
OF_PLACEMENTS = (
    *("shape", "data_shape", "scenario", "granularity"),
    *("constraints", "keep_off", "keep_on", "pin", "max_submodels"),
    *("executor", "workers", "address", "timeout", "retry_failed", "dry_run"),
)
"""Options that runs of policies do not have: plans are the environment's, and runs follow one
another."""


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
    """Run what is missing of a study, and print a table for each entry of its devices.

    Raises:
        UserError: An option does not apply.
    """
    from rich.console import Group

    from placement_gym.bench.requests import ROWS, compare_policies, policy_table
    from placement_gym.bench.study.task import describe_devices
    from placement_gym.cli.tables import print_result

    for name in OF_PLACEMENTS:
        if getattr(options, name, None) not in (None, False, "auto", [], {}):
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} does not apply to {study.env}: leave it out")
    rows = compare_policies(study, options.out, options.quiet)
    models, settings = ", ".join(map(str, study.models)), study.env_kwargs or "default settings"

    def make_tables() -> Group:
        problems = groupby(rows, itemgetter("devices"))
        return Group(
            *(
                policy_table(list(own), f"{models} on {describe_devices(devices)}: {settings}")
                for devices, own in problems
            )
        )

    print_result(options, {"rows": rows}, make_tables)
    if not options.json:
        print(f"Rows, plans and policies are in {options.out}/ ({ROWS})")
    return 0
