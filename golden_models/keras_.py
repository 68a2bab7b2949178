"""Keras models, channels last, exported by Keras itself on its torch backend."""

from pathlib import Path

import keras
import numpy as np
import torch
from keras import layers

from .recipe import Recipe


def _randomize_norms(model: keras.Model) -> keras.Model:
    """Statistics and scales of a trained net for every BatchNormalization."""
    draw = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            shape = layer.moving_mean.shape
            layer.moving_mean.assign(draw.normal(0, 0.3, shape))
            layer.moving_variance.assign(draw.uniform(0.5, 2, shape))
            layer.gamma.assign(draw.uniform(0.5, 1.5, shape))
            layer.beta.assign(draw.normal(0, 0.2, shape))
    return model


def _export(model: keras.Model, path: Path, opset: int, batch: int | None) -> str:
    """A known batch goes through torch's dynamo exporter, an unknown one through its TorchScript exporter."""
    spec = [keras.InputSpec(shape=(batch, *tensor.shape[1:]), dtype=tensor.dtype, name=tensor.name)
            for tensor in model.inputs]  # fmt: skip
    model.export(str(path), format="onnx", opset_version=opset, verbose=False, input_signature=spec)
    version = torch.__version__.partition("+")[0]
    return f"keras {keras.__version__} on torch {version}, format=onnx, input_signature batch {batch}"


def _cnn() -> keras.Model:
    """Separable convolutions with BN, a residual, pooling, Dropout; every convolution wants a Transpose pair."""
    image = layers.Input((32, 32, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(image)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    for width in (16, 24):
        shortcut = layers.Conv2D(width, 1, strides=2)(x)
        x = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
        x = layers.Activation("swish")(layers.BatchNormalization()(x))
        x = layers.BatchNormalization()(layers.Conv2D(width, 1, padding="same")(x))
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        x = layers.Add()([x, shortcut])
    x = layers.Dropout(0.3)(layers.GlobalAveragePooling2D()(x))
    return _randomize_norms(keras.Model(image, layers.Dense(6, activation="softmax", name="label")(x)))


def _autoencoder() -> keras.Model:
    """Down by strides, up by Conv2DTranspose and UpSampling2D, with ZeroPadding2D."""
    image = layers.Input((16, 16, 1), name="image")
    x = layers.ZeroPadding2D(1)(image)
    x = layers.Conv2D(8, 3, strides=2, activation="relu")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(x)
    x = layers.LeakyReLU(0.1)(layers.BatchNormalization()(x))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.UpSampling2D(2)(x))
    return _randomize_norms(keras.Model(image, layers.Conv2D(1, 3, padding="same", activation="sigmoid")(x)))


def build_keras_cnn(path: Path) -> str:
    keras.utils.set_random_seed(0)
    return _export(_cnn(), path, 16, None)


def build_keras_cnn_dynamo(path: Path) -> str:
    keras.utils.set_random_seed(0)
    return _export(_cnn(), path, 18, 1)


def build_keras_autoencoder(path: Path) -> str:
    keras.utils.set_random_seed(0)
    return _export(_autoencoder(), path, 13, None)


RECIPES = (
    Recipe("keras_cnn", "Keras CNN in NHWC: Transpose around every convolution", build_keras_cnn),
    Recipe("keras_cnn_dynamo", "Keras CNN in NHWC at a fixed batch", build_keras_cnn_dynamo),
    Recipe("keras_autoencoder", "Keras autoencoder in NHWC: Conv2DTranspose, UpSampling2D, padding",
           build_keras_autoencoder),
)  # fmt: skip
