"""Models of a search, made when first raced."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from msgspec import Struct

from ...core.errors import PassesError
from ...core.io.model_source import ModelSource
from ...core.run.report import Report
from ...core.verify.effort import Effort
from ...core.verify.given_inputs import GivenSamples
from ..measure.tuned_settings import Recipe
from ..optimize.content_digests import model_digest
from ..optimize.optimize import optimize_model
from ..optimize.run_options import RunOptions

Quantize = Callable[[str, Path], tuple[str, str]]
"""Writes the model of a scheme to a file; returns the full scheme, and its loss in words.

Raises PassesError if no candidate is within the budget.
"""


class MadeModel(Struct, frozen=True):
    """A model in a file: its bytes including external data, and a digest of its content.

    `report` is the report of the run that made it; `scheme` and `loss`, in words, describe a quantized model.
    """

    path: Path
    bytes: int
    digest: str
    report: Report | None = None
    scheme: str = ""
    loss: str = ""


@dataclass
class TunedModels:
    """The models of recipes for one original, whose file is `original`, in files of a folder.

    Only `verify` verifies them. `seconds` is the longest time in which a pipeline made one.
    """

    source: ModelSource
    original: Path
    folder: Path
    quantize: Quantize
    seed: int = 0
    freeze_initializers: bool | None = None
    seconds: float = 0.0
    _made: dict[Recipe, MadeModel | PassesError] = field(default_factory=dict[Recipe, MadeModel | PassesError])
    _files: int = 0

    def get(self, recipe: Recipe) -> MadeModel:
        """The model of a recipe. Raises PassesError if it cannot be made."""
        if recipe not in self._made:
            try:
                self._made[recipe] = self._make(recipe)
            except PassesError as e:
                self._made[recipe] = e
        found = self._made[recipe]
        if isinstance(found, PassesError):
            raise found
        return found

    def keep(self, recipes: Collection[Recipe]) -> None:
        """Remove the files of all other opsets and rules, which are made again if needed."""
        for recipe, made in list(self._made.items()):
            is_plain = recipe in {Recipe(recipe.pipeline), Recipe(scheme=recipe.scheme)}
            if recipe not in recipes and isinstance(made, MadeModel) and not is_plain:
                del self._made[recipe]
                for file in (made.path, *made.path.parent.glob(f"{made.path.name}.*")):
                    file.unlink(missing_ok=True)

    def verify(self, recipe: Recipe, inputs: GivenSamples | None, effort: Effort) -> Report:
        """Make the model of a recipe again, with verification, replacing the current one.

        Raises VerificationError and UnverifiableError like `optimize`.
        """
        path = self._new_path()
        report = self._optimize(recipe, path, verify=effort, inputs=inputs)
        self._made[recipe] = MadeModel(path, _bytes(path), model_digest(path), report)
        return report

    def _make(self, recipe: Recipe) -> MadeModel:
        if recipe.is_original:
            return MadeModel(self.original, self.source.size, model_digest(self.original))
        path = self._new_path()
        if recipe.scheme:
            scheme, loss = self.quantize(recipe.scheme, path)
            return MadeModel(path, _bytes(path), model_digest(path), None, scheme, loss)
        report = self._optimize(recipe, path, verify=False)
        return MadeModel(path, _bytes(path), model_digest(path), report)

    def _optimize(self, recipe: Recipe, path: Path, **how: Any) -> Report:
        passes = {"skip": recipe.skip, "enable": recipe.enable, "opset": recipe.opset}
        how |= {"freeze_initializers": self.freeze_initializers, "seed": self.seed, "progress": False}
        began = monotonic()
        made = optimize_model(self.original, RunOptions(recipe.pipeline, **passes, **how, output=path))
        self.seconds = max(self.seconds, monotonic() - began)
        return made.report

    def _new_path(self) -> Path:
        self._files += 1
        return self.folder / f"{self._files}.onnx"


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, *path.parent.glob(f"{path.name}.*")))
