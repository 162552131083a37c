"""The kind of request that a model runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.base import import_name
from placement_gym.models import Given, is_stateful
from placement_gym.workloads.inference import Inference
from placement_gym.workloads.request import Request

if TYPE_CHECKING:
    import openvino as ov


WITH_STATE = "placement_gym.workloads.with_state:make_scenario"
"""Makes the request of a model with state, imported where there is one."""


def make_request(
    model: ov.Model, scenario: str | None = None, inputs: Given | None = None
) -> Request:
    """The inferences of one request of a model.

    Args:
        model: As ``load_model`` returns it.
        scenario: As for ``gym.make``.
        inputs: As for ``gym.make``.

    Raises:
        UserError: The keywords do not fit the model.
    """
    make = import_name(WITH_STATE) if is_stateful(model) else Inference.from_model
    request: Request = make(model, scenario, inputs)
    return request
