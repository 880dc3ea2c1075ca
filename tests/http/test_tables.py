"""Tables of Arrow and pandas from hits and points, and points from tables."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import accelerd._upsert
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from accelerd import Client, Collection
from accelerd.aio import AsyncClient
from conftest import Daemon

VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
IDS = [7, 1 << 63, 9, 10]
PAYLOADS: list[dict[str, Any]] = [
    {"n": 1, "s": "é 漢", "b": True, "f": 0.5, "mix": 1},
    {"n": (1 << 60) + 1, "s": "", "mix": 2.5},
    {},
    {"n": -3, "b": False, "id": 5},
]


@pytest.fixture
def collection(client: Client) -> Iterator[Collection]:
    made = client.create_collection(f"t-{uuid.uuid4()}", dimensions=3, metric="dot")
    yield made
    made.delete()


@pytest.fixture
def filled(collection: Collection) -> Collection:
    collection.upsert(IDS, vectors=VECTORS, payloads=PAYLOADS)
    return collection


COLUMNS = {
    "n": [1, (1 << 60) + 1, None, -3],
    "s": ["é 漢", "", None, None],
    "b": [True, None, None, False],
    "f": [0.5, None, None, None],
    "mix": [1.0, 2.5, None, None],
    "payload.id": [None, None, None, 5],
}


def by_id(table: pa.Table) -> dict[str, list[Any]]:
    order = {id: at for at, id in enumerate(IDS)}
    rows = sorted(table.to_pylist(), key=lambda row: order[row["id"]])
    return {name: [row[name] for row in rows] for name in table.schema.names}


def test_points_and_hits_become_tables_of_arrow(filled: Collection) -> None:
    points = filled.get(IDS, vectors=True)
    (page,) = filled.scroll_columns(vectors=True)
    for table in (points.to_arrow(), page.to_arrow(), filled.to_arrow()):
        assert table.schema.field("id").type == pa.uint64()
        assert table.schema.field("vector").type == pa.list_(pa.float32(), 3)
        assert by_id(table) == {"id": IDS, "vector": VECTORS.tolist(), **COLUMNS}
        kinds = {name: str(table.schema.field(name).type) for name in COLUMNS}
        assert kinds == {"n": "int64", "s": "string", "b": "bool", "f": "double", "mix": "double", "payload.id": "int64"}
    flat = points.to_arrow().column("vector").chunk(0).flatten().to_numpy(zero_copy_only=True)
    assert np.shares_memory(flat, points[0].vector)
    assert np.shares_memory(page.to_arrow().column("vector").chunk(0).flatten().to_numpy(), page.vectors)
    assert {*filled.to_arrow(where={"n": 1}, vectors=False).column_names} == {"id", "n", "s", "b", "f", "mix"}

    queries = [[1.0, 0, 0], [0, 0, -1.0]]
    found = filled.search(vectors=queries, k=3)
    for table in (found.to_arrow(), filled.search_columns(vectors=queries, k=3).to_arrow()):
        assert table.column("query").to_pylist() == [0, 0, 0, 1, 1, 1]
        assert table.column("id").to_pylist() == [hit.id for hits in found for hit in hits]
        assert table.column("score").to_pylist() == [hit.score for hits in found for hit in hits]
        assert table.column("payload.id").to_pylist()[0] == 5
    assert found[0].to_arrow().column("id").to_pylist() == [10, 9, 1 << 63]


def test_points_and_hits_become_data_frames(filled: Collection) -> None:
    for frame in (filled.get(IDS, vectors=True).to_pandas(), filled.to_pandas()):
        frame = frame.set_index("id").loc[IDS]
        assert np.array_equal(np.stack(frame["vector"]), VECTORS)
        assert frame["n"].tolist() == [1, (1 << 60) + 1, pd.NA, -3] and frame["n"].dtype == "Int64"
        assert frame["b"].dtype == "boolean" and frame["f"].dtype == float
        assert frame["s"].tolist()[:2] == ["é 漢", ""] and frame["s"].isna().tolist() == [False, False, True, True]
        assert frame["mix"].tolist()[:2] == [1, 2.5]
    (page,) = filled.scroll_columns(vectors=True)
    assert np.shares_memory(page.to_pandas()["vector"][0], page.vectors)
    found = filled.search(vectors=[[1.0, 0, 0]], k=2)
    assert found.to_pandas()["id"].tolist() == found[0].to_pandas()["id"].tolist() == [10, 9]
    assert filled.search_columns(vectors=[[1.0, 0, 0]], k=2).to_pandas()["score"].tolist() == [10.0, 7.0]


def test_no_results_are_tables_without_rows(collection: Collection) -> None:
    results: list[Any] = [
        collection.get([]), collection.get([1], vectors=True), collection, collection.search(vectors=[[1, 2, 3]]),
        collection.search_columns(vectors=[[1, 2, 3]]), collection.search(vectors=np.zeros((0, 3))),
    ]  # fmt: skip
    for result in results:
        assert result.to_arrow().num_rows == len(result.to_pandas()) == 0
        assert "id" in result.to_arrow().column_names


def test_a_field_of_several_types_is_an_error_of_arrow_only(filled: Collection) -> None:
    filled.upsert([11], vectors=[[1, 2, 3]], payloads=[{"n": "text"}])
    with pytest.raises(TypeError, match="payload field 'n': expected values of one type, got int and str"):
        filled.to_arrow()
    assert "text" in filled.to_pandas()["n"].tolist()


def stored(collection: Collection) -> list[Any]:
    return [(point.id, point.payload, np.asarray(point.vector).tolist()) for point in collection.scroll(vectors=True)]


def test_a_table_makes_the_points_that_it_came_from(filled: Collection, collection: Collection, client: Client) -> None:
    table, frame = filled.to_arrow(), filled.to_pandas()
    # A field of the name of the ids' column was renamed.
    table, frame = table.drop_columns(["payload.id"]), frame.drop(columns=["payload.id"])
    expected = [(id, {key: value for key, value in payload.items() if key != "id"}, v) for id, payload, v in stored(filled)]
    for given in (table, frame, pa.concat_tables([table.slice(0, 1), table.slice(1)]), table.to_batches()[0]):
        copy = client.create_collection(f"t-{uuid.uuid4()}", dimensions=3)
        assert copy.upsert_table(given) == 4
        assert copy.upsert_table(given) == 0
        assert stored(copy) == expected
        copy.delete()


def test_vectors_of_arrow_are_not_copied(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = accelerd._upsert.to_rows
    monkeypatch.setattr(accelerd._upsert, "to_rows", lambda rows: seen.append(original(rows)) or seen[-1])
    flat = np.arange(30, dtype=np.float32)
    array = pa.FixedSizeListArray.from_arrays(pa.array(flat), 3)
    table = pa.table({"id": pa.array(range(10)), "vector": array})
    collection.upsert_table(table.slice(2, 5))
    assert np.shares_memory(seen[0], flat) and seen[0].tolist() == flat.reshape(10, 3)[2:7].tolist()
    lists = pa.ListArray.from_arrays(pa.array(range(0, 31, 3), pa.int32()), pa.array(flat))
    collection.upsert_table(pa.table({"id": pa.array(range(10)), "vector": lists}).slice(1, 3))
    assert np.shares_memory(seen[1], flat) and seen[1].tolist() == flat.reshape(10, 3)[1:4].tolist()


KINDS = {
    "i8": pa.array([1, None], pa.int8()),
    "u32": pa.array([1, 2], pa.uint32()),
    "f16": pa.array(np.array([1, 2], np.float16)),
    "dictionary": pa.array(["a", None]).dictionary_encode(),
    "large": pa.array(["a", "b"], pa.large_string()),
    "view": pa.array(["a", "b"], pa.string_view()),
    "bool": pa.array([True, None]),
    "null": pa.nulls(2),
}


def test_columns_of_many_types_are_payloads(collection: Collection) -> None:
    ids = [str(uuid.UUID(int=at)) for at in range(2)]
    table = pa.table({"key": ids, "v": pa.array([[1.0, 2, 3], [4.0, 5, 6]]), **KINDS})
    collection.upsert_table(table, ids="key", vectors="v")
    assert [point.payload for point in collection.get(ids)] == [
        {"i8": 1, "u32": 1, "f16": 1.0, "dictionary": "a", "large": "a", "view": "a", "bool": True},
        {"u32": 2, "f16": 2.0, "large": "b", "view": "b"},
    ]
    categories = pd.Series(["x", None], dtype="category", index=ids)
    frame = pd.DataFrame({"c": categories, "n": pd.array([1, None], "Int64"), "f": [np.nan, 0.5], "o": ["a", 2]}, index=ids)
    assert collection.upsert_table(frame, ids=None, vectors=VECTORS[:2]) == 0
    assert [point.payload for point in collection.get(ids)] == [{"c": "x", "n": 1, "o": "a"}, {"f": 0.5, "o": 2}]


def test_arrays_beside_a_table_have_its_rows(collection: Collection) -> None:
    table = pa.concat_tables([pa.table({"n": [1, 2]}), pa.table({"n": [3]})])
    assert collection.upsert_table(table, ids=[5, 6, 7], vectors=VECTORS[:3]) == 3
    assert [(point.id, point.payload["n"]) for point in collection.scroll()] == [(5, 1), (6, 2), (7, 3)]
    empty = table.slice(0, 0)
    assert collection.upsert_table(empty, ids=[], vectors=VECTORS[:0]) == 0
    assert collection.upsert_table(pd.DataFrame({"id": [], "vector": []})) == 0
    with pytest.raises(ValueError, match="vectors: expected 3, one per id, got 2"):
        collection.upsert_table(table, ids=[5, 6, 7], vectors=VECTORS[:2])


def test_texts_of_a_table_are_embedded(client: Client) -> None:
    collection = client.create_collection(f"t-{uuid.uuid4()}", model="builtin")
    table = pa.table({"id": [1, 2], "body": ["open a socket", "compress a file"], "n": [1, 2]})
    assert collection.upsert_table(table, texts="body") == 2
    assert collection.upsert_table(table.to_pandas(), texts="body") == 0
    assert collection.search(texts=["socket"], k=1)[0][0].payload == {"n": 1}
    collection.delete()


VECTOR = pa.array([[1.0, 2, 3]])


@pytest.mark.parametrize(
    ("table", "kind", "text"),
    [
        ([{"id": 1}], TypeError, "table: expected a table of Arrow or a pandas.DataFrame, got list"),
        (pa.table({"key": [1], "vector": VECTOR}), ValueError, "ids: expected one of the columns key, vector, got 'id'"),
        (pa.table({"id": [1], "embedding": VECTOR}), ValueError, "vectors: expected one of the columns id, embedding"),
        (pd.DataFrame({"id": [1]}), ValueError, "vectors: expected one of the columns id, got 'vector'"),
        (pd.DataFrame({"id": [1], "vector": [[1.0, 2, 3]], 3: [1]}), TypeError, "columns: expected names of type str, got int"),
        (pa.table({"id": [1], "vector": ["a"]}), TypeError, "column 'vector': expected lists of numbers, got string"),
        (pa.table({"id": [1, 2], "vector": [[1.0], [1.0, 2.0]]}), ValueError, "vectors of equal length, got 1 and 2"),
        (pa.table({"id": [1, 2], "vector": [[1.0], None]}), ValueError, "expected a vector in each row, got null"),
        (pa.table({"id": [None], "vector": VECTOR}), TypeError, r"ids\[0\]: expected int, UUID or str, got NoneType"),
        (pa.table({"id": [1], "vector": VECTOR, "t": [[1]]}), TypeError, "column 't': expected texts, numbers or bools, got list"),
        (
            pd.DataFrame({"id": [1], "vector": [[1.0, 2, 3]], "t": [pd.Timestamp(0)]}),
            TypeError,
            "column 't': expected texts, numbers or bools, got datetime64",
        ),
        (pd.DataFrame({"id": [1], "vector": [[1.0, 2, 3]], "t": [{}]}), TypeError, r"payloads\[0\]\['t'\]: expected str"),
        (pa.Table.from_arrays([pa.array([1]), VECTOR, VECTOR], ["id", "vector", "vector"]), ValueError, "got 'vector' twice"),
    ],
)
def test_a_table_that_is_none_of_points_is_an_error(collection: Collection, table: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        collection.upsert_table(table)


def test_the_asyncio_client_has_the_same(daemon: Daemon, filled: Collection) -> None:
    async def run() -> tuple[Any, ...]:
        async with AsyncClient(daemon.grpc) as client:
            collection = client.collection(filled.name)
            inserted = await collection.upsert_table(pa.table({"id": [1], "vector": VECTOR}))
            table, frame = await collection.to_arrow(), await collection.to_pandas()
            return inserted, table, frame, (await collection.search(vectors=[[1, 2, 3]])).to_arrow()

    inserted, table, frame, hits = asyncio.run(run())
    assert inserted == 1 and table.num_rows == len(frame) == hits.num_rows == 5


def test_a_missing_package_is_named() -> None:
    code = """
import sys
for name in ("pandas", "pyarrow", "langchain_core", "llama_index", "haystack"):
    sys.modules[name] = None
import accelerd, importlib
for use in (
    lambda: accelerd.PointList().to_arrow(),
    lambda: accelerd.PointList().to_pandas(),
    lambda: importlib.import_module("accelerd.langchain"),
    lambda: importlib.import_module("accelerd.llama_index"),
    lambda: importlib.import_module("accelerd.haystack"),
):
    try:
        use()
    except accelerd.MissingPackageError as missing:
        print(missing)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "to_arrow needs pyarrow, which is not installed: pip install 'accelerd[arrow]'",
        "to_pandas needs pandas, which is not installed: pip install 'accelerd[pandas]'",
        "accelerd.langchain needs langchain-core, which is not installed: pip install 'accelerd[langchain]'",
        "accelerd.llama_index needs llama-index-core, which is not installed: pip install 'accelerd[llama-index]'",
        "accelerd.haystack needs haystack-ai, which is not installed: pip install 'accelerd[haystack]'",
    ], done.stderr
