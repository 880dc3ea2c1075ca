"""Measures filtered searches, text searches and bulk writes of a daemon, with faiss-cpu, qdrant-edge and tantivy as baselines.

    python3 -m pip install numpy grpcio protobuf faiss-cpu qdrant-edge-py tantivy
    python3 tests/bench/baseline_filters.py --accelerd target/release/accelerd > baseline_filters.jsonl

Prints one JSON line for each figure: median, minimum and maximum in milliseconds. The daemon is called through gRPC on loopback,
the baselines run in this process. `daemon_ms` is the median of the daemon's own time, from the request's headers to the
response's; "call" is a search of an empty collection, which is the cost of a call from Python. Every response is compared with
numpy's ranking of the rows that pass; a difference ends the run. Payload values are uniform, skewed, or clustered (adjacent
rows have equal values and similar vectors). Reports baselines that are not installed on standard error and skips them.
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grpc
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python" / "src"))

from accelerd._proto import similarity_pb2 as pb  # noqa: E402
from accelerd._proto import similarity_pb2_grpc, tensor_pb2  # noqa: E402

LIMIT = 10
SHARES = (0.5, 0.1, 0.01, 0.001)
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]
WARM = 5


def timed(run, repeats):
    for _ in range(WARM):
        run(0)
    times = []
    for i in range(repeats):
        start = time.perf_counter()
        run(i)
        times.append(1e3 * (time.perf_counter() - start))
    return times


def daemon_ms(call, repeats):
    """The median of the daemon's own time, from its `server-timing` metadata."""
    times = []
    for i in range(repeats):
        _, answered = call(i)
        timing = dict(answered.initial_metadata())["server-timing"]
        times.append(float(re.search(r"total;dur=([\d.]+)", timing)[1]))
    return statistics.median(times)


def say(times, **row):
    row |= {
        "median_ms": statistics.median(times),
        "min_ms": min(times),
        "max_ms": max(times),
    }
    print(
        json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}),
        flush=True,
    )


class Daemon:
    """A daemon on loopback that runs for the duration of the block."""

    def __init__(self, program):
        self.program = program

    def __enter__(self):
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        port, admin, health = (one.getsockname()[1] for one in held)
        for one in held:
            one.close()
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [
                self.program,
                "serve",
                "--listen",
                f"127.0.0.1:{port}",
                "--data-dir",
                self.folder.name,
            ]
            + [
                "--set",
                f"server.admin_listen=127.0.0.1:{admin}",
                "--set",
                f"server.health_listen=127.0.0.1:{health}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", OPTIONS)
        grpc.channel_ready_future(self.channel).result(timeout=60)
        return similarity_pb2_grpc.SimilarityServiceStub(self.channel)

    def __exit__(self, *_):
        self.channel.close()
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def tensor(rows):
    return tensor_pb2.Tensor(
        dtype=tensor_pb2.DTYPE_F32,
        shape=rows.shape,
        data=np.ascontiguousarray(rows).tobytes(),
    )


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def data(spread, rows, dim, random):
    """Vectors, and the rank of each row in [0, 1], which decides what filters it passes."""
    if spread != "clustered":
        return unit(random.standard_normal((rows, dim), dtype=np.float32)), (random.permutation(rows) + 0.5) / rows
    centres = random.standard_normal((1000, dim), dtype=np.float32)
    member = np.sort(random.integers(0, 1000, rows))
    vectors = unit(centres[member] + 0.5 * random.standard_normal((rows, dim), dtype=np.float32))
    return vectors, (np.arange(rows) + 0.5) / rows


def number(spread, rank):
    """The values that range filters compare; skewed ones are mostly close to 0."""
    return rank**8 if spread == "skewed" else rank


def columns(fields):
    """Payload columns from numpy arrays and lists of str."""
    made = pb.PayloadColumns()
    for name, values in fields.items():
        column = made.columns.add(name=name)
        if isinstance(values, list):
            joined = "".join(values)
            lengths = [len(text) for text in (values if joined.isascii() else [text.encode() for text in values])]
            offsets = np.zeros(len(values) + 1, dtype="<u4")
            np.cumsum(lengths, out=offsets[1:])
            column.strings.offsets, column.strings.data = (
                offsets.tobytes(),
                joined.encode(),
            )
        elif values.dtype.kind == "f":
            column.doubles = values.astype("<f8", copy=False).tobytes()
        elif values.dtype.kind == "b":
            column.bools = values.tobytes()
        else:
            column.ints = values.astype("<i8", copy=False).tobytes()
    return made


def messages(fields):
    """The same payloads with one message for each point."""
    kinds = {
        "f": ("double_value", float),
        "i": ("int_value", int),
        "b": ("bool_value", bool),
    }
    payloads = []
    for i in range(len(next(iter(fields.values())))):
        payload = pb.Payload()
        for name, values in fields.items():
            if isinstance(values, list):
                payload.fields[name].string_value = values[i]
            else:
                kind, of = kinds[values.dtype.kind]
                setattr(payload.fields[name], kind, of(values[i]))
        payloads.append(payload)
    return payloads


def create(stub, name, dim, **more):
    stub.CreateCollection(pb.CreateCollectionRequest(name=name, dimensions=dim, metric=pb.METRIC_DOT, **more))


def upsert(stub, name, vectors, fields, as_columns, step=10_000):
    """Points with their row numbers as ids."""
    for start in range(0, len(vectors), step):
        end = min(len(vectors), start + step)
        part = {field: values[start:end] for field, values in fields.items()}
        request = pb.UpsertRequest(collection=name, vectors=tensor(vectors[start:end]))
        if as_columns:
            request.ids.packed_numbers = np.arange(start, end, dtype="<u8").tobytes()
            request.payload_columns.CopyFrom(columns(part))
        else:
            request.ids.numbers.extend(range(start, end))
            request.payloads.extend(messages(part))
        stub.Upsert(request)


def inserts(stub, rows, dim, repeats, random, old):
    """Bulk writes from Python: three payload fields as messages, as columns, and without payloads."""
    vectors = unit(random.standard_normal((rows, dim), dtype=np.float32))
    fields = {
        "language": [("rust", "python", "go")[i % 3] for i in range(rows)],
        "path": [f"src/module{i // 7}/file{i}.rs" for i in range(rows)],
        "line": np.arange(rows),
    }
    for name, given, as_columns in (
        ("messages", fields, False),
        ("columns", fields, True),
        ("no payloads", {}, False),
    ):
        if as_columns and old:
            continue
        times = []
        for i in range(repeats):
            create(stub, f"insert{i}", dim)
            start = time.perf_counter()
            if given:
                upsert(stub, f"insert{i}", vectors, given, as_columns)
            else:
                for at in range(0, rows, 10_000):
                    end = min(rows, at + 10_000)
                    request = pb.UpsertRequest(collection=f"insert{i}", vectors=tensor(vectors[at:end]))
                    request.ids.numbers.extend(range(at, end))
                    stub.Upsert(request)
            times.append(1e3 * (time.perf_counter() - start))
            stub.DeleteCollection(pb.DeleteCollectionRequest(name=f"insert{i}"))
        say(times, what="insert", engine="accelerd", rows=rows, dim=dim, payloads=name)


def condition(spread, share, kind):
    """Rows whose rank is below the selectivity, by a numeric or a text field."""
    if kind == "range":
        return pb.Condition(field="number", range=pb.Range(lt=number(spread, share)))
    return pb.Condition(field=f"below{share * 1000:.0f}", equals=pb.Value(string_value="yes"))


def filters(stub, spread, rows, dim, repeats, random, old):
    vectors, ranks = data(spread, rows, dim, random)
    queries = unit(vectors[random.integers(0, rows, 50)] + 0.1 * random.standard_normal((50, dim), dtype=np.float32))
    fields = {"number": number(spread, ranks)}
    for share in SHARES:
        fields[f"below{share * 1000:.0f}"] = np.where(ranks < share, "yes", "no").tolist()
    create(stub, "filters", dim)
    empty = pb.SearchRequest(collection="filters", vectors=tensor(queries[:1]), limit=LIMIT)
    say(
        timed(lambda _: stub.Search(empty), repeats),
        what="call",
        engine="accelerd",
        spread=spread,
    )
    upsert(stub, "filters", vectors, fields, not old)
    faiss_index = faiss_of(vectors)
    edge = Edge(vectors, fields)
    for share in (1.0, *SHARES):
        passing = np.flatnonzero(ranks < share)
        scores = queries @ vectors[passing].T
        best = passing[np.argsort(-scores, axis=1, kind="stable")[:, :LIMIT]]
        expected = [set(row.tolist()) for row in best]
        shape = {"spread": spread, "rows": rows, "dim": dim, "share": share}

        def check(engine, i, ids):
            # Scores that f32 does not separate may be swapped at the end of a ranking.
            low = np.sort(scores[i])[-min(LIMIT, len(passing))]
            wrong = [row for row in set(ids) ^ expected[i] if abs(float(queries[i] @ vectors[row]) - low) > 1e-6]
            if wrong or len(ids) != len(expected[i]):
                sys.exit(f"{engine} differs from numpy: {shape}, query {i}: {ids} is not {expected[i]}")

        for kind in ("range", "text") if share < 1 else ("none",):
            filtered = None if share == 1 else pb.Filter(must=[condition(spread, share, kind)])
            requests = [
                pb.SearchRequest(
                    collection="filters",
                    vectors=tensor(query[None]),
                    limit=LIMIT,
                    filter=filtered,
                )
                for query in queries
            ]

            def ours(i):
                return stub.Search(requests[i % 50])

            for i in range(50):
                check("accelerd", i, [hit.number for hit in ours(i).results[0].hits])

            def ours_timed(i):
                return stub.Search.with_call(requests[i % 50], metadata=[("accelerd-timing", "1")])

            times = timed(ours, repeats)
            inside = daemon_ms(ours_timed, repeats)
            say(
                times,
                what="filter",
                engine="accelerd",
                by=kind,
                daemon_ms=inside,
                **shape,
            )
            if edge.shard:
                for i in range(50):
                    check("qdrant-edge", i, edge.search(queries[i], spread, share, kind))
                times = timed(lambda i: edge.search(queries[i % 50], spread, share, kind), repeats)
                say(times, what="filter", engine="qdrant-edge", by=kind, **shape)
        if faiss_index:
            search = faiss_search(faiss_index, rows, passing if share < 1 else None)
            for i in range(50):
                check("faiss", i, search(queries[i]))
            say(
                timed(lambda i: search(queries[i % 50]), repeats),
                what="filter",
                engine="faiss",
                **shape,
            )
    stub.DeleteCollection(pb.DeleteCollectionRequest(name="filters"))
    edge.close()


def faiss_of(vectors):
    try:
        import faiss
    except ImportError as error:
        print(error, file=sys.stderr)
        return None
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def faiss_search(index, rows, passing):
    """faiss with a bitmap selector that is built before the clock starts."""
    import faiss

    if passing is None:
        return lambda query: index.search(query[None], LIMIT)[1][0].tolist()
    mask = np.zeros(rows, dtype=bool)
    mask[passing] = True
    bits = np.packbits(mask, bitorder="little")
    parameters = faiss.SearchParameters(sel=faiss.IDSelectorBitmap(bits))

    def search(query):
        assert bits.size
        found = index.search(query[None], LIMIT, params=parameters)[1][0]
        return found[found >= 0].tolist()

    return search


class Edge:
    """qdrant-edge with exact search and an index on every field."""

    def __init__(self, vectors, fields):
        self.shard = None
        try:
            import qdrant_edge as edge
        except ImportError as error:
            print(error, file=sys.stderr)
            return
        self.edge = edge
        self.folder = tempfile.TemporaryDirectory()
        params = edge.EdgeVectorParams(size=vectors.shape[1], distance=edge.Distance.Dot)
        self.shard = edge.EdgeShard.create(self.folder.name, edge.EdgeConfig(vectors={"": params}))
        for name, values in fields.items():
            schema = edge.PayloadSchemaType.Keyword if isinstance(values, list) else edge.PayloadSchemaType.Float
            self.shard.update(edge.UpdateOperation.create_field_index(name, schema))
        step = 10_000
        for start in range(0, len(vectors), step):
            part = range(start, min(len(vectors), start + step))
            points = [
                edge.Point(
                    i,
                    vectors[i].tolist(),
                    {
                        name: values[i] if isinstance(values, list) else float(values[i])
                        for name, values in fields.items()
                    },
                )
                for i in part
            ]
            self.shard.update(edge.UpdateOperation.upsert_points(points))

    def search(self, query, spread, share, kind):
        edge = self.edge
        match kind:
            case "none":
                filtered = None
            case "range":
                filtered = edge.Filter(
                    must=[edge.FieldCondition("number", range=edge.RangeFloat(lt=number(spread, share)))]
                )
            case _:
                filtered = edge.Filter(
                    must=[edge.FieldCondition(f"below{share * 1000:.0f}", match=edge.MatchValue("yes"))]
                )
        request = edge.QueryRequest(
            limit=LIMIT,
            query=edge.Query.Nearest(query.tolist()),
            filter=filtered,
            params=edge.SearchParams(exact=True),
            with_payload=False,
            with_vector=False,
        )
        return [point.id for point in self.shard.query(request)]

    def close(self):
        if self.shard:
            self.shard.close()
            self.folder.cleanup()


def chunks(count):
    """Chunks of about forty lines of this Python's standard library."""
    texts = []
    for file in sorted(Path(os.__file__).parent.rglob("*.py")):
        lines = file.read_text(errors="replace").splitlines()
        texts.extend("\n".join(lines[i : i + 40]) for i in range(0, len(lines), 40))
        if len(texts) >= count:
            break
    return texts[:count]


def words(stub, count, repeats, old):
    """Building the text index, and text searches."""
    texts = chunks(count)
    queries = [
        "parse a date",
        "open socket connection",
        "compress file gzip",
        "read lines of a file",
        "thread lock acquire",
    ]
    vectors = np.ones((len(texts), 4), dtype=np.float32)
    for field in ("", "text"):
        times = []
        for i in range(5):
            create(stub, f"words{i}", 4, text_field=field)
            # Encoded before the clock starts, so that the difference is the cost of the index.
            request = pb.UpsertRequest(collection=f"words{i}", vectors=tensor(vectors))
            request.ids.numbers.extend(range(len(texts)))
            if old:
                request.payloads.extend(messages({"text": texts}))
            else:
                request.payload_columns.CopyFrom(columns({"text": texts}))
            start = time.perf_counter()
            stub.Upsert(request)
            times.append(1e3 * (time.perf_counter() - start))
            if i or not field:
                stub.DeleteCollection(pb.DeleteCollectionRequest(name=f"words{i}"))
        say(
            times,
            what="text index",
            engine="accelerd",
            chunks=len(texts),
            text_field=bool(field),
        )
    if not old:
        requests = [
            pb.SearchRequest(
                collection="words0",
                texts={"values": [query]},
                limit=LIMIT,
                hybrid=True,
                text_weight=1,
            )
            for query in queries
        ]
        times = timed(lambda i: stub.Search(requests[i % 5]), repeats)
        inside = daemon_ms(
            lambda i: stub.Search.with_call(requests[i % 5], metadata=[("accelerd-timing", "1")]), repeats
        )
        say(times, what="words", engine="accelerd", chunks=len(texts), daemon_ms=inside)
    try:
        import tantivy
    except ImportError as error:
        print(error, file=sys.stderr)
        return
    times = []
    for _ in range(5):
        start = time.perf_counter()
        schema = tantivy.SchemaBuilder().add_text_field("text", index_option="freq").build()
        index = tantivy.Index(schema)
        writer = index.writer(64 << 20, num_threads=1)
        for text in texts:
            writer.add_document(tantivy.Document(text=text))
        writer.commit()
        writer.wait_merging_threads()
        times.append(1e3 * (time.perf_counter() - start))
    say(times, what="text index", engine="tantivy", chunks=len(texts))
    index.reload()
    searcher = index.searcher()
    search = lambda i: searcher.search(index.parse_query(queries[i % 5], ["text"]), LIMIT)  # noqa: E731
    say(timed(search, repeats), what="words", engine="tantivy", chunks=len(texts))


def scroll(stub, rows):
    """Pages of 1,000 points over the whole collection."""
    create(stub, "scroll", 1)
    order = np.random.default_rng(3).permutation(rows).astype("<u8")
    for start in range(0, rows, 100_000):
        ids = order[start : start + 100_000]
        request = pb.UpsertRequest(
            collection="scroll",
            vectors=tensor(np.ones((len(ids), 1), dtype=np.float32)),
        )
        request.ids.packed_numbers = ids.tobytes()
        stub.Upsert(request)
    times, cursor, seen = [], b"", 0
    while True:
        start = time.perf_counter()
        page = stub.ScrollPoints(pb.ScrollPointsRequest(collection="scroll", cursor=cursor, columns=True))
        times.append(1e3 * (time.perf_counter() - start))
        seen += len(page.ids.packed_numbers) // 8
        cursor = page.next_cursor
        if not cursor:
            break
    if seen != rows:
        sys.exit(f"scrolled {seen} of {rows} points")
    say(times[:1], what="scroll", engine="accelerd", rows=rows, page="first")
    say(times[1:], what="scroll", engine="accelerd", rows=rows, page="later")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accelerd", required=True, help="path of the daemon")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--spreads", default="even,skewed,clustered")
    parser.add_argument("--parts", default="filters,words,inserts,scroll")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of faiss")
    parser.add_argument("--old", action="store_true", help="the daemon has no payload columns")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    parts = options.parts.split(",")
    random = np.random.default_rng(1)
    with Daemon(options.accelerd) as stub:
        if "words" in parts:
            words(stub, 9_300, options.repeats * 5, options.old)
        if "inserts" in parts:
            inserts(stub, options.rows, options.dim, 3, random, options.old)
        if "scroll" in parts and not options.old:
            scroll(stub, 1_000_000)
        if "filters" in parts:
            for spread in options.spreads.split(","):
                filters(
                    stub,
                    spread,
                    options.rows,
                    options.dim,
                    options.repeats,
                    random,
                    options.old,
                )


if __name__ == "__main__":
    main()
