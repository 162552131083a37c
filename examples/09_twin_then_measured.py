"""Train an agent in the twin of this machine, then continue with measured steps."""

import argparse
from functools import partial
from pathlib import Path

import agents
import placement_gym
from agents.common.vec_env import vectorize
from agents.fine_tuning import TwinAgreement
from agents.static import FixedPlacement

IN_TWIN, MEASURED = 200, 20
"""Placements of an update: where they are free, and where each takes a second."""
ENDS = 2
"""Placements that updates do not count: the twin's, measured first, and the policy's own."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet", help="built-in model or file")
    parser.add_argument("--devices", help="preset, names or file; default: the machine's")
    parser.add_argument("--agent", default="graph-groups", help="or hsdag, rnn, gdp")
    parser.add_argument("--twin-steps", type=int, default=20_000, help="placements in the twin")
    parser.add_argument("--updates", type=int, default=5, help="of 20 measured placements")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each agent")
    parser.add_argument("--out", default="results/twin", help="folder for rows and table")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.twin_steps, options.updates = "tiny", 400, 1
    budget = MEASURED * options.updates + ENDS
    trained, agreement = {}, {}

    def twin_alone(env, seed):
        """Learn in the twin; the most likely placement is measured."""
        twin = placement_gym.make_twin(env)
        model = agents.make(options.agent, twin, seed, envs={"num_envs": IN_TWIN})
        model.learn(options.twin_steps)
        placement, _ = model.predict(twin.reset()[0], deterministic=True)
        trained[seed], agreement[seed] = (model, FixedPlacement(placement)), TwinAgreement(twin)
        return trained[seed][1]

    def twin_then_measured(env, seed):
        """Go on with measured steps, as many as the other agents have."""
        model, first = trained.pop(seed)
        placement_gym.play_episode(env, first)  # the first of the measured steps
        model.set_env(vectorize(env, num_envs=MEASURED))
        model.learn = partial(model.learn, callback=agreement[seed])
        return model

    compared = ["openvino-hetero", "openvino-auto", "milp", "random-blocks", options.agent]
    placement_gym.compare(
        options.model, [*compared, twin_alone, twin_then_measured],
        devices=options.devices, budget=budget, seeds=options.seeds, out=options.out,
    )  # fmt: skip
    print((Path(options.out) / "table.md").read_text())
    print("| seed | rollout | placements | measured / predicted speed-up | rank correlation |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for seed, callback in agreement.items():
        for rollout, (ratio, correlation, distinct) in enumerate(callback.found, 1):
            print(f"| {seed} | {rollout} | {distinct} | {ratio:.3f} | {correlation:.2f} |")


if __name__ == "__main__":
    main()
