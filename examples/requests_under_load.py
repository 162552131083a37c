"""A policy that chooses the plan of each request: SB3's PPO and rules on the same traces."""

import argparse

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import placement_gym  # noqa: F401
from placement_gym.envs.online.rules import make_rule

ENV_ID = "DevicePlacementOnline-v0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["resnet", "inception", "vit", "mobilenet"])
    parser.add_argument("--devices", nargs="+", default=["CPU", "GPU"])
    parser.add_argument("--costs", default="analytic", help="profiled: times of this machine")
    parser.add_argument("--rate", type=float, default=1.0, help="requests in a mean latency")
    parser.add_argument("--requests", type=int, default=200_000, help="to train with")
    parser.add_argument("--episodes", type=int, default=10, help="to evaluate with")
    parser.add_argument("--smoke", action="store_true", help="a quick run")
    options = parser.parse_args()
    if options.smoke:
        options.models, options.requests, options.episodes = ["tiny", "cnn:2"], 512, 2
    # Small networks: more threads take several times as long where cores are shared.
    torch.set_num_threads(1)

    # Solvers propose the plans once; policies are trained and evaluated on the same ones.
    first = gym.make(
        ENV_ID, models=options.models, devices=options.devices, costs=options.costs
    ).unwrapped
    print(first.plans)
    first.plans.save("plans.json")

    # Queues are shorter at a lower rate, and rewards vary less: a policy learns more there.
    settings = {"plans": "plans.json", "rate": 0.6, "render_mode": None}
    envs = make_vec_env(ENV_ID, 32, seed=0, env_kwargs=settings)
    policy = PPO("MlpPolicy", envs, n_steps=16, batch_size=512, ent_coef=0.002, seed=0)
    policy.learn(options.requests)
    policy.save("policy.zip")

    test = gym.make(ENV_ID, plans="plans.json", rate=options.rate, trace="test")
    rules = {name: make_rule(name, test.unwrapped) for name in ("static", "lookahead")}
    for name, chooser in {**rules, "PPO": policy}.items():
        test.reset(seed=0)  # the same traces for all
        reward, _ = evaluate_policy(chooser, test, n_eval_episodes=options.episodes, warn=False)
        print(f"{name}: mean log slow-down {-reward / test.unwrapped.requests:.3f}")


if __name__ == "__main__":
    main()
