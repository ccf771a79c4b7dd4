"""Dense layers of torch.nn, a graph network of PyTorch Geometric, and a recommender, with random weights and data."""

import torch
from steps import training
from torch import nn
from torch.nn import functional as F


def transformer(quick):
    width, layers = (128, 2) if quick else (768, 8)
    layer = nn.TransformerEncoderLayer(width, 2 if quick else 12, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-4),
                    lambda: torch.randn(2, 32 if quick else 192, width),
                    lambda batch: F.mse_loss(model(batch), batch))


def _wide(quick, **options):
    inner, outer = (2048, 256) if quick else (8192, 1024)
    model = nn.Sequential(nn.Linear(outer, inner), nn.ReLU(), nn.Linear(inner, inner), nn.ReLU(),
                          nn.Linear(inner, inner), nn.ReLU(), nn.Linear(inner, outer))
    return training(model, torch.optim.AdamW(model.parameters(), lr=1e-4, **options),
                    lambda: torch.randn(64, outer), lambda batch: F.mse_loss(model(batch), batch))


def wide_mlp(quick):
    return _wide(quick)


def wide_mlp_fused(quick):
    return _wide(quick, fused=True)


class Gcnii(nn.Module):
    """As in PyTorch Geometric's example gcn2_cora.py."""

    def __init__(self, features, width, depth, classes):
        super().__init__()
        from torch_geometric.nn import GCN2Conv

        self.first, self.last = nn.Linear(features, width), nn.Linear(width, classes)
        self.layers = nn.ModuleList(GCN2Conv(width, alpha=0.1, theta=0.5, layer=number, cached=True)
                                    for number in range(1, depth + 1))

    def forward(self, x, edges):
        x = start = self.first(F.dropout(x, 0.6, self.training)).relu()
        for layer in self.layers:
            x = layer(F.dropout(x, 0.6, self.training), start, edges).relu()
        return self.last(F.dropout(x, 0.6, self.training))


def graph(quick):
    """Nodes, edges and features of an eighth of ogbn-arxiv, all of them in every step; the edges are random."""
    nodes, edges, width, depth = (1000, 7000, 64, 4) if quick else (21168, 145780, 128, 32)
    model = Gcnii(128, width, depth, 40)
    features, classes = torch.randn(nodes, 128), torch.randint(0, 40, (nodes,))
    ends = torch.randint(0, nodes, (2, edges))
    return training(model, torch.optim.Adam(model.parameters(), lr=0.01), lambda: None,
                    lambda _: F.cross_entropy(model(features, ends), classes))


# Of the 26 categorical features of the Criteo Kaggle data set: how many values each has.
CRITEO = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
          5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572)


class Dlrm(nn.Module):
    """DLRM (Naumov et al., 2019) in its configuration for that data set, written out with torch.nn: torchrec needs
    libraries for GPUs, and without them makes its tables of the same EmbeddingBag."""

    def __init__(self, rows):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(count, 16, mode="sum", sparse=True) for count in rows)
        pairs = (len(rows) + 1) * len(rows) // 2
        self.bottom = self._perceptron(13, 512, 256, 64, 16)
        self.top = self._perceptron(16 + pairs, 512, 256, 1)[:-1]  # without the last ReLU

    @staticmethod
    def _perceptron(*widths):
        return nn.Sequential(*(module for each in zip(widths, widths[1:]) for module in (nn.Linear(*each), nn.ReLU())))

    def forward(self, dense, indices):
        dense = self.bottom(dense)
        offsets = torch.arange(len(dense))
        looked_up = [table(index, offsets) for table, index in zip(self.tables, indices)]
        vectors = torch.stack([dense, *looked_up], dim=1)
        products = vectors @ vectors.mT
        lower = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        return self.top(torch.cat([dense, products[:, lower[0], lower[1]]], dim=1)).squeeze(1)


def recommender(quick):
    rows = [min(count, 20000) for count in CRITEO] if quick else CRITEO
    model = Dlrm(rows)

    def make_batch():
        indices = [torch.randint(0, count, (128,)) for count in rows]
        return torch.randn(128, 13), indices, torch.randint(0, 2, (128,)).float()

    return training(model, torch.optim.SGD(model.parameters(), lr=0.1), make_batch,
                    lambda batch: F.binary_cross_entropy_with_logits(model(*batch[:2]), batch[2]))
