"""The semantics of a simulated latency: axes on which published simulators differ, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from placement_gym.base import UserError, check_choice, check_not_negative, join_words
from placement_gym.workloads import find_objective

GAPS = ("op_gap_ms", "link_gap_ms", "memory_penalty_ms_per_gb")
CHOICES = {
    "schedule": ("serial", "event", "list", "calls", "load"),
    "transfer": ("dest", "edge", "output"),
    "contention": ("none", "source", "dest", "both", "link"),
    "order": ("fifo", "priority"),
    "memory": ("off", "static", "lifetime", "outputs"),
}


@dataclass(frozen=True)
class Semantics:
    """Rules that determine a placement's latency from its costs.

    Attributes:
        schedule: ``"serial"``: one operator or transfer at a time, and a cost for each submodel,
            as OpenVINO HETERO runs. ``"event"``: devices and links work at the same time, each
            first come, first served. ``"list"``: as event, but every device runs its operators
            in one fixed order. ``"calls"``: accelerators are called like functions, one subgraph
            per call. ``"load"``: the time between two results of requests in flight, which is
            the load of the busiest device.
        transfer: How often a tensor moves: once per destination device (``"dest"``), once per
            reader (``"edge"``), or once for all readers (``"output"``). Event and list.
        contention: Transfers that wait for each other: those from a device (``"source"``), to a
            device (``"dest"``), to or from a device (``"both"``), between the same two devices
            (``"link"``), or none. Event and list.
        order: ``"fifo"``, or ``"priority"``: the longest remaining path of mean times first
            (HEFT's upward rank). Event and list; fifo means topological order in a list.
        op_gap_ms: Idle time of a device after each operator. Event and list.
        link_gap_ms: Idle time of a link after each transfer. Event and list.
        memory: What a device's limit counts: nothing (``"off"``), weights (``"static"``),
            weights and the peak of live outputs (``"lifetime"``), or the peak of live outputs
            alone (``"outputs"``).
        memory_penalty_ms_per_gb: Latency added for each gigabyte above a limit; None makes such
            a placement infeasible.

    Raises:
        ValueError: A choice is unknown, or axes exclude each other.
    """

    schedule: str = "serial"
    transfer: str = "dest"
    contention: str = "source"
    order: str = "fifo"
    op_gap_ms: float = 0.0
    link_gap_ms: float = 0.0
    memory: str = "static"
    memory_penalty_ms_per_gb: float | None = None

    @property
    def limits_weights(self) -> bool:
        """True if weights above a device's limit make a placement infeasible."""
        return self.memory in ("static", "lifetime") and self.memory_penalty_ms_per_gb is None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.transfer == "output" and self.contention not in ("none", "source"):
            raise UserError(
                "transfer='output' reaches all readers at once: use contention='source'"
            )
        if self.memory in ("lifetime", "outputs") and self.schedule not in ("event", "list"):
            raise UserError(f"memory={self.memory!r} needs another schedule: use 'event' or 'list'")
        values = (self.op_gap_ms, self.link_gap_ms, self.memory_penalty_ms_per_gb or 0.0)
        for name, value in zip(GAPS, values, strict=True):
            check_not_negative(name, value)
        # Axes without an effect raise, as a study would compare equal settings.
        has_links = self.schedule in ("event", "list")
        axes = ("transfer", "contention", "order", "op_gap_ms", "link_gap_ms")
        changed_axes = [name for name in axes if getattr(self, name) != getattr(Semantics, name)]
        if changed_axes and not has_links:
            raise UserError(f"schedule {self.schedule!r} does not use {join_words(changed_axes)}")


PRESETS: dict[str, Semantics] = {
    "serial": Semantics(),
    "event": Semantics("event"),
    "list": Semantics("list", contention="none"),
    "placeto": Semantics(
        "event",
        transfer="output",
        op_gap_ms=0.0057,
        link_gap_ms=0.025,
        memory="outputs",
        memory_penalty_ms_per_gb=2000.0,
    ),
    "giph": Semantics("event", transfer="edge", contention="none", memory="off"),
    "tarnawski-throughput": Semantics("load"),
    "tarnawski-latency": Semantics("calls"),
}
"""Semantics by name: plain schedules, and those of published simulators.

``"placeto"`` and ``"giph"`` agree with the published programs to rounding if every operator has one
output tensor, as in built-in models and workloads, and no two events coincide. Known differences:

- Ties. Placeto orders events of equal time by kind, parent and child, GiPH by insertion; the
  presets order them by server, channels before devices and lower numbers first.
- Several output tensors. Placeto sends them in the order of their first readers in the graph and
  releases local readers by name; the preset goes by port, then by reader. Of two tensors that one
  operator reads from another, Placeto keeps only the last.
- Memory penalty. Placeto charges only the device with the maximum memory, and caps the latency; the
  preset adds the penalties of all devices.
- Peak memory. Placeto also counts unread outputs.
"""
OF_SCHEDULE = {
    "event": "event",
    "list": "list",
    "calls": "tarnawski-latency",
    "load": "tarnawski-throughput",
}
"""Schedule -> preset that axes without a preset modify, a published simulator's if there is one."""


def parse_schedule(schedule: str | Mapping[str, Any] | Semantics, objective: str) -> Semantics:
    """Convert ``gym.make``'s ``schedule`` and ``objective`` to semantics.

    Args:
        schedule: Name of a preset, or axes by name, ``{"preset": "giph", "order": "priority"}``.
        objective: ``"latency"``, or ``"throughput"`` for the schedule ``"load"``.

    Raises:
        ValueError: A name is unknown, or axes exclude each other.
    """
    fixed_schedule = find_objective(objective).schedule
    if not isinstance(schedule, Semantics):
        axes = dict(schedule) if isinstance(schedule, Mapping) else {"preset": schedule}
        name = axes.pop("preset", OF_SCHEDULE.get(str(axes.get("schedule")), "serial"))
        known = [field.name for field in fields(Semantics)]
        if not axes.keys() <= set(known):
            raise UserError(
                f"schedule must be one of {sorted(PRESETS)} or a mapping with 'preset' and "
                f"{known}, not {schedule!r}"
            )
        check_choice("schedule", name, PRESETS)
        schedule = replace(PRESETS[name], **axes)
    if fixed_schedule is None:
        return schedule
    # The only axis of a load is memory, and without an order of operators there are no lifetimes.
    memory = schedule.memory if schedule.memory in ("off", "static") else "static"
    return Semantics(fixed_schedule, memory=memory)
