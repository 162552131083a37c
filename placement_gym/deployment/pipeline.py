"""A placement in a program of your own, with several requests in flight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from placement_gym.backends.pipeline.executor import StageExecutor
from placement_gym.backends.pipeline.inputs import InputReader
from placement_gym.backends.pipeline.stage import compile_stages
from placement_gym.base.arguments import check_integer
from placement_gym.deployment.prepared import prepare_for
from placement_gym.graph.extract import extract_spec
from placement_gym.models.scenario import is_stateful
from placement_gym.problem.placement import Placement

if TYPE_CHECKING:
    import openvino as ov


class Pipeline(StageExecutor):
    """Runs a model under a placement, every stage on another request at the same time.

    A stage is what one device computes between others; it is a model of its own, compiled on that
    device, and may read the outputs of several earlier stages. Tensors pass from stage to stage
    without a copy. It has no part in HETERO.

    ```python
    placement = Placement.load("plan-resnet.json")
    with Pipeline(ov.Core(), model, placement) as pipeline:
        for outputs in pipeline.map(images):
            ...
    ```

    ``submit`` returns a ``concurrent.futures.Future`` and waits while ``requests`` are in flight;
    ``map`` keeps the order; a stage that fails makes the future raise ``StageError``, which names
    it, and the requests before and behind go on. Leaving the ``with`` block waits for all.

    Args:
        core: Virtual devices of the placement are registered in it.
        model: The model that the placement was made for; it is not changed.
        placement: Where each unit goes, with the settings of each device. A device with
            ``NUM_STREAMS`` in its properties runs as many inferences of its stages at a time.
        requests: Requests in flight; None is one more than there are stages, and for a device
            alone twice its streams. More hide differences between requests and take memory for
            intermediate results.
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
        if requests is not None:
            check_integer("requests (None: one more than stages)", requests, 1)
        ready = prepare_for(placement, model)
        graph = extract_spec(ready, placement.spec)
        on = placement.operator_devices(graph)
        stages, outputs = compile_stages(
            core, ready, graph, on, placement.devices, requests, config
        )
        super().__init__(stages, outputs, InputReader(ready), is_stateful(ready))
