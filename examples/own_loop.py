"""Your own loop: EERM in five lines around any PyG model, without graphshift's training loop."""

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN

import graphshift as gs

torch.manual_seed(0)
data = gs.load("planted-structure", nodes=300).train[0].data  # any PyG Data with x, edge_index and y
model = GCN(data.num_features, 32, num_layers=2, out_channels=int(data.y.max()) + 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

graph = gs.Environment("mine", data)  # checked and sorted once
explorers = [gs.explorers.Reinforce(edits_per_node=2, lr=0.01, seed=k) for k in range(3)]  # 1: K explorers
for epoch in range(30):
    views = [explorer.propose(graph) for explorer in explorers]  # 2: each makes a view
    risks = torch.stack([F.cross_entropy(model(data.x, view.edge_index), data.y) for view in views])
    for explorer, view in zip(explorers, views, strict=True):
        explorer.learn(view, reward=gs.variance(risks).item())  # 3: and learns to raise the variance
    loss = gs.eerm_objective(risks, beta=1.0)  # 4: Var + β · mean
    optimizer.zero_grad()
    loss.backward()  # 5: as usual
    optimizer.step()
    if epoch % 10 == 0:
        print(f"epoch {epoch:2d}  loss {loss.item():.4f}  variance {gs.variance(risks).item():.2e}")
