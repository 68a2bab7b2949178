"""Python's operators on values and patterns, which build ONNX operators."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class PythonOperators(Generic[Result]):
    """`x + 1` is Add(x, 1), `-x` is Neg(x), `x < y` is Less(x, y), as built by `_operator` for an ONNX operator."""

    __slots__ = ()
    __array_ufunc__ = None  # otherwise, NumPy would treat the value as an element of an array on the left

    def _operator(self, op_type: str, *operands: Any) -> Result:
        raise NotImplementedError

    def __add__(self, other: Any) -> Result:
        return self._operator("Add", self, other)

    def __radd__(self, other: Any) -> Result:
        return self._operator("Add", other, self)

    def __sub__(self, other: Any) -> Result:
        return self._operator("Sub", self, other)

    def __rsub__(self, other: Any) -> Result:
        return self._operator("Sub", other, self)

    def __mul__(self, other: Any) -> Result:
        return self._operator("Mul", self, other)

    def __rmul__(self, other: Any) -> Result:
        return self._operator("Mul", other, self)

    def __truediv__(self, other: Any) -> Result:
        return self._operator("Div", self, other)

    def __rtruediv__(self, other: Any) -> Result:
        return self._operator("Div", other, self)

    def __pow__(self, other: Any) -> Result:
        return self._operator("Pow", self, other)

    def __rpow__(self, other: Any) -> Result:
        return self._operator("Pow", other, self)

    def __lt__(self, other: Any) -> Result:
        return self._operator("Less", self, other)

    def __le__(self, other: Any) -> Result:
        return self._operator("LessOrEqual", self, other)

    def __gt__(self, other: Any) -> Result:
        return self._operator("Greater", self, other)

    def __ge__(self, other: Any) -> Result:
        return self._operator("GreaterOrEqual", self, other)

    def __neg__(self) -> Result:
        return self._operator("Neg", self)

    def __abs__(self) -> Result:
        return self._operator("Abs", self)
