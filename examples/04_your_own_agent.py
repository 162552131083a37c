"""An agent of your own, compared with the baselines: copy this file and change ``Mine``."""

import argparse

import numpy as np
from rich.console import Console

import placement_gym


class Mine:
    """Places the heaviest units on the second device and searches for the best number of them.

    An agent needs only ``predict``; ``learn`` may step the environment until the budget of
    evaluations is spent.
    """

    def __init__(self, env):
        self.env = env
        work = placement_gym.placement_env(env).problem.units.quotient.flops
        self.heaviest_first = np.argsort(-work)
        self.best, self.n_moved = 0.0, 0

    def place(self, n_moved):
        action = np.zeros(len(self.heaviest_first), dtype=np.int64)
        action[self.heaviest_first[:n_moved]] = 1
        return action

    def learn(self, total_timesteps):
        for n_moved in np.linspace(1, len(self.heaviest_first) - 1, total_timesteps, dtype=int):
            self.env.reset()
            _, _, _, _, info = self.env.step(self.place(n_moved))
            if info["speedup"] > self.best:
                self.best, self.n_moved = info["speedup"], n_moved

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return self.place(self.n_moved), state


def make(env, seed):
    """Build the agent; ``placement-gym compare --agents my_module:make`` finds it by name."""
    return Mine(env)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="DevicePlacementSim-v0", help="which environment")
    parser.add_argument("--model", default="inception", help="built-in model or file")
    parser.add_argument("--budget", type=int, default=50, help="evaluations per agent")
    parser.add_argument("--out", default="results", help="folder for the results")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.budget = "tiny", 5

    document = placement_gym.compare(
        options.model, [make, "random-blocks", "window"], options.env,
        budget=options.budget, out=options.out,
    )  # fmt: skip
    Console().print(placement_gym.comparison_table(document))


if __name__ == "__main__":
    main()
