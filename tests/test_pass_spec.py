"""Pass specs as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core.errors import UsageError
from passwright.core.plugins.pass_spec import PassSpec, parse_specs

NAMES = st.text(st.characters(exclude_characters=",{}", exclude_categories=["Cs", "Z", "Cc"]), min_size=1)
VALUES = st.one_of(
    st.text(st.characters(exclude_characters=",{}\"'", exclude_categories=["Cs", "Z", "Cc"])),
    st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"])).map('"{}"'.format),
)
OPTION_NAMES = st.from_regex(r"[a-z_]+", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        pytest.param("a", [("a", {})], id="one"),
        pytest.param("a,b,c", [("a", {}), ("b", {}), ("c", {})], id="several"),
        pytest.param(" a , b ", [("a", {}), ("b", {})], id="spaces"),
        pytest.param("a{n=3}", [("a", {"n": "3"})], id="an option"),
        pytest.param(
            "a,b,c{n=3,flag=true,name=text},d",
            [("a", {}), ("b", {}), ("c", {"n": "3", "flag": "true", "name": "text"}), ("d", {})],
            id="options",
        ),
        pytest.param(" a { n = 3 , m = x } , b", [("a", {"n": "3", "m": "x"}), ("b", {})], id="spaces in braces"),
        pytest.param("a{}", [("a", {})], id="empty braces"),
        pytest.param("a{n=}", [("a", {"n": ""})], id="an empty value"),
        pytest.param("a{n=x=y}", [("a", {"n": "x=y"})], id="an equals sign in a value"),
        pytest.param("a{n=1:2:3}", [("a", {"n": "1:2:3"})], id="a tuple"),
        pytest.param("a{n='x,{y}\"'}", [("a", {"n": "'x,{y}\"'"})], id="quotes"),
        pytest.param('a{n="",m="}"},b', [("a", {"n": '""', "m": '"}"'}), ("b", {})], id="double quotes"),
        pytest.param(
            "onnxoptimizer:fuse_qkv,ort:basic", [("onnxoptimizer:fuse_qkv", {}), ("ort:basic", {})], id="colons"
        ),
        pytest.param(
            "onnxscript:a.b:RULES,onnxscript:x/my rules.py:RULES",
            [("onnxscript:a.b:RULES", {}), ("onnxscript:x/my rules.py:RULES", {})],
            id="modules and paths",
        ),
        pytest.param("it's", [("it's", {})], id="an apostrophe in a name"),
        pytest.param("a{\n  n=3,\n  m=4\n}", [("a", {"n": "3", "m": "4"})], id="lines"),
    ],
)
def test_reads(text: str, specs: list[tuple[str, dict[str, str]]]) -> None:
    assert [(s.name, dict(s.options)) for s in parse_specs(text)] == specs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "a name is missing", id="nothing"),
        pytest.param("  ", "a name is missing", id="spaces"),
        pytest.param("a,,b", "a name is missing", id="between commas"),
        pytest.param("a,b,", "a name is missing", id="after the last comma"),
        pytest.param("{n=3}", "a name is missing", id="options alone"),
        pytest.param("a,b,a", "a is named twice", id="double"),
        pytest.param("a{n=3", "a brace is open", id="open"),
        pytest.param("a}", "a brace is open", id="closed only"),
        pytest.param("a{n={3}}", "not of the form", id="nested"),
        pytest.param("a{n=3}b", "not of the form", id="text behind"),
        pytest.param("a{n=3}{m=4}", "not of the form", id="braces twice"),
        pytest.param("a{n='x}", "not of the form", id="an open quote"),
        pytest.param("a{n}", "options are written", id="no value"),
        pytest.param("a{=3}", "options are written", id="no option"),
        pytest.param("a{n=3,}", "options are written", id="a comma too many"),
        pytest.param("a{,n=3}", "options are written", id="a comma first"),
        pytest.param("a{n=3,n=4}", "n is given twice", id="an option twice"),
    ],
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
