"""Several models under one placement, in a program of your own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.base.errors import unknown_name
from placement_gym.deployment.compile import compile_pipelines
from placement_gym.graph.extract import extract_spec
from placement_gym.models.union import split_union
from placement_gym.problem.placement import Placement

if TYPE_CHECKING:
    import openvino as ov


class Pipelines(Mapping[str, StageExecutor]):
    """Runs the models of a union under one placement, each as a ``Pipeline`` of its own.

    They share devices, whose stages take turns, and nothing else: no model waits for another.

    ```python
    union = placement_gym.load_model(["resnet", "bert-8"])
    placement = Placement.load("plan-resnet-bert-8-throughput.json")
    with Pipelines(ov.Core(), union, placement) as models:
        answer = models["resnet"].submit(image)
        hidden = models["bert-8"].submit(tokens)
    ```

    Args:
        core: Virtual devices of the placement are registered in it.
        model: The union that the placement was made for; it is not changed.
        placement: Where each unit goes, with the settings of each device.
        requests: Requests of each model in flight, times its rate; None is one more than the
            stages of the model that has most.
        config: Further compile properties of every stage.

    Raises:
        PlacementMismatchError: The placement was made for another model.
        CompileError: OpenVINO refused a stage.
        UserError: ``requests`` is less than 1.
    """

    def __init__(
        self,
        core: ov.Core,
        model: ov.Model,
        placement: Placement,
        requests: int | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        pipelines = compile_pipelines(core, model, placement, requests, config)
        self._executors = {pipeline.member.name: pipeline.execute() for pipeline in pipelines}

    def __getitem__(self, name: str) -> StageExecutor:
        if name not in self._executors:
            raise unknown_name("a model", name, list(self._executors))
        return self._executors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._executors)

    def __len__(self) -> int:
        return len(self._executors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with ExitStack() as stack:  # all end, also if one raises
            for executor in self._executors.values():
                stack.callback(executor.shutdown, cancel_futures=kind is not None)


def split_placement(model: ov.Model, placement: Placement) -> dict[str, tuple[ov.Model, Placement]]:
    """Each model of a union with its part of a placement, both as if there were no union.

    Args:
        model: The union, as ``load_model`` returns it.
        placement: Made for it.

    Raises:
        PlacementMismatchError: The placement was made for another model.
    """
    placement.check(extract_spec(model, placement.spec))
    placements = {}
    for name, part in split_union(model).items():
        own = take_part(placement, name)
        graph = extract_spec(part, own.spec)
        placements[name] = part, replace(own, fingerprint=graph.fingerprint())
    return placements


def take_part(placement: Placement, name: str) -> Placement:
    """The part of one model; its fingerprint is still the union's."""
    prefix = f"{name}/"

    def take(values: Mapping[str, Any]) -> dict[str, Any]:
        entries = {key: value for key, value in values.items() if key.startswith(prefix)}
        return {key.removeprefix(prefix): value for key, value in entries.items()}

    members = {
        unit: tuple(node.removeprefix(prefix) for node in nodes)
        for unit, nodes in take(placement.members).items()
    }
    return replace(
        placement,
        model=name,
        units=take(placement.units),
        members=members,
        data_shapes=take(placement.data_shapes),
    )
