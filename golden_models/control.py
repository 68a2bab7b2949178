"""Control flow and local functions."""

from pathlib import Path

import torch
from torch import Tensor, nn

from .recipe import Recipe
from .torch_export import export_dynamo, export_script, randomize_norms


class Refine(nn.Module):
    """Scripted: a loop whose body branches on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)
        self.widen = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Tanh())
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        for i in range(int(steps)):
            x = torch.tanh(self.step(x)) + 0.1 * i
            if bool(x.mean() > 0):
                x = self.widen(x).transpose(0, 1).transpose(0, 1)
            else:
                x = x * 0.5
        return self.head(x)


class Decode(nn.Module):
    """Scripted: a greedy search that stops when the state settles."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        count = torch.zeros(1, dtype=torch.int64)
        going = True
        while going:
            y = torch.tanh(self.cell(x))
            count = count + 1
            going = bool((y - x).abs().max() > 0.05) and int(count) < 12
            x = y
        return x, count


class Gate(nn.Module):
    """torch.cond: one of two branches, each with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.right = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda t: self.left(t), lambda t: self.right(t), (x,))
        return self.head(y)


class Block(nn.Module):
    """Pre-norm feed-forward block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(self.norm(x))


def build_loop_if(path: Path) -> str:
    model = torch.jit.script(Refine().eval())
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    args = (torch.randn(2, 8), torch.tensor(3))
    return export_script(model, args, path, 14, ["x", "steps"], axes=axes) + ", scripted"


def build_while(path: Path) -> str:
    model = torch.jit.script(Decode().eval())
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    args = (torch.randn(2, 6),)
    outputs = ["y", "count"]
    return export_script(model, args, path, 17, outputs=outputs, axes=axes, do_constant_folding=False) + ", scripted"


def build_cond(path: Path) -> str:
    return export_dynamo(randomize_norms(Gate().eval()), (torch.randn(2, 8),), path, 18, shapes=({0: "batch"},))


def build_functions(path: Path) -> str:
    model = randomize_norms(nn.Sequential(Block(12), Block(12), Block(12), nn.Linear(12, 5))).eval()
    axes = {"x": {0: "batch", 1: "sequence"}, "y": {0: "batch", 1: "sequence"}}
    options = {"export_modules_as_functions": {Block, nn.LayerNorm}}
    return export_script(model, (torch.randn(2, 4, 12),), path, 15, axes=axes, **options)


RECIPES = (
    Recipe("loop_if", "Scripted module: Loop with an If in its body", build_loop_if, {"steps": range(6)}),
    Recipe("while_loop", "Scripted module: while loop that stops on the data", build_while),
    Recipe("cond_dynamo", "torch.cond: If with branches holding weights of their own", build_cond),
    Recipe("functions", "Modules exported as local functions, nested", build_functions),
)
