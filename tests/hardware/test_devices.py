# White-box tests of hardware
from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from placement_gym.base import UserError
from placement_gym.hardware import (
    PRESETS,
    TESTBED,
    DeviceSpec,
    collect_cautions,
    find_device,
    is_testbed,
    parse_devices,
)
from placement_gym.hardware.devices import has_mixed_precision
from placement_gym.hardware.properties import PROPERTIES

SPECS = [
    DeviceSpec("GPU.0"),
    DeviceSpec("CPU", threads=2, precision="bf16"),
    DeviceSpec("CPU_FAST", plugin="CPU", weight_share=0.5),
    DeviceSpec("NPU", precision="f16", memory_bytes=1 << 20),
    DeviceSpec("GPU", properties={"PERF_COUNT": True, "NUM_STREAMS": 2}),
]


def names(devices: Sequence[DeviceSpec]) -> list[str]:
    return [device.name for device in devices]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "CPU", "precision": "int8"}, "bf16.*f16.*f32"),
        ({"name": "CPU", "threads": 0}, "at least 1"),
        ({"name": "CPU", "threads": 2.5}, "threads.*2.5"),
        ({"name": "CPU", "threads": "two"}, "threads.*'two'"),
        ({"name": "CPU", "threads": True}, "threads.*True"),
        ({"name": "CPU", "threads": 4_000_000}, "threads .* of at most 4096"),
        ({"name": "CPU", "weight_share": 1.5}, "at most 1"),
        ({"name": "CPU", "weight_share": -0.1}, "at least 0"),
        ({"name": "CPU", "weight_share": "half"}, "weight_share.*'half'"),
        ({"name": "CPU", "properties": ["NUM_STREAMS"]}, "properties must be a mapping"),
        ({"name": 5}, "name must be text, .* not 5"),
        ({"name": "NPU_FAST", "plugin": "NPU"}, "only the plugins of CPU and GPU"),
        ({"name": "GPU_B.1", "plugin": "GPU"}, "no dot"),
        ({"name": "GPU", "threads": 1}, "not a GPU.*NUM_STREAMS"),
        ({"name": "GPU.1", "precision": "bf16"}, "'f32' or 'f16'"),
        ({"name": "GPU", "properties": {"TBB_PARTITIONER": "STATIC"}}, "GPU plugin does not take"),
        ({"name": "CPU", "properties": {"OFFLOAD_RATIO": 50}}, "CPU plugin does not take"),
        ({"name": "GPU", "properties": {"OFFLOAD_RATIO": 101}}, "number from 0 to 100, not 101"),
        ({"name": "FAST", "plugin": "CPU"}, "'CPU_FAST'"),
        ({"name": "CPU.FAST", "plugin": "CPU"}, "no dot"),
        ({"name": "CPU", "memory_bytes": -1}, "memory_bytes"),
        ({"name": "CPU", "memory_bytes": math.inf}, "memory_bytes.*None: no limit.*inf"),
    ],
)
def test_specification_out_of_range_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeviceSpec(**fields)


def test_virtual_device_is_a_cpu_under_a_second_name() -> None:
    fast = DeviceSpec("CPU_FAST", plugin="CPU")
    assert (fast.virtual, fast.kind) == (True, "CPU")
    assert not DeviceSpec("CPU").virtual
    assert not DeviceSpec("CPU", plugin="CPU").virtual
    assert DeviceSpec("GPU.1").kind == "GPU"  # without the number of the device
    assert parse_devices("NPU")[0].precision == "f16"


@pytest.mark.parametrize("spec", SPECS, ids=names(SPECS))
def test_specification_survives_json(spec: DeviceSpec) -> None:
    values = json.loads(json.dumps(spec.to_json()))
    assert DeviceSpec.from_json(values) == spec
    assert DeviceSpec("CPU", threads=2).to_json() == {"name": "CPU", "threads": 2}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        *(
            (wrong, r"name.*threads")
            for wrong in ({"threads": 2}, {"name": "CPU", "cores": 2}, 5, ["CPU"])
        ),
        ({"name": "CPU", "thread": 2}, r"'CPU'.*did you mean 'threads'\?"),
    ],
)
def test_json_with_a_wrong_key_is_refused_with_the_right_ones(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeviceSpec.from_json(values)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, math.inf),
        ({"memory_bytes": 300}, 300),
        ({"weight_share": 0.5}, 500),
        ({"memory_bytes": 300, "weight_share": 0.5}, 300),
        ({"memory_bytes": 700, "weight_share": 0.5}, 500),
    ],
)
def test_tighter_of_both_memory_limits_holds(limits: dict[str, Any], expected: float) -> None:
    assert DeviceSpec("CPU", **limits).limit_bytes(model_bytes=1000) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (DeviceSpec("CPU", precision="bf16", threads=3),
         {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": 3,
          "KV_CACHE_PRECISION": None}),
        (DeviceSpec("CPU"), {"KV_CACHE_PRECISION": "f32"}),
        (DeviceSpec("CPU", properties={"KV_CACHE_PRECISION": "f16", "NUM_STREAMS": 2,
                                       "PERF_COUNT": True}),
         {"KV_CACHE_PRECISION": "f16", "NUM_STREAMS": "2", "PERF_COUNT": "YES"}),
    ],
    ids=["precision and threads are fixed", "caches are as exact as f32", "own properties win"],
)  # fmt: skip
def test_compile_properties_are_fixed_but_for_own_ones(
    spec: DeviceSpec, expected: dict[str, Any]
) -> None:
    properties = spec.compile_properties()
    assert {key: properties.get(key) for key in expected} == expected
    gpu = DeviceSpec("GPU", precision="f16").compile_properties()
    assert gpu == {"INFERENCE_PRECISION_HINT": "f16"}  # without properties of a CPU


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("NUM_STREAMS", 4_000_000),
        ("NUM_STREAMS", "4000000"),
        ("NUM_STREAMS", "4000000 streams"),
        ("NUM_STREAMS", " +4000000"),
        ("NUM_STREAMS", float("nan")),
        ("NUM_STREAMS", "infinity"),
        ("PERFORMANCE_HINT_NUM_REQUESTS", 2**40),
        ("PERF_COUNT", 2),
        ("INFERENCE_NUM_THREADS", 1),
        ("INFERENCE_PRECISION_HINT", "f32"),
    ],
)
def test_a_property_beyond_its_range_or_of_a_field_is_refused(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=rf"CPU: .*property {key}"):
        DeviceSpec("CPU", properties={key: value})


@pytest.mark.parametrize("value", ["AUTO", "NUMA", -1, 4, "4", True])
def test_words_and_numbers_of_the_range_are_taken(value: Any) -> None:
    assert DeviceSpec("CPU", properties={"NUM_STREAMS": value}).properties
    assert DeviceSpec("CPU", properties={"PERFORMANCE_HINT": "LATENCY", "PERF_COUNT": False})


@pytest.mark.parametrize(
    ("names", "answer", "index"),
    [("CPU,GPU", "GPU.0", 1), ("GPU.0,CPU", "GPU", 0), ("GPU,GPU.1", "GPU.1", 1)],
)
def test_an_answer_of_openvino_finds_the_device_it_names(
    names: str, answer: str, index: int
) -> None:
    assert find_device(names.split(","), answer) == index


def test_large_allocations_and_offloading_are_properties_of_a_gpu() -> None:
    assert DeviceSpec(
        "GPU", properties={"GPU_ENABLE_LARGE_ALLOCATIONS": True, "OFFLOAD_RATIO": 100}
    )


@pytest.mark.parametrize(
    "key", [key for key, of in PROPERTIES.items() if of.rounds and "CPU" in of.kinds]
)
def test_a_property_that_changes_results_is_a_mixed_precision(key: str) -> None:
    other = DeviceSpec("CPU_FAST", plugin="CPU", properties={key: 1})
    assert has_mixed_precision([DeviceSpec("CPU"), other])
    assert not has_mixed_precision([DeviceSpec("CPU", properties={key: 1}), other])
    assert any("mixed precision" in caution for caution in collect_cautions([TESTBED[0], other]))


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_preset_is_parsed_by_its_name(preset: str) -> None:
    assert parse_devices(preset) == PRESETS[preset]


def test_test_beds_are_those_of_the_design() -> None:
    slow, fast = PRESETS["cpu-testbed"]
    assert (slow.name, slow.threads, slow.precision) == ("CPU", 1, "f32")
    assert (fast.name, fast.plugin, fast.threads, fast.precision) == (
        "CPU_FAST",
        "CPU",
        None,
        "f32",
    )
    assert PRESETS["cpu-testbed-limited"][1].weight_share == 0.5
    assert [spec.weight_share for spec in PRESETS["cpu-testbed-limited-3"][1:]] == [0.35, 0.35]
    bf16 = PRESETS["cpu-testbed-bf16"][1]
    assert (bf16.precision, bf16.threads) == ("bf16", 1)


@pytest.mark.parametrize("preset", ["cpu-testbed", "cpu-testbed-limited", "cpu-testbed-bf16"])
def test_test_bed_knows_that_it_is_one(preset: str) -> None:
    assert is_testbed(PRESETS[preset])
    assert has_mixed_precision(PRESETS[preset]) == (preset == "cpu-testbed-bf16")
    assert not is_testbed(PRESETS["cpu+dgpu"])


def test_test_bed_has_as_many_devices_as_its_name_says() -> None:
    devices = parse_devices("cpu-testbed-3")
    assert names(devices) == ["CPU", "CPU_2", "CPU_3"]
    assert [device.threads for device in devices] == [1, 1, 1]
    assert [device.virtual for device in devices] == [False, True, True]
    assert is_testbed(devices)


def test_devices_of_a_tight_test_bed_hold_the_model_together() -> None:
    limits = [device.limit_bytes(1000) for device in parse_devices("cpu-testbed-4-tight")]
    assert limits == [375.0] * 4


@pytest.mark.parametrize("name", ["cpu-testbed-1", "cpu-testbed-0-tight", "cpu-testbed-4000"])
def test_test_bed_of_too_few_or_too_many_devices_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="a test bed has 2 to"):
        parse_devices(name)


@pytest.mark.parametrize(
    "devices",
    [
        "CPU,GPU.0",
        "CPU, GPU.0",
        ["CPU", "GPU.0"],
        [{"name": "CPU"}, {"name": "GPU.0"}],
        [DeviceSpec("CPU"), "GPU.0"],
    ],
)
def test_devices_are_parsed_from_names_dictionaries_and_specs(devices: str | list[Any]) -> None:
    assert parse_devices(devices) == (DeviceSpec("CPU"), DeviceSpec("GPU.0"))


def test_devices_are_parsed_from_a_json_file(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps([spec.to_json() for spec in SPECS[:3]]))
    assert parse_devices(str(path)) == tuple(SPECS[:3])


@pytest.mark.parametrize("devices", [[], "", "CPU,", "CPU,CPU", ["CPU", {"name": "CPU"}]])
def test_no_device_and_repeated_devices_are_refused(devices: str | list[Any]) -> None:
    with pytest.raises(ValueError, match=r"distinct names|name one or more"):
        parse_devices(devices)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"name": "CPU"}', ": devices must be a list"),
        (b'"CPU"', ": devices must be a list"),
        (b"[5]", ": a device needs 'name'"),
        (b'[{"name": "CPU", "threads": "two"}]', ": CPU: threads"),
        (b'["CPU", "CPU"]', ": devices .*distinct .*'CPU' is named twice"),
        (b'["CPU"', ": invalid JSON, .* line 1"),
        (b"\xff\xfe", ": invalid JSON, .* line 1"),
    ],
)
def test_a_broken_file_is_refused_by_its_name(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"mine\.json is not a valid list of devices{fault}"):
        parse_devices(str(path))


@pytest.mark.parametrize(
    ("misspelt", "nearest"), [("cpu+dgpuu", "cpu+dgpu"), ("CPU+IGPU", "cpu+igpu")]
)
def test_a_misspelt_preset_is_refused_with_the_nearest_one(misspelt: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{re.escape(nearest)}'"):
        parse_devices(misspelt)
