"""A small grid of OpenVINO properties around the best candidates.

One property at a time: precision, threads, streams, performance hint. Those that a device states
stay as they are, as do those that it does not let a program set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from placement_gym.backends.measured.throughput import list_streams
from placement_gym.deployment.candidates import Candidate
from placement_gym.hardware.devices import DeviceSpec, usable_cores
from placement_gym.problem.problem import Problem

CAPABILITIES = {"f16": "FP16", "bf16": "BF16"}
"""Precision -> what a device lists that computes in it fast."""
HINTS = ("LATENCY", "THROUGHPUT")


@dataclass(frozen=True)
class Abilities:
    """Properties of a device that a program can set, and its capabilities, as reported."""

    settable: frozenset[str]
    capabilities: frozenset[str]


@dataclass(frozen=True)
class Variant:
    """A candidate whose devices have one property changed.

    Attributes:
        name: What is changed, as in ``"threads 4"``.
        candidate: The candidate under the label of the change.
        base: The candidate without the change.
        devices: Of the problem itself, changed.
    """

    name: str
    candidate: Candidate
    base: Candidate
    devices: tuple[DeviceSpec, ...]


def read_abilities(devices: Sequence[DeviceSpec]) -> list[Abilities]:
    """Ask OpenVINO what each device can do."""
    import openvino as ov

    from placement_gym.hardware.machine import register

    core = ov.Core()
    register(core, devices)
    abilities = []
    for name in (device.name for device in devices):
        supported: Mapping[str, str] = core.get_property(name, "SUPPORTED_PROPERTIES")
        settable = frozenset(key for key, access in supported.items() if access == "RW")
        is_listed = "OPTIMIZATION_CAPABILITIES" in supported
        capabilities = core.get_property(name, "OPTIMIZATION_CAPABILITIES") if is_listed else ()
        abilities.append(Abilities(settable, frozenset(capabilities)))
    return abilities


def list_changes(
    spec: DeviceSpec, abilities: Abilities, streams: bool
) -> Iterator[tuple[str, DeviceSpec]]:
    """Yield the name of each change of a device, and the device with it."""
    settable = abilities.settable - spec.properties.keys()
    if "INFERENCE_PRECISION_HINT" in settable and spec.precision == "f32":
        for precision, capability in CAPABILITIES.items():
            if capability in abilities.capabilities:
                yield precision, replace(spec, precision=precision)
    if "INFERENCE_NUM_THREADS" in settable and spec.threads is None:
        for threads in dict.fromkeys((usable_cores() // 2, usable_cores() // 4)):
            if threads:
                yield f"threads {threads}", replace(spec, threads=threads)
    if "NUM_STREAMS" in settable and streams:
        for number in list_streams(spec)[1:]:
            yield f"streams {number}", spec.with_streams(number)
    # Where streams are fixed, as on the CPU, a hint decides nothing.
    if "PERFORMANCE_HINT" in settable and "NUM_STREAMS" not in spec.compile_properties():
        for hint in HINTS:
            yield (
                f"hint {hint}",
                replace(spec, properties={**spec.properties, "PERFORMANCE_HINT": hint}),
            )


def make_variants(
    problem: Problem, bases: Sequence[Candidate], abilities: Sequence[Abilities], streams: bool
) -> list[Variant]:
    """Each change on all devices of a candidate that can have it, for each candidate."""
    variants = []
    for base in bases:
        changed: dict[str, dict[int, DeviceSpec]] = {}
        for device in sorted(set(base.assignment.tolist())):
            # A single device has the number of streams that suits it best already.
            tries_streams = streams and not base.alone
            for name, spec in list_changes(
                problem.devices[device], abilities[device], tries_streams
            ):
                changed.setdefault(name, {})[device] = spec
        for name, specs in changed.items():
            devices = tuple(specs.get(i, spec) for i, spec in enumerate(problem.devices))
            variants.append(
                Variant(name, replace(base, label=f"{base.label}, {name}"), base, devices)
            )
    return variants


def extend(problem: Problem, variants: Sequence[Variant]) -> tuple[Problem, list[Candidate]]:
    """The problem with the devices of variants after its own, and the variants in it."""
    devices, columns = list(problem.devices), list(range(len(problem.devices)))
    candidates = []
    for variant in variants:
        assignment = variant.candidate.assignment.copy()
        for device, spec in enumerate(variant.devices):
            if spec != problem.devices[device]:
                assignment[variant.base.assignment == device] = len(devices)
                devices.append(spec)
                columns.append(device)
        candidates.append(replace(variant.candidate, assignment=assignment, also=()))
    capable = None if problem.capable is None else problem.capable[:, columns]
    extended = replace(
        problem, devices=tuple(devices), supported=problem.supported[:, columns], capable=capable
    )
    return extended, candidates
