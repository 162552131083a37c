"""The check of devices on OpenVINO's own GPU plugin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from placement_gym.deployment import check
from placement_gym.hardware import DeviceSpec

pytestmark = [pytest.mark.gpu_plugin, pytest.mark.slow]


def test_check_finds_activations_that_the_plugin_drops_in_f16(tmp_path: Path) -> None:
    # If this fails with a newer OpenVINO, the page on Intel's devices needs another example.
    x = ops.parameter([1, 3, 8, 8], np.float32, name="x")
    tanh = ops.tanh(ops.relu(x, name="relu"), name="tanh")
    model = tmp_path / "activations.xml"
    ov.save_model(ov.Model([tanh], [x], "activations"), model, compress_to_fp16=False)
    devices = [DeviceSpec("CPU"), DeviceSpec("GPU", precision="f16")]
    gpu = check(str(model), devices, out=tmp_path, quiet=True)["devices"][0]
    assert gpu["error"] > 0.1 > gpu["tolerance"]
    assert [row["fault"] for row in gpu["operators"]] == ["differs"]
    assert gpu["confirmed"]
