"""A smallest model for each rule and pass: `examples.json`, by name.

{"cancel_negations": {"opset": 17, "text": "g (float[8] x) => (float[p] y) { v = Neg (x) y = Neg (v) }"}}

`text` is the inside of a model in ONNX's own text form. Run alone on that model, the rule fires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from onnx import parser

FILE = Path(__file__).parents[2] / "app/check/examples.json"
LATEST_IR = 10


@dataclass(frozen=True, slots=True)
class Example:
    """The inside of a model as text, and its opset."""

    opset: int
    text: str

    def model(self) -> onnx.ModelProto:
        """The model as a message. Raises onnx.parser.ParseError."""
        return parser.parse_model(f'<ir_version: {LATEST_IR}, opset_import: ["" : {self.opset}]> {self.text}')


def load_examples() -> dict[str, Example]:
    """The examples in the file, by the name of the rule or pass."""
    return {name: Example(**entry) for name, entry in json.loads(FILE.read_text(encoding="utf-8")).items()}


def write_examples(examples: Mapping[str, Example]) -> None:
    """Write the file anew: a line for each example, in the order of names."""
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(examples[name]))}" for name in sorted(examples)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
