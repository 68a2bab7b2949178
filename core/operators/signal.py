"""Operators on signals."""

from __future__ import annotations

from .declaration import Family, T
from .reference import by_reference

SIGNAL = Family()
SIGNAL.declare("BlackmanWindow HammingWindow HannWindow", T.LINEAR_TIME, meaning=by_reference, roles={0: "extent"})
SIGNAL.declare("DFT", T.SAME_DTYPE, by_reference, roles={1: "extent", 2: "axes"})
SIGNAL.declare("MelWeightMatrix", meaning=by_reference, roles={0: "extent", 1: "extent"})
SIGNAL.declare("STFT", T.SAME_DTYPE, by_reference, roles={1: "extent", 3: "extent"})
