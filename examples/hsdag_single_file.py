"""HSDAG in one file, in the order of the paper (NeurIPS 2024, arXiv 2405.14185).

It needs torch, torch-geometric and placement_gym, nothing of agents/, and learns as
agents.make("hsdag", env) does; with --paper as its preset "paper". agents/hsdag/README.md says
where both differ from the paper.

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
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.utils import degree, scatter

import placement_gym  # noqa: F401  registers the environments
from placement_gym import PlacementVectorEnv
from placement_gym.envs.observation import FEATURES

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
    "levels": 64,  # of parsing: until nothing is left to merge
    "groups": 30,  # about so many at first, as dominant edges are kept by chance
    "refine": 200,  # placements in which that number doubles
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
    "levels": 1,
    "groups": 0,  # all dominant edges are kept
    "refine": 0,
}
HIDDEN, DROPOUT = 128, 0.2
"""Width of an embedding, and dropout while groups are parsed."""
MIN_SPREAD = 0.05
"""What advantages are divided by at least: rollouts that hardly differ tell little."""
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
        self.graph = graph
        width = graph.x.shape[1]
        self.enter = nn.ModuleList([make_dense(width, HIDDEN), make_dense(HIDDEN, HIDDEN)])
        self.convolutions = nn.ModuleList(Convolution(HIDDEN, options.directed) for _ in range(2))
        self.phi = make_dense(HIDDEN, HIDDEN, 1)
        self.placer = make_dense(HIDDEN, HIDDEN, graph.n_devices)
        weight = nn.Parameter(torch.tensor(options.cost_weight))
        self.cost_weight = weight if options.cost_weight else None

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


# ---- 3. Parsing of the graph into groups (2.4)


def parse(scores: Tensor, graph: Graph, levels: int) -> Tensor:
    """(2, k) dominant edges: at each level every group keeps its highest edge to another one."""
    parent, allowed = list(range(graph.n)), graph.allowed.clone()
    ranked, kept = scores.argsort(descending=True, stable=True).tolist(), []

    def find(unit: int) -> int:
        while parent[unit] != unit:
            unit = parent[unit]
        return unit

    for _ in range(levels):
        group, dominated, before = [find(unit) for unit in range(graph.n)], set(), len(kept)
        for edge in ranked:
            a, b = (group[unit] for unit in graph.edges[:, edge].tolist())
            if a == b or {a, b} <= dominated:
                continue
            dominated |= {a, b}
            a, b = find(a), find(b)
            shared = allowed[a] & allowed[b]
            if a != b and shared.any():  # a group needs a device that runs all of it
                parent[b], allowed[a] = a, shared
                kept.append(edge)
        if len(kept) == before:
            break
    return graph.edges[:, kept]


@dataclass
class Step:
    """A step of an episode: (2, k) dominant edges, and (n, hidden) what was added to Z so far."""

    tree: Tensor
    shift: Tensor


class Parser:
    """Groups of units, and a device for each; an episode's steps have dominant edges of their own.

    Where ``groups`` is set, each placement keeps a dominant edge with a probability that its score
    raises, and its likelihood is that of its groups and of their devices.
    """

    def __init__(self, networks: Networks, options: argparse.Namespace) -> None:
        self.networks, self.graph, self.options = networks, networks.graph, options
        self.prior, self.drawn = 0.0, 0

    def plan_episode(self, steps: int, noisy: bool) -> list[Step]:
        """Dominant edges of every step; they stay while the weights change, for likelihoods."""
        z, planned = self.networks.encode(), []
        seen, shift = self.networks.encode(noisy=noisy), torch.zeros_like(z)
        for _ in range(steps):
            scores = self.networks.score(normalise(seen + shift), self.graph.edges)
            step = Step(parse(scores, self.graph, self.options.levels), shift)
            planned.append(step)
            # the state becomes Z + Z', the embeddings of the groups added to their units (2.5)
            state = normalise(z + shift)
            group, inner = self.join(step, torch.ones(1, step.tree.shape[1]).bool())
            shift = state + self.pool(state, group, inner)[group] - z
        return planned

    def join(self, step: Step, keep: Tensor) -> tuple[Tensor, Tensor]:
        """(count n,) groups that (count, k) kept edges make, and (2, i) edges within them."""
        n, begins = self.graph.n, self.graph.n * torch.arange(len(keep))[:, None]
        source, target = ((ends + begins)[keep].numpy() for ends in step.tree)
        matrix = coo_array((np.ones(len(source)), (source, target)), (n * len(keep),) * 2)
        group = torch.as_tensor(connected_components(matrix, directed=False)[1]).long()
        edges = torch.stack([(ends + begins).flatten() for ends in self.graph.edges])
        return group, edges[:, group[edges[0]] == group[edges[1]]]

    def pool(self, z: Tensor, group: Tensor, inner: Tensor) -> Tensor:
        """(n_groups, hidden) means, gated by the mean score of the edges within each group."""
        n_groups = int(group.max()) + 1
        pooled = scatter(z, group, dim_size=n_groups, reduce="mean")
        owner, scores = group[inner[0]], self.networks.score(z, inner).sigmoid()
        count = torch.bincount(owner, minlength=n_groups)
        mean = scatter(scores, owner, dim_size=n_groups) / count.clamp(min=1)
        return pooled * torch.where(count > 0, mean, 1.0)[:, None]

    def choose_edges(self, z: Tensor, step: Step) -> Bernoulli:
        """Which dominant edges are kept."""
        return Bernoulli(logits=self.networks.score(z, step.tree) + self.prior)

    # ---- 4. Placement of the groups (2.4)

    def place(self, z: Tensor, step: Step, keep: Tensor) -> tuple[Tensor, Categorical]:
        """(count n,) groups, and a distribution over the devices for each."""
        group, inner = self.join(step, keep)
        pooled = self.pool(z.repeat(len(keep), 1), group, inner)
        times = scatter(self.graph.times.repeat(len(keep), 1), group, dim_size=len(pooled))
        refused = (~self.graph.allowed).float().repeat(len(keep), 1)
        refused = scatter(refused, group, dim_size=len(pooled))
        return group, Categorical(logits=self.networks.prefer(pooled, times, refused == 0))

    @torch.no_grad()
    def sample(self, count: int) -> Tensor:
        """(steps, count, n) placements of an episode."""
        if self.options.groups:  # coarse at first, single units late
            wanted = self.options.groups * 2.0 ** (self.drawn / self.options.refine)
            self.prior = math.log(max(self.graph.n / wanted - 1.0, TINY))
        self.planned = self.plan_episode(self.options.steps, noisy=not self.options.groups)
        z, self.kept, placements = self.networks.encode(), [], []
        for step in self.planned:
            state = normalise(z + step.shift)
            keep = torch.ones(count, step.tree.shape[1]).bool()
            if self.options.groups:
                keep = self.choose_edges(state, step).sample((count,)).bool()
            group, devices = self.place(state, step, keep)
            placements.append(devices.sample()[group].view(count, -1))
            self.kept.append(keep)
        self.drawn += count * len(self.planned)
        return torch.stack(placements)

    def log_prob(self, placements: Tensor) -> Tensor:
        """(steps, count) log-likelihoods of what the groups were given, and of the groups."""
        z, found = self.networks.encode(), []
        for step, keep, chosen in zip(self.planned, self.kept, placements, strict=True):
            state, members = normalise(z + step.shift), torch.arange(chosen.numel())
            group, devices = self.place(state, step, keep)
            first = scatter(members, group, reduce="min")
            each = devices.log_prob(chosen.flatten()[first])
            found.append(scatter(each, first // self.graph.n, dim_size=len(chosen)))
            if self.options.groups:
                found[-1] = found[-1] + self.choose_edges(state, step).log_prob(keep.float()).sum(1)
        return torch.stack(found)

    @torch.no_grad()
    def predict(self) -> Tensor:
        """(n,) the most likely placement."""
        (step,) = self.plan_episode(1, noisy=False)
        z = normalise(self.networks.encode())
        keep = torch.ones(1, step.tree.shape[1]).bool()
        if self.options.groups:
            keep = (self.choose_edges(z, step).probs > 0.5)[None]
        group, devices = self.place(z, step, keep)
        return devices.probs.argmax(dim=1)[group]


# ---- 5. Optimisation (2.5)


def learn(envs: gym.vector.VectorEnv, parser: Parser, networks: Networks, options) -> list[float]:
    """Policy gradient; returns the latency of every placement, in ms."""
    optimizer = options.optimizer(networks.parameters())
    latencies, best, recent = [], math.inf, deque(maxlen=100)
    discount = options.gamma ** np.arange(options.steps)[:, None]
    rollout = options.placements * options.steps
    for update in range(options.budget // rollout):
        envs.reset(seed=options.seed if update == 0 else None)
        placements, rewards = parser.sample(options.placements), []
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
            (-(gain * parser.log_prob(placements)).mean()).backward()
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
    parser = Parser(networks, options)
    rollouts = {"horizon": options.steps, "reward": options.reward, "observe_graph": False}
    envs = PlacementVectorEnv(env.unwrapped, options.placements, **rollouts)
    learn(envs, parser, networks, options)
    env.reset(seed=options.seed)
    *_, info = env.step(parser.predict().numpy())
    print(f"the prediction is {info['speedup_vs_best_single']:.3f} x best single")


if __name__ == "__main__":
    main()
