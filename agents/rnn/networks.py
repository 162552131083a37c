"""The networks in the order of the paper: units, encoder, decoder with attention, devices (3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

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

PAPER_FEATURES = ("type", "shape")
PREFERENCE_HIDDEN = 32
"""Width of the hidden layer of ``DevicePreferences``."""
State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class RNNOptions:
    """Options of ``RNNPolicy`` and ``HDPPolicy``; saved models name them.

    ``devices`` and ``respect_memory`` are not of the papers.

    Attributes:
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        hidden: Width of the encoder's LSTM in each direction.
        decoder: Width of the decoder's LSTM.
        attention: Width of queries and keys.
        segment: Units per attention window; see ``Seq2Seq``.
        devices: Whether the policy reads times, limits and transfers of devices, and initially
            prefers faster ones; see ``agents.common.devices``.
        cost_weight: Initial weight of the preference for faster devices, with ``devices``.
        respect_memory: Whether ``RNNPolicy`` only chooses devices with room left for the unit;
            limits are read as with ``devices``.
    """

    features: Sequence[str] = PAPER_FEATURES
    hidden: int = 256
    decoder: int = 512
    attention: int = 64
    segment: int = 128
    devices: bool = False
    cost_weight: float = 2.0
    respect_memory: bool = False


class UnitFeatures(nn.Module):
    """Features of units, of their producers and of their consumers (Mirhoseini et al. 2017, 3.2).

    With ``n_devices`` also times, limits and transfers, see ``agents.common.devices``. Deviation:
    mean features of neighbours, not their node numbers, which tie the weights to one graph.
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


class Sequences(NamedTuple):
    """The decoder's input: a sequence of places, units or groups, for each of B rows."""

    encoding: Tensor  # (B, M, 2 * hidden) of each place
    mask: Tensor  # (B, M) bool, False for padding, which comes last
    prior: Tensor | None  # (B, M, D) logits that are added; None adds nothing

    def cut(self, begin: int, length: int) -> Sequences:
        """Some consecutive places."""
        parts = (one if one is None else one[:, begin : begin + length] for one in self)
        return Sequences._make(parts)


class Seq2Seq(nn.Module):
    """Chooses a device for one place of a sequence after another (Mirhoseini et al. 2017, 3.2).

    A bidirectional LSTM encodes the sequence. At each place the decoder's LSTM reads the encoded
    place and the device chosen before, attends additively, and a softmax gives the probabilities.
    Attention covers a segment of places; the decoder's state is carried from segment to segment.
    Gradients of long sequences are computed one segment at a time.
    """

    def __init__(self, width: int, n_devices: int, options: RNNOptions) -> None:
        super().__init__()
        self.segment, self.n_devices = options.segment, n_devices
        hidden, decoder, attention = options.hidden, options.decoder, options.attention
        self.encoder = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.chosen = nn.Embedding(n_devices + 1, decoder // 8)
        self.decoder = nn.LSTM(2 * hidden + decoder // 8, decoder, batch_first=True)
        self.key = nn.Linear(2 * hidden, attention)
        self.query = nn.Linear(decoder, attention, bias=False)
        self.energy = nn.Linear(attention, 1, bias=False)
        self.place = nn.Linear(decoder + 2 * hidden, n_devices)

    def encode(self, places: Tensor, mask: Tensor) -> Tensor:
        """(S, M, 2 * hidden) from (S, M, width) sequences with (S, M) masks."""
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(places, lengths, batch_first=True, enforce_sorted=False)
        encoding: Tensor = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=mask.shape[1]
        )[0]
        return encoding

    def compute_logits(self, sequences: Sequences, devices: Tensor) -> Tensor:
        """(B, M, D) logits of each place, conditioned on the (B, M) devices before it."""
        # keep the activations of one segment; gradients are exact
        decode: Any = self.decode_segment
        if devices.shape[1] > self.segment and torch.is_grad_enabled():
            decode = partial(checkpoint, decode, use_reentrant=False)
        first = torch.full_like(devices[:, :1], self.n_devices)
        before = self.chosen(torch.cat([first, devices[:, :-1]], dim=1).long())
        state, parts = self.begin(len(devices)), []
        for number, fed in enumerate(before.split(self.segment, dim=1)):
            segment = sequences.cut(number * self.segment, self.segment)
            logits, state = decode(segment, fed, state)
            parts.append(logits)
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def choose_devices(
        self,
        sequences: Sequences,
        allowed: Tensor | None,
        greedy: bool,
        memory: FreeMemory | None = None,
    ) -> Tensor:
        """(B, M) devices, each conditioned on those before it.

        Args:
            sequences: Those of the B rows.
            allowed: (B, M, D) bool, devices that may be chosen; None allows all.
            greedy: Whether the most likely devices are chosen, not sampled ones.
            memory: Restricts the choice to devices with room for the place; None does not.
        """
        n_rows, n_places = sequences.mask.shape
        h, c = (part[0] for part in self.begin(n_rows))
        last = torch.full((n_rows,), self.n_devices, device=h.device)
        choices: list[Tensor] = []
        used = torch.zeros(n_rows, self.n_devices, dtype=torch.float64, device=h.device)
        for begin in range(0, n_places, self.segment):
            segment = sequences.cut(begin, self.segment)
            keys = self.key(segment.encoding)
            for place, encoding in enumerate(segment.encoding.unbind(dim=1), begin):
                # the decoder reads the place and the device just chosen (3.2)
                read = torch.cat([encoding, self.chosen(last)], dim=1)
                h, c = torch.lstm_cell(read, (h, c), *self.decoder.all_weights[0])
                logits = self.attend(h[:, None], keys, segment)[:, 0]
                if sequences.prior is not None:
                    logits = logits + sequences.prior[:, place]
                # deviations: only devices that support the place and have room left are chosen
                if allowed is not None:
                    logits = logits.masked_fill(~allowed[:, place], FORBIDDEN)
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

    def begin(self, n_rows: int) -> State:
        """The decoder's state before the first place."""
        zeros = self.key.weight.new_zeros(1, n_rows, self.decoder.hidden_size)
        return zeros, zeros

    def decode_segment(
        self, segment: Sequences, before: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """(B, L, D) logits of a segment, conditioned on the (B, L, ...) embedded choices before."""
        out, state = self.decoder(torch.cat([segment.encoding, before], dim=2), state)
        logits = self.attend(out, self.key(segment.encoding), segment)
        return logits if segment.prior is None else logits + segment.prior, state

    def attend(self, out: Tensor, keys: Tensor, segment: Sequences) -> Tensor:
        """(B, L, D) logits, with additive attention over the segment (Bahdanau et al. 2015)."""
        energy = self.energy((self.query(out)[:, :, None] + keys[:, None]).tanh())[..., 0]
        share = energy.masked_fill(~segment.mask[:, None], FORBIDDEN).softmax(dim=2)
        logits: Tensor = self.place(torch.cat([out, share @ segment.encoding], dim=2))
        return logits


@dataclass(frozen=True, eq=False)
class AutoregressiveDevices:
    """A ``DeviceDistribution`` of a sequence: each device is conditioned on those before it."""

    network: Seq2Seq
    sequences: Sequences
    allowed: Tensor | None = None  # (B, M, D) bool, devices that may be chosen; None allows all
    memory: FreeMemory | None = None  # allows devices with room for each place; None allows all

    def get_actions(self, deterministic: bool = False) -> Tensor:
        devices = self.network.choose_devices(
            self.sequences, self.allowed, deterministic, self.memory
        )
        return devices * self.sequences.mask

    def conditioned_on(self, actions: Tensor) -> UnitCategorical:
        logits, allowed = self.network.compute_logits(self.sequences, actions), self.allowed
        if self.memory is not None:
            # chosen devices had room when they were drawn
            chosen = one_hot(actions.long(), self.network.n_devices).bool()
            roomy = self.memory.masks(actions) | chosen
            allowed = roomy if allowed is None else roomy & allowed
        return UnitCategorical(logits, self.sequences.mask, None, allowed)

    def restricted_to(self, allowed: Tensor) -> AutoregressiveDevices:
        both = allowed if self.allowed is None else allowed & self.allowed
        return replace(self, allowed=both)


class DevicePreferences(nn.Module):
    """Logits of units on devices, with weights for any numbers of both.

    They begin as ``-cost_weight`` times the logarithms of times.
    """

    def __init__(self, cost_weight: float) -> None:
        super().__init__()
        self.cost_weight = nn.Parameter(torch.tensor(float(cost_weight)))
        out = nn.Linear(PREFERENCE_HIDDEN, 1, bias=False)
        nn.init.zeros_(out.weight)
        self.layers = nn.Sequential(nn.Linear(len(COLUMNS), PREFERENCE_HIDDEN), nn.Tanh(), out)

    def forward(self, features: Tensor, unit_ms: Tensor) -> Tensor:
        """(..., D) logits of features (..., D, F) and times (..., D)."""
        logits: Tensor = self.layers(features)[..., 0]
        return logits - self.cost_weight * (unit_ms + MIN_COST).log()
