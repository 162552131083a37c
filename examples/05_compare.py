"""The main job as a script: the default agents on a real model, measured."""

import argparse

from rich.console import Console

import placement_gym


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet", help="built-in model or file")
    parser.add_argument("--devices", help="preset, names or file; default: the machine's")
    parser.add_argument("--budget", type=int, default=10, help="evaluations per agent")
    parser.add_argument("--out", default="results", help="folder for the results")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    agents = None
    if options.smoke:
        options.model, options.budget, agents = "tiny", 2, ["openvino-hetero", "window"]

    document = placement_gym.compare(
        options.model, agents, devices=options.devices, budget=options.budget, out=options.out
    )
    Console().print(placement_gym.comparison_table(document))


if __name__ == "__main__":
    main()
