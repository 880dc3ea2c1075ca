"""Tests of how the daemon is found, and of what its GPUs did."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from subprocess import run

import accelerd
import pytest

from portalis_cuda import _daemon, get_cuda_device_info, is_cuda_available

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No client yet, no variable, and a port on which nothing listens."""
    monkeypatch.delenv("ACCELERD_SERVER", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setattr(_daemon, "_ADDRESS", free.getsockname())
    _daemon._client_of.cache_clear()
    return monkeypatch


def test_the_environment_names_the_daemon(fresh: pytest.MonkeyPatch, client: accelerd.Client) -> None:
    fresh.setenv("ACCELERD_SERVER", client.target)
    assert _daemon.default_client().target == client.target
    assert _daemon.default_client() is _daemon.default_client()


def test_a_daemon_on_this_machine_is_used(fresh: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        fresh.setattr(_daemon, "_ADDRESS", server.getsockname())
        assert _daemon.default_client().target == "localhost:7433"


def test_a_daemon_is_started_otherwise(fresh: pytest.MonkeyPatch, client: accelerd.Client) -> None:
    started = _daemon.default_client()
    assert isinstance(started, accelerd.LocalDaemon)
    assert started.parse(["x"])[0].is_valid
    started.close()


def test_that_there_is_no_daemon_is_an_error(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh.delenv("ACCELERD_BIN", raising=False)
    fresh.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"ACCELERD_SERVER is not set, nothing listens on .*accelerd\[server\]"):
        _daemon.default_client()


def test_the_device_is_described(client: accelerd.Client) -> None:
    info = get_cuda_device_info(client)
    assert info["available"] == is_cuda_available(client)
    if not info["available"]:
        expected = {"available": False, "device_name": "CPU", "compute_capability": None, "total_memory_mb": 0}
        assert info == expected


def statistics(base: accelerd.Stats, uptime: float, **busy: float) -> accelerd.Stats:
    """Statistics of a daemon with two GPUs whose kernels have run for some seconds."""
    pool = accelerd.MemoryPool(used_bytes=3 << 20, reserved_bytes=0, peak_bytes=0, limit_bytes=0, allocation_count=0)
    gpus = [replace(base.devices[0], name=f"cuda:{at}", kind="cuda", pool=pool) for at in range(2)]
    kernels = [
        accelerd.KernelStats(name, device, 1, timedelta(seconds=busy.get(key, 0.0) / 2), 0)
        for device, key in (("cuda:0", "first"), ("cuda:1", "second"), ("cpu", "cpu"))
        for name in ("parse", "embed")
    ]
    return replace(base, uptime=timedelta(seconds=uptime), devices=(*gpus, *base.devices[-1:]), kernels=tuple(kernels))


def test_utilization_is_that_of_the_busiest_gpu_between_two_samples(client: accelerd.Client) -> None:
    base = client.stats()
    before = statistics(base, 10.0, first=1.0, second=4.0, cpu=3.0)
    after = statistics(base, 12.0, first=2.5, second=4.5, cpu=5.0)
    assert _daemon.gpu_utilization(before, after) == pytest.approx(0.75)
    assert _daemon.gpu_utilization(before, statistics(base, 10.5, first=2.5)) == 1.0
    assert _daemon.gpu_utilization(before, before) == _daemon.gpu_utilization(None, None) == 0.0
    assert _daemon.gpu_memory_mb(after) == 6.0 and _daemon.gpu_memory_mb(None) == 0.0


def shown(example: str, client: accelerd.Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a program prints."""
    monkeypatch.setenv("ACCELERD_SERVER", client.target)
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    done = run([sys.executable, EXAMPLES / example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_program_that_parses(client: accelerd.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    count, time, utilization, kinds, syntax, nodes, many = shown("parse_module.py", client, monkeypatch)
    assert count == "Parsed 30 nodes" and time.endswith(" ms") and utilization.endswith("%")
    assert kinds == "Functions: 2, calls: 2"
    assert syntax == "Parse failed: SyntaxError: invalid syntax (1:7)"
    assert nodes == "Parse failed: max_nodes: expected at most 1000, got 2001"
    assert many == "Parsed 100 of 100 sources"


def test_a_program_that_embeds_and_searches(client: accelerd.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, throughput, *similar, clusters = shown("similar_snippets.py", client, monkeypatch)
    assert shape == "Generated embeddings: (6, 768)" and throughput.endswith(" seq/sec")
    pairs = [("area", "volume"), ("line", "row"), ("ValueError", "TypeError")]
    pairs = [pair for one in pairs for pair in (one, one[::-1])]
    for line, (snippet, other) in zip(similar, pairs, strict=True):
        first, second = line.split(" is most similar to ")
        assert snippet in first and other in second
    assert clusters.endswith("centers: (3, 256)")


def test_a_program_that_verifies(client: accelerd.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown("verify_translation.py", client, monkeypatch)
    assert lines[0] == "2 of 4 cases pass" and lines[-1] == "2 of 4 passed"
    assert "case [0.0, 0.0]: ZeroDivisionError: float division by zero" in lines
    assert any("2.0 != 1.0" in line for line in lines)
