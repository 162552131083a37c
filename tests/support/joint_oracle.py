"""Priority and fusion in plain Python: what the simulator of all decisions is tested against."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from graphlib import TopologicalSorter

from oracle import EventRun, Oracle, Schedule

from placement_gym.problem import Choices
from placement_gym.schedules import FusionCosts


class JointOracle:
    """What rows of decisions cost under an event schedule.

    Args:
        plain: The oracle of placements alone.
        parts: Of the operators' times.
        by_level: Whether devices choose by level.
    """

    def __init__(self, plain: Oracle, parts: FusionCosts, by_level: bool) -> None:
        self.plain, self.by_level = plain, by_level
        self.launch, self.arithmetic, self.traffic, self.moving = (p.tolist() for p in parts)

    def schedule(self, choices: Choices) -> Schedule:
        """Latency, start and finish of each operator."""
        plain, levels = self.plain, choices.priority.tolist()
        on = plain.devices_of(choices.placement.tolist())
        edges = plain.units.quotient.edge_index.T.tolist()
        chosen = {tuple(e) for e, bit in zip(edges, choices.fused.tolist(), strict=True) if bit}
        groups = self.group(on, chosen)
        of = {operator: g for g, members in enumerate(groups) for operator in members}
        fused = copy(plain)
        fused.ms = [self.times(members, of, chosen, on) for members in groups]
        fused.readers = [
            [of[r] for r in readers if of[r] != of[source]]
            for source, readers in zip(plain.source, plain.readers, strict=True)
        ]
        fused.made = [[t for o in members for t in plain.made[o]] for members in groups]
        fused.read = [
            [t for o in members for t in plain.read[o] if of[plain.source[t]] != of[o]]
            for members in groups
        ]
        fused.source = [of[source] for source in plain.source]
        rank = [float(levels[unit]) for unit in plain.unit] if self.by_level else plain.rank
        fused.rank = [max(rank[o] for o in members) for members in groups] if rank else []
        run = EventRun(fused, [on[members[0]] for members in groups])
        run.by_rank = bool(rank)
        latency, start, finish = run.run()
        n = len(on)
        return latency, [start[of[o]] for o in range(n)], [finish[of[o]] for o in range(n)]

    def is_chosen(self, source: int, reader: int, chosen: set[tuple[int, int]]) -> bool:
        """Whether the edge of units between two operators is chosen."""
        return (self.plain.unit[source], self.plain.unit[reader]) in chosen

    def group(self, on: Sequence[int], chosen: set[tuple[int, int]]) -> list[list[int]]:
        """The operators of each group; none waits for itself, which is checked."""
        groups: list[list[int]] = []
        levels: list[int] = []
        of: dict[int, int] = {}
        for operator, producers in enumerate(self.plain.producers):
            read = {of[producer] for producer in producers}
            top = max((levels[g] for g in read), default=-1)
            highest = [g for g in read if levels[g] == top]
            joined = [
                of[producer]
                for producer in producers
                if [of[producer]] == highest
                and on[producer] == on[operator]
                and self.is_chosen(producer, operator, chosen)
            ]
            if joined:
                of[operator] = joined[0]
                groups[joined[0]].append(operator)
            else:
                of[operator] = len(groups)
                groups.append([operator])
                levels.append(top + 1)
        awaited = {
            g: {of[p] for o in members for p in self.plain.producers[o]} - {g}
            for g, members in enumerate(groups)
        }
        list(TopologicalSorter(awaited).static_order())
        return groups

    def times(
        self,
        members: Sequence[int],
        of: dict[int, int],
        chosen: set[tuple[int, int]],
        on: Sequence[int],
    ) -> list[float]:
        """The time of a group on every device; only its own counts."""
        if len(members) == 1:
            return self.plain.ms[members[0]]
        device = on[members[0]]
        tensors = self.plain.units.graph.tensors
        working = 0.0
        for operator in members:
            traffic = self.traffic[operator][device]
            inside = [
                t
                for t in self.plain.read[operator]
                if of[self.plain.source[t]] == of[operator]
                and self.is_chosen(self.plain.source[t], operator, chosen)
            ]
            for tensor in self.plain.made[operator]:
                fused = [
                    r
                    for r in self.plain.readers[tensor]
                    if of[r] == of[operator] and self.is_chosen(operator, r, chosen)
                ]
                if len(fused) == tensors.offsets[tensor + 1] - tensors.offsets[tensor]:
                    inside.append(tensor)
            traffic -= sum(self.moving[tensor][device] for tensor in inside)
            working += max(self.arithmetic[operator][device], traffic, 0.0)
        launch = max(self.launch[operator][device] for operator in members)
        return [launch + working] * self.plain.n_devices
