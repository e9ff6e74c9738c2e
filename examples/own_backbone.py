"""Use your own torch module as the backbone, and an explorer as a PyG transform for data augmentation."""

import torch
from torch_geometric.nn import GINConv
from torch_geometric.transforms import Compose, NormalizeFeatures

import graphshift as gs


class GIN(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.convolution = GINConv(torch.nn.Sequential(torch.nn.Linear(in_channels, 32), torch.nn.ReLU()))
        self.out = torch.nn.Linear(32, out_channels)

    def forward(self, x, edge_index):
        return self.out(self.convolution(x, edge_index))


torch.manual_seed(0)
data = gs.load("planted", nodes=200)
model = gs.EERM(GIN(data.train[0].num_features, data.task.out_channels), views=2, edits_per_node=1, epochs=20)
model.fit(data)
print("own backbone:", {name: round(value, 2) for name, value in model.score(data.tests).items()})

augment = Compose([gs.explorers.Random(edits_per_node=1, seed=0), NormalizeFeatures()])
graph = data.train[0].data
print("augmented:", augment(graph).num_edges, "edges instead of", graph.num_edges)
