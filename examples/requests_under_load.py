"""A policy that chooses the plan of each request: trained on the simulation, then serving.

It begins with a clone of the rule ``lookahead``, and SB3's PPO goes on from there.
"""

import argparse

import gymnasium as gym
import numpy as np
from stable_baselines3.common.evaluation import evaluate_policy

import placement_gym
from agents.requests import train
from placement_gym.envs.online.rules import make_rule


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["resnet", "mobilenet:2", "cnn"])
    parser.add_argument("--devices", default="cpu-testbed-pair", help="of this machine")
    parser.add_argument("--rate", type=float, default=1.0, help="requests in a mean latency")
    parser.add_argument("--requests", type=int, default=100_000, help="to train with")
    parser.add_argument("--smoke", action="store_true", help="a quick run")
    options = parser.parse_args()
    if options.smoke:
        options.models, options.requests = ["tiny", "cnn:2"], 512

    # Plans, with times of this machine, which the simulation takes.
    measured = gym.make(
        "DevicePlacementOnline-v0",
        models=options.models,
        devices=options.devices,
        measured=True,
        pace=1.0,
    )
    plans = measured.unwrapped.plans
    measured.close()
    plans.save("plans.json")
    print(plans)

    policy = train("clone-ppo", seed=0, budget=options.requests, plans=plans)

    held_out = gym.make(
        "DevicePlacementOnline-v0", plans="plans.json", rate=options.rate, trace="test"
    )
    rules = {name: make_rule(name, held_out.unwrapped) for name in ("static", "lookahead")}
    for name, chooser in {**rules, "PPO": policy}.items():
        held_out.reset(seed=0)  # the same traces for all
        reward, _ = evaluate_policy(chooser, held_out, n_eval_episodes=5, warn=False)
        print(f"{name}: mean log slow-down {-reward / 400:.3f}")

    with placement_gym.serve_plans("plans.json", policy) as server:
        for model in plans.models:
            ports = placement_gym.load_model(model.name).inputs
            inputs = [np.ones(list(port.shape), port.element_type.to_dtype()) for port in ports]
            _, seconds = server.submit(model.name, inputs).result()
            print(f"{model.name} was served in {1e3 * seconds:.1f} ms, weights loaded first")


if __name__ == "__main__":
    main()
