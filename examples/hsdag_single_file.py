"""HSDAG in one file, in the order of the paper (NeurIPS 2024, arXiv 2405.14185).

It needs torch, torch-geometric and placement_gym, nothing of agents/, and learns as
agents.make("hsdag", env) does: groups are drawn with each placement. With --paper groups are
parsed, as published, and it learns as preset="paper". agents/hsdag/README.md says where both differ
from the paper.

    python examples/hsdag_single_file.py --model inception --devices hsdag-paper
"""

import argparse
import math
from collections import deque
from dataclasses import dataclass
from functools import partial

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional
from torch.nn.functional import logsigmoid
from torch_geometric.nn import GCNConv
from torch_geometric.utils import degree, scatter

import placement_gym  # noqa: F401  registers the environments
from placement_gym.envs.observation import FEATURES
from placement_gym.envs.vector import PlacementVectorEnv

PAPER_FEATURES = ("type", "shape", "in_degree", "out_degree", "fractal_dimension", "position")
RL = {
    "placements": 20,  # at once, in each step
    "steps": 1,  # of an episode and rollout
    "reward": "log_speedup",
    "optimizer": partial(torch.optim.Adam, lr=1e-3, betas=(0.5, 0.999)),
    "epochs": 1,  # gradient steps on a rollout
    "gamma": 1.0,
    "baseline": True,
    "cost_weight": 2.0,  # the first one, of log times
    "features": tuple(FEATURES),
    "directed": True,
    "groups": 30,  # about so many are drawn at first
}
PAPER = {
    "placements": 1,
    "steps": 20,
    "reward": "inverse_latency",
    "optimizer": partial(torch.optim.Adam, lr=1e-4),
    "epochs": 4,
    "gamma": 0.95,
    "baseline": False,
    "cost_weight": 0.0,
    "features": PAPER_FEATURES,
    "directed": False,
    "groups": 0,  # parsed
}
HIDDEN, DROPOUT = 128, 0.2
"""Width of an embedding, and dropout while groups are parsed."""
MIN_SPREAD = 0.05
"""What advantages are divided by at least: rollouts that hardly differ tell little."""
TABLE_STEP, FOLLOWING_STEP = 100.0, 50.0
"""Steps of tables of logits, relative to those of weights."""
TINY = 1e-3
"""Added to times before their logarithm, in mean times."""
REFUSED = -1e9
"""Logit of what may not be chosen."""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="DevicePlacementSim-v0", help="which environment")
    parser.add_argument("--model", default="inception", help="built-in model or file")
    parser.add_argument("--devices", default="hsdag-paper", help="preset, names or file")
    parser.add_argument("--budget", type=int, default=2000, help="placements to evaluate")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--paper", action="store_true", help="the paper's settings")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    options = parser.parse_args()
    if options.smoke:
        options.model, options.devices, options.budget = "tiny", "cpu+igpu", 200
    vars(options).update(PAPER if options.paper else RL)
    return options


# ---- 1. Graph construction, and the features of its units (2.2, 2.3)


class Graph:
    """The units of a model and what is known of them, as tensors without padding."""

    def __init__(self, env: gym.Env, features: tuple[str, ...]) -> None:
        (table,) = env.unwrapped.graph_table().values()
        nodes, edges = table["node_mask"] > 0, table["edge_mask"] > 0
        x = torch.as_tensor(table["x"][nodes]).float()
        self.edges = torch.as_tensor(table["edge_index"][:, edges]).long()
        self.n, self.n_devices = len(x), len(env.unwrapped.problem.devices)
        self.allowed = torch.as_tensor(table["action_mask"][nodes]).bool()
        cost = FEATURES["cost"]
        self.times = x[:, cost.start : cost.start + self.n_devices]
        # every column has mean 0 and deviation 1; times have one scale, so that devices compare
        scaled = functional.instance_norm(x.T[None])[0].T
        scaled[:, cost] = torch.where(x[:, cost] > 0, (x[:, cost] + TINY).log(), 0.0)
        blocks = [scaled[:, FEATURES[name]] for name in FEATURES if name in features]
        self.x = torch.cat(blocks, dim=1)
        # the producer that a unit may follow: the latest before it; itself if there is none
        source, target = self.edges[:, self.edges[0] < self.edges[1]]
        itself = torch.arange(self.n)
        latest = torch.full_like(itself, -1).scatter_reduce(0, target, source, "amax")
        self.leader = torch.where(latest < 0, itself, latest)
        shared = (self.allowed | ~self.allowed[self.leader]).all(dim=1)
        self.follows = (self.leader != itself) & shared
        self.both_ways = torch.cat([self.edges, self.edges.flip(0)], dim=1)

    def weigh(self, ends: Tensor) -> Tensor:
        """(e,) weights of a graph convolution, 1 / sqrt(out-degree * in-degree)."""
        source, target = ends
        out, into = degree(source, self.n) + 1.0, degree(target, self.n) + 1.0
        return (out[source] * into[target]).rsqrt()


# ---- 2. Embeddings Z, edge scores, and the placer (2.4)


def make_dense(width: int, hidden: int, out: int | None = None) -> nn.Sequential:
    layers = [nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU()]
    return nn.Sequential(*layers, *([] if out is None else [nn.Linear(hidden, out)]))


class Convolution(nn.Module):
    """A graph convolution with weights for producers and for consumers, or the same for both."""

    def __init__(self, hidden: int, directed: bool) -> None:
        super().__init__()
        self.own, self.norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
        self.along, self.against = (
            GCNConv(hidden, hidden, normalize=False, bias=False) for _ in range(2)
        )
        self.directed = directed

    def forward(self, h: Tensor, graph: Graph) -> Tensor:
        if self.directed:
            weight = graph.weigh(graph.edges)
            sent = self.along(h, graph.edges, weight)
            sent = sent + self.against(h, graph.edges.flip(0), weight)
        else:
            sent = self.along(h, graph.both_ways, graph.weigh(graph.both_ways))
        return self.norm(h + (self.own(h) + sent).relu())


class Networks(nn.Module):
    def __init__(self, graph: Graph, options: argparse.Namespace) -> None:
        super().__init__()
        self.graph, self.groups = graph, options.groups
        width = graph.x.shape[1]
        self.enter = nn.ModuleList([make_dense(width, HIDDEN), make_dense(HIDDEN, HIDDEN)])
        self.convolutions = nn.ModuleList(Convolution(HIDDEN, options.directed) for _ in range(2))
        self.phi = make_dense(HIDDEN, HIDDEN, 1)
        self.placer = make_dense(HIDDEN, HIDDEN, graph.n_devices)
        weight = nn.Parameter(torch.tensor(options.cost_weight))
        self.cost_weight = weight if options.cost_weight else None
        if self.groups:
            self.own = Table(graph.n, graph.n_devices, TABLE_STEP)
            self.following = Table(graph.n, 1, FOLLOWING_STEP)

    def encode(self, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings of the units."""
        h = self.graph.x
        for layer in self.enter:
            h = functional.dropout(layer(h), DROPOUT, training=noisy)
        for convolution in self.convolutions:
            h = convolution(h, self.graph)
        return h

    def score(self, z: Tensor, edges: Tensor) -> Tensor:
        """(e,) logits phi(z_u * z_v)."""
        return self.phi(z[edges[0]] * z[edges[1]])[:, 0]

    def prefer(self, z: Tensor, times: Tensor, allowed: Tensor) -> Tensor:
        """(k, D) logits of devices: the placer's, less the logarithm of times there."""
        logits = self.placer(z)
        if self.cost_weight is not None:
            logits = logits - self.cost_weight * (times + TINY).log()
        return logits.masked_fill(~allowed, REFUSED)


def normalise(z: Tensor) -> Tensor:
    return functional.layer_norm(z, z.shape[1:])


class Table(nn.Module):
    """Values for this graph alone: the sum of those of all runs of units that a unit is in.

    Runs are of 1, 2, 4, ... units in topological order, and the same shifted by half.
    """

    def __init__(self, n: int, width: int, step: float) -> None:
        super().__init__()
        sizes = [2**level for level in range((2 * n - 1).bit_length())]
        starts = [(size, shift) for size in sizes for shift in {0, size // 2 * (size < n)}]
        levels, first = [], 0
        for size, shift in starts:
            levels.append((torch.arange(n) + shift) // size + first)
            first = int(levels[-1].max()) + 1
        self.index, self.step = torch.stack(levels), step
        self.values = nn.Parameter(torch.zeros(first, width))

    def forward(self) -> Tensor:
        """(n, width) values."""
        return self.step * self.values[self.index].sum(dim=0)


# ---- 3 and 4, by default: groups that are drawn, and their devices


class DrawnGroups:
    """A unit has its latest producer's device, with the probability of their edge, or chooses."""

    def __init__(self, networks: Networks) -> None:
        self.networks, self.graph = networks, networks.graph

    def distribution(self) -> tuple[Tensor, Tensor, Tensor]:
        """(n, D) log-probabilities of own choices, (n,) of following and of not following."""
        graph, networks = self.graph, self.networks
        z = normalise(networks.encode())
        own = networks.prefer(z, graph.times, graph.allowed) + networks.own()
        edges = torch.stack([graph.leader, torch.arange(graph.n)])
        at_first = math.log(max(graph.n / networks.groups - 1.0, TINY))
        keep = at_first + networks.score(z, edges) + networks.following()[:, 0]
        stay = logsigmoid(keep).masked_fill(~graph.follows, REFUSED)
        return own.log_softmax(dim=1), stay, logsigmoid(-keep).masked_fill(~graph.follows, 0.0)

    @torch.no_grad()
    def sample(self, count: int) -> Tensor:
        """(1, count, n) placements, of one step."""
        own, stay, _ = self.distribution()
        chosen = Categorical(logits=own).sample((count,))
        follows = torch.rand(count, self.graph.n) < stay.exp()
        for unit in range(self.graph.n):  # producers come first
            led = chosen[:, self.graph.leader[unit]]
            chosen[:, unit] = torch.where(follows[:, unit], led, chosen[:, unit])
        return chosen[None]

    def log_prob(self, placements: Tensor) -> Tensor:
        """(1, count) log-likelihoods: each unit followed or chose, whichever led here."""
        own, stay, leave = self.distribution()
        (chosen,) = placements
        alone = leave + own[torch.arange(self.graph.n), chosen]
        same = chosen == chosen[:, self.graph.leader]
        return torch.where(same, torch.logaddexp(stay, alone), alone).sum(dim=1)[None]

    @torch.no_grad()
    def predict(self) -> Tensor:
        """(n,) most likely device of each unit."""
        own, stay, leave = self.distribution()
        probability = (own + leave[:, None]).exp()
        for unit in range(self.graph.n):
            probability[unit] += stay[unit].exp() * probability[self.graph.leader[unit]]
        return probability.argmax(dim=1)


# ---- 3 and 4, --paper: parsing of the graph into groups, and their devices (2.4)


@dataclass
class Step:
    """A step of an episode: (n,) groups, (2, k) kept edges, and what was added to Z so far."""

    group: Tensor
    kept: Tensor
    shift: Tensor


def parse(scores: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """(n,) groups and (2, k) kept edges: each unit keeps its highest edge, which connect groups."""
    parent, free = list(range(graph.n)), torch.ones(graph.n, dtype=torch.bool)
    allowed, kept = graph.allowed.clone(), []

    def find(unit: int) -> int:
        while parent[unit] != unit:
            unit = parent[unit]
        return unit

    for edge in scores.argsort(descending=True, stable=True).tolist():
        a, b = graph.edges[:, edge].tolist()
        if not (free[a] or free[b]):
            continue
        free[a] = free[b] = False
        a, b = find(a), find(b)
        shared = allowed[a] & allowed[b]
        if a != b and shared.any():  # a group needs a device that runs all of it
            parent[b], allowed[a] = a, shared
            kept.append(edge)
    roots = torch.tensor([find(unit) for unit in range(graph.n)])
    return torch.unique(roots, return_inverse=True)[1], graph.edges[:, kept]


class ParsedGroups:
    """Units of a group have one device; each step of an episode has groups of its own."""

    def __init__(self, networks: Networks, steps: int) -> None:
        self.networks, self.graph, self.steps = networks, networks.graph, steps

    def pool(self, z: Tensor, step: Step) -> Tensor:
        """(n_groups, hidden) means, gated by the mean score of each group's kept edges."""
        n_groups = int(step.group.max()) + 1
        pooled = scatter(z, step.group, dim_size=n_groups, reduce="mean")
        owner = step.group[step.kept[0]]
        scores = self.networks.score(z, step.kept).sigmoid()
        count = torch.bincount(owner, minlength=n_groups)
        mean = scatter(scores, owner, dim_size=n_groups) / count.clamp(min=1)
        return pooled * torch.where(count > 0, mean, 1.0)[:, None]

    def place(self, z: Tensor, step: Step) -> Categorical:
        """A distribution over the devices for each group."""
        pooled = self.pool(normalise(z + step.shift), step)
        times = scatter(self.graph.times, step.group, dim_size=len(pooled))
        refused = scatter((~self.graph.allowed).float(), step.group, dim_size=len(pooled))
        return Categorical(logits=self.networks.prefer(pooled, times, refused == 0))

    @torch.no_grad()
    def plan_episode(self, steps: int, noisy: bool = True) -> list[Step]:
        """Groups of every step; they stay while the weights change, for the likelihoods."""
        z, seen, planned = self.networks.encode(), self.networks.encode(noisy=noisy), []
        shift = torch.zeros_like(z)
        for _ in range(steps):
            scores = self.networks.score(normalise(seen + shift), self.graph.edges)
            planned.append(Step(*parse(scores, self.graph), shift))
            # the state becomes Z + Z', the embeddings of the groups added to their units (2.5)
            state = normalise(z + shift)
            shift = state + self.pool(state, planned[-1])[planned[-1].group] - z
        return planned

    @torch.no_grad()
    def sample(self, count: int) -> Tensor:
        """(steps, count, n) placements of an episode."""
        self.planned, z = self.plan_episode(self.steps), self.networks.encode()
        return torch.stack(
            [self.place(z, step).sample((count,))[:, step.group] for step in self.planned]
        )

    def log_prob(self, placements: Tensor) -> Tensor:
        """(steps, count) log-likelihoods of what the groups were given."""
        z, found = self.networks.encode(), []
        for step, chosen in zip(self.planned, placements, strict=True):
            groups = self.place(z, step)
            member = scatter(torch.arange(self.graph.n), step.group, reduce="max")
            found.append(groups.log_prob(chosen[:, member]).sum(dim=1))
        return torch.stack(found)

    @torch.no_grad()
    def predict(self) -> Tensor:
        """(n,) the most likely placement, with groups parsed without dropout."""
        (step,) = self.plan_episode(1, noisy=False)
        return self.place(self.networks.encode(), step).probs.argmax(dim=1)[step.group]


# ---- 5. Optimisation (2.5)


def learn(envs: gym.vector.VectorEnv, groups, networks: Networks, options) -> list[float]:
    """Policy gradient; returns the latency of every placement, in ms."""
    optimizer = options.optimizer(networks.parameters())
    latencies, best, recent = [], math.inf, deque(maxlen=100)
    discount = options.gamma ** np.arange(options.steps)[:, None]
    rollout = options.placements * options.steps
    for update in range(options.budget // rollout):
        envs.reset(seed=options.seed if update == 0 else None)
        placements, rewards = groups.sample(options.placements), []
        for chosen in placements:
            _, reward, *_, info = envs.step(chosen.numpy())
            rewards.append(reward)
            seen = info.get("final_info", info)
            latencies += seen["latency_ms"].tolist()
            best = min(best, seen["latency_ms"][seen["feasible"]].min(initial=math.inf))
        advantage = np.stack(rewards) * discount
        if options.baseline:  # the mean of the other placements of the step; scaled
            others = (advantage.sum(axis=1, keepdims=True) - advantage) / (options.placements - 1)
            advantage = advantage - others
            advantage = advantage / (max(np.sqrt((advantage**2).mean()), MIN_SPREAD) + 1e-8)
        gain = torch.as_tensor(advantage, dtype=torch.float32)
        for _ in range(options.epochs):
            optimizer.zero_grad()
            (-(gain * groups.log_prob(placements)).mean()).backward()
            optimizer.step()
        recent.extend(latencies[-rollout:])
        if len(latencies) % 500 < rollout:
            mean = np.mean(recent)
            print(f"{len(latencies):6} placements: mean {mean:.3f} ms, best {best:.3f} ms")
    return latencies


def main() -> None:
    options = parse_arguments()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    env = gym.make(options.env, model=options.model, devices=options.devices)
    networks = Networks(Graph(env, options.features), options)
    groups = ParsedGroups(networks, options.steps) if options.paper else DrawnGroups(networks)
    rollouts = {"horizon": options.steps, "reward": options.reward, "observe_graph": False}
    envs = PlacementVectorEnv(env.unwrapped, options.placements, **rollouts)
    learn(envs, groups, networks, options)
    env.reset(seed=options.seed)
    *_, info = env.step(groups.predict().numpy())
    print(f"the prediction is {info['speedup_vs_best_single']:.3f} x best single")


if __name__ == "__main__":
    main()
