"""A policy's decision for a request, in as little time as it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_gym.base.arrays import IntArray
from placement_gym.envs.online.observation import Seen

Layer = Callable[[NDArray[np.float32]], NDArray[np.float32]]
ACTIVATIONS: dict[str, Layer] = {"Tanh": np.tanh, "ReLU": partial(np.maximum, np.float32(0))}


def make_chooser(policy: Any) -> Callable[[Seen], IntArray]:
    """Make the function from observations to the plans that a policy chooses.

    Perceptrons of SB3's PPO, A2C and DQN run in NumPy, with the weights that they have now:
    ``predict`` checks and converts for most of a millisecond. Other policies run by ``predict``,
    with the state that it returned last.

    Args:
        policy: Has SB3's ``predict``.

    Returns:
        Takes (..., n_entries) observations of one or more traces, one request of each at a time.
    """
    layers = [read_layer(module) for module in list_modules(policy)]
    state, begins = None, True

    def choose(seen: Seen) -> IntArray:
        for layer in layers:
            seen = layer(seen)  # type: ignore[misc]
        return seen.argmax(axis=-1)

    def ask(seen: Seen) -> IntArray:
        nonlocal state, begins
        begin, begins = np.full(len(np.atleast_2d(seen)), begins), False
        chosen: IntArray
        chosen, state = policy.predict(seen, state, begin, deterministic=True)
        return chosen

    return choose if layers and None not in layers else ask


def list_modules(policy: Any) -> list[Any]:
    """The layers of a perceptron of SB3 itself; none for any other policy."""
    network: Any = getattr(policy, "policy", None)
    kind = type(network).__name__
    if kind == "ActorCriticPolicy":
        before = network.features_extractor
        modules = [*network.mlp_extractor.policy_net, network.action_net]
    elif kind == "DQNPolicy":
        before, modules = network.q_net.features_extractor, [*network.q_net.q_net]
    else:
        return []
    return modules if type(before).__name__ == "FlattenExtractor" else []


def read_layer(module: Any) -> Layer | None:
    """A layer of PyTorch as a function of arrays; None for an unknown one."""
    name = type(module).__name__
    if name != "Linear":
        return ACTIVATIONS.get(name)
    weights, bias = (
        parameter.detach().cpu().numpy().copy() for parameter in (module.weight.T, module.bias)
    )
    return lambda values: values @ weights + bias
