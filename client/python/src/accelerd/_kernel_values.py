"""Values and types of NVIDIA Warp as they are written in the source of a kernel. Warp itself is not imported."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_COMPOSITES = {
    "vec_t": lambda shape: f"vector(length={shape[0]}, ",
    "mat_t": lambda shape: f"matrix(shape=({shape[0]}, {shape[1]}), ",
    "quat_t": lambda shape: "quaternion(",
    "transform_t": lambda shape: "transformation(",
}
_ARRAYS = {
    "array": "array",
    "_ArrayAnnotation": "array",
    "indexedarray": "indexedarray",
    "_IndexedArrayAnnotation": "indexedarray",
}


@dataclass(frozen=True)
class Writer:
    """Writes values and types."""

    #: Returns the name that stands for Warp.
    warp: Callable[[], str]
    #: Returns the name of a struct of Warp; None if its fields cannot be written.
    struct: Callable[[Any], str | None]

    def type(self, type_: Any) -> str | None:
        """Return a type; None for one that kernels do not have."""
        # What they are depends on the dialect.
        if any(type_ is plain for plain in (bool, int, float)):
            return str(type_.__name__)
        if is_struct(type_):
            return self.struct(type_)
        # A class that is derived from one is the same type.
        if is_composite(type_):
            dtype, kind = self.type(type_._wp_scalar_type_), type_._wp_generic_type_str_
            return dtype and f"{self.warp()}.types.{_COMPOSITES[kind](type_._shape_)}dtype={dtype})"
        if not is_of("warp", type_ if isinstance(type_, type) else type(type_)):
            return None
        if not isinstance(type_, type):
            array, dtype = _ARRAYS.get(type(type_).__name__), self.type(getattr(type_, "dtype", None))
            return f"{self.warp()}.{array}(dtype={dtype}, ndim={type_.ndim})" if array and dtype else None
        is_exported = getattr(sys.modules.get("warp"), type_.__name__, None) is type_
        return f"{self.warp()}.{type_.__name__}" if is_exported and hasattr(type_, "_type_") else None

    def value(self, value: Any) -> str | None:
        """Return a number, vector, matrix or struct; None for other values."""
        if isinstance(value, (int, float)):
            return number_text(value) or self._infinite(value)
        struct: Any = getattr(value, "_cls", None)
        if is_struct(struct):
            return self._call(struct, [getattr(value, name) for name in struct.vars])
        if is_composite(type(value)):
            return self._call(type(value), _components(value))
        if not is_of("warp", type(value)) or not hasattr(value, "value"):
            return None
        # A scalar of Warp may hold one of NumPy.
        held = value.value.item() if is_of("numpy", type(value.value)) else value.value
        return self._call(type(value), [held])

    def _call(self, type_: Any, arguments: list[Any]) -> str | None:
        name, texts = self.type(type_), [self.value(one) for one in arguments]
        if name is None or None in texts:
            return None
        return f"{name}({', '.join(map(str, texts))})"

    def _infinite(self, value: float) -> str:
        if math.isnan(value):
            return f"{self.warp()}.nan"
        return f"{self.warp()}.inf" if value > 0 else f"(-{self.warp()}.inf)"


def _components(value: Any) -> list[Any]:
    shape = type(value)._shape_
    if len(shape) == 1:
        return [value[at] for at in range(shape[0])]
    return [value[row, column] for row in range(shape[0]) for column in range(shape[1])]


def number_text(value: Any) -> str | None:
    """Return a number as it is written; None for other values."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    # Members of enumerations and scalars of NumPy are written in another way.
    kind = next(kind for kind in (bool, int, float) if isinstance(value, kind))
    return f"({kind(value)!r})" if value < 0 else repr(kind(value))


def is_of(package: str, value: Any) -> bool:
    """Return whether a value is defined in a package."""
    return (getattr(value, "__module__", None) or "").partition(".")[0] == package


def is_composite(type_: Any) -> bool:
    """Return whether a class is a vector, matrix, quaternion or transform of Warp, or derived from one."""
    is_warp = any(is_of("warp", one) for one in getattr(type_, "__mro__", ()))
    return is_warp and getattr(type_, "_wp_generic_type_str_", None) in _COMPOSITES


def made_by_warp(value: Any) -> str | None:
    """Return the name of the decorator that makes a kernel or function of Warp; None if a value is neither."""
    value = value.decorated if is_of(_PACKAGE, type(value)) and hasattr(value, "decorated") else value
    names = [one.__name__ for one in type(value).__mro__ if is_of("warp", one)]
    if "Kernel" in names:
        return "kernel"
    if "Function" not in names:
        return None
    return "func" if native_snippet(value) is None else "func_native"


def native_snippet(value: Any) -> str | None:
    """Return the C++ text of a native function of Warp; None for other values."""
    snippet = getattr(value, "native_snippet", None)
    return snippet if isinstance(snippet, str) else None


def source_of(value: Any) -> str | None:
    """Return the source that Warp has of a kernel or function; None if it has none."""
    source = getattr(getattr(value, "adj", None), "source", None)
    return source if isinstance(source, str) else None


def transformed_tree(value: Any) -> ast.Module | None:
    """Return the syntax tree of a kernel or function of Warp that is not that of its source, as of `warp.fem`."""
    adjoint = getattr(value, "adj", None)
    tree = getattr(adjoint, "tree", None)
    return tree if getattr(adjoint, "transformers", None) and isinstance(tree, ast.Module) else None


def is_struct(value: Any) -> bool:
    """Return whether a value is what Warp made of a class."""
    return isinstance(getattr(value, "cls", None), type) and isinstance(getattr(value, "vars", None), Mapping)


def builtin_key(value: Any) -> str | None:
    """Return the name of a function that Warp itself has; None for other values."""
    if not is_of("warp", type(value)) or getattr(value, "func", value) is not None:
        return None
    key = getattr(value, "key", None)
    return key if isinstance(key, str) and key.isidentifier() else None


def overloads_of(value: Any) -> list[Any]:
    """Return the functions of one name that a function of Warp stands for, in the order in which Warp tries them."""
    overloads, templates = getattr(value, "user_overloads", None), getattr(value, "user_templates", None)
    if not isinstance(overloads, Mapping) or not isinstance(templates, Mapping):
        return [value]
    # What calls made of templates are no functions of their own.
    stated = [one for one in overloads.values() if getattr(one, "generic_parent", None) is None]
    return [one for one in (*stated, *templates.values()) if isinstance(one.func, FunctionType)] or [value]


def instances_of(kernel: Any) -> list[list[Any]]:
    """Return the types of the parameters of each overload of a generic kernel of Warp."""
    if getattr(kernel, "generic_parent", None) is not None:
        found = [kernel]
    else:
        overloads = getattr(kernel, "overloads", None)
        is_generic = getattr(kernel, "is_generic", False) and isinstance(overloads, Mapping)
        found = list(overloads.values()) if is_generic and overloads else []
    return [[argument.type for argument in one.adj.args] for one in found]


def parameter_types(value: Any) -> Mapping[str, Any]:
    """Return the types of the parameters of a kernel or function of Warp, as far as they are known."""
    types = getattr(getattr(value, "adj", None), "arg_types", None)
    return types if isinstance(types, Mapping) else {}
