"""``DevicePlacement-v0``, whose placements OpenVINO measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placement_gym.backends import CachedBackend
from placement_gym.backends.measured import TimingProtocol
from placement_gym.base import (
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    suggest_keywords,
)
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.episode import check_options
from placement_gym.hardware import DevicesArgument, resolve_devices
from placement_gym.models import InputsArgument, ModelArgument, ModelSpec, Shapes
from placement_gym.workloads import find_objective


def make_protocol(
    warmup: int, repeats: int | None, noise: float, objective: str, requests: int | None
) -> TimingProtocol:
    """Make the protocol of a step from arguments of ``MeasuredEnv``."""
    goal = find_objective(objective)
    goal.check_requests(requests)
    check_integer("warmup", warmup, 0)
    if repeats is None:
        repeats = goal.repeats
    check_integer("repeats", repeats, 2)
    check_positive("noise", noise)
    return TimingProtocol(warmup, repeats, noise, objective=objective, requests=requests)


class MeasuredEnv(DevicePlacementEnv):
    """``DevicePlacement-v0``: every placement is compiled and timed by OpenVINO.

    Spaces, rewards, episodes and info are those of ``DevicePlacementEnv``.

    ## Description
    OpenVINO compiles each placement on the devices of this machine and times it in turn with the
    reference device ([how](../../docs/explanation/latency.md#measured)). A step takes about a
    second. To need fewer steps, [train in a
    simulation](../../docs/tutorial/first_agent.md#continue-on-measurements) first.

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacement-v0", model="resnet", devices="cpu-testbed")
    ```

    `gym.make_vec("DevicePlacement-v0", num_envs=4)` times the placements of a step against one
    reference. More about arguments: [models, shapes and inputs](../../docs/how_to/own_problem.md),
    [devices and constraints](../../docs/how_to/devices.md),
    [scenarios](../../docs/how_to/language_models.md),
    [throughput](../../docs/how_to/several_models.md).

    ## Measured Information
    A stateful model adds `prefill_ms` and `token_ms`, or `step_ms`, NaN if the placement failed.
    Throughput adds `requests_per_s`, `requests` in flight and `streams`; latencies are then the
    times between two results.

    Args:
        model: Built-in name, path of a file that OpenVINO reads, or ``ov.Model``; or a list of
            these to run side by side, where ``"resnet:2"`` runs twice as often.
        devices: Preset, names, file or specifications. None takes the machine's devices, or
            ``cpu-testbed`` if there is only one.
        granularity: ``"op"``, ``"colocated"`` or ``"fused"``.
        graph: ``"folded"``, or ``"raw"``: every node of OpenVINO's model.
        split: ``"alias"``, ``"hetero"`` or ``"auto"``, see ``placement_gym.compile_model``.
        warmup: Maximum number of untimed inferences after the first one; fewer if times stop
            falling.
        repeats: Maximum number of timed inferences of the placement, and of the reference; None
            takes six. For throughput, the maximum number of timed windows of at least eight
            results; None takes four.
        noise: Timing ends early if the half-width of the speed-up's 95 % interval is this fraction,
            or if the placement is clearly slower than the best one so far.
        cache: Answer a repeated placement from memory.
        isolate: Run OpenVINO in a separate process: a placement that crashes or hangs it twice is
            infeasible, and your program continues.
        timeout_s: Seconds after which a step of that process counts as hung.
        shapes: Sizes of dynamic dimensions, as in ``{"input_ids": [1, 64]}``; ``"?"`` leaves one
            dynamic, ``"1..128"`` bounds it.
        scenario: What one run of a stateful model does. ``"chat-128-32"`` reads 128 tokens, then
            decodes 32. None takes ``"chat"``, 64 and 16, or for a model that reads no tokens
            ``"steps-16"``.
        inputs: Mapping of names to arrays, or a file or folder of them; a list has several samples.
            None generates inputs.
        extension: File of a library for ``ov.Core.add_extension``. Its code runs.
        objective: ``"latency"``, or ``"throughput"``: the milliseconds between two results with
            several requests in flight.
        requests: For throughput, requests in flight on several devices. None takes one more than
            there are devices, or for a stateful model one per device.
        tolerance: Maximum relative error of outputs; beyond it a placement is infeasible. None
            chooses it by the devices' precision.
        constraints: Operators to keep on devices or off them, as in ``{"keep_off": {"NPU":
            ["type:Softmax"]}}``, or a file of these.
        costs: ``"profiled"`` measures the times of operators and transfers once and keeps them, for
            observations and repairs. None measures none.
        kwargs: See ``DevicePlacementEnv``.

    Raises:
        UnknownDeviceError: The machine does not have a device.
        UnsupportedModelError: The model has dynamic inputs whose sizes neither ``shapes`` nor
            ``inputs`` give.
        ValueError: Another argument is out of range.
    """

    @suggest_keywords
    def __init__(
        self,
        *,
        model: ModelArgument = "resnet",
        devices: DevicesArgument = None,
        granularity: str = "colocated",
        graph: str = "folded",
        shapes: Shapes | None = None,
        inputs: InputsArgument | None = None,
        scenario: str | None = None,
        extension: str | Path | None = None,
        constraints: Any = None,
        costs: str | None = None,
        objective: str = "latency",
        requests: int | None = None,
        split: str = "auto",
        warmup: int = 1,
        repeats: int | None = None,
        noise: float = 0.05,
        tolerance: float | None = None,
        cache: bool = True,
        isolate: bool = True,
        timeout_s: float = 120.0,
        reward: str = "log_speedup",
        horizon: int = 1,
        repair: bool = False,
        max_nodes: int | None = None,
        max_edges: int | None = None,
        max_devices: int | None = None,
        observe_graph: bool = True,
        observe_devices: bool = False,
        render_mode: str | None = None,
    ) -> None:
        # Arguments are checked before a model is loaded, which takes seconds.
        check_options(reward, horizon, repair, render_mode)
        check_flag("cache", cache)
        check_flag("isolate", isolate)
        check_positive("timeout_s", timeout_s)
        if costs is not None:
            check_choice("costs", costs, ("profiled",))
        spec = ModelSpec(model, granularity, graph, shapes, inputs, scenario, extension)
        protocol = make_protocol(warmup, repeats, noise, objective, requests)
        # Imported here, because `import placement_gym` must not load OpenVINO.
        from placement_gym.backends.measured import build_measured_backend

        backend = build_measured_backend(
            spec,
            resolve_devices(devices, "measured"),
            split,
            protocol,
            isolate,
            timeout_s,
            tolerance,
            constraints,
        )
        super().__init__(
            # The benchmark also counts placements that come from the cache.
            CachedBackend(backend) if cache else backend,
            reward=reward,
            horizon=horizon,
            repair=repair,
            max_nodes=max_nodes,
            max_edges=max_edges,
            max_devices=max_devices,
            observe_graph=observe_graph,
            observe_devices=observe_devices,
            costs=None if costs is None else backend.cost_table(),
            graph=graph,
            render_mode=render_mode,
        )
