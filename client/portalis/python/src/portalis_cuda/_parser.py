"""Parsing: `CUDAASTParser`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from accelerd import AccelerdError, Client, Parsed, Timing, record_timings

from ._daemon import GpuMeter, default_client, error_text, gpu_utilization
from ._nodes import Node, Nodes

#: Sources that `parse_async` has in flight; the daemon parses them in batches.
_MAX_IN_FLIGHT = 32


@dataclass
class ParserConfig:
    """Limits and options of a parser. A source that exceeds a limit has an unsuccessful result."""

    max_nodes: int = 100_000
    max_tokens: int = 500_000
    max_depth: int = 1_000
    #: Changes nothing: a batch is one call, and the daemon forms the batches of all its callers.
    batch_size: int = 1
    #: Whether `parse_async` returns before it has parsed.
    enable_async: bool = False
    #: Whether results have metrics.
    collect_metrics: bool = True


@dataclass
class ASTParseResult:
    """Result of a source."""

    nodes: Sequence[Node]
    #: `total_time_ms` at the caller; of the daemon `parsing_time_ms`, `queue_time_ms` and `gpu_utilization`, which is
    #: the share of the call in which a GPU ran kernels, 0.0 on the CPU; `nodes_created`, `tokens_processed`.
    #: `tokenization_time_ms` is 0.0: a source is tokenized while it is parsed. Times of a batch are those of its call.
    metrics: dict[str, float]
    success: bool
    #: Why there are no nodes. It contains "out of memory" where memory was the reason.
    error: str | None = None


class CUDAASTParser:
    """A parser of Python, as CPython parses it."""

    def __init__(self, max_nodes: int = 100_000, max_tokens: int = 500_000, *, client: Client | None = None) -> None:
        """Create a parser.

        Args:
            max_nodes: Nodes of a source. `config` has the other limits.
            max_tokens: Tokens of a source, without comments, newlines and indentation.
            client: A client of the daemon; by default that of this process, which README.md describes.
        """
        self.config = ParserConfig(max_nodes, max_tokens)
        self._client = client or default_client()
        self._meter = GpuMeter(self._client)

    def parse(self, source_code: str | bytes) -> ASTParseResult:
        """Parse a source. A syntax error, an exceeded limit and a failed call are unsuccessful results."""
        return self.parse_batch([source_code])[0]

    def parse_batch(self, sources: Sequence[str | bytes]) -> list[ASTParseResult]:
        """Parse sources in one call."""
        try:
            return self._parse(sources)
        except AccelerdError as problem:
            return [_failed(error_text(problem)) for _ in sources]

    def parse_async(self, source_code: str | bytes) -> Future[ASTParseResult]:
        """Parse a source while the program goes on. If `config.enable_async` is false, it waits for the result."""
        if self.config.enable_async:
            return self._executor.submit(self.parse, source_code)
        done: Future[ASTParseResult] = Future()
        done.set_result(self.parse(source_code))
        return done

    @cached_property
    def _executor(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_MAX_IN_FLIGHT, thread_name_prefix="portalis_cuda")

    def _parse(self, sources: Sequence[str | bytes]) -> list[ASTParseResult]:
        if not self.config.collect_metrics:
            return [self._result(one, {}) for one in self._client.parse(sources, outputs=["tree", "tokens"])]
        before = self._meter.sample()
        with record_timings() as timings:
            parsed = self._client.parse(sources, outputs=["tree", "tokens"])
        utilization = gpu_utilization(before, self._meter.sample())
        return [self._result(one, _metrics(one, timings, utilization)) for one in parsed]

    def _result(self, parsed: Parsed[Any], metrics: dict[str, float]) -> ASTParseResult:
        if parsed.diagnostic is not None:
            problem = parsed.diagnostic
            return _failed(f"{problem.cls.__name__}: {problem.message} ({problem.line}:{problem.column})", metrics)
        nodes = Nodes(parsed)
        counts = {
            "max_nodes": len(nodes),
            "max_tokens": len(parsed.token_columns.kinds),
            "max_depth": nodes.depth,
        }
        for name, count in counts.items():
            if count > (limit := getattr(self.config, name)):
                return _failed(f"{name}: expected at most {limit}, got {count}", metrics)
        return ASTParseResult(nodes, metrics, success=True)


def _failed(error: str, metrics: dict[str, float] | None = None) -> ASTParseResult:
    return ASTParseResult([], metrics or {}, success=False, error=error)


def _metrics(parsed: Parsed[Any], timings: list[Timing], utilization: float) -> dict[str, float]:
    def stage(name: str) -> float:
        return 1e3 * sum(timing.stages.get(name, 0.0) for timing in timings)

    return {
        "tokenization_time_ms": 0.0,
        "parsing_time_ms": stage("execute"),
        "queue_time_ms": stage("queue"),
        "total_time_ms": 1e3 * sum(timing.seconds for timing in timings),
        "nodes_created": len(parsed.nodes.kinds) if parsed.is_valid else 0,
        "tokens_processed": len(parsed.token_columns.kinds),
        "gpu_utilization": utilization,
    }
