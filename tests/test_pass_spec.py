"""Pass specs as text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core.errors import UsageError
from passwright.core.plugins.pass_spec import PassSpec, parse_specs
from rewriting import cases

NAMES = st.text(st.characters(exclude_characters=",{}", exclude_categories=["Cs", "Z", "Cc"]), min_size=1)
VALUES = st.one_of(
    st.text(st.characters(exclude_characters=",{}\"'", exclude_categories=["Cs", "Z", "Cc"])),
    st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"])).map('"{}"'.format),
)
OPTION_NAMES = st.from_regex(r"[a-z_]+", fullmatch=True)


@cases(
    ("text", "specs"),
    {
        "one": ("a", [("a", {})]),
        "several": ("a,b,c", [("a", {}), ("b", {}), ("c", {})]),
        "spaces": (" a , b ", [("a", {}), ("b", {})]),
        "an option": ("a{n=3}", [("a", {"n": "3"})]),
        "options": (
            "a,b,c{n=3,flag=true,name=text},d",
            [("a", {}), ("b", {}), ("c", {"n": "3", "flag": "true", "name": "text"}), ("d", {})],
        ),
        "spaces in braces": (" a { n = 3 , m = x } , b", [("a", {"n": "3", "m": "x"}), ("b", {})]),
        "empty braces": ("a{}", [("a", {})]),
        "an empty value": ("a{n=}", [("a", {"n": ""})]),
        "an equals sign in a value": ("a{n=x=y}", [("a", {"n": "x=y"})]),
        "a tuple": ("a{n=1:2:3}", [("a", {"n": "1:2:3"})]),
        "quotes": ("a{n='x,{y}\"'}", [("a", {"n": "'x,{y}\"'"})]),
        "double quotes": ('a{n="",m="}"},b', [("a", {"n": '""', "m": '"}"'}), ("b", {})]),
        "colons": ("onnxoptimizer:fuse_qkv,ort:basic", [("onnxoptimizer:fuse_qkv", {}), ("ort:basic", {})]),
        "modules and paths": (
            "onnxscript:a.b:RULES,onnxscript:x/my rules.py:RULES",
            [("onnxscript:a.b:RULES", {}), ("onnxscript:x/my rules.py:RULES", {})],
        ),
        "an apostrophe in a name": ("it's", [("it's", {})]),
        "lines": ("a{\n  n=3,\n  m=4\n}", [("a", {"n": "3", "m": "4"})]),
    },
)
def test_reads(text: str, specs: list[tuple[str, dict[str, str]]]) -> None:
    assert [(s.name, dict(s.options)) for s in parse_specs(text)] == specs


@cases(
    ("text", "message"),
    {
        "nothing": ("", "a name is missing"),
        "spaces": ("  ", "a name is missing"),
        "between commas": ("a,,b", "a name is missing"),
        "after the last comma": ("a,b,", "a name is missing"),
        "options alone": ("{n=3}", "a name is missing"),
        "double": ("a,b,a", "a is named twice"),
        "open": ("a{n=3", "a brace is not closed"),
        "closed only": ("a}", "a brace is not closed"),
        "nested": ("a{n={3}}", "not of the form"),
        "text behind": ("a{n=3}b", "not of the form"),
        "braces twice": ("a{n=3}{m=4}", "not of the form"),
        "an open quote": ("a{n='x}", "not of the form"),
        "no value": ("a{n}", "options have the form"),
        "no option": ("a{=3}", "options have the form"),
        "a comma too many": ("a{n=3,}", "options have the form"),
        "a comma first": ("a{,n=3}", "options have the form"),
        "an option twice": ("a{n=3,n=4}", "n is set twice"),
    },
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_specs(text)
    assert text in str(caught.value)


@given(st.dictionaries(NAMES, st.dictionaries(OPTION_NAMES, VALUES), min_size=1))
def test_specs_round_trip(specs: dict[str, dict[str, str]]) -> None:
    written = ",".join(str(PassSpec(name, options)) for name, options in specs.items())
    assert {s.name: dict(s.options) for s in parse_specs(written)} == specs


@given(st.text("ab,{}='\"\n "))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        specs = parse_specs(text)
    except UsageError:
        return
    assert parse_specs(",".join(map(str, specs))) == specs


def test_long_texts_take_linear_time() -> None:
    with pytest.raises(UsageError):
        parse_specs("a{" + "n='," * 20_000)
    assert len(parse_specs(",".join(f"p{i}{{n={i}}}" for i in range(5_000)))) == 5_000


def test_file_names_are_made_absolute(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("")
    (tmp_path / "p.toml").write_text("")
    full = tmp_path.resolve()
    for text, written in {
        "onnxscript:rules.py:R{n=3}": f"onnxscript:{full / 'rules.py'}:R{{n=3}}",
        "p.toml:mine": f"{full / 'p.toml'}:mine",
        "onnxscript:pkg.mod:R": "onnxscript:pkg.mod:R",
        "other.py": "other.py",
    }.items():
        assert str(parse_specs(text)[0].with_absolute_paths(tmp_path)) == written
