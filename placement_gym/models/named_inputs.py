"""Names of inputs by optimum-intel, OpenVINO GenAI and early exports of BERT.

Sizes and values follow from these names; only whole names count, unlike ``position_xyz``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.models.shapes import input_names

if TYPE_CHECKING:
    import openvino as ov

GROWING_MASKS = ("attention_mask", "decoder_attention_mask", "input_mask", "mask")
"""1 for each valid token, including past tokens of a model with state."""
MASKS = (*GROWING_MASKS, "encoder_attention_mask")
POSITIONS = ("position_ids", "decoder_position_ids", "cache_position")
"""Position of each new token."""
TOKENS = ("decoder_input_ids", "inputs_embeds", "decoder_inputs_embeds")
"""New tokens of a decoder or their embeddings; ``"input_ids"`` may be an encoder's."""
ENCODER = ("encoder_hidden_states", "encoder_outputs", "encoder_attention_mask")
"""Outputs of an encoder that a decoder reads at each token."""
LENGTHS = (
    "lengths",
    "input_lengths",
    "seq_len",
    "seq_lens",
    "seq_lengths",
    "sequence_length",
    "sequence_lengths",
)
"""Length of each sequence, along the second dimension of the data."""
BEAMS = ("beam_idx",)
"""Sequence of the last inference that each one continues."""


def is_named(port: ov.Output, names: tuple[str, ...]) -> bool:
    """Return whether an input has one of these names, without prefixes and TensorFlow's ``:0``."""
    plain_names = (name.rpartition("/")[2].partition(":")[0] for name in input_names(port))
    return any(name in names for name in plain_names)


def batch_axis(port: ov.Output) -> int | None:
    """Return the dimension of the batch; None if there is none or the rank is unknown.

    It is the first, but positions are (coordinates, batch, tokens), or (tokens,) without a batch.
    """
    rank = port.get_partial_shape().rank
    length = 0 if rank.is_dynamic else rank.get_length()
    axis = length - 2 if is_named(port, POSITIONS) else 0
    return axis if 0 <= axis < length else None
