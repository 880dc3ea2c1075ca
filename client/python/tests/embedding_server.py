"""Serves a servicer of embeddings and collections."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from accelerd._proto import embed_pb2_grpc, similarity_pb2_grpc


@contextmanager
def serve(servicer: Any) -> Iterator[str]:
    """Serve on a free port: the address."""
    server = grpc.server(ThreadPoolExecutor(2))
    embed_pb2_grpc.add_EmbedServiceServicer_to_server(servicer, server)
    similarity_pb2_grpc.add_SimilarityServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)
