"""Save a placement, load it, and run the model under it with plain OpenVINO."""

import argparse
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import openvino as ov

import placement_gym


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet", help="built-in model or file")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.model = "tiny"

    env = gym.make("DevicePlacement-v0", model=options.model)
    env.reset(seed=0)
    n_units = len(env.action_space.nvec)
    env.step(np.arange(n_units) * 2 // n_units)  # the first half on one device

    path = Path(tempfile.mkdtemp()) / "placement.json"
    placement_gym.placement_env(env).placement().save(path)
    env.close()

    placement = placement_gym.Placement.load(path)
    model = placement_gym.load_model(options.model)
    compiled = placement_gym.compile_model(ov.Core(), model, placement)
    outputs = compiled([np.ones(port.shape, np.float32) for port in compiled.inputs])
    print(f"{compiled.get_property('HETERO_NUMBER_OF_SUBMODELS')} submodels on "
          f"{compiled.get_property('EXECUTION_DEVICES')}, output {outputs[0].shape}")  # fmt: skip


if __name__ == "__main__":
    main()
