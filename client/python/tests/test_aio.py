"""Tests of the asyncio client, and that both clients have the same methods."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pickle
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import numpy as np
import pytest

from accelerd import (
    AccelerdError,
    Client,
    Collection,
    InvalidArgumentError,
    MessageTooLargeError,
    NotFoundError,
    UnavailableError,
    record_timings,
)
from accelerd._proto import embed_pb2, embed_pb2_grpc
from accelerd.aio import AsyncClient, AsyncCollection


def run(server: str, test: Callable[[AsyncClient], Awaitable[Any]], **settings: Any) -> Any:
    async def main() -> Any:
        async with AsyncClient(server, timeout=30, **settings) as client:
            return await test(client)

    return asyncio.run(main())


@pytest.mark.parametrize(("blocking", "awaited"), [(Client, AsyncClient), (Collection, AsyncCollection)])
def test_both_clients_have_the_same_methods_and_arguments(blocking: type, awaited: type) -> None:
    def public(cls: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(cls, inspect.isfunction)
        return {name: [*inspect.signature(one).parameters] for name, one in methods if not name.startswith("_")}

    assert public(awaited) == public(blocking)
    assert (
        inspect.signature(awaited.__init__).parameters.keys() == inspect.signature(blocking.__init__).parameters.keys()
    )


@pytest.mark.parametrize("cls", [Client, AsyncClient, Collection, AsyncCollection])
def test_every_call_has_a_timeout(cls: type) -> None:
    local = {"close", "collection", "op", "resident", "tensor"}
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and name not in local:
            assert "timeout" in inspect.signature(method).parameters, name


def test_embeddings_and_trees_are_those_of_the_blocking_client(server: str, client: Client) -> None:
    texts = [f"def f{n}(): return {n}" for n in range(900)]

    async def test(own: AsyncClient) -> None:
        np.testing.assert_array_equal(await own.embed(texts), client.embed(texts))
        tokens = await own.tokenize(texts[:3])
        np.testing.assert_array_equal(await own.embed_tokens(tokens), client.embed(texts[:3]))
        (parsed,) = await own.parse(["x = 1"])
        assert ast.dump(parsed.to_ast()) == ast.dump(ast.parse("x = 1"))
        both = await asyncio.gather(own.embed(texts[:1]), own.models(), own.devices(), own.stats())
        assert both[1] == client.models() and both[2][-1].name == "cpu"

    run(server, test, max_message_bytes=20_000)


def test_streams_take_iterables_and_asynchronous_ones(server: str) -> None:
    async def sources() -> AsyncIterator[list[str]]:
        for n in range(5):
            yield [f"x{n} = {n}"]

    async def test(client: AsyncClient) -> None:
        parsed = {one.sequence: one async for one in client.parse_stream(sources())}
        assert [ast.unparse(parsed[n].parsed[0].to_ast()) for n in range(5)] == [f"x{n} = {n}" for n in range(5)]
        embedded = {one.sequence: one async for one in client.embed_stream([["a"], [], ["b"]])}
        assert isinstance(embedded[1].error, InvalidArgumentError) and embedded[2].vectors.shape == (1, 256)
        with pytest.raises(TypeError, match=r"sources\[0\]"):
            async for _ in client.parse_stream([["x"], [1]]):  # type: ignore[list-item]
                pass

    run(server, test)


def test_collections_are_filled_searched_and_scrolled(server: str) -> None:
    rows = np.random.default_rng(1).standard_normal((3000, 16), dtype=np.float32)

    async def test(client: AsyncClient) -> None:
        collection = await client.create_collection(f"aio-{uuid.uuid4().hex}", dimensions=16)
        try:
            assert await collection.upsert(range(3000), vectors=rows, payloads={"n": np.arange(3000)}) == 3000
            steps = [{"ids": range(n, n + 10), "vectors": rows[:10]} for n in (2995, 5000)]
            assert [new async for new in collection.upsert_many(steps)] == [5, 10]
            assert await collection.count(where={"n": slice(0, 100)}) == 100
            assert [point.id async for point in collection.scroll(where={"n": slice(5, 9)}, page_size=3)] == [
                5,
                6,
                7,
                8,
            ]
            pages = [page async for page in collection.scroll_columns(page_size=2000, vectors=True)]
            assert [len(page.ids) for page in pages] == [2000, 1015] and pages[0].vectors.shape == (2000, 16)
            ((hit,),) = await collection.search(vectors=rows[7], k=1)
            assert hit.id == 7 and hit.payload == {"n": 7}
            assert (await collection.search_columns(vectors=rows[7], k=1)).ids == [7]
            assert [point.id for point in await collection.get([9, 10**6])] == [9]
            assert await collection.delete_points(where={"n": slice(0, 10)}) == 10
            assert (await collection.describe()).point_count == 3005
        finally:
            await collection.delete()
        with pytest.raises(NotFoundError):
            await collection.describe()
        clusters = await client.cluster(rows, 2, seed=1)
        assert clusters.assignments.shape == (3000,)

    run(server, test, max_message_bytes=20_000)


def test_collections_have_prompts(server: str) -> None:
    async def test(client: AsyncClient) -> None:
        name = f"aio-{uuid.uuid4().hex}"
        collection = await client.create_collection(name, model="builtin", document_prompt="read ")
        try:
            assert (await collection.describe()).document_prompt == "read "
            await collection.upsert([1], texts=["a file"])
            await collection.upsert([2], texts=["a file"], prompt="write ")
            ((hit,),) = await collection.search(texts=["a file"], k=1, prompt="write ")
            assert hit.id == 2
            ((hit,),) = await collection.search(texts=["read a file"], k=1)
            assert hit.id == 1
        finally:
            await collection.delete()

    run(server, test)


def test_what_cannot_be_split_is_refused(server: str) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(MessageTooLargeError):
            await client.embed(["x" * 50_000])

    run(server, test, max_message_bytes=20_000)


class Failing(embed_pb2_grpc.EmbedServiceServicer):
    def __init__(self) -> None:
        self.failures = [grpc.StatusCode.UNAVAILABLE] * 2

    async def ListModels(self, request, context):  # noqa: N802
        if self.failures:
            await context.abort(self.failures.pop(), "no")
        await context.send_initial_metadata([("server-timing", "total;dur=2")])
        return embed_pb2.ListModelsResponse()

    async def UnloadModel(self, request, context):  # noqa: N802
        await asyncio.Event().wait()


def test_calls_are_retried_timed_and_cancelled() -> None:
    async def main() -> None:
        server = grpc.aio.server()
        embed_pb2_grpc.add_EmbedServiceServicer_to_server(Failing(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with AsyncClient(f"127.0.0.1:{port}", timeout=10) as client:
            with record_timings() as timings:
                assert await client.models() == []
            assert [one.stages for one in timings] == [{"total": 0.002}]
            with pytest.raises(AccelerdError, match="DEADLINE_EXCEEDED"):
                await client.unload_model("a", timeout=0.05)
            task = asyncio.ensure_future(client.unload_model("a"))
            await asyncio.wait_for(client.models(), 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            again = pickle.loads(pickle.dumps(client))
            assert await again.models() == []
            await again.close()
        await server.stop(None)
        async with AsyncClient(f"127.0.0.1:{port}", attempts=1) as client:
            with pytest.raises(UnavailableError):
                await client.models()

    asyncio.run(main())
