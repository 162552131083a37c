"""HSDAG searches for a placement; if it is started again after a stop, it loads the saved model."""

import argparse
from pathlib import Path

import gymnasium as gym
from rich.console import Console

import agents
from agents.common.callbacks import BestPlacementCallback
from placement_gym import evaluate_placement, play_episode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="DevicePlacementSim-v0", help="which environment")
    parser.add_argument("--model", default="inception", help="built-in model or file")
    parser.add_argument("--devices", help="preset, names or file; default: the environment's")
    parser.add_argument("--budget", type=int, default=500, help="placements to evaluate")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--out", default="results/hsdag", help="folder for model and placement")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.budget = "tiny", 40

    out, console = Path(options.out), Console()
    env = gym.make(options.env, model=options.model, devices=options.devices)
    file = out / "model.zip"
    agent = agents.load(file, env) if file.is_file() else agents.make("hsdag", env, options.seed)
    left = options.budget - agent.num_timesteps
    console.print(f"{agent.num_timesteps} of {options.budget} placements have been evaluated")
    best = BestPlacementCallback(out / "placement.json", verbose=1)
    try:
        agent.learn(max(left, 0), best, reset_num_timesteps=False, progress_bar=True)
    finally:  # Ctrl-C included
        agent.save(file)

    greedy = play_episode(env, agent)
    console.print(f"the greedy placement is {greedy['speedup_vs_best_single']:.3f} x best single")
    if env.spec.nondeterministic and (out / "placement.json").is_file():
        env.close()
        console.print("the fastest placement, measured again with the best single device:")
        console.print(evaluate_placement(options.model, out / "placement.json"))
    else:
        console.print(f"the fastest placement takes {agent.best.latency_ms:.4f} ms")


if __name__ == "__main__":
    main()
