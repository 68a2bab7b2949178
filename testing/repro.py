"""Repro folders of faults for readers without the rule: models, inputs and report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ModelError
from ..core.io.folders import encode_text, write_files
from ..core.rewriting.rules import Rule
from .fault import Fault
from .fault_report import failing_inputs, format_fault


def write_repro(rule: Rule, fault: Fault, root: Path) -> Path:
    """Write the models before and after, the inputs and the report to a folder named after the rule.

    Existing files of these names are overwritten. Raises ModelError if a file cannot be written.
    """
    folder = root / re.sub(r"[^\w.-]+", "_", rule.name)[:60]
    arrays: dict[str, Any] = {name: a for name, a in failing_inputs(fault).items() if isinstance(a, np.ndarray)}
    files: dict[str, Any] = {"before.onnx": fault.case.model, "after.onnx": fault.after, "inputs.npz": arrays}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in files:
            (folder / old).unlink(missing_ok=True)
        write_files(folder, {name: content for name, content in files.items() if content is not None})
        (folder / "README.md").write_bytes(encode_text(format_fault(rule, fault) + "\n"))
    except OSError as e:
        raise ModelError(f"cannot write a repro to {folder}: {e.strerror}") from e
    return folder
