"""The RNN placer as an SB3 policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from agents.common.distribution import DeviceDistribution
from agents.common.graph_policy import make_perceptron
from agents.common.graphs import GraphBatch, TensorDict
from agents.common.pairs import PairScorer, describe_pairs
from agents.common.policy import Decision, UnitPolicy
from agents.common.room import Room
from agents.rnn.autoregressive import AutoregressiveDevices
from agents.rnn.networks import Seq2Seq
from agents.rnn.segments import SegmentDevices, Segments
from agents.rnn.unit_features import UnitFeatures

PAPER_FEATURES = ("type", "shape")
COST_WEIGHT = 2.0
CRITIC_HIDDEN = 128


class RNNPolicy(UnitPolicy, ActorCriticPolicy):
    """Places units one after another in topological order (Mirhoseini et al. 2017, "ColocRL").

    Args:
        args: See ``UnitPolicy``.
        features: Names of blocks in ``placement_gym.envs.observation.FEATURES``.
        hidden: Width of the encoder's LSTM in each direction.
        decoder: Width of the decoder's LSTM.
        attention: Width of queries and keys.
        segment: Units per attention window; see ``Seq2Seq``.
        devices: Whether times, limits and transfers of devices are seen, and logits begin with a
            preference for faster ones, see ``agents.common.pairs``.
        room: Whether only devices with room left are chosen, and the room is seen.
        coarse: Whether runs of units are placed together, long ones at first, see ``segments``.
        cost_weight: Initial weight of the preference for faster devices, with ``devices``.
        kwargs: See ``UnitPolicy``.

    Raises:
        UserError: See ``UnitPolicy``; or unknown features.
    """

    remaining: Tensor

    def __init__(
        self,
        *args: Any,
        features: Sequence[str] = PAPER_FEATURES,
        hidden: int = 256,
        decoder: int = 512,
        attention: int = 64,
        segment: int = 128,
        devices: bool = False,
        room: bool = False,
        coarse: bool = False,
        cost_weight: float = COST_WEIGHT,
        **kwargs: Any,
    ) -> None:
        self.features = features
        self.sizes = {
            "hidden": hidden,
            "decoder": decoder,
            "attention": attention,
            "segment": segment,
        }
        self.switches = {
            "devices": devices,
            "room": room,
            "coarse": coarse,
            "cost_weight": cost_weight,
        }
        self.sees_devices, self.keeps_room, self.coarse = devices, room, coarse
        self.cost_weight = cost_weight
        super().__init__(*args, **kwargs)

    def build(self) -> None:
        """Make the networks."""
        self.build_inputs()
        self.build_network(self.units.width)
        self.clear_caches()

    def build_inputs(self) -> None:
        """Make what reads units and devices, and the critic."""
        self.units = UnitFeatures(self.features, self.n_devices if self.sees_devices else 0)
        self.pairs = PairScorer(self.cost_weight) if self.sees_devices else None
        self.critic = (
            make_perceptron(self.units.width, CRITIC_HIDDEN, 1) if self.has_critic else None
        )
        if self.coarse:
            self.register_buffer("remaining", torch.zeros(()))

    def build_network(self, width: int) -> None:
        """Make the network for places of this width."""
        self.network = Seq2Seq(width, self.n_devices, **self.sizes, sees_room=self.keeps_room)

    def clear_caches(self) -> None:
        """Cut segments elsewhere; a new rollout begins."""
        self.cuts = int(torch.randint(2**31, ()))

    def set_progress(self, remaining: float) -> None:
        """See ``UnitPolicy.set_progress``."""
        if self.coarse:
            self.remaining.fill_(remaining)

    def decide(self, observation: TensorDict, greedy: bool = False) -> Decision:
        """See ``UnitPolicy.decide``."""
        graphs, row = self.graphs.batch(observation)
        units = self.units(graphs)
        return Decision(
            self.distribution(units, graphs, row, greedy), self.compute_values(units, graphs)[row]
        )

    def distribution(
        self, units: Tensor, graphs: GraphBatch, row: Tensor, greedy: bool
    ) -> DeviceDistribution:
        """The distribution of the devices of B rows, each about one of G graphs.

        Args:
            units: (G, N, width) unit features.
            graphs: The G graphs.
            row: (B,) graph of each row.
            greedy: Whether it is for prediction: segments are of equal length then.
        """
        allowed, room = graphs.allowed_slots, self.find_room(graphs)
        prior, mask = self.find_prior(graphs), graphs.node_mask
        if not self.coarse:
            encoded = replace(self.network.encode(units, mask, row), prior=prior, room=room)
            allowed = None if allowed is None else allowed[row]
            return AutoregressiveDevices(self.network, encoded, mask[row], allowed)
        segments = Segments.of(mask, float(self.remaining), None if greedy else self.cuts)
        encoded = replace(
            self.network.encode(segments.mean(units), segments.taken, row),
            prior=None if prior is None else segments.mean(prior),
            room=segments.hold(room),
        )
        allowed = None if allowed is None else segments.share_allowed(allowed)[row]
        devices = AutoregressiveDevices(self.network, encoded, segments.taken[row], allowed)
        return SegmentDevices(devices, segments.take(row))

    def find_room(self, graphs: GraphBatch) -> Room | None:
        """The memory of the graphs, if it is kept."""
        return Room.of(graphs) if self.keeps_room else None

    def find_prior(self, graphs: GraphBatch) -> Tensor | None:
        """(G, N, D) preferences of units for devices, if devices are seen."""
        if self.pairs is None:
            return None
        return graphs.pad(self.pairs(describe_pairs(graphs), graphs.device_tables.unit_ms))

    def compute_values(self, units: Tensor, graphs: GraphBatch) -> Tensor:
        """(G, 1) expected returns, zero without a critic."""
        if self.critic is None:
            return units.new_zeros(len(units), 1)
        values: Tensor = self.critic(units.sum(dim=1) / graphs.node_mask.sum(dim=1, keepdim=True))
        return values

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {
            "features": self.features,
            **self.sizes,
            **self.switches,
        }
