"""What thousands of measured steps leave behind: python benchmarks/soak.py --steps 2000.

From step 500 on, memory must not grow by 1 %, and files and threads stay as they are, in this
process and in the one that measures.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import gymnasium as gym

import placement_gym  # noqa: F401  registers the ids
from placement_gym.backends.measured.isolated import IsolatedBackend
from placement_gym.env import placement_env

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
EVERY = 25
"""Steps between two samples."""
WINDOW = 10
"""Samples that count together; the second window is the warm state that later ones compare with."""


def main() -> None:
    """Step through random placements and print what both processes hold."""
    sys.path.append(str(SUPPORT))
    from resources import Resources

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--model", default="tiny")
    options = parser.parse_args()
    env = gym.make(
        "DevicePlacement-v0",
        model=options.model,
        devices="cpu-testbed",
        warmup=1,
        repeats=2,
        cache=False,
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    backend = placement_env(env).backend
    assert isinstance(backend, IsolatedBackend)
    engine = backend.engine
    assert engine.child is not None
    processes = {"this process": os.getpid(), "its worker": engine.child.process.pid}
    samples: dict[str, list[Resources]] = {name: [] for name in processes}
    failed = 0
    for step in range(1, options.steps + 1):
        env.reset()
        failed += not env.step(env.action_space.sample())[4]["feasible"]
        if step % EVERY:
            continue
        for name, process in processes.items():
            samples[name].append(Resources.of(process))
            if step % (WINDOW * EVERY) == 0:
                held = Resources.usual(samples[name][-WINDOW:])
                warm = Resources.usual(samples[name][WINDOW : 2 * WINDOW] or [held])
                print(f"step {step}, {name}: {held}, {held.growth_since(warm):+.2%}", flush=True)
    restarted = engine.child.process.pid != processes["its worker"]
    print(f"{failed} of {options.steps} steps failed; {restarted=}")
    env.close()


if __name__ == "__main__":
    main()
