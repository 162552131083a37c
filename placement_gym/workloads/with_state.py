"""The request of a model with state: a conversation, or equal steps if it reads no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.workloads.conversation import Conversation
from placement_gym.workloads.signal import Signal
from placement_gym.workloads.steps import counts_tokens

if TYPE_CHECKING:
    import openvino as ov

    from placement_gym.models import Given
    from placement_gym.workloads.scenario import Scenario


def make_scenario(model: ov.Model, scenario: str | None, inputs: Given | None) -> Scenario:
    """See ``kinds.make_request``."""
    # A named conversation is one: version 0.3 had no other scenarios.
    named = (scenario or "").startswith("chat")
    kind = Conversation if named or counts_tokens(model) else Signal
    return kind.of(model, scenario, inputs)
