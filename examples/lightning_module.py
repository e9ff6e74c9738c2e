"""EERM inside a Lightning module (`pip install graphshift[lightning]`)."""

import logging
import warnings

import lightning
import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN

import graphshift as gs

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning.*")


class EERMModule(lightning.LightningModule):
    def __init__(self, model, views=3, edits_per_node=2, beta=1.0):
        super().__init__()
        self.model, self.beta = model, beta
        self.explorers = [gs.explorers.Reinforce(edits_per_node, lr=0.01, seed=k) for k in range(views)]

    def training_step(self, data, index):
        views = [explorer.propose(data) for explorer in self.explorers]
        risks = torch.stack([F.cross_entropy(self.model(data.x, view.edge_index), data.y) for view in views])
        for explorer, view in zip(self.explorers, views, strict=True):
            explorer.learn(view, reward=gs.variance(risks).item())
        self.log("variance", gs.variance(risks))
        return gs.eerm_objective(risks, self.beta)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.model.parameters(), lr=0.01)


lightning.seed_everything(0, verbose=False)
dataset = gs.load("planted-structure", nodes=300)
train, test = dataset.train[0].data, dataset.tests[-1].data
module = EERMModule(GCN(train.num_features, 32, num_layers=2, out_channels=3))
trainer = lightning.Trainer(
    max_epochs=20,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, DataLoader([train], batch_size=1))
accuracy = (module.model(test.x, test.edge_index).argmax(dim=1) == test.y).float().mean()
print(f"variance of the risks {trainer.callback_metrics['variance']:.2e}, accuracy on the last test {accuracy:.2f}")
