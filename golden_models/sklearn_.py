"""scikit-learn pipelines, fitted on made-up data."""

from pathlib import Path

import numpy as np
import skl2onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from .recipe import Recipe

COLOURS = ("red", "green", "blue")
SHAPES = ("round", "square")


def _training_data(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of normal numbers and one of three labels for each."""
    draw = np.random.default_rng(0)
    x = draw.normal(1.0, 2.0, (200, columns)).astype(np.float32)
    return x, (x[:, 0] > 1).astype(int) + (x[:, 1] > 1)


def _export(model: object, inputs: list[tuple[str, object]], path: Path, opset: int, **options: object) -> str:
    chosen = {id(model): options} if options else None
    proto = skl2onnx.convert_sklearn(model, "model", inputs, target_opset=opset, options=chosen)
    path.write_bytes(proto.SerializeToString(deterministic=True))
    shown = "".join(f", {key}={value}" for key, value in options.items())
    return f"skl2onnx {skl2onnx.__version__}{shown}"


def build_logistic(path: Path) -> str:
    model = make_pipeline(StandardScaler(), PCA(4, random_state=0), LogisticRegression(max_iter=200))
    model.fit(*_training_data(6))
    return _export(model, [("x", FloatTensorType([None, 6]))], path, 15, zipmap=False)


def build_forest(path: Path) -> str:
    model = RandomForestClassifier(12, max_depth=5, random_state=0).fit(*_training_data(5))
    return _export(model, [("x", FloatTensorType([None, 5]))], path, 17)


def build_mlp_regressor(path: Path) -> str:
    x, y = _training_data(6)
    layers = MLPRegressor(hidden_layer_sizes=(16, 8), max_iter=50, tol=0.1, random_state=0)
    model = make_pipeline(StandardScaler(), layers).fit(x, y.astype(np.float32))
    return _export(model, [("x", FloatTensorType([None, 6]))], path, 18)


def build_strings(path: Path) -> str:
    x, y = _training_data(2)
    draw = np.random.default_rng(1)
    words = [draw.choice(values, len(x)) for values in (COLOURS, SHAPES)]
    table = np.concatenate([np.array(words, dtype=object).T, x.astype(object)], 1)
    encode = ColumnTransformer([("words", OneHotEncoder(handle_unknown="ignore"), [0, 1]),
                                ("numbers", StandardScaler(), [2, 3])])  # fmt: skip
    model = make_pipeline(encode, LogisticRegression(max_iter=200)).fit(table, np.array(COLOURS)[y])
    inputs = [("colour", StringTensorType([None, 1])), ("shape", StringTensorType([None, 1])),
              ("numbers", FloatTensorType([None, 2]))]  # fmt: skip
    return _export(model, inputs, path, 14, zipmap=False)


RECIPES = (
    Recipe("sklearn_logistic", "Scaler, PCA and logistic regression", build_logistic),
    Recipe("sklearn_forest", "Random forest, probabilities as a sequence of maps", build_forest),
    Recipe("sklearn_mlp", "Scaler and multi-layer perceptron", build_mlp_regressor),
    Recipe("sklearn_strings", "String columns one-hot encoded beside scaled numbers, string labels", build_strings,
           {"colour": (*COLOURS, "pink"), "shape": SHAPES}),
)  # fmt: skip
