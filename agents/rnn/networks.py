"""The networks in the order of the paper: units, encoder, decoder with attention, devices (3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from agents.common import (
    COLUMNS,
    FORBIDDEN,
    MIN_COST,
    FreeMemory,
    GraphBatch,
    UnitCategorical,
    describe_units_on_devices,
    scatter,
    select_columns,
)

State = tuple[Tensor, Tensor]


class UnitFeatures(nn.Module):
    """Features of units, of their producers and of their consumers (Mirhoseini et al. 2017, 3.2).

    Deviation: the paper identifies neighbours by node numbers, which ties weights to one graph;
    here a unit reads the mean features of its producers and of its consumers.

    Args:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        n_devices: Number of devices whose times, limits and transfers are seen, see
            ``agents.common.devices``; 0 sees none.
    """

    columns: Tensor

    def __init__(self, features: Sequence[str], n_devices: int = 0) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor(select_columns(features)), persistent=False)
        self.sees_devices = n_devices > 0
        self.width = 3 * (len(self.columns) + n_devices * len(COLUMNS))

    def forward(self, graphs: GraphBatch) -> Tensor:
        """(G, N, width) features of padded units."""
        x = graphs.scaled[:, self.columns]
        if self.sees_devices:
            x = torch.cat([x, describe_units_on_devices(graphs).flatten(1)], dim=1)
        sides = [
            scatter(x[source], target, dim_size=len(x), reduce="mean")
            for source, target in (graphs.edge_index, graphs.edge_index.flip(0))
        ]
        return graphs.pad(torch.cat([x, *sides], dim=1))


@dataclass(frozen=True, eq=False)
class EncodedSequences:
    """Encoded sequences, the decoder's input."""

    encoding: Tensor  # (S, M, 2 * hidden) of each place of S sequences
    mask: Tensor  # (S, M) bool, False for padding, which comes last
    row: Tensor  # (B,) sequence of each row
    prior: Tensor | None = None  # (S, M, D) logits that are added; None adds nothing


class Segment(NamedTuple):
    """Consecutive places of each row."""

    encoding: Tensor  # (B, L, 2 * hidden) of each place
    mask: Tensor  # (B, L) bool, False for padding
    prior: Tensor | None  # (B, L, D) logits that are added, or None


class Seq2Seq(nn.Module):
    """Chooses a device for one place of a sequence after another (Mirhoseini et al. 2017, 3.2).

    A bidirectional LSTM encodes the sequence. At each place the decoder's LSTM reads the encoded
    place and the device chosen before, attends additively, and a softmax gives the probabilities.
    Attention covers ``segment`` places; the decoder's state is carried from segment to segment. For
    long sequences gradient checkpointing keeps the activations of one segment; gradients are exact.

    Args:
        width: Width of the input of a place.
        n_devices: Number of devices.
        hidden: Width of the encoder's LSTM in each direction.
        decoder: Width of the decoder's LSTM.
        attention: Width of queries and keys.
        segment: Places per attention window.
    """

    def __init__(
        self, width: int, n_devices: int, hidden: int, decoder: int, attention: int, segment: int
    ) -> None:
        super().__init__()
        self.segment, self.n_devices = segment, n_devices
        self.encoder = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.chosen = nn.Embedding(n_devices + 1, decoder // 8)
        self.decoder = nn.LSTM(2 * hidden + decoder // 8, decoder, batch_first=True)
        self.key = nn.Linear(2 * hidden, attention)
        self.query = nn.Linear(decoder, attention, bias=False)
        self.energy = nn.Linear(attention, 1, bias=False)
        self.place = nn.Linear(decoder + 2 * hidden, n_devices)

    def encode(self, places: Tensor, mask: Tensor, row: Tensor) -> EncodedSequences:
        """Encode (S, M, width) sequences with (S, M) masks; ``row``: (B,) sequence of each row."""
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(places, lengths, batch_first=True, enforce_sorted=False)
        encoding, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=mask.shape[1]
        )
        return EncodedSequences(encoding, mask, row)

    def compute_logits(self, encoded: EncodedSequences, devices: Tensor) -> Tensor:
        """(B, M, D) logits of each place, conditioned on the (B, M) devices before it."""
        first = torch.full_like(devices[:, :1], self.n_devices)
        before = self.chosen(torch.cat([first, devices[:, :-1]], dim=1).long())
        state = self.initial_state(encoded)
        several = devices.shape[1] > self.segment
        parts = []
        for begin in range(0, devices.shape[1], self.segment):
            segment, fed = self.cut_segment(encoded, begin), before[:, begin : begin + self.segment]
            if several and torch.is_grad_enabled():
                step = checkpoint(self.decode_segment, segment, fed, state, use_reentrant=False)
            else:
                step = self.decode_segment(segment, fed, state)
            logits, state = step
            parts.append(logits)
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def choose_devices(
        self,
        encoded: EncodedSequences,
        allowed: Tensor | None,
        greedy: bool,
        memory: FreeMemory | None = None,
    ) -> Tensor:
        """(B, M) devices, each conditioned on those before it.

        Args:
            encoded: S sequences for B rows.
            allowed: (B, M, D) bool, devices that may be chosen; None allows all.
            greedy: Whether the most likely devices are chosen instead of sampled ones.
            memory: Restricts devices to those with room for the place; None does not.
        """
        h, c = (part[0] for part in self.initial_state(encoded))
        last = torch.full((len(encoded.row),), self.n_devices, device=encoded.row.device)
        choices: list[Tensor] = []
        used = torch.zeros(len(last), self.n_devices, dtype=torch.float64, device=last.device)
        for begin in range(0, encoded.mask.shape[1], self.segment):
            segment = self.cut_segment(encoded, begin)
            keys = self.key(segment.encoding)
            for place, encoding in enumerate(segment.encoding.unbind(dim=1), begin):
                # the decoder reads the place and the device just chosen (3.2)
                read = torch.cat([encoding, self.chosen(last)], dim=1)
                h, c = torch.lstm_cell(read, (h, c), *self.decoder.all_weights[0])
                logits = self.attend(h[:, None], keys, segment)[:, 0]
                if encoded.prior is not None:
                    logits = logits + encoded.prior[encoded.row, place]
                # deviation: devices that do not support the place are not chosen
                if allowed is not None:
                    logits = logits.masked_fill(~allowed[:, place], FORBIDDEN)
                # nor, unlike in the paper, those that have no room left
                if memory is not None:
                    logits = logits.masked_fill(~memory.mask(place, used), FORBIDDEN)
                if greedy:
                    last = logits.argmax(dim=1)
                else:
                    last = torch.multinomial(logits.softmax(dim=1), 1)[:, 0]
                if memory is not None:
                    used = memory.add(used, place, last)
                choices.append(last)
        return torch.stack(choices, dim=1)

    def cut_segment(self, encoded: EncodedSequences, begin: int) -> Segment:
        """Cut the segment that begins at a place out of every row."""
        places = slice(begin, begin + self.segment)
        row = encoded.row
        prior = None if encoded.prior is None else encoded.prior[:, places][row]
        return Segment(encoded.encoding[:, places][row], encoded.mask[:, places][row], prior)

    def initial_state(self, encoded: EncodedSequences) -> State:
        """The decoder's state before the first place."""
        zeros = encoded.encoding.new_zeros(1, len(encoded.row), self.decoder.hidden_size)
        return zeros, zeros

    def decode_segment(
        self, segment: Segment, before: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """(B, L, D) logits of a segment, conditioned on the (B, L, ...) embedded choices before."""
        out, state = self.decoder(torch.cat([segment.encoding, before], dim=2), state)
        logits = self.attend(out, self.key(segment.encoding), segment)
        return logits if segment.prior is None else logits + segment.prior, state

    def attend(self, out: Tensor, keys: Tensor, segment: Segment) -> Tensor:
        """(B, L, D) logits, with additive attention over the segment (Bahdanau et al. 2015)."""
        energy = self.energy((self.query(out)[:, :, None] + keys[:, None]).tanh())[..., 0]
        share = energy.masked_fill(~segment.mask[:, None], FORBIDDEN).softmax(dim=2)
        logits: Tensor = self.place(torch.cat([out, share @ segment.encoding], dim=2))
        return logits


@dataclass(frozen=True, eq=False)
class AutoregressiveDevices:
    """Devices of a sequence, each conditioned on those before it."""

    network: Seq2Seq
    encoded: EncodedSequences
    weight: Tensor  # (B, M) bool, False for padding
    allowed: Tensor | None = None  # (B, M, D) bool, devices that may be chosen; None allows all
    memory: FreeMemory | None = None  # allows devices with room for each place; None allows all

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """(B, M) devices, 0 for padding."""
        where = self.allowed, deterministic, self.memory
        return self.network.choose_devices(self.encoded, *where) * self.weight

    def conditioned_on(self, actions: Tensor) -> UnitCategorical:
        """The distribution of each device, conditioned on the (B, M) devices before it."""
        logits, allowed = self.network.compute_logits(self.encoded, actions), self.allowed
        if self.memory is not None:
            # what was chosen had room when it was drawn
            chosen = one_hot(actions.long(), self.network.n_devices).bool()
            roomy = self.memory.masks(actions) | chosen
            allowed = roomy if allowed is None else roomy & allowed
        return UnitCategorical(logits, self.weight, None, allowed)

    def restricted_to(self, allowed: Tensor) -> AutoregressiveDevices:
        """The distribution with only the devices that a (B, M, D) bool mask allows."""
        both = allowed if self.allowed is None else allowed & self.allowed
        return replace(self, allowed=both)


class DevicePreferences(nn.Module):
    """Preferences of units for devices, with weights for any numbers of both.

    Initially it prefers fast devices, by ``cost_weight`` times the logarithm of the times.

    Args:
        cost_weight: Of the logarithm of times; 0 begins without a preference.
        hidden: Width of the hidden layer.
    """

    def __init__(self, cost_weight: float, hidden: int = 32) -> None:
        super().__init__()
        self.cost_weight = nn.Parameter(torch.tensor(float(cost_weight)))
        out = nn.Linear(hidden, 1, bias=False)
        # Zero, so that the initial policy is the preference for fast devices alone.
        nn.init.zeros_(out.weight)
        self.layers = nn.Sequential(nn.Linear(len(COLUMNS), hidden), nn.Tanh(), out)

    def forward(self, features: Tensor, unit_ms: Tensor) -> Tensor:
        """(..., D) logits of features (..., D, F) and times (..., D)."""
        logits: Tensor = self.layers(features)[..., 0]
        return logits - self.cost_weight * (unit_ms + MIN_COST).log()
