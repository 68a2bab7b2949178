"""Generators for operators of tables, trees, linear models and strings, whose attributes must be consistent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from onnx import TensorProto, helper, parser

from ...core.ir.op_schemas import decode_strings
from .generator import OpGenerator, OpSite

TREE = """nodes_treeids = [0, 0, 0, 0, 0], nodes_nodeids = [0, 1, 2, 3, 4], nodes_values = [1.0, 0.5, 0.0, 0.0, 0.0],
    nodes_truenodeids = [1, 2, 0, 0, 0], nodes_falsenodeids = [4, 3, 0, 0, 0]"""
TARGETS = "target_treeids = [0, 0, 0], target_nodeids = [2, 3, 4], target_ids = [0, 0, 0], n_targets = 1"
CLASSES = "class_treeids = [0, 0, 0], class_nodeids = [2, 3, 4], class_ids = [0, 1, 2], classlabels_int64s = [0, 1, 2]"
TRANSFORM = 'post_transform = ["NONE", "LOGISTIC", "SOFTMAX"]'
GRAMS = 'min_gram_length = 1, max_skip_count = [0, 1], mode = ["TF", "IDF", "TFIDF"]'
ROWS = rf"""
int64 LabelEncoder <keys_int64s = [1, 0, 7], values_strings = ["a", "", "b"]> <default_string = "A">
string LabelEncoder <keys_strings = ["a", "nan", ""], values_int64s = [1, 0, 7]> <default_int64 = -1>
float LabelEncoder <keys_floats = [1.0, 0.0], values_floats = [-2.5, 3.0]> <default_float = 0.5>
int64|float OneHotEncoder <cats_int64s = [1, 0, 7]> <zeros = [1, 0]>
string OneHotEncoder <cats_strings = ["a", "b", "", "nan"]> <zeros = [1, 0]>
string CategoryMapper <cats_strings = ["b", "a", ""], cats_int64s = [0, 1, 2]> <default_int64 = -7>
int64 CategoryMapper <cats_strings = ["b", "a", ""], cats_int64s = [0, 1, 2]> <default_string = "none">
float[N,2] Imputer <imputed_value_floats = [1.0, -2.5], replaced_value_float = [nan, 0.0]> <>
float[N,2] Imputer <imputed_value_floats = [0.5], replaced_value_float = [nan, -1.0]> <>
int64[N,2] Imputer <imputed_value_int64s = [1, 0], replaced_value_int64 = [-1, 0, 7]> <>
float|int64|int32|double[N,2] Scaler <offset = [0.5, -1.0], scale = [2.0, 0.5]> <>
float|int64|int32|double[N,2] Scaler <offset = [1.0], scale = [2.0]> <>
float|int64|int32|double[N,2] Normalizer <> <norm = ["MAX", "L1", "L2"]>
float[N,2] LinearRegressor <coefficients = [1.0, -2.0], targets = 1> <intercepts = [0.5], {TRANSFORM}>
float[N,2] LinearRegressor <coefficients = [1.0, -2.0, 0.5, 3.0], targets = 2> <intercepts = [0.5, 1.0], {TRANSFORM}>
float[N,2] LinearClassifier <coefficients = [1.0, -2.0, 0.5, 3.0, 0.0, -1.0], intercepts = [0.0, 0.5, 1.0],
    classlabels_ints = [0, 1, 2]> <{TRANSFORM}>
float[N,2] SVMRegressor <kernel_type = ["LINEAR", "RBF", "POLY", "SIGMOID"], kernel_params = [0.5, 1.0, 2.0],
    n_supports = 2, support_vectors = [1.0, -2.0, 0.5, 3.0], coefficients = [1.0, -0.5], rho = [0.25]> <>
float|int64|string[N,2] ArrayFeatureExtractor <> <Y = [0]>
float|int64|string[N,2] ArrayFeatureExtractor <> <Y = [1, 0, 1]>
float[N,2] TreeEnsembleRegressor <{TREE}, {TARGETS}, nodes_featureids = [0, 1, 0, 0, 0],
    nodes_modes = ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF"], target_weights = [1.0, -2.0, 0.5]>
    <base_values = [0.25], aggregate_function = ["SUM", "AVERAGE", "MIN", "MAX"]>
float[N,2] TreeEnsembleRegressor <{TREE}, {TARGETS}, nodes_featureids = [1, 1, 0, 0, 0],
    nodes_modes = ["BRANCH_LT", "BRANCH_GTE", "LEAF", "LEAF", "LEAF"], target_weights = [1.0, -2.0, 0.5]>
    <nodes_missing_value_tracks_true = [1, 0, 0, 0, 0]>
float[N,2] TreeEnsembleClassifier <{TREE}, {CLASSES}, nodes_featureids = [1, 0, 0, 0, 0],
    nodes_modes = ["BRANCH_EQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], class_weights = [1.0, -2.0, 0.5]>
    <nodes_missing_value_tracks_true = [0, 1, 0, 0, 0], {TRANSFORM}>
float[N,2] TreeEnsembleClassifier <{TREE}, {CLASSES}, nodes_featureids = [0, 0, 0, 0, 0],
    nodes_modes = ["BRANCH_GTE", "BRANCH_NEQ", "LEAF", "LEAF", "LEAF"], class_weights = [1.0, -2.0, 0.5]> <{TRANSFORM}>
int64 TfIdfVectorizer <{GRAMS}, max_gram_length = 1, ngram_counts = [0], ngram_indexes = [0, 1, 2],
    pool_int64s = [1, 0, -1]> <weights = [1.0, -2.0, 0.5]>
string TfIdfVectorizer <{GRAMS}, max_gram_length = 2, ngram_counts = [0, 3], ngram_indexes = [0, 1, 2, 3],
    pool_strings = ["a", "b", "", "a", "b"]> <weights = [1.0, -2.0, 0.5, 3.0]>
string[N] StringNormalizer <> <case_change_action = ["NONE", "LOWER", "UPPER"], stopwords = ["b", "", "nan"]>
string[N] StringNormalizer <> <is_case_sensitive = [0, 1], stopwords = ["a"]>
string StringSplit <> <delimiter = [" ", ",", "", "ab"], maxsplit = [1, 2]>
string RegexFullMatch <pattern = ["a+", "[ab]*", ".*b", "", "a|b", "[A-Z]", "\\w+@\\w+"]> <>
"""
"""Types of the first operand, with its dims or one to three dims, an operator, its attributes, and optional parameters.

A list contains the options of an attribute with one value. Lists of floats may get numbers of the dictionary instead.
"""
ROW = re.compile(r"^([\w|]+)(?:\[(.*?)\])? (\w+) <([^>]*)>\s+<([^>]*)>$", re.MULTILINE)


class Lookup(NamedTuple):
    """A row of the table: `dims` are letters and numbers, `required` attributes are always set."""

    dtypes: Sequence[int]
    dims: Sequence[str]
    required: Mapping[str, Any]
    optional: Mapping[str, Any]


def look_up(lookups: Sequence[Lookup]) -> OpGenerator:
    """The generator of an operator with one of `lookups`, whose first operands have the same rank."""

    def generate(site: OpSite) -> None:
        formal, dtypes = site.spec.inputs[0].type_str, [d for row in lookups for d in row.dtypes]
        if not formal.startswith("tensor(") and site.existing_operand(0) is None:
            dtype = site.generator.dtype
            site.bound_types[formal] = dtype if dtype in dtypes else site.choices.pick(dtypes)
        dims = lookups[0].dims
        shape = site.hinted_shape(len(dims) or 1, len(dims) or 3)
        fixed = zip(dims or [""] * len(shape), shape, strict=True)
        x = site.operand(0, tuple(int(d) if d.isdigit() else n for d, n in fixed))
        row = site.choices.pick([row for row in lookups if x.dtype in row.dtypes] or lookups)
        for name, value in row.required.items():
            site.required_parameter(name, partial(_drawn, site, name, value))
        for name, value in row.optional.items():
            site.parameter(name, partial(_drawn, site, name, value))

    return generate


def _drawn(site: OpSite, name: str, value: Any) -> Any:
    """The value of a parameter in a row, one of its options, or numbers of the dictionary instead of floats."""
    if not isinstance(value, list):
        return value
    values, declared = cast("list[Any]", value), site.spec.attributes.get(name)
    kind: Any = declared.type if declared is not None else None
    if kind is not None and not kind.name.endswith("S"):
        return site.choices.pick(values)
    if not isinstance(values[0], float) or site.choices.draw_below(2) == 0:
        return values
    drawn = [site.generator.dictionary.draw_number(site.choices) for _ in values]
    return [n if isfinite(n) else 1.0 for n in drawn]


def _table() -> dict[str, list[Lookup]]:
    found: dict[str, list[Lookup]] = {}
    for types, dims, op_type, required, optional in ROW.findall(ROWS):
        dtypes = [TensorProto.DataType.Value(name.upper()) for name in types.split("|")]
        row = Lookup(dtypes, dims.split(",") if dims else (), _attributes(required), _attributes(optional))
        found.setdefault(op_type, []).append(row)
    return found


def _attributes(text: str) -> dict[str, Any]:
    node = parser.parse_node(f"y = Lookup {f'<{text}>' if text else ''} (x)")
    return {a.name: decode_strings(helper.get_attribute_value(a)) for a in node.attribute}


OP_GENERATORS: Mapping[str, OpGenerator] = MappingProxyType({t: look_up(rows) for t, rows in _table().items()})
