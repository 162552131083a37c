"""Parse the devices that a user names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_gym.base import MAX_DEVICES, UserError, suggest, warn_user
from placement_gym.hardware.devices import NATIVE_PRECISION, PRESETS, DeviceSpec

if TYPE_CHECKING:
    import openvino as ov

DevicesArgument = str | Sequence["str | Mapping[str, Any] | DeviceSpec"] | None

ACCELERATOR = "ACC"
COUNTS = re.compile(r"(?P<cpus>[0-9]+)cpu\+(?P<accs>[0-9]+)acc(@(?P<share>[0-9.]+))?")
TESTBED_NAME = re.compile(r"cpu-testbed-(?P<number>\d{1,4})(?P<tight>-tight)?")
OF_SEVERAL = re.compile("(HETERO|AUTO|MULTI|BATCH)(:|$)")
"""OpenVINO's names of devices that combine others."""
TIGHT_MEMORY_FACTOR = 1.5
"""Total memory of the devices of a tight test bed, as a multiple of the weights. Hand-tuned."""
DEFAULTS = {
    "simulated": ("cpu+dgpu", ""),
    "measured": (
        "cpu-testbed",
        "this machine has one device, {}: using 'cpu-testbed', two virtual devices of one CPU. "
        "It tests methods and says nothing about a GPU.",
    ),
    "compared": (
        "cpu-testbed-limited",
        "this machine has one device, {}: comparing on 'cpu-testbed-limited', two virtual devices "
        "of one CPU. The fast one holds half of the model's weights; without this limit it would "
        "always win alone. --devices names others. It tests methods and says nothing about a GPU",
    ),
}
"""Context -> the preset that ``devices=None`` means, and a message that explains it.

A simulation has the same devices on every machine. A measurement uses the machine's devices, or the
preset if there is only one. A comparison limits the faster of two virtual devices of one CPU, which
would otherwise always win alone.
"""


def resolve_devices(
    devices: DevicesArgument, context: str, core: ov.Core | None = None
) -> tuple[DeviceSpec, ...]:
    """Return the devices that a request means in a context.

    Args:
        devices: As for ``parse_devices``; None means the default of the context.
        context: ``"simulated"``; or a key of ``DEFAULTS``: this machine must have the devices, and
            their memory is read.
        core: Lists this machine's devices; None makes one.

    Raises:
        UnknownDeviceError: This machine does not have a device.
        UserError: The request is malformed.
    """
    if context == "simulated":
        return parse_devices(DEFAULTS[context][0] if devices is None else devices)
    import openvino as ov

    from placement_gym.hardware.machine import check_available, read_memory, share_host_memory

    core = core or ov.Core()
    available = list(core.available_devices)
    if devices is None:
        devices, reason = choose_default(context, available)
        if reason:
            warn_user(reason)
    specs = parse_devices(available if devices is None else devices)
    check_available(specs, available)
    return share_host_memory([read_memory(core, spec) for spec in specs])


def choose_default(context: str, available: Sequence[str]) -> tuple[str | None, str]:
    """Choose the preset, and its explanation, for ``devices=None`` in a measured context.

    On a machine with several devices, which are then all used: None and an empty string.
    """
    if len(available) != 1:
        return None, ""
    preset, reason = DEFAULTS[context]
    return preset, reason.format(*available)


def parse_devices(devices: str | Sequence[Any]) -> tuple[DeviceSpec, ...]:
    """Parse device specifications.

    Args:
        devices: A preset's name; a test bed, as in ``"cpu-testbed-3"``; counts, as in
            ``"1cpu+2acc@0.3"``; comma-separated OpenVINO names; the path of a JSON file with a
            list; or a list of names, dictionaries or ``DeviceSpec``.

    Raises:
        ValueError: No device, a duplicate name, or a malformed specification or file.
    """
    if not isinstance(devices, str):
        return parse_list(devices)
    if devices in PRESETS:
        return PRESETS[devices]
    if Path(devices).suffix == ".json":
        from placement_gym.base.schemas import load_valid

        return load_valid(devices, parse_list, "a valid list of devices", megabytes=1)
    return parse_testbed(devices) or parse_counts(devices) or parse_list(devices.split(","))


def parse_list(items: Any) -> tuple[DeviceSpec, ...]:
    """Parse a list of names, mappings or specifications of distinct devices."""
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise UserError(f"devices must be a list, not {items!r:.200}")
    if len(items) > MAX_DEVICES:
        raise UserError(f"there are {len(items)} devices, more than {MAX_DEVICES}")
    specs = tuple(parse_device(item) for item in items)
    names = [spec.name for spec in specs]
    check_single(names)
    if strange := next((name for name in names if not set("+@%").isdisjoint(name)), ""):
        raise UserError(
            f"{strange!r} is neither a device nor a preset; the presets are "
            f"{', '.join(sorted(PRESETS))}{suggest(strange, PRESETS)}"
        )
    if not names:
        raise UserError("devices is an empty list: name one or more, as in CPU,GPU")
    if not all(names) or len(set(names)) < len(names):
        duplicates = sorted({name for name in names if name and names.count(name) > 1})
        why = f"{duplicates[0]!r} is named twice" if duplicates else "a name is empty"
        raise UserError(f"devices must be distinct names, as in CPU,GPU: {why} in {items!r:.200}")
    check_pools(specs)
    return specs


def check_single(names: Sequence[str]) -> None:
    """Raise ``UserError`` if a name stands for several devices."""
    for place, name in enumerate(names):
        if match := OF_SEVERAL.match(name):
            devices = [name.partition(":")[2], *names[:place], *names[place + 1 :]]
            named = ",".join(filter(None, devices)) or "GPU,CPU"
            reason = (
                "a placement is compiled by HETERO"
                if match[1] == "HETERO"
                else f"{match[1]} is not a device: it chooses one for each inference"
            )
            raise UserError(f"write {named}, not {name!r}: {reason}")


def check_pools(specs: Sequence[DeviceSpec]) -> None:
    """Raise ``UserError`` if devices state different limits of one memory pool."""
    first: dict[str, DeviceSpec] = {}
    for spec in specs:
        if not spec.memory_pool or not spec.limited:
            continue
        other = first.setdefault(spec.memory_pool, spec)
        if (spec.memory_bytes, spec.weight_share) != (other.memory_bytes, other.weight_share):
            raise UserError(
                f"{other.name} and {spec.name} share the memory pool {spec.memory_pool!r} and "
                "state different limits: a pool has one limit, so state it once"
            )


def parse_device(item: str | Mapping[str, Any] | DeviceSpec) -> DeviceSpec:
    """Make a specification from a device's name or a mapping of its fields."""
    if isinstance(item, DeviceSpec):
        return item
    if isinstance(item, str):
        name = item.strip()
        return DeviceSpec(name, precision=NATIVE_PRECISION.get(name.split(".")[0], "f32"))
    return DeviceSpec.from_json(item)


def parse_testbed(text: str) -> tuple[DeviceSpec, ...] | None:
    """Parse ``"cpu-testbed-3"`` or ``"cpu-testbed-3-tight"``; None if the text has another form.

    The devices ``CPU``, ``CPU_2``, ``CPU_3`` are virtual devices of one CPU with one thread each.
    Those of a tight test bed have equal limits, 1.5 times the model's weights together.
    """
    match = TESTBED_NAME.fullmatch(text)
    if match is None:
        return None
    number = int(match["number"])
    if not 2 <= number <= MAX_DEVICES:
        raise UserError(f"{text!r}: a test bed has 2 to {MAX_DEVICES} devices")
    share = round(TIGHT_MEMORY_FACTOR / number, 6) if match["tight"] else None
    names = ["CPU", *(f"CPU_{index}" for index in range(2, number + 1))]
    return tuple(DeviceSpec(name, "CPU", threads=1, weight_share=share) for name in names)


def parse_counts(text: str) -> tuple[DeviceSpec, ...] | None:
    """Parse counts of devices; None if the text has another form.

    Each accelerator of ``"1cpu+2acc@0.3"`` holds 30 % of the model's weights.
    """
    match = COUNTS.fullmatch(text)
    if not match:
        return None
    # Lengths first: Python refuses to read numbers of thousands of digits.
    digits = [match[kind].lstrip("0") or "0" for kind in ("cpus", "accs")]
    if max(map(len, digits)) > len(str(MAX_DEVICES)) or sum(map(int, digits)) > MAX_DEVICES:
        raise UserError(f"{text[:60]!r} has more devices than {MAX_DEVICES}")
    n_hosts, n_accelerators = map(int, digits)
    if n_hosts + n_accelerators == 0:
        raise UserError(f"{text!r} has no devices: count at least one")
    if match["share"] is None:
        return make_devices(n_hosts, n_accelerators)
    try:
        share = float(match["share"])
    except ValueError:
        raise UserError(f"{text!r}: the share must be a number, as in '1cpu+2acc@0.3'") from None
    return make_devices(n_hosts, n_accelerators, weight_share=share)


def make_devices(n_hosts: int, n_accelerators: int, **limit: Any) -> tuple[DeviceSpec, ...]:
    """Make hosts, and accelerators with a memory limit."""
    hosts = [DeviceSpec(f"CPU.{i}" if n_hosts > 1 else "CPU") for i in range(n_hosts)]
    names = [f"{ACCELERATOR}.{i}" for i in range(n_accelerators)]
    return (*hosts, *(DeviceSpec(name, **limit) for name in names))
