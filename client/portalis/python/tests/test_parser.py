"""Tests of the parser."""

from __future__ import annotations

import ast
from concurrent.futures import Future
from unittest import mock

import accelerd
import grpc
import numpy as np
import pytest

from portalis_cuda import CUDAASTParser

SOURCE = "def f(n):\n    if n <= 1:\n        return n\n    return f(n - 1) + f(n - 2)\n\nclass é: x = 'ü', f(1)\n"


def test_nodes_are_those_of_cpython(client: accelerd.Client) -> None:
    result = CUDAASTParser(client=client).parse(SOURCE)
    assert result.success and result.error is None
    tree = ast.parse(SOURCE)
    located = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    expected = sorted((type(node).__name__, (node.lineno, node.col_offset)) for node in located)
    got = [(node["kind"], node["location"]) for node in result.nodes]
    assert sorted(one for one in got if one[0] not in ("CompareOp", "Identifier")) == expected
    assert all(node["kind"] == accelerd.NODE_KINDS[node["type"]] for node in result.nodes)


def test_a_byte_order_mark_has_no_column(client: accelerd.Client) -> None:
    name = CUDAASTParser(client=client).parse(b"\xef\xbb\xbfx\ny").nodes
    assert [node["location"] for node in name if node["kind"] == "Name"] == [(1, 0), (2, 0)]


def test_links_lead_to_every_node_once(client: accelerd.Client) -> None:
    nodes = CUDAASTParser(client=client).parse(SOURCE).nodes
    statements = [row for row, node in enumerate(nodes) if node["parent"] is None]
    assert [nodes[row]["kind"] for row in statements] == ["FunctionDef", "ClassDef"]
    assert nodes[statements[0]]["next_sibling"] == statements[1]
    seen, pending = [], [statements[0]]
    while pending:
        row = pending.pop()
        seen.append(row)
        pending += [link for link in (nodes[row]["first_child"], nodes[row]["next_sibling"]) if link is not None]
    assert sorted(seen) == list(range(len(nodes)))
    assert all(nodes[node["first_child"]]["parent"] == row for row, node in enumerate(nodes) if node["first_child"])


def test_tokens_of_a_node_are_a_range(client: accelerd.Client) -> None:
    nodes = CUDAASTParser(client=client).parse("a = b + (c * d)").nodes
    ranges = {node["kind"]: node["token_range"] for node in nodes}
    assert ranges["Assign"] == (0, 9) and ranges["BinOp"] == (2, 9)
    assert [node["token_range"] for node in nodes[:2]] == [(0, 1), (2, 3)]


def test_metrics_are_measured(client: accelerd.Client) -> None:
    parser = CUDAASTParser(client=client)
    result = parser.parse(SOURCE)
    assert 0.0 < result.metrics["parsing_time_ms"] < result.metrics["total_time_ms"]
    assert result.metrics["nodes_created"] == len(result.nodes)
    assert result.metrics["tokens_processed"] > 30
    if not any(device.kind == "cuda" for device in client.devices()):
        assert result.metrics["gpu_utilization"] == 0.0
    parser.config.collect_metrics = False
    assert parser.parse(SOURCE).metrics == {}


@pytest.mark.parametrize(
    ("limit", "source", "count"),
    [("max_nodes", "a = b", 3), ("max_tokens", "a = b", 3), ("max_depth", "x = -(-(-(-1)))", 6)],
)
def test_a_source_beyond_a_limit_is_an_unsuccessful_result(
    client: accelerd.Client, limit: str, source: str, count: int
) -> None:
    parser = CUDAASTParser(client=client)
    setattr(parser.config, limit, count)
    assert parser.parse(source).success
    setattr(parser.config, limit, count - 1)
    result = parser.parse(source)
    assert (result.success, len(result.nodes)) == (False, 0)
    assert result.error == f"{limit}: expected at most {count - 1}, got {count}"


def test_a_syntax_error_is_an_unsuccessful_result(client: accelerd.Client) -> None:
    result = CUDAASTParser(client=client).parse("x +=")
    assert (result.success, result.error) == (False, "SyntaxError: invalid syntax (1:5)")


def test_a_batch_has_a_result_for_each_source(client: accelerd.Client) -> None:
    good, bad, empty = CUDAASTParser(client=client).parse_batch(["x", "x +=", b""])
    assert [good.success, bad.success, empty.success] == [True, False, True]
    assert list(empty.nodes) == [] and len(good.nodes) == 2


@pytest.mark.parametrize(
    ("reason", "is_memory"), [("MEMORY_LIMIT", True), ("OUT_OF_MEMORY", True), ("QUEUE_FULL", False)]
)
def test_a_failed_call_is_an_unsuccessful_result(client: accelerd.Client, reason: str, is_memory: bool) -> None:
    details = accelerd.ErrorDetails(reason=reason)
    problem = accelerd.BusyError(grpc.StatusCode.RESOURCE_EXHAUSTED, "4 of 3 bytes", details)
    with mock.patch.object(client, "parse", side_effect=problem):
        result = CUDAASTParser(client=client).parse("x")
    assert not result.success and result.error is not None
    assert ("out of memory" in result.error) == is_memory and "4 of 3 bytes" in result.error


def test_a_daemon_that_is_gone_is_an_unsuccessful_result() -> None:
    with accelerd.Client("localhost:1", attempts=1) as gone:
        parser = CUDAASTParser(client=gone)
        assert "UNAVAILABLE" in (parser.parse("x").error or "")


def test_many_futures_are_in_flight(client: accelerd.Client) -> None:
    parser = CUDAASTParser(client=client)
    parser.config.enable_async = True
    futures = [parser.parse_async(f"x = {index}\n" * index) for index in range(1, 100)]
    assert all(isinstance(future, Future) for future in futures)
    assert [len(future.result().nodes) for future in futures] == [3 * index for index in range(1, 100)]


def test_without_enable_async_a_future_is_done(client: accelerd.Client) -> None:
    future = CUDAASTParser(client=client).parse_async("x")
    assert future.done() and future.result().success


def test_depth_of_a_long_chain(client: accelerd.Client) -> None:
    parser = CUDAASTParser(client=client)
    parser.config.max_depth = 10_000
    assert parser.parse("x = " + "+".join(["1"] * 500)).nodes.depth == 501  # type: ignore[attr-defined]
    assert np.array_equal([parser.parse("").nodes.depth], [0])  # type: ignore[attr-defined]
