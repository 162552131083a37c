"""The sequence-to-sequence network: bidirectional LSTM, and a decoder with attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from agents.common.distribution import FORBIDDEN
from agents.common.room import Room

State = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Encoded sequences, the decoder's input.

    Attributes:
        memory: (S, M, 2 * hidden) encoding of each place of S sequences.
        mask: (S, M) bool, False for padding, which comes last.
        row: (B,) sequence of each row.
        prior: (S, M, D) logits that are added; None adds nothing.
        room: Memory of the S sequences; None if devices hold everything.
    """

    memory: Tensor
    mask: Tensor
    row: Tensor
    prior: Tensor | None = None
    room: Room | None = None


class Segment(NamedTuple):
    """Consecutive places of each row.

    Attributes:
        memory: (B, L, 2 * hidden) encoding of each place.
        mask: (B, L) bool, False for padding.
        prior: (B, L, D) logits that are added, or None.
    """

    memory: Tensor
    mask: Tensor
    prior: Tensor | None


class Seq2Seq(nn.Module):
    """Chooses a device for one place of a sequence after another (Mirhoseini et al. 2017, 3.2).

    A bidirectional LSTM encodes the sequence. At each place the decoder's LSTM reads the encoded
    place and the device chosen before, attends additively, and a softmax gives the probabilities.
    Attention covers ``segment`` places; the decoder's state is carried from segment to segment. For
    long sequences gradient checkpointing keeps the activations of one segment at a time; gradients
    stay exact.

    Args:
        width: Width of the input of a place.
        n_devices: Number of devices.
        hidden: Width of the encoder's LSTM in each direction.
        decoder: Width of the decoder's LSTM.
        attention: Width of queries and keys.
        segment: Places per attention window.
        sees_room: Whether the decoder reads the room that is left on each device.
    """

    def __init__(
        self,
        width: int,
        n_devices: int,
        hidden: int = 256,
        decoder: int = 512,
        attention: int = 64,
        segment: int = 128,
        sees_room: bool = False,
    ) -> None:
        super().__init__()
        self.segment, self.n_devices, self.sees_room = segment, n_devices, sees_room
        self.encoder = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.chosen = nn.Embedding(n_devices + 1, decoder // 8)
        read = 2 * hidden + decoder // 8 + (n_devices if sees_room else 0)
        self.decoder = nn.LSTM(read, decoder, batch_first=True)
        self.key = nn.Linear(2 * hidden, attention)
        self.query = nn.Linear(decoder, attention, bias=False)
        self.energy = nn.Linear(attention, 1, bias=False)
        self.place = nn.Linear(decoder + 2 * hidden, n_devices)

    def encode(self, places: Tensor, mask: Tensor, row: Tensor) -> Encoded:
        """Encode (S, M, width) sequences with (S, M) masks; ``row``: (B,) sequence of each row."""
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(places, lengths, batch_first=True, enforce_sorted=False)
        memory, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=mask.shape[1]
        )
        return Encoded(memory, mask, row)

    def compute_logits(self, encoded: Encoded, devices: Tensor) -> Tensor:
        """(B, M, D) logits of each place, conditioned on the (B, M) devices before it."""
        first = torch.full_like(devices[:, :1], self.n_devices)
        before = self.chosen(torch.cat([first, devices[:, :-1]], dim=1).long())
        if self.sees_room:
            before = torch.cat([before, self.observe_room(encoded, devices)], dim=2)
        state = self.initial_state(encoded)
        several = devices.shape[1] > self.segment
        found = []
        for begin in range(0, devices.shape[1], self.segment):
            segment, fed = self.cut_segment(encoded, begin), before[:, begin : begin + self.segment]
            if several and torch.is_grad_enabled():
                step = checkpoint(self.decode_segment, segment, fed, state, use_reentrant=False)
            else:
                step = self.decode_segment(segment, fed, state)
            logits, state = step
            found.append(logits)
        return torch.cat(found, dim=1)

    def observe_room(self, encoded: Encoded, devices: Tensor) -> Tensor:
        """(B, M, D) room left before each place, a share of the model's bytes; 1 if unlimited."""
        if encoded.room is None:
            return encoded.memory.new_ones(*devices.shape, self.n_devices)
        return clip_room(encoded.room.take(encoded.row).before(devices))

    @torch.no_grad()
    def choose_devices(self, encoded: Encoded, allowed: Tensor | None, greedy: bool) -> Tensor:
        """(B, M) devices, each conditioned on those before it.

        Args:
            encoded: S sequences for B rows.
            allowed: (B, M, D) bool, devices that may be chosen; None allows all.
            greedy: Whether the most likely devices are chosen instead of sampled ones.
        """
        h, c = (part[0] for part in self.initial_state(encoded))
        last = torch.full((len(encoded.row),), self.n_devices, device=encoded.row.device)
        found: list[Tensor] = []
        room = None if encoded.room is None else encoded.room.take(encoded.row)
        left = last.new_full((len(last), self.n_devices), torch.inf, dtype=torch.float64)
        left = left if room is None else room.limits.clone()
        for begin in range(0, encoded.mask.shape[1], self.segment):
            segment = self.cut_segment(encoded, begin)
            keys = self.key(segment.memory)
            for place, memory in enumerate(segment.memory.unbind(dim=1), begin):
                read = [memory, self.chosen(last), *([clip_room(left)] if self.sees_room else [])]
                h, c = torch.lstm_cell(torch.cat(read, dim=1), (h, c), *self.decoder.all_weights[0])
                logits = self.attend(h[:, None], keys, segment)[:, 0]
                if encoded.prior is not None:
                    logits = logits + encoded.prior[encoded.row, place]
                able = None if allowed is None else allowed[:, place]
                if room is not None:
                    able = room.restrict(able, left, room.held[:, place])
                if able is not None:
                    logits = logits.masked_fill(~able, FORBIDDEN)
                last = choose_device(logits, greedy)
                if room is not None:
                    taken = torch.nn.functional.one_hot(last, self.n_devices)
                    taken = taken * room.held[:, place, None]
                    left -= room.share(taken[:, None])[:, 0]
                found.append(last)
        return torch.stack(found, dim=1)

    def cut_segment(self, encoded: Encoded, begin: int) -> Segment:
        """Cut the segment that begins at a place out of every row."""
        places = slice(begin, begin + self.segment)
        row = encoded.row
        prior = None if encoded.prior is None else encoded.prior[:, places][row]
        return Segment(encoded.memory[:, places][row], encoded.mask[:, places][row], prior)

    def initial_state(self, encoded: Encoded) -> State:
        """The decoder's state before the first place."""
        zeros = encoded.memory.new_zeros(1, len(encoded.row), self.decoder.hidden_size)
        return zeros, zeros

    def decode_segment(
        self, segment: Segment, before: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """(B, L, D) logits of a segment, conditioned on the (B, L, ...) embedded choices before."""
        out, state = self.decoder(torch.cat([segment.memory, before], dim=2), state)
        logits = self.attend(out, self.key(segment.memory), segment)
        return logits if segment.prior is None else logits + segment.prior, state

    def attend(self, out: Tensor, keys: Tensor, segment: Segment) -> Tensor:
        """(B, L, D) logits, with additive attention over the segment (Bahdanau et al. 2015)."""
        energy = self.energy((self.query(out)[:, :, None] + keys[:, None]).tanh())[..., 0]
        share = energy.masked_fill(~segment.mask[:, None], FORBIDDEN).softmax(dim=2)
        logits: Tensor = self.place(torch.cat([out, share @ segment.memory], dim=2))
        return logits


def clip_room(room: Tensor) -> Tensor:
    """Room as a float32 share of the model's bytes, 1 where everything fits."""
    return room.clamp(0.0, 1.0).float()


def choose_device(logits: Tensor, greedy: bool) -> Tensor:
    """(B,) devices from (B, D) logits."""
    if greedy:
        return logits.argmax(dim=1)
    return torch.multinomial(logits.softmax(dim=1), 1)[:, 0]
