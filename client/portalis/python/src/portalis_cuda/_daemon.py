"""The daemon of a program: the one that the environment names, one on this machine, or one that is started for it."""

from __future__ import annotations

import functools
import os
import socket
import threading
from typing import Any

import accelerd
from accelerd import AccelerdError, Client, Device, Stats

#: Where a daemon listens by default.
_ADDRESS = ("localhost", 7433)
#: Seconds until a daemon on this machine must accept a connection.
_CONNECT_TIMEOUT = 1.0
#: Reasons of errors of which memory is the cause.
_MEMORY_REASONS = {"MEMORY_LIMIT", "OUT_OF_MEMORY", "RESIDENT_BYTES_EXCEEDED", "TRANSPORT_MEMORY_FULL"}

_lock = threading.Lock()


def default_client() -> Client:
    """Return the client of this process.

    Its daemon is that of the environment variable ACCELERD_SERVER, else the one on port 7433 of this machine, else one
    of the package accelerd-server, which is started and ends with this process.

    Raises:
        RuntimeError: There is no daemon, and none can be started.
    """
    with _lock:
        return _client_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _client_of(process: int) -> Client:
    # A client does not survive a fork, so each process has its own.
    if os.environ.get("ACCELERD_SERVER") or _listens():
        return Client()
    try:
        return accelerd.serve()
    except FileNotFoundError as missing:
        host, port = _ADDRESS
        raise RuntimeError(f"ACCELERD_SERVER is not set, nothing listens on {host}:{port}, and {missing}") from None


def _listens() -> bool:
    try:
        socket.create_connection(_ADDRESS, _CONNECT_TIMEOUT).close()
    except OSError:
        return False
    return True


def error_text(problem: AccelerdError) -> str:
    """Return the text of an error, which starts with "out of memory" where memory was the reason."""
    return f"out of memory: {problem}" if problem.reason in _MEMORY_REASONS else str(problem)


def is_cuda_available(client: Client | None = None) -> bool:
    """Return whether the daemon computes on a GPU."""
    return _gpu(client or default_client()) is not None


def get_cuda_device_info(client: Client | None = None) -> dict[str, Any]:
    """Return name, compute capability and memory of the daemon's first GPU."""
    gpu = _gpu(client or default_client())
    return {
        "available": gpu is not None,
        "device_name": gpu.product if gpu else "CPU",
        "compute_capability": gpu.compute_capability if gpu else None,
        "total_memory_mb": gpu.memory_bytes >> 20 if gpu else 0,
    }


def _gpu(client: Client) -> Device | None:
    return next((device for device in client.devices() if device.kind == "cuda"), None)


class GpuMeter:
    """Measures the GPUs of a daemon during a call. Without a GPU it makes no calls."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @functools.cached_property
    def _has_gpu(self) -> bool:
        return is_cuda_available(self._client)

    def sample(self) -> Stats | None:
        """Return the statistics of now; None without a GPU."""
        return self._client.stats() if self._has_gpu else None


def gpu_utilization(before: Stats | None, after: Stats | None) -> float:
    """Return the share of the time between two samples in which the busiest GPU ran kernels, of all callers."""
    if before is None or after is None:
        return 0.0
    elapsed = (after.uptime - before.uptime).total_seconds()
    names = [device.name for device in after.devices if device.kind == "cuda"]
    busy = max((_busy_seconds(after, name) - _busy_seconds(before, name) for name in names), default=0.0)
    return min(max(busy / elapsed, 0.0), 1.0) if elapsed > 0 else 0.0


def _busy_seconds(stats: Stats, device: str) -> float:
    return sum(kernel.total.total_seconds() for kernel in stats.kernels if kernel.device == device)


def gpu_memory_mb(stats: Stats | None) -> float:
    """Return the memory that the daemon uses on its GPUs."""
    devices = [] if stats is None else [device for device in stats.devices if device.kind == "cuda"]
    return sum(device.pool.used_bytes for device in devices) / (1 << 20)
