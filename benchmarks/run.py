"""Speed and memory as ratios measured in one run: `make bench` prints them and writes benchmarks/results.md.

Every ratio compares two things timed in turns in the same process, so a noisy machine disturbs both alike.
"""

import argparse
import time
from pathlib import Path

import torch
from torch_geometric.nn import GCNConv

import graphshift as gs
from graphshift.backbones.gcn import GCNConvolution
from graphshift.datasets.making.random_graphs import edges_within_groups, pareto_weights
from graphshift.explorers import SparsePolicy
from graphshift.graphs import Graph
from graphshift.methods import EERMMethod, ERMMethod
from graphshift.sparse import Sparse


def in_turns(*jobs, rounds=9):
    """The least seconds of each job, run in turns after one warm-up: what the machine can do when left alone."""
    times = [[] for _ in jobs]
    for turn in range(rounds + 1):
        for job, kept in zip(jobs, times, strict=True):
            start = time.perf_counter()
            job()
            if turn:
                kept.append(time.perf_counter() - start)
    return [min(kept) for kept in times]


def random_graph(nodes, degree=10.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    groups = torch.randint(8, (nodes,), generator=generator)
    edges = edges_within_groups(groups, 0.8, degree, pareto_weights(nodes, 2.8, generator), generator)
    return Graph.from_edge_index(edges, nodes, undirected=True)


def propagation():
    """One GCN layer, forward and backward: ours, PyG's gather and scatter, torch.sparse's own backward."""
    rows = []
    for nodes, degree in ((5_000, 10.0), (20_000, 10.0), (20_000, 40.0)):
        graph = random_graph(nodes, degree)
        x = torch.randn(nodes, 64, requires_grad=True)
        ours, theirs = GCNConvolution(64, 32, True), GCNConv(64, 32, cached=True)
        off, diagonal = graph.normalised
        csr = off.to_torch()

        def by_torch():
            h = ours.transform(x)
            (csr @ h + diagonal.unsqueeze(1) * h).sum().backward()

        mine, pyg, plain = in_turns(
            lambda: ours.mix(ours.transform(x), graph).sum().backward(),
            lambda: theirs(x, graph.edge_index).sum().backward(),
            by_torch,
        )
        rows.append(
            [
                f"{nodes:,} nodes, {graph.num_edges:,} edges",
                f"{1e3 * mine:.1f}",
                f"{pyg / mine:.1f}×",
                f"{plain / mine:.1f}×",
            ]
        )
    return (
        "One GCN layer, forward and backward, 64 → 32",
        ["graph", "graphshift (ms)", "PyG gather-scatter", "torch.sparse CSR"],
        rows,
    )


def sparse_features():
    """The stem on bag-of-words features: sparse against dense."""
    rows = []
    for filled in (0.05, 0.01, 0.005):
        dense = (torch.rand(5_000, 3_000, generator=torch.Generator().manual_seed(0)) < filled).float()
        sparse = Sparse.from_torch(dense.to_sparse_csr())
        layer = GCNConvolution(3_000, 32, True)
        thin, thick = in_turns(
            lambda: layer.transform(sparse).sum().backward(), lambda: layer.transform(dense).sum().backward()
        )
        rows.append([f"{100 * filled:g} % filled", f"{1e3 * thin:.1f}", f"{thick / thin:.1f}×"])
    return "Stem on 5,000 × 3,000 features, forward and backward", ["features", "sparse (ms)", "dense"], rows


class DensePolicy:
    """The paper's N × N logits with torch's optimiser: the yardstick."""

    def __init__(self, nodes, lr):
        self.logits = torch.zeros(nodes, nodes, requires_grad=True)
        self.optimizer = torch.optim.AdamW([self.logits], lr=lr, weight_decay=0.0)

    def step(self, draws):
        log = self.logits.masked_fill(torch.eye(len(self.logits), dtype=torch.bool), -torch.inf).log_softmax(dim=1)
        actions = torch.multinomial(log.detach().exp(), draws, replacement=True)
        self.optimizer.zero_grad()
        (-1e-3 * log.gather(1, actions).sum()).backward()
        self.optimizer.step()


def policy():
    """One explorer step (draw and learn), after 20 steps: exact sparse policy against the dense matrix."""
    rows = []
    for nodes in (1_000, 2_000, 4_000, 8_000, 100_000):
        generator = torch.Generator().manual_seed(0)
        sparse = SparsePolicy(nodes)

        def step(sparse=sparse, generator=generator):
            sparse.reinforce(sparse.sample(5, generator), 1e-3)

        for _ in range(20):
            step()
        numbers = sparse.num_bytes / 2**20
        full = nodes * nodes * 12 / 2**20  # a logit and Adam's two moments, float32
        if nodes <= 8_000:
            dense = DensePolicy(nodes, 0.005)
            mine, theirs = in_turns(step, lambda dense=dense: dense.step(5), rounds=7)
            ratio = f"{theirs / mine:.1f}×"
        else:
            (mine,), ratio = in_turns(step, rounds=7), "does not fit"
        rows.append([f"{nodes:,}", f"{1e3 * mine:.0f}", ratio, f"{numbers:,.1f}", f"{full:,.0f}"])
    return (
        "One explorer step, s = 5, after 20 steps",
        ["nodes", "graphshift (ms)", "dense matrix, time", "graphshift (MB)", "dense matrix (MB)"],
        rows,
    )


def epochs():
    """Whole epochs: how EERM's cost grows with edges, and what it costs beside ERM."""
    rows, base = [], None
    for nodes in (2_000, 8_000, 32_000, 128_000):
        data = gs.load("planted", nodes=nodes)
        environment = data.train[0]

        def make(method, width=environment.num_features, **options):
            backbone = gs.backbones.GCN(width, data.task.out_channels)
            return method(backbone, **options)

        def explorer(kind):
            return lambda m, k: kind(edits_per_node=1, seed=k)

        erm = make(ERMMethod)
        eerm = make(EERMMethod, make_explorer=explorer(gs.explorers.Reinforce), explorers=3)
        control = make(EERMMethod, make_explorer=explorer(gs.explorers.Random), explorers=3)
        plain, learned, chance = in_turns(
            *(lambda m=m: m.step([environment], 0.0) for m in (erm, eerm, control)), rounds=7
        )
        edges = environment.graph.num_edges
        base = base or learned / edges
        rows.append(
            [
                f"{nodes:,}",
                f"{edges:,}",
                f"{1e3 * plain:.0f}",
                f"{chance / plain:.1f}×",
                f"{learned / plain:.1f}×",
                f"{learned / edges / base:.2f}",
            ]
        )
    return (
        "One epoch on planted, GCN of width 32, K = 3, s = 1 (first epochs)",
        ["nodes", "edges", "ERM (ms)", "EERM random", "EERM reinforce", "cost per edge (first row = 1)"],
        rows,
    )


def markdown(title, columns, rows):
    lines = [f"### {title}", "", "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which benchmarks; all by default")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.md"))
    arguments = parser.parse_args()
    known = {job.__name__: job for job in (propagation, sparse_features, policy, epochs)}
    chosen = arguments.names or list(known)
    for name in chosen:
        if name not in known:
            parser.error(f"{name!r} is not a benchmark; they are {', '.join(known)}")
    # One thread: with more, another process on the machine stalls every small operation, and ratios mean nothing.
    torch.set_num_threads(1)
    head = f"Made by `make bench` with graphshift {gs.__version__}, torch {torch.__version__}, one thread."
    parts = [f"# Benchmarks\n\n{head} A ratio says how many times as long the other way takes.\n"]
    for name in chosen:
        print(f"{name} …", flush=True)
        parts.append(markdown(*known[name]()))
        print(parts[-1], flush=True)
    if not arguments.names:
        arguments.out.write_text("\n".join(parts), encoding="utf-8")
        print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
