"""The reference of the public names: each has a docstring with an example that runs, and a place in the reference."""

from __future__ import annotations

import ast
import doctest
import re
import sys
from functools import cache
from inspect import cleandoc, getdoc, isclass, isfunction
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import passwright.core
import passwright.testing
import pytest
from executable_documents import DOCS, blocks
from tiers import slow_unless

import passwright

ROOT = DOCS.parent
MODULES = {m.__name__: m for m in (passwright.core, passwright.testing, passwright)}
PAGES = {name: DOCS / "api" / f"{name.rpartition('.')[2]}.md" for name in MODULES}
NAMES = [(module, name) for module, m in MODULES.items() for name in m.__all__]
MEASURING = {
    "AdviceReport", "ComparisonReport", "QuantizationReport", "QuantizationResult", "TuneReport", "TuneResult",
    "advise", "bench", "compare", "profile", "quantize", "tune",
}  # fmt: skip
"""Names whose examples start several processes."""
QUICK = [n for n in NAMES if n[1] not in MEASURING]


@cache
def assigned_docstrings(path: Path) -> dict[str, str]:
    """The strings behind assignments, by the name that is assigned to."""
    found: dict[str, str] = {}
    for body in (n.body for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if hasattr(n, "body")):
        for statement, following in pairwise(body) if isinstance(body, list) else ():
            if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                if isinstance(following.value, ast.Constant):
                    found[ast.unparse(target)] = str(following.value.value)
    return found


def docstring(module: str, name: str) -> str:
    """The docstring of a class or function, or behind the assignment of a constant."""
    value = getattr(MODULES[module], name)
    if isclass(value) or isfunction(value):
        return getdoc(value) or ""
    inner = next((m for m, names in MODULES[module]._MODULES.items() if name in names), "__init__")
    folder = ROOT / module.rpartition(".")[2]
    return cleandoc(assigned_docstrings(folder / f"{inner.replace('.', '/')}.py")[name])


@pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
@pytest.mark.parametrize("public", slow_unless(QUICK, NAMES), ids=[f"{m.rpartition('.')[2]}.{n}" for m, n in NAMES])
def test_the_example_runs(public: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name = public
    text = docstring(module, name)
    assert text.strip()[0].isupper()
    assert "Examples:" in text
    monkeypatch.chdir(tmp_path)
    example_module = ModuleType("example")  # which `rule_pass` reads
    monkeypatch.setitem(sys.modules, "example", example_module)
    namespace = vars(example_module)
    (setting,) = (b.text for b in blocks(PAGES[module]))
    exec(compile(setting, PAGES[module], "exec"), namespace)
    example = doctest.DocTestParser().get_doctest(text, namespace, name, None, 0)
    assert example.examples
    example.globs = namespace
    shown: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=shown.append)
    assert not shown, "".join(shown)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_has_a_place_in_the_reference(module: str) -> None:
    listed = re.findall(r"^::: ([\w.]+)$", PAGES[module].read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(f"{module}.{name}" for name in MODULES[module].__all__)


AUTHORED = (
    *DOCS.glob("**/*.md"),
    *(ROOT / "examples").glob("**/*.*"),
    *(ROOT / "app" / "registry" / "template").iterdir(),
    *(ROOT / "tests" / "authored").glob("*.py"),
    ROOT / "README.md",
)


def test_what_authors_read_imports_public_modules_alone() -> None:
    private = re.compile(
        r"(?:from|import) (?!(?:passwright|passwright\.core|passwright\.testing)\b(?!\.))passwright\.\S*"
    )
    texts = {f: f.read_text(encoding="utf-8") for f in AUTHORED if f.suffix in {".in", ".md", ".py"}}
    assert {str(f.relative_to(ROOT)): found for f, text in texts.items() if (found := private.findall(text))} == {}
