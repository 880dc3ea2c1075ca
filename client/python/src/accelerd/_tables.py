"""Points and hits as tables of Arrow and pandas, and tables as points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._optional import optional_module
from ._payload import Value

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Columns = Mapping[str, Any]
#: The columns of an upsert: those of `UpsertStep`.
Step = dict[str, Any]
_KINDS = {bool: "boolean", int: "Int64"}


def to_arrow(columns: Columns, payloads: Mapping[str, Sequence[Value | None]]) -> pa.Table:
    """Return a table of columns, and of payloads by field.

    Raises:
        MissingPackageError: pyarrow is not installed.
        TypeError: A field has values of several types.
    """
    pa = optional_module("pyarrow", "to_arrow", "arrow")
    found = {name: _arrow_array(pa, column) for name, column in columns.items()}
    for name, values in payloads.items():
        found[_free(name, columns)] = pa.array(values, type=_arrow_type(pa, name, values))
    return pa.table(found)


def _arrow_array(pa: Any, column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.ndim == 2:
        # The elements are those of the array, without a copy.
        flat = pa.array(np.ascontiguousarray(column).reshape(-1))
        if column.shape[1]:
            return pa.FixedSizeListArray.from_arrays(flat, column.shape[1])
        return pa.array([[]] * len(column), pa.list_(pa.float32()))
    if isinstance(column, list):
        return pa.array(column, pa.string() if column and isinstance(column[0], str) else pa.uint64())
    return pa.array(column)


def _arrow_type(pa: Any, name: str, values: Sequence[Value | None]) -> Any:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) > 1:
        got = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(
            f"payload field {name!r}: expected values of one type, got {got}; to_pandas() has them as objects"
        )
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    return types[kinds.pop()] if kinds else pa.null()


def to_pandas(columns: Columns, payloads: Mapping[str, Sequence[Value | None]]) -> pd.DataFrame:
    """Return a data frame of columns, and of payloads by field; rows of vectors are views.

    Raises:
        MissingPackageError: pandas is not installed.
    """
    pd = optional_module("pandas", "to_pandas", "pandas")
    found = {name: _pandas_column(pd, column) for name, column in columns.items()}
    for name, values in payloads.items():
        found[_free(name, columns)] = _pandas_values(pd, values)
    return pd.DataFrame(found)


def _pandas_column(pd: Any, column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return pd.Series(list(column), dtype=object)
    if isinstance(column, list):
        return pd.Series(column, dtype=object if column and isinstance(column[0], str) else np.uint64)
    return pd.Series(column)


def _pandas_values(pd: Any, values: Sequence[Value | None]) -> Any:
    kinds = {type(value) for value in values}
    kind = next(iter(kinds - {type(None)}), str)
    if len(kinds - {type(None)}) > 1 or kind is str:
        return pd.Series(values, dtype=object)
    # pandas would make numbers of a column with None in it floats.
    return pd.Series(values, dtype=_KINDS.get(kind, float) if type(None) in kinds else kind)


def _free(name: str, columns: Columns) -> str:
    """Return the name of the column of a payload field: its own, if it is not taken."""
    return f"payload.{name}" if name in columns else name


def steps(table: Any, ids: Any, vectors: str | ArrayLike | None, texts: str | None) -> Iterator[Step]:
    """Iterate over the upserts of a table: one for each of its batches.

    Raises:
        MissingPackageError: pyarrow is not installed, and the table is not one of pandas.
        TypeError: It is no table, or a column has values of a type that payloads do not have.
        ValueError: A column is missing, or vectors have different lengths.
    """
    if texts is not None:
        vectors = None
    if _is_pandas(table):
        yield _pandas_step(table, ids, vectors, texts)
        return
    batches = _batches(table)
    has_arrays = not isinstance(ids, str) or not (vectors is None or isinstance(vectors, str))
    if len(batches) > 1 and has_arrays:
        # The rows of an array are those of all batches.
        batches = _batches(_one_batch(batches))
    for batch in batches:
        yield _arrow_step(batch, ids, vectors, texts)


def _is_pandas(table: Any) -> bool:
    return type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns")


def _batches(table: Any) -> list[Any]:
    if not hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__arrow_c_array__"):
        raise TypeError(f"table: expected a table of Arrow or a pandas.DataFrame, got {type(table).__name__}")
    pa = optional_module("pyarrow", "upsert_table", "arrow")
    if isinstance(table, pa.RecordBatch):
        return [table]
    found: list[Any] = (table if isinstance(table, pa.Table) else pa.table(table)).to_batches()
    return [batch for batch in found if batch.num_rows]


def _one_batch(batches: list[Any]) -> Any:
    pa = optional_module("pyarrow", "upsert_table", "arrow")
    return pa.Table.from_batches(batches).combine_chunks()


def _arrow_step(batch: Any, ids: Any, vectors: Any, texts: str | None) -> Step:
    names = batch.schema.names
    _check_names(names, ids, vectors, texts)
    used = {one for one in (ids, vectors, texts) if isinstance(one, str)}
    step: Step = {
        "ids": _arrow_ids(batch.column(names.index(ids))) if isinstance(ids, str) else ids,
        "payloads": {name: _arrow_values(name, batch.column(at)) for at, name in enumerate(names) if name not in used},
    }
    if texts is not None:
        return {**step, "texts": batch.column(names.index(texts)).to_pylist()}
    given = _arrow_vectors(vectors, batch.column(names.index(vectors))) if isinstance(vectors, str) else vectors
    return {**step, "vectors": given}


def _check_names(names: list[Any], ids: Any, vectors: Any, texts: Any) -> None:
    if ids is None:
        raise ValueError("ids: expected the name of a column or the ids, got None")
    for what, name in (("ids", ids), ("vectors", vectors), ("texts", texts)):
        if isinstance(name, str) and name not in names:
            raise ValueError(f"{what}: expected one of the columns {', '.join(map(str, names))}, got {name!r}")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns: expected names of type str, got {type(name).__name__} {name!r}")
        if names.count(name) > 1:
            raise ValueError(f"columns: expected distinct names, got {name!r} twice")


def _arrow_ids(column: Any) -> Any:
    pa = optional_module("pyarrow", "upsert_table", "arrow")
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=True)
    return column.to_pylist()


def _arrow_vectors(name: str, column: Any) -> NDArray[Any]:
    """Return the vectors of a column, which are its elements without a copy if they are float32."""
    pa = optional_module("pyarrow", "upsert_table", "arrow")
    types = pa.types
    is_list = types.is_fixed_size_list(column.type) or types.is_list(column.type) or types.is_large_list(column.type)
    if not is_list or not (types.is_floating(column.type.value_type) or types.is_integer(column.type.value_type)):
        raise TypeError(f"column {name!r}: expected lists of numbers, got {column.type}")
    flat = column.flatten()
    if column.null_count or flat.null_count:
        raise ValueError(f"column {name!r}: expected a vector in each row, got null")
    elements: NDArray[Any] = flat.to_numpy(zero_copy_only=True)
    if types.is_fixed_size_list(column.type):
        return elements.reshape(len(column), column.type.list_size)
    lengths = np.diff(column.offsets.to_numpy())
    if len(np.unique(lengths)) > 1:
        raise ValueError(f"column {name!r}: expected vectors of equal length, got {lengths.min()} and {lengths.max()}")
    return elements.reshape(len(column), lengths[0] if len(lengths) else 0)


def _arrow_values(name: str, column: Any) -> Any:
    pa = optional_module("pyarrow", "upsert_table", "arrow")
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if not (
        is_text or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
    ):
        raise TypeError(f"column {name!r}: expected texts, numbers or bools, got {kind}; cast or drop it before")
    if (types.is_integer(kind) or types.is_floating(kind)) and not column.null_count:
        return column.to_numpy(zero_copy_only=True)
    return column.to_pylist()


def _pandas_step(table: Any, ids: Any, vectors: Any, texts: str | None) -> Step:
    names = [*table.columns]
    if ids is None:
        ids = _pandas_ids(table.index)
    _check_names(names, ids, vectors, texts)
    used = {one for one in (ids, vectors, texts) if isinstance(one, str)}
    step: Step = {
        "ids": _pandas_ids(table[ids]) if isinstance(ids, str) else ids,
        "payloads": {name: _pandas_payloads(name, table[name]) for name in names if name not in used},
    }
    if texts is not None:
        return {**step, "texts": table[texts].tolist()}
    # An empty list would be one vector.
    given = (table[vectors].tolist() or np.zeros((0, 0))) if isinstance(vectors, str) else vectors
    return {**step, "vectors": given}


def _pandas_ids(column: Any) -> Any:
    values = column.to_numpy()
    return values if values.dtype.kind in "iu" else column.tolist()


def _pandas_payloads(name: str, column: Any) -> Any:
    """Return the values of a column, None where there is none."""
    if column.dtype.kind in "iub" and isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    if column.dtype.kind in "mM":
        raise TypeError(
            f"column {name!r}: expected texts, numbers or bools, got {column.dtype}; cast or drop it before"
        )
    missing = column.isna().tolist()
    return [None if is_missing else value for value, is_missing in zip(column.tolist(), missing, strict=True)]
