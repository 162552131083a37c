"""Stable-Baselines3's own PPO on the simulated twin."""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="tiny", help="built-in model or file")
    parser.add_argument("--timesteps", type=int, default=20_000, help="placements to try")
    parser.add_argument("--smoke", action="store_true", help="a quick run")
    options = parser.parse_args()
    if options.smoke:
        options.timesteps = 256
    # Small networks: more threads take several times as long where cores are shared.
    torch.set_num_threads(1)

    envs = make_vec_env(
        "placement_gym:DevicePlacementSim-v0", n_envs=4, env_kwargs={"model": options.model}
    )
    ppo = PPO("MultiInputPolicy", envs, n_steps=64, ent_coef=0.01, seed=0)
    ppo.learn(options.timesteps, progress_bar=True)
    reward, _ = evaluate_policy(ppo, envs, n_eval_episodes=4)
    print(f"mean log speed-up of the greedy placement: {reward:.3f}")


if __name__ == "__main__":
    main()
