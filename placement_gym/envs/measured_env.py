"""The entry point of ``gym.make`` for environments that OpenVINO measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placement_gym.backends import CachedBackend
from placement_gym.backends.measured import TimingProtocol
from placement_gym.base import (
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    flat_keywords,
)
from placement_gym.envs.env import DevicePlacementEnv
from placement_gym.envs.options import EnvOptions
from placement_gym.hardware import DevicesArgument, resolve_devices
from placement_gym.models import ModelSpec
from placement_gym.workloads import find_objective


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions:
    """Settings of measurements; ``MeasuredEnv`` documents each keyword.

    Raises:
        UserError: One is out of range: loading a model takes seconds, so that this fails before.
    """

    objective: str = "latency"
    requests: int | None = None
    split: str = "auto"
    tolerance: float | None = None
    warmup: int = 1
    repeats: int | None = None
    noise: float = 0.05
    cache: bool = True
    isolate: bool = True
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        check_integer("warmup", self.warmup, 0)
        if self.repeats is not None:
            check_integer("repeats", self.repeats, 2)
        check_positive("noise", self.noise)
        check_flag("cache", self.cache)
        check_flag("isolate", self.isolate)
        check_positive("timeout_s", self.timeout_s)
        find_objective(self.objective).check_requests(self.requests)

    def make_protocol(self) -> TimingProtocol:
        """The protocol of a step."""
        repeats = find_objective(self.objective).repeats if self.repeats is None else self.repeats
        return TimingProtocol(
            self.warmup, repeats, self.noise, objective=self.objective, requests=self.requests
        )


class MeasuredEnv(DevicePlacementEnv):
    """``DevicePlacement-v0``: every placement is compiled and timed by OpenVINO.

    Spaces, rewards, episodes and info are those of ``DevicePlacementEnv``.

    ## Description
    Placements run on the devices of this machine, interleaved with the reference device so that
    slow drift cancels; see [measurement](../../docs/explanation/measurement.md).

    ```python
    import gymnasium as gym
    import placement_gym

    env = gym.make("DevicePlacement-v0", model="resnet", devices="cpu-testbed")
    ```

    ## References
    * OpenVINO's [heterogeneous execution](https://docs.openvino.ai).
    * HSDAG (Duan et al. 2024), whose problem this is.

    Args:
        model: Built-in name, path of a file that OpenVINO reads, or ``ov.Model``; or a list of
            these, of models that run side by side, ``"resnet:2"`` twice as often as others.
        devices: Preset, names, file or specifications; None takes the machine's devices, or the
            preset ``cpu-testbed`` on a machine with a single one.
        granularity: What a unit is: ``"op"``, ``"colocated"`` or ``"fused"``.
        graph: ``"folded"`` or ``"raw"``.
        split: ``"alias"``, ``"hetero"`` or ``"auto"``, see ``placement_gym.compile_model``.
        warmup: Largest number of inferences before the first counted one, beside the first of all,
            with which outputs are compared; they end when times stop falling.
        repeats: Largest number of counted inferences of the candidate and of the reference, each;
            with objective ``"throughput"`` of windows of eight or more results. None is six
            inferences or four windows.
        noise: Half-width of the uncertainty of a speed-up, as a fraction, at which counting ends
            earlier. It also ends where a placement is clearly slower than the best one so far.
        cache: Answer a repeated placement from memory. Finalists are measured again.
        isolate: Run OpenVINO in a process of its own, which starts with the first measurement: a
            placement that crashes it or hangs is tried once more and then is infeasible, and the
            run goes on. False measures in this process.
        timeout_s: Seconds that one step of that process, such as a compilation or an inference,
            may take before it counts as hung.
        shapes: Sizes of the dynamic dimensions of inputs, as in ``{"input_ids": [1, 64]}``; -1 or
            ``"?"`` leaves one dynamic, ``"1..128"`` gives it bounds.
        scenario: What one run of a model with state is: ``"chat-128-32"`` gives it a prompt of 128
            tokens on an empty state and then decodes 32 tokens one by one. None is ``"chat"``, 64
            and 16 tokens. Latencies are those of the whole scenario, info has ``prefill_ms`` and
            ``token_ms`` in addition, outputs are compared at every step, and the memory of a
            device includes its part of the state at the end. A model that reads no tokens, as of
            audio, runs ``"steps-16"``, equal steps, with ``step_ms``. Dimensions that ``shapes``
            does not bind are a batch of one, if they are an input's first, else the tokens: the
            new ones, or all of them where the input's name has ``mask`` in it. The length of an
            encoder's output has to be bound, or given by ``inputs``.
        inputs: Inputs of your own: an ``.npz`` of named arrays, a folder of ``.npy``, a mapping of
            names to arrays, or a list of mappings, the samples. An array of a dimension more than
            its input has samples along its first axis; others count for all. The first sample is
            what is timed, outputs are compared on each, and with several requests in flight they
            have different ones. Where the model leaves dimensions dynamic, it stays so and is
            measured at the sizes of the first sample. Arrays of tokens are those of a whole
            scenario. None generates inputs, of dimensions with an upper bound at that.
        extension: File of a library with operators that OpenVINO lacks, which
            ``ov.Core.add_extension`` loads in each process that reads the model. It is code that
            runs.
        objective: ``"latency"``; or ``"throughput"``: several requests are in flight, in an
            ``ov.AsyncInferQueue``, and latencies are the milliseconds between two results. A
            device alone has the number of streams and requests that suits it best. Info has
            ``requests_per_s``, ``requests`` in flight and ``streams``. Of a model with state a
            request is the whole scenario; of several models it is a round, in which each runs as
            often as its rate says.
        requests: With objective ``"throughput"``, requests in flight of a placement on several
            devices; None is one more than devices, and as many as devices of a model with state.
        tolerance: Largest relative error of a placement's outputs, beyond which it is infeasible.
            None is 1e-4 where all devices compute in f32, else 3e-2. Of a quantised model it is
            three times what rounding, or integers that overflow, were measured to cost it, but at
            most 0.1, and 3e-2 where that cannot be measured: with state, or without an input of
            real numbers.
        constraints: Operators that are kept on devices or off them, devices of inputs and outputs,
            and the most submodels, as ``{"keep_off": {"NPU": ["type:Softmax"]}}``, or a file of
            these; see ``placement_gym.problem.constraints``. Devices alone are references
            whatever it says.
        costs: ``"profiled"``: observations and repairs read times of operators and transfers that
            are measured on this machine, once, and kept. None measures none: features of units hold
            no times.
        kwargs: See ``DevicePlacementEnv``.

    Raises:
        UnknownDeviceError: The machine does not have a device.
        UnsupportedModelError: The model has dynamic inputs that neither ``shapes`` binds nor
            ``inputs`` have.
        ValueError: Another argument is out of range.
    """

    @flat_keywords(spec=ModelSpec, measuring=MeasuringOptions, options=EnvOptions)
    def __init__(
        self,
        *,
        spec: ModelSpec,
        devices: DevicesArgument = None,
        constraints: Any = None,
        costs: str | None = None,
        measuring: MeasuringOptions,
        options: EnvOptions,
    ) -> None:
        if costs is not None:
            check_choice("costs", costs, ("profiled",))
        # Imported here, because `import placement_gym` must not load OpenVINO.
        from placement_gym.backends.measured import build_measured_backend

        backend = build_measured_backend(
            spec,
            resolve_devices(devices, "measured"),
            measuring.split,
            measuring.make_protocol(),
            measuring.isolate,
            measuring.timeout_s,
            measuring.tolerance,
            constraints,
        )
        # A repeated placement is not measured again; the benchmark still counts it.
        evaluating = CachedBackend(backend) if measuring.cache else backend
        profile = None if costs is None else backend.cost_table()
        super().__init__(evaluating, options=options, costs=profile, graph=spec.graph)
