"""The Array API namespace of a client: functions that record operations on lazy tensors.

Each part is a file. A part uses those before it: element types, functions that are one operation each, other
elementwise functions, creation, manipulation, statistics, searching, sets, linear algebra, indexing and neural
networks.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakValueDictionary

from .._lazy import T
from .._tensor_factory import TensorFactory
from ._namespace import BinaryFunction, ReductionFunction, TensorFunction, UnaryFunction
from ._networks import Networks

#: The namespaces that are in use, by the identity of their clients, which they keep alive.
_NAMESPACES: WeakValueDictionary[int, ArrayApi[Any]] = WeakValueDictionary()
_LOCK = threading.Lock()

__all__ = ["ArrayApi", "BinaryFunction", "ReductionFunction", "TensorFunction", "UnaryFunction"]


class ArrayApi(Networks[T]):
    """Functions of the Array API standard, and of neural networks, on the lazy tensors of a client.

    Operands may be numpy arrays. Names and arguments are those of version 2024.12 of the standard. Functions whose
    results have a shape that depends on values compute their operands when they are called; with an `AsyncClient`
    these must be here. The default element types are float32 and int64.
    """

    __slots__ = ()

    __name__ = "accelerd.Client.xp"
    __array_api_version__ = "2024.12"

    @classmethod
    def of(cls, client: TensorFactory[T]) -> ArrayApi[T]:
        """Return the namespace of a client. It is the same object for as long as one is in use.

        Libraries compare namespaces by identity to see whether arrays belong together.
        """
        with _LOCK:
            found = _NAMESPACES.get(id(client))
            if found is None:
                found = _NAMESPACES[id(client)] = cls(client)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayApi.of, (self._client,)

    def _of_version(self, version: str | None) -> Any:
        """Return the namespace if it is of a version of the standard, or None is asked for."""
        if version not in (None, "2023.12", "2024.12"):
            raise ValueError(f"api_version: expected '2023.12' or '2024.12', got {version!r}")
        return self
