"""The models of a union, and how often each runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from placement_gym.base import UserError, is_path

if TYPE_CHECKING:
    import openvino as ov

KEY = ["placement_gym", "models"]
"""Path of names and rates, as JSON, in the runtime info of a union and its files."""
RATED = re.compile(r"(?P<model>.+):(?P<rate>[^:/\\]*)")
RATE = re.compile(r"[1-9]\d{0,2}")


class Member(NamedTuple):
    """A model of a union, and how often it runs in a round."""

    name: str
    rate: int = 1


def parse_rate(model: Any) -> tuple[Any, int]:
    """Split ``"resnet:2"`` into the model and its rate, by default 1.

    Raises:
        UserError: The rate is not a whole number from 1 to 999.
    """
    match = None
    if isinstance(model, str) and not is_path(model):
        match = RATED.fullmatch(model)
    if match is None:
        return model, 1
    if not RATE.fullmatch(match["rate"]):
        raise UserError(
            f"{model!r:.200}: a rate is a whole number from 1 to 999, as in 'resnet:2' for two "
            "inferences for each one of models without a rate"
        )
    return match["model"], int(match["rate"])


def join_names(members: Iterable[Member]) -> str:
    """``"resnet+bert-8:2"``."""
    return "+".join(name if rate == 1 else f"{name}:{rate}" for name, rate in members)


def list_members(model: ov.Model) -> tuple[Member, ...]:
    """List the models of a union; none for any other model."""
    if not model.has_rt_info(KEY):
        return ()
    return tuple(Member(*pair) for pair in json.loads(model.get_rt_info(KEY).astype(str)))
