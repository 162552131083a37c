"""Profiles on disk: each is measured once for a problem, its devices and split mode."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from placement_gym.backends.measured.interference import DISTURBED, is_calm
from placement_gym.backends.measured.profile import (
    check_can_be_profiled,
    measure_profile,
    n_measurements,
)
from placement_gym.backends.measured.timing_protocol import FOR_FITTING, QUICK
from placement_gym.base import (
    UserError,
    is_file,
    is_path,
    keep_if_possible,
    progress_bar,
    safe_name,
    set_aside,
    warn_user,
)
from placement_gym.hardware import usable_cores
from placement_gym.problem import Problem
from placement_gym.problem.costs import CostTable

if TYPE_CHECKING:
    from placement_gym.backends.measured.backend import MeasuredBackend

PROFILE_METHOD = 3
"""Version of the method; raise it with any change of what is measured or written."""


def load_or_measure(
    backend: MeasuredBackend, refresh: bool = False, quiet: bool = False, quick: bool = False
) -> CostTable:
    """Load the profile that this machine keeps of a problem, or measure it.

    A profile that was disturbed by other programs is measured again if the machine is calm now.

    Args:
        backend: The backend of the problem.
        refresh: Measure again.
        quiet: Show no progress.
        quick: Measure a rougher profile in less time, unless a full one is kept.

    Raises:
        UserError: The problem cannot be profiled; see ``check_can_be_profiled``.
        EngineError: Too few placements could be measured.
    """
    table = None if refresh else load_kept_profile(backend, quick)
    if table is not None and is_disturbed(table) and is_calm():
        warn_user(f"{describe_disturbed(table)}: it is measured again, as there are none now")
        table = None
    profile = table or measure_and_keep_profile(backend, quiet, quick)
    if is_disturbed(profile):
        warn_user(
            f"{describe_disturbed(profile)}, so placements solved on it may be slower than "
            "they could be: measure it again on an idle machine (placement-gym profile --refresh)"
        )
    return profile.in_a_round(backend.problem.units.graph)


def is_disturbed(table: CostTable) -> bool:
    return table.interference >= DISTURBED


def describe_disturbed(table: CostTable) -> str:
    return (
        f"the profile was measured while other programs took {table.interference:.0%} of the time"
    )


def measure_and_keep_profile(backend: MeasuredBackend, quiet: bool, quick: bool) -> CostTable:
    check_can_be_profiled(backend.problem)
    protocol = QUICK if quick else FOR_FITTING
    total = n_measurements(backend.problem, protocol)
    with (
        progress_bar(total, "measurements", quiet) as progress,
        closing(backend.with_protocol(protocol)) as profiled,
    ):
        task = progress.task_ids[0]
        progress.update(task, description="profiling")
        table = measure_profile(profiled, step=lambda: progress.advance(task))
    keep(table, profile_path(backend, quick), "the profile")
    return table


def keep(table: CostTable, path: Path, name: str) -> None:
    """Write a cost table, or warn that it cannot be kept."""
    with keep_if_possible(name):
        with suppress(OSError):
            path.unlink()  # an earlier one is out of date, even if this one cannot be written
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_path(path) and not is_file(path):
            raise OSError(f"{path} is not a file")
        table.save(path)


def load_kept_profile(backend: MeasuredBackend, quick: bool = False) -> CostTable | None:
    """The profile that this machine keeps, preferably undisturbed, then full; or None."""
    found = [load_file(path, backend.problem) for path in list_paths(backend, quick)]
    return min((table for table in found if table is not None), key=is_disturbed, default=None)


def load_file(path: Path, problem: Problem) -> CostTable | None:
    """The costs in a file; None if it does not exist, or is damaged and set aside."""
    if not is_file(path):
        return None
    try:
        table = CostTable.load(path)
        table.check(problem.units.graph, problem.device_names)
    except UserError as error:
        aside = set_aside(path)
        warn_user(f"{error}: {f'moved to {aside}' if aside else 'ignored'} and measured again")
        return None
    return table


def kept_profile(backend: MeasuredBackend, quick: bool = False) -> Path | None:
    """The file of the profile that this machine keeps, preferably a full one; or None."""
    return next((path for path in list_paths(backend, quick) if is_file(path)), None)


def list_paths(backend: MeasuredBackend, quick: bool) -> list[Path]:
    kinds = (False, True) if quick else (False,)
    return [profile_path(backend, kind) for kind in kinds]


def profile_path(backend: MeasuredBackend, quick: bool = False) -> Path:
    """The path of this machine's profile of a backend's problem.

    It depends on everything that determines latencies: units, devices with their properties, split
    mode, machine and version of OpenVINO. It does not depend on names of operators, some of which
    differ each time that a model is read.
    """
    import openvino as ov

    problem = backend.problem
    own_inputs = problem.units.graph.request.own.fingerprint
    identity = {
        "alias": backend.alias,
        "problem": problem.fingerprint(by_name=False),
        "devices": [device.to_json() for device in problem.devices],
        "machine": [platform.node(), platform.processor(), usable_cores()],
        "openvino": ov.__version__,
        "method": PROFILE_METHOD,
        **({"inputs": own_inputs} if own_inputs else {}),
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    kind = "quick-profile" if quick else "profile"
    return cache_folder() / f"{kind}-{safe_name(problem.units.graph.model)}-{digest}.json"


def cache_folder() -> Path:
    """The folder of this user's profiles; for a user without home, one that cannot be written."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a container's user may be a number alone
        cache = Path(os.devnull)
    return cache / "placement_gym"


@contextmanager
def explain_interrupt(backend: MeasuredBackend, quick: bool = False) -> Iterator[None]:
    """Say in an interrupt if a profile is kept to continue from; ``quick``: also a quick one."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if str(interrupt):  # it has a message already: more than a profile was saved
            raise
        profile = kept_profile(backend, quick)
        message = (
            "no profile was finished, so nothing is kept: the same command starts again"
            if profile is None
            else f"the profile is kept in {profile}: the same command without --refresh uses it"
        )
        raise KeyboardInterrupt(message) from None
