"""HSDAG in one file, in the order of the paper (NeurIPS 2024, arXiv 2405.14185).

It needs torch, torch-geometric and placement_gym, nothing of agents/. Groups are parsed, as in the
paper; with --paper it learns as agents.make("hsdag", env, preset="paper") does. The default of that
draws groups; agents/hsdag/README.md says where both differ from the paper.

    python examples/hsdag_single_file.py --model inception --devices hsdag-paper
"""

import argparse
import math
from collections import deque
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.utils import degree, scatter

import placement_gym  # noqa: F401  registers the environments
from placement_gym.envs.observation import FEATURES
from placement_gym.envs.vector import PlacementVectorEnv

PAPER_FEATURES = ("type", "shape", "in_degree", "out_degree", "fractal_dimension", "position")
PAPER = {
    "placements": 1,
    "steps": 20,
    "reward": "inverse_latency",
    "learning_rate": 1e-4,
    "epochs": 4,
    "gamma": 0.95,
    "baseline": False,
    "entropy": 0.0,
    "max_norm": math.inf,
    "cost_weight": 0.0,
    "features": PAPER_FEATURES,
    "directed": False,
    "cut": False,
}
"""What --paper sets."""
TINY = 1e-3
"""Added to times before their logarithm, in mean times."""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="DevicePlacementSim-v0", help="which environment")
    parser.add_argument("--model", default="inception", help="built-in model or file")
    parser.add_argument("--devices", default="hsdag-paper", help="preset, names or file")
    parser.add_argument("--budget", type=int, default=2000, help="placements to evaluate")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--paper", action="store_true", help="the paper's settings")
    parser.add_argument("--placements", type=int, default=20, help="at once, in each step")
    parser.add_argument("--steps", type=int, default=1, help="of an episode and rollout")
    parser.add_argument("--reward", default="log_speedup", help="of the environment")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of Adam")
    parser.add_argument("--epochs", type=int, default=2, help="gradient steps on a rollout")
    parser.add_argument("--gamma", type=float, default=1.0, help="discount of a step's reward")
    parser.add_argument("--entropy", type=float, default=0.03, help="weight of the entropy")
    parser.add_argument("--max-norm", type=float, default=1.0, help="of the gradient")
    parser.add_argument("--cost-weight", type=float, default=2.0, help="first one, of log times")
    parser.add_argument("--hidden", type=int, default=128, help="width of an embedding")
    parser.add_argument("--dropout", type=float, default=0.2, help="while groups are parsed")
    parser.add_argument("--smoke", action="store_true", help="a quick run on the toy model")
    parser.set_defaults(baseline=True, features=tuple(FEATURES), directed=True, cut=True)
    if parser.parse_known_args()[0].paper:
        parser.set_defaults(**PAPER)
    options = parser.parse_args()
    if options.smoke:
        options.model, options.devices, options.budget = "tiny", "cpu+igpu", 200
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
        self.graph, self.dropout, self.cut = graph, options.dropout, options.cut
        hidden = options.hidden
        width = graph.x.shape[1]
        self.enter = nn.ModuleList([make_dense(width, hidden), make_dense(hidden, hidden)])
        self.convolutions = nn.ModuleList(Convolution(hidden, options.directed) for _ in range(2))
        self.phi = make_dense(hidden, hidden, 1)
        self.placer = make_dense(hidden, hidden, graph.n_devices)
        weight = nn.Parameter(torch.tensor(options.cost_weight))
        self.cost_weight = weight if options.cost_weight else None

    def encode(self, noisy: bool = False) -> Tensor:
        """(n, hidden) embeddings of the units."""
        h = self.graph.x
        for layer in self.enter:
            h = functional.dropout(layer(h), self.dropout, training=noisy)
        for convolution in self.convolutions:
            h = convolution(h, self.graph)
        return h

    def score(self, z: Tensor, edges: Tensor) -> Tensor:
        """(e,) logits phi(z_u * z_v)."""
        return self.phi(z[edges[0]] * z[edges[1]])[:, 0]

    def pool(self, z: Tensor, step: "Step") -> Tensor:
        """(n_groups, hidden) means, gated by the mean score of each group's kept edges."""
        n_groups = int(step.group.max()) + 1
        pooled = scatter(z, step.group, dim_size=n_groups, reduce="mean")
        owner = step.group[step.kept[0]]
        total = scatter(self.score(z, step.kept).sigmoid(), owner, dim_size=n_groups)
        count = torch.bincount(owner, minlength=n_groups)
        return pooled * torch.where(count > 0, total / count.clamp(min=1), 1.0)[:, None]

    def place(self, z: Tensor, step: "Step") -> Categorical:
        """Step 4: a distribution over the devices for each group."""
        pooled = self.pool(normalise(z + step.shift), step)
        logits = self.placer(pooled)
        if self.cost_weight is not None:
            time = scatter(self.graph.times, step.group, dim_size=len(pooled))
            logits = logits - self.cost_weight * (time + TINY).log()
        refused = scatter((~self.graph.allowed).float(), step.group, dim_size=len(pooled)) > 0
        return Categorical(logits=logits.masked_fill(refused, -1e9))


def normalise(z: Tensor) -> Tensor:
    return functional.layer_norm(z, z.shape[1:])


# ---- 3. Parsing of the graph into groups (2.4)


@dataclass
class Step:
    """A step of an episode: (n,) groups, (2, k) kept edges, and what was added to Z so far."""

    group: Tensor
    kept: Tensor
    shift: Tensor


def parse(scores: Tensor, graph: Graph, cut: bool) -> tuple[Tensor, Tensor]:
    """(n,) groups and (2, k) kept edges: each unit keeps its highest edge, which connect groups.

    With ``cut``, not in the paper, edges whose score is at most a half are not kept.
    """
    parent, free = list(range(graph.n)), torch.ones(graph.n, dtype=torch.bool)
    allowed, kept = graph.allowed.clone(), []

    def find(unit: int) -> int:
        while parent[unit] != unit:
            unit = parent[unit]
        return unit

    for edge in scores.argsort(descending=True, stable=True).tolist():
        a, b = graph.edges[:, edge].tolist()
        if not (free[a] or free[b]) or (cut and scores[edge] <= 0.0):
            continue
        free[a] = free[b] = False
        a, b = find(a), find(b)
        shared = allowed[a] & allowed[b]
        if a != b and shared.any():  # a group needs a device that runs all of it
            parent[b], allowed[a] = a, shared
            kept.append(edge)
    roots = torch.tensor([find(unit) for unit in range(graph.n)])
    return torch.unique(roots, return_inverse=True)[1], graph.edges[:, kept]


@torch.no_grad()
def plan_episode(networks: Networks, steps: int) -> list[Step]:
    """Groups of every step; they stay as they are while the weights change (likelihoods)."""
    z, noisy, planned = networks.encode(), networks.encode(noisy=True), []
    shift = torch.zeros_like(z)
    for _ in range(steps):
        scores = networks.score(normalise(noisy + shift), networks.graph.edges)
        planned.append(Step(*parse(scores, networks.graph, networks.cut), shift))
        # 5. the state becomes Z + Z', the embeddings of the groups added to their units
        state = normalise(z + shift)
        shift = state + networks.pool(state, planned[-1])[planned[-1].group] - z
    return planned


# ---- 5. Optimisation (2.5)


def learn(envs: gym.vector.VectorEnv, networks: Networks, options: argparse.Namespace) -> list:
    """Policy gradient; returns the latency of every placement, in ms."""
    optimizer = torch.optim.Adam(networks.parameters(), lr=options.learning_rate)
    latencies, best, recent = [], math.inf, deque(maxlen=100)
    rollout = options.placements * options.steps
    for update in range(options.budget // rollout):
        envs.reset(seed=options.seed if update == 0 else None)
        planned, chosen, rewards = plan_episode(networks, options.steps), [], []
        with torch.no_grad():
            z = networks.encode()
            for step in planned:
                chosen.append(networks.place(z, step).sample((options.placements,)))
                _, reward, *_, info = envs.step(chosen[-1][:, step.group].numpy())
                rewards.append(reward)
                seen = info.get("final_info", info)
                latencies += seen["latency_ms"].tolist()
                best = min(best, seen["latency_ms"][seen["feasible"]].min(initial=math.inf))
        discount = options.gamma ** np.arange(options.steps)[:, None]
        advantage = np.stack(rewards) * discount
        if options.baseline:  # the mean of the other placements of the step; scaled
            others = (advantage.sum(axis=1, keepdims=True) - advantage) / (options.placements - 1)
            advantage = advantage - others
            advantage = advantage / (np.sqrt((advantage**2).mean()) + 1e-8)
        advantage = torch.as_tensor(advantage, dtype=torch.float32)
        for _ in range(options.epochs):
            z, losses = networks.encode(), []
            for step, devices, gain in zip(planned, chosen, advantage, strict=True):
                groups = networks.place(z, step)
                likelihood = groups.log_prob(devices).sum(dim=1)
                losses.append(
                    -(gain * likelihood).mean() - options.entropy * groups.entropy().sum()
                )
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            nn.utils.clip_grad_norm_(networks.parameters(), options.max_norm)
            optimizer.step()
        recent.extend(latencies[-rollout:])
        if len(latencies) % 500 < rollout:
            mean = np.mean(recent)
            print(f"{len(latencies):6} placements: mean {mean:.3f} ms, best {best:.3f} ms")
    return latencies


@torch.no_grad()
def predict(networks: Networks) -> np.ndarray:
    """(n,) the most likely placement, with groups parsed without dropout."""
    networks.dropout = 0.0
    (step,) = plan_episode(networks, 1)
    return networks.place(networks.encode(), step).probs.argmax(dim=1)[step.group].numpy()


def main() -> None:
    options = parse_arguments()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    env = gym.make(options.env, model=options.model, devices=options.devices)
    networks = Networks(Graph(env, options.features), options)
    rollouts = {"horizon": options.steps, "reward": options.reward, "observe_graph": False}
    envs = PlacementVectorEnv(env.unwrapped, options.placements, **rollouts)
    learn(envs, networks, options)
    env.reset(seed=options.seed)
    *_, info = env.step(predict(networks))
    print(f"the prediction is {info['speedup_vs_best_single']:.3f} x best single")


if __name__ == "__main__":
    main()
