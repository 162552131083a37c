"""Traces of placements for Perfetto."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from placement_gym.view.data import DIGITS, Values

NS_OF_MS, NS_OF_US = 1_000_000, 1000
"""Traces are in microseconds, Perfetto computes in whole nanoseconds."""


def make_trace(data: Values) -> Values:
    """Make a trace in Chrome's format, which Perfetto opens, of ``make_view_data``'s placements.

    A placement is a process, a device or a link one of its threads, or several if bars overlap.
    """
    events = [
        event
        for process, placement in enumerate(data["placements"], start=1)
        for event in list_events(data, placement, process)
    ]
    about = {key: data[key] for key in ("model", "costs", "schedule", "cautions")}
    return {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}


def list_events(data: Values, placement: Values, process: int) -> Iterator[Values]:
    yield name_thread("process_name", f"{process}. {placement['label']}", process)
    names = [device["name"] for device in data["devices"]]
    runs, transfers = placement["runs"], placement["transfers"]
    device = [placement["device"][unit] for unit in runs["unit"]]
    links = [*zip(transfers["source"], transfers["target"], strict=True)]
    lanes: dict[str, tuple[Values, list[int]]] = {
        name: (runs, [bar for bar, device_of_bar in enumerate(device) if device_of_bar == index])
        for index, name in enumerate(names)
    }
    for source, target in sorted(set(links)):
        bars = [bar for bar, link in enumerate(links) if link == (source, target)]
        lanes[f"{names[source]} to {names[target]}"] = transfers, bars
    thread = 0
    for title, (columns, bars) in lanes.items():
        parts = separate(columns, bars) or [[]]
        for number, part in enumerate(parts, start=1):
            thread += 1
            track_name = title if len(parts) == 1 else f"{title}, {number}"
            yield name_thread("thread_name", track_name, process, thread)
            for bar, span_ns in zip(part, find_spans_ns(columns, part), strict=True):
                yield describe_bar(data, columns, bar, span_ns, process, thread)


def name_thread(kind: str, name: str, process: int, thread: int = 0) -> Values:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def find_spans_ns(columns: Values, bars: Sequence[int]) -> list[tuple[int, int]]:
    """Starts and lengths of a lane's sorted bars in whole nanoseconds.

    Each ends before the next begins: Perfetto drops a bar that overlaps another by rounding.
    """
    begins = [round(NS_OF_MS * columns["start"][bar]) for bar in bars]
    lengths = [round(NS_OF_MS * columns["ms"][bar]) for bar in bars]
    free = [next_begin - begin - 1 for begin, next_begin in pairwise(begins)]
    free += lengths[-1:]
    return [
        (begin, max(0, min(length, room)))
        for begin, length, room in zip(begins, lengths, free, strict=True)
    ]


def describe_bar(
    data: Values, columns: Values, bar: int, span_ns: tuple[int, int], process: int, thread: int
) -> Values:
    units, unit = data["units"], columns["unit"][bar]
    values: dict[str, Any] = {
        "unit": units["name"][unit],
        "type": units["type"]["texts"][units["type"]["index"][unit]],
        "shape": units["shape"]["texts"][units["shape"]["index"][unit]],
    }
    if "bytes" in columns:
        values["bytes"] = columns["bytes"][bar]
    return {
        "name": units["name"][unit],
        "cat": "transfer" if "bytes" in columns else "unit",
        "ph": "X",
        "ts": span_ns[0] / NS_OF_US,
        "dur": span_ns[1] / NS_OF_US,
        "pid": process,
        "tid": thread,
        "args": values,
    }


def separate(columns: Values, bars: Sequence[int]) -> list[list[int]]:
    """Sort bars by start into as few lanes as possible without overlaps, except by rounding."""
    lanes: list[list[int]] = []
    ends: list[float] = []
    for bar in sorted(bars, key=lambda bar: (columns["start"][bar], columns["ms"][bar])):
        start = columns["start"][bar]
        slack = 1e-6 * (1.0 + start)
        lane = next((i for i, end in enumerate(ends) if end <= start + slack), len(lanes))
        if lane == len(lanes):
            lanes.append([])
            ends.append(0.0)
        lanes[lane].append(bar)
        ends[lane] = start + columns["ms"][bar] * (1.0 - 0.5 * 10 ** (1 - DIGITS))
    return lanes
