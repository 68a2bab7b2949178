"""Recommenders."""

from pathlib import Path

import torch
from torch import Tensor, nn

from .recipe import Recipe
from .torch_export import export_dynamo, export_script, randomize_norms


class Recommender(nn.Module):
    """DLRM: embeddings and a bottom MLP, pairwise dot products, a top MLP."""

    def __init__(self, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(count, 8) for count in rows])
        self.history = nn.EmbeddingBag(rows[0], 8, mode="mean")
        self.bottom = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(8 + 10, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))

    def forward(self, dense: Tensor, ids: Tensor, seen: Tensor) -> Tensor:
        x = self.bottom(dense)
        rows = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack([x, *rows, self.history(seen)], 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        upper = torch.triu_indices(5, 5, 1)
        pairs = products[:, upper[0], upper[1]]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1)))


class TwoTower(nn.Module):
    """Sums of embeddings for the user and the item, cosine of the two towers."""

    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Embedding(300, 16)
        self.item = nn.Embedding(400, 16)
        self.user_tower = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
        self.item_tower = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, user: Tensor, items: Tensor, weight: Tensor) -> Tensor:
        left = self.user_tower(self.user(user))
        right = self.item_tower((self.item(items) * weight.unsqueeze(2)).sum(1))
        return nn.functional.cosine_similarity(left, right, dim=1)


def build_recommender(path: Path) -> str:
    model = randomize_norms(Recommender((100, 60, 40))).eval()
    args = (torch.randn(4, 5), torch.zeros(4, 3, dtype=torch.long), torch.zeros(4, 6, dtype=torch.long))
    return export_script(model, args, path, 16, ["dense", "ids", "seen"], ["score"], do_constant_folding=False)


def build_two_tower(path: Path) -> str:
    args = (torch.zeros(4, dtype=torch.long), torch.zeros(4, 6, dtype=torch.long), torch.randn(4, 6))
    shapes = ({0: "batch"}, {0: "batch", 1: "history"}, {0: "batch", 1: "history"})
    inputs = ["user", "items", "weight"]
    return export_dynamo(randomize_norms(TwoTower()).eval(), args, path, 20, inputs, ["cosine"], shapes, optimize=False)


RECIPES = (
    Recipe("recommender", "DLRM: embedding tables, EmbeddingBag, dot products, MLPs", build_recommender,
           {"ids": range(40), "seen": range(100)}),
    Recipe("two_tower_dynamo", "Two-tower recommender: weighted sum of embeddings, cosine", build_two_tower,
           {"user": range(300), "items": range(400)}),
)  # fmt: skip
