"""Inputs that export tools give fixed names, from which follow their sizes and their values.

The names are those that optimum-intel writes and OpenVINO GenAI looks up, and of BERT's early
exports. An input of any other name is known by its shape and type alone: what a part of a name
seems to say may be wrong, as in ``beam_scores`` or ``position_xyz``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement_gym.models.shapes import input_names

if TYPE_CHECKING:
    import openvino as ov

GROWING_MASKS = ("attention_mask", "decoder_attention_mask", "input_mask", "mask")
"""1 for each token that counts; of a model with state for those of the past as well."""
MASKS = (*GROWING_MASKS, "encoder_attention_mask")
POSITIONS = ("position_ids", "decoder_position_ids", "cache_position")
"""The number of each new token."""
TOKENS = ("decoder_input_ids", "inputs_embeds", "decoder_inputs_embeds")
"""The new tokens of a decoder, or their embeddings; ``"input_ids"`` may be an encoder's."""
ENCODER = ("encoder_hidden_states", "encoder_outputs", "encoder_attention_mask")
"""What a decoder reads of its encoder, the same at each token."""
LENGTHS = (
    "lengths",
    "input_lengths",
    "seq_len",
    "seq_lens",
    "seq_lengths",
    "sequence_length",
    "sequence_lengths",
)
"""The number of elements of each sequence that count, along the second dimension of the data."""
BEAMS = ("beam_idx",)
"""The sequence of the last inference that each one continues."""


def is_named(port: ov.Output, names: tuple[str, ...]) -> bool:
    """Return whether an input has one of these names, in a union behind that of its model.

    TensorFlow adds the index of an output to names, as in ``"input_mask:0"``.
    """
    plain_names = (name.rpartition("/")[2].partition(":")[0] for name in input_names(port))
    return any(name in names for name in plain_names)


def batch_axis(port: ov.Output) -> int | None:
    """The dimension that counts sequences; None for an input that has none, or of unknown rank.

    It is the first one, but positions of several coordinates are (coordinates, batch, tokens), and
    those of no batch (tokens,).
    """
    rank = port.get_partial_shape().rank
    length = 0 if rank.is_dynamic else rank.get_length()
    axis = length - 2 if is_named(port, POSITIONS) else 0
    return axis if 0 <= axis < length else None
