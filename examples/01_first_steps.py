"""Make the environment and try a few placements."""

import argparse

import gymnasium as gym

import placement_gym  # noqa: F401  registers the environments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="DevicePlacement-v0", help="which environment")
    parser.add_argument("--model", default="resnet", help="built-in model or file")
    parser.add_argument("--steps", type=int, default=5, help="placements to try")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.steps = "tiny", 2

    env = gym.make(options.env, model=options.model, render_mode="ansi")
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    print(f"{info['devices'][0]} alone takes {info['reference_ms']:.2f} ms, "
          f"the fastest single device {info['best_single_ms']:.2f} ms\n")  # fmt: skip
    for _ in range(options.steps):
        _, reward, _, _, info = env.step(env.action_space.sample())
        print(env.render())
        print(f"reward {reward:.3f}, {info['n_transfers']} transfers\n")
        env.reset()
    env.close()


if __name__ == "__main__":
    main()
