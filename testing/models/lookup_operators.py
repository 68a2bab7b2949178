"""Generators for operators on strings and for those of ai.onnx.ml: encoders, imputers, linear models, trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import Any

from onnx import TensorProto

from .generator import OpGenerator, OpSite
from .model_builder import TypedValue

STRING, INT64, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT
ENTRIES: Mapping[int, Sequence[Any]] = MappingProxyType(
    {STRING: ("a", "b", "", "nan", "A"), INT64: (1, 0, -1, 7, 1000), FLOAT: (1.0, 0.0, -2.5, 3.0, 0.5)}
)
"""Keys and values of tables, by type."""
LIST_NAMES: Mapping[int, str] = MappingProxyType({STRING: "strings", INT64: "int64s", FLOAT: "floats"})
NUMBER_NAMES: Mapping[int, str] = MappingProxyType({STRING: "string", INT64: "int64", FLOAT: "float"})
REGULAR_EXPRESSIONS = ("a+", "[ab]*", ".*b", "", "a|b", "[A-Z]", r"\w+@\w+")
DELIMITERS = (" ", ",", "", "ab")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX")
BRANCHES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ")


def entries(site: OpSite, dtype: int) -> list[Any]:
    """Some entries of the table of a type, in any order."""
    return site.choices.shuffled(site.choices.subset(ENTRIES[dtype]))


def numbers(site: OpSite, count: int) -> list[float]:
    """Finite numbers of the dictionary."""
    drawn = [site.generator.dictionary.draw_number(site.choices) for _ in range(count)]
    return [n if isfinite(n) else 1.0 for n in drawn]


def operand_of(site: OpSite, dtypes: Sequence[int], min_rank: int = 1, max_rank: int = 3) -> TypedValue:
    """The first operand, of one of `dtypes` if it is new."""
    formal = site.spec.inputs[0].type_str
    if not formal.startswith("tensor(") and site.existing_operand(0) is None:
        wished = [d for d in dtypes if d == site.generator.dtype]
        site.bound_types[formal] = wished[0] if wished else site.choices.pick(dtypes)
    return site.first_operand(min_rank, max_rank)


def features(site: OpSite, dtypes: Sequence[int] = (FLOAT, INT64, TensorProto.INT32, TensorProto.DOUBLE)) -> int:
    """The number of features of the first operand, rows of features."""
    return operand_of(site, dtypes, 2, 2).shape[-1]


def _label_encoder(site: OpSite) -> None:
    """LabelEncoder, with a default or that of the specification."""
    x = operand_of(site, (STRING, INT64, FLOAT))
    keys = entries(site, x.dtype if x.dtype in ENTRIES else FLOAT)
    made = site.choices.pick((INT64, STRING, FLOAT))
    site.required_parameter(f"keys_{LIST_NAMES.get(x.dtype, 'floats')}", lambda: keys)
    site.required_parameter(f"values_{LIST_NAMES[made]}", lambda: [site.choices.pick(ENTRIES[made]) for _ in keys])
    site.pick(f"default_{NUMBER_NAMES[made]}", ENTRIES[made][-1])


def _one_hot_encoder(site: OpSite) -> None:
    """OneHotEncoder; unknown categories are an error where `zeros` is 0."""
    x = operand_of(site, (INT64, STRING, FLOAT))
    dtype = STRING if x.dtype == STRING else INT64
    site.required_parameter(f"cats_{LIST_NAMES[dtype]}", lambda: entries(site, dtype))
    site.pick("zeros", 1, 0)


def _category_mapper(site: OpSite) -> None:
    x = operand_of(site, (STRING, INT64))
    words = entries(site, STRING)
    site.required_parameter("cats_strings", lambda: words)
    site.required_parameter("cats_int64s", lambda: [*range(len(words))])
    site.pick("default_int64" if x.dtype == STRING else "default_string", -7 if x.dtype == STRING else "none")


def _imputer(site: OpSite) -> None:
    """Imputer of NaN or of another number, with one number for all features or one for each."""
    x = operand_of(site, (FLOAT, INT64), 2, 2)
    count = x.shape[-1] if site.choices.draw_below(2) else 1
    dtype = INT64 if x.dtype == INT64 else FLOAT
    site.required_parameter(
        f"imputed_value_{LIST_NAMES[dtype]}", lambda: [site.choices.pick(ENTRIES[dtype]) for _ in range(count)]
    )
    replaced = (float("nan"), -1.0, 0.0) if dtype == FLOAT else (-1, 0, 7)
    site.required_parameter(f"replaced_value_{NUMBER_NAMES[dtype]}", lambda: site.choices.pick(replaced))


def _scaler(site: OpSite) -> None:
    count = features(site) if site.choices.draw_below(2) else 1
    features(site)
    site.required_parameter("offset", lambda: numbers(site, count))
    site.required_parameter("scale", lambda: numbers(site, count))


def _linear_regressor(site: OpSite) -> None:
    count, targets = features(site, (FLOAT,)), 1 + site.choices.draw_below(2)
    site.required_parameter("coefficients", lambda: numbers(site, count * targets))
    site.required_parameter("targets", lambda: targets)
    site.parameter("intercepts", lambda: numbers(site, targets))
    site.pick("post_transform", *TRANSFORMS)


def _linear_classifier(site: OpSite) -> None:
    count = features(site, (FLOAT,))
    site.required_parameter("coefficients", lambda: numbers(site, 3 * count))
    site.required_parameter("intercepts", lambda: numbers(site, 3))
    site.required_parameter("classlabels_ints", lambda: [0, 1, 2])
    site.pick("post_transform", *TRANSFORMS)
    site.output_count = 2


def _svm_regressor(site: OpSite) -> None:
    count = features(site, (FLOAT,))
    site.required_parameter("kernel_type", lambda: site.choices.pick(("LINEAR", "RBF", "POLY", "SIGMOID")))
    site.required_parameter("kernel_params", lambda: [0.5, 1.0, 2.0])
    site.required_parameter("n_supports", lambda: 2)
    site.required_parameter("support_vectors", lambda: numbers(site, 2 * count))
    site.required_parameter("coefficients", lambda: numbers(site, 2))
    site.required_parameter("rho", lambda: numbers(site, 1))


def _array_feature_extractor(site: OpSite) -> None:
    dim = operand_of(site, (FLOAT, INT64, STRING)).shape[-1]
    count = 1 + site.choices.draw_below(3)
    site.parameter("Y", lambda: [site.choices.draw_below(max(dim, 1)) for _ in range(count)])


def _feature_vectorizer(site: OpSite) -> None:
    rows = features(site)
    wide = [site.operand(i, (rows, 1 + site.choices.draw_below(3))) for i in site.operand_order()]
    site.required_parameter("inputdimensions", lambda: [x.shape[-1] for x in wide])


def _tree_attributes(site: OpSite, role: str) -> None:
    """The attributes of an ensemble of one tree: two decisions, and three leaves with weights for `role`."""
    count = features(site, (FLOAT,))
    deep = [site.choices.draw_below(max(count, 1)) for _ in range(2)]
    fixed: dict[str, Any] = {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": [*range(5)],
        "nodes_featureids": [*deep, 0, 0, 0],
        "nodes_truenodeids": [1, 2, 0, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0],
        f"{role}_treeids": [0] * 3,
        f"{role}_nodeids": [2, 3, 4],
    }
    for name, value in fixed.items():
        site.required_parameter(name, lambda value=value: value)
    site.required_parameter("nodes_values", lambda: [*numbers(site, 2), 0.0, 0.0, 0.0])
    site.required_parameter("nodes_modes", lambda: [*(site.choices.pick(BRANCHES) for _ in range(2)), *["LEAF"] * 3])
    site.parameter("nodes_missing_value_tracks_true", lambda: [*site.draw_each(2), 0, 0, 0])
    site.required_parameter(f"{role}_weights", lambda: [1.0, -2.0, 0.5])


def _tree_regressor(site: OpSite) -> None:
    _tree_attributes(site, "target")
    site.required_parameter("target_ids", lambda: [0] * 3)
    site.required_parameter("n_targets", lambda: 1)
    site.parameter("base_values", lambda: [0.25])
    site.pick("aggregate_function", "SUM", "AVERAGE", "MIN", "MAX")


def _tree_classifier(site: OpSite) -> None:
    _tree_attributes(site, "class")
    site.required_parameter("class_ids", lambda: [0, 1, 2])
    site.required_parameter("classlabels_int64s", lambda: [0, 1, 2])
    site.pick("post_transform", *TRANSFORMS)
    site.output_count = 2


def _tfidf(site: OpSite) -> None:
    """TfIdfVectorizer of single entries and pairs of a row or of rows."""
    x = operand_of(site, (INT64, STRING), 1, 2)
    pool = ENTRIES[STRING if x.dtype == STRING else INT64]
    longest = 1 + site.choices.draw_below(2)
    fixed: dict[str, Any] = {
        "min_gram_length": 1,
        "max_gram_length": longest,
        "ngram_counts": [0, 3][:longest],
        "ngram_indexes": [*range(3 + (longest > 1))],
        f"pool_{'strings' if x.dtype == STRING else 'int64s'}": [*pool[:3], *(pool[:2] if longest > 1 else ())],
    }
    for name, value in fixed.items():
        site.required_parameter(name, lambda value=value: value)
    site.required_parameter("max_skip_count", lambda: site.choices.draw_below(2))
    site.required_parameter("mode", lambda: site.choices.pick(("TF", "IDF", "TFIDF")))
    site.parameter("weights", lambda: numbers(site, 3 + (longest > 1)))


def _string_normalizer(site: OpSite) -> None:
    """StringNormalizer of a list of words, which may drop some."""
    site.first_operand(1, 1)
    site.pick("case_change_action", "NONE", "LOWER", "UPPER")
    site.pick("is_case_sensitive")
    site.parameter("stopwords", lambda: entries(site, STRING))


def _string_split(site: OpSite) -> None:
    site.first_operand()
    site.pick("delimiter", *DELIMITERS)
    site.parameter("maxsplit", lambda: 1 + site.choices.draw_below(2))
    site.output_count = 2


def _regex_full_match(site: OpSite) -> None:
    site.first_operand()
    site.required_parameter("pattern", lambda: site.choices.pick(REGULAR_EXPRESSIONS))


def _normalizer(site: OpSite) -> None:
    features(site)
    site.pick("norm", "MAX", "L1", "L2")


OP_GENERATORS: Mapping[str, OpGenerator] = MappingProxyType(
    {
        "LabelEncoder": _label_encoder,
        "OneHotEncoder": _one_hot_encoder,
        "CategoryMapper": _category_mapper,
        "Imputer": _imputer,
        "Scaler": _scaler,
        "Normalizer": _normalizer,
        "LinearRegressor": _linear_regressor,
        "LinearClassifier": _linear_classifier,
        "SVMRegressor": _svm_regressor,
        "ArrayFeatureExtractor": _array_feature_extractor,
        "FeatureVectorizer": _feature_vectorizer,
        "TreeEnsembleRegressor": _tree_regressor,
        "TreeEnsembleClassifier": _tree_classifier,
        "TfIdfVectorizer": _tfidf,
        "StringNormalizer": _string_normalizer,
        "StringSplit": _string_split,
        "RegexFullMatch": _regex_full_match,
    }
)
