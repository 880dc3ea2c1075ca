"""Compares translated kernels with CuPy and Warp on a GPU, or with numba and Warp on the CPU, and measures searches while a kernel runs.

    python3 kernel_speed.py --bin FOLDER [--device cuda] [--sizes 1048576,16777216] [--launches 50]

Kernels are in the style of NVIDIA Warp, on arrays of f32. Both sides get the same arrays. The time of a launch on a GPU is that of its
threads, measured by the GPU, for its peers by events around each launch. CuPy's kernel is plain CUDA C++ without checks, compiled with the
default options of CuPy; on the CPU it is compiled by numba for one core, as a launch here runs on one. Warp compiles the same source. Searches are measured
alone, and while a kernel runs without a pause. Needs NumPy, and measures the peers that are installed.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import load_daemon
import numpy as np
from load_daemon import Daemon, spread


@dataclass(frozen=True)
class Kernel:
    """What computes `y[i]` from `x[i]`, `y[i]` and `a`, in two languages."""

    python: str
    cuda: str
    #: Bytes of an element that it reads and writes.
    bytes: int


KERNELS = {
    "saxpy": Kernel("y[i] = a * x[i] + y[i]", "y[i] = a * x[i] + y[i];", 12),
    "sine times cosine": Kernel("y[i] = math.sin(x[i]) * math.cos(x[i])", "y[i] = sinf(x[i]) * cosf(x[i]);", 8),
    "branches": Kernel(
        "v = x[i]\n    if v > 0.5:\n        y[i] = v * a\n    elif v > 0.0:\n        y[i] = v + a\n    else:\n        y[i] = -v",
        "const float v = x[i]; if (v > 0.5f) y[i] = v * a; else if (v > 0.0f) y[i] = v + a; else y[i] = -v;",
        8,
    ),
    "an inner loop of 64": Kernel(
        "s = y[i]\n    v = x[i]\n    for k in range(64):\n        s = s * a + v\n    y[i] = s",
        "float s = y[i]; const float v = x[i]; for (int k = 0; k < 64; k++) s = s * a + v; y[i] = s;",
        12,
    ),
}
A = 0.5


def module(kernel: Kernel) -> str:
    """A kernel of Warp, which calls its own functions."""
    body = kernel.python.replace("math.", "wp.")
    return f"import warp as wp\n\n@wp.kernel\ndef f(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):\n    i = wp.tid()\n    {body}\n"


def launches(daemon: Daemon, kernel: Kernel, folder: Path, given: argparse.Namespace, size: int) -> dict[str, float]:
    """The times of launches in milliseconds; their results are checked."""
    source = folder / "kernel.py"
    source.write_text(module(kernel))
    report = daemon.call("kernel", "bench", source, "--arg", f"x={folder / 'x.npy'}", "--arg", f"y={folder / 'y.npy'}", "--arg",
                         f"a={A}", "--grid", size, "--device", given.device, "--launches", given.launches, "--check")
    if report["verdict"] != "passed":
        raise SystemExit(f"{report['verdict']}: {report}")
    return report["execution"]


def cupy_times(kernel: Kernel, x: np.ndarray, y: np.ndarray, count: int) -> list[float]:
    import cupy

    text = f'extern "C" __global__ void f(const float* x, float* y, float a, int n) {{ const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {kernel.cuda} }} }}'
    function = cupy.RawKernel(text, "f")
    arrays = (cupy.asarray(x), cupy.asarray(y))
    begin, end, times = cupy.cuda.Event(), cupy.cuda.Event(), []
    for _ in range(count + 5):
        # The peer's inputs stay in its memory, as those of a launch do.
        begin.record()
        function((math.ceil(len(x) / 256),), (256,), (*arrays, np.float32(A), np.int32(len(x))))
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / 1000)
    return times[5:]


def copy_bandwidth(size: int, count: int) -> float:
    """Bytes per second that a copy on the GPU reads and writes."""
    import cupy

    source, target = cupy.ones(size, "f4"), cupy.empty(size, "f4")
    begin, end, times = cupy.cuda.Event(), cupy.cuda.Event(), []
    for _ in range(count + 5):
        begin.record()
        cupy.copyto(target, source)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) / 1000)
    return 8 * size / statistics.median(times[5:])


def numba_times(kernel: Kernel, x: np.ndarray, y: np.ndarray, count: int) -> list[float]:
    import numba

    names = {"math": math}
    body = kernel.python.replace("\n", "\n    ")
    exec(f"def f(x, y, a):\n    for i in range(len(x)):\n        {body}\n", names)  # noqa: S102
    return timed(numba.njit(names["f"]), x, y, count)


def warp_times(kernel: Kernel, x: np.ndarray, y: np.ndarray, count: int) -> list[float]:
    return timed(warp_launch(kernel, x, y, "cpu"), x, y, count)


def warp_gpu_times(kernel: Kernel, x: np.ndarray, y: np.ndarray, count: int) -> list[float]:
    import warp

    launch = warp_launch(kernel, x, y, "cuda:0")
    begin, end = (warp.Event("cuda:0", enable_timing=True) for _ in range(2))
    times = []
    with warp.ScopedDevice("cuda:0"):
        for _ in range(count + 5):
            warp.record_event(begin)
            launch()
            warp.record_event(end)
            times.append(warp.get_event_elapsed_time(begin, end) / 1000)
    return times[5:]


def warp_launch(kernel: Kernel, x: np.ndarray, y: np.ndarray, device: str) -> Callable:
    """A launch of the kernel on arrays of a device, compiled."""
    import importlib.util

    import warp

    warp.config.quiet = True
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(module(kernel))
        file.flush()
        spec = importlib.util.spec_from_file_location("warp_kernel", file.name)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        arrays = [warp.array(one, dtype=float, device=device) for one in (x, y)]
        command = warp.launch(made.f, dim=len(x), inputs=[*arrays, A], device=device, record_cmd=True)
        command.launch()
        return lambda *_: command.launch()


def timed(run: Callable, x: np.ndarray, y: np.ndarray, count: int) -> list[float]:
    times = []
    for _ in range(count + 5):
        begin = time.perf_counter()
        run(x, y, np.float32(A))
        times.append(time.perf_counter() - begin)
    return times[5:]


def peers(device: str) -> dict[str, Callable]:
    """The peers that are installed."""
    on_gpu = {"CuPy": ("cupy", cupy_times), "Warp": ("warp", warp_gpu_times)}
    known = on_gpu if device == "cuda" else {"numba": ("numba", numba_times), "Warp": ("warp", warp_times)}
    found = {}
    for name, (package, times) in known.items():
        try:
            __import__(package)
        except ImportError:
            print(f"{name} is not installed")
        else:
            found[name] = times
    return found


def rates(size: int, median: float, longest: float, shortest: float) -> str:
    """Millions of elements per second by seconds: the median, the slowest and the fastest."""
    rate, low, high = (size / seconds / 1e6 for seconds in (median, longest, shortest))
    return f"{rate:,.0f} ({low:,.0f} to {high:,.0f})"


def searches(daemon: Daemon, given: argparse.Namespace, folder: Path) -> list[list[str]]:
    """Searches alone, while a kernel runs, and alone again."""
    collection = daemon.keep(given.rows, 128)
    words = ["search", "--collection", collection, "--concurrency", given.searchers, "--duration", f"{given.seconds}s"]
    rows = [["alone", spread(daemon.bench(*words))]]
    (folder / "kernel.py").write_text(module(KERNELS["an inner loop of 64"]).replace("range(64)", "range(10000)"))
    running = daemon.start("kernel", "bench", folder / "kernel.py", "--arg", f"x={folder / 'x.npy'}", "--arg", f"y={folder / 'y.npy'}",
                           "--arg", f"a={A}", "--grid", given.largest, "--device", given.device, "--launches", 1_000_000)
    rows.append(["while a kernel runs without a pause", spread(daemon.bench(*words))])
    running.stop()
    rows.append(["alone again", spread(daemon.bench(*words))])
    return rows


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--sizes", default="1048576,16777216", help="elements of an array")
    parser.add_argument("--launches", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5, help="of each phase of searches")
    parser.add_argument("--searchers", type=int, default=4, help="searches in flight")
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    given.largest = max(sizes)
    given.set += ["server.max_message_bytes=512MiB", "sandbox.gpu_memory=2GiB", "sandbox.memory=4GiB", "sandbox.case_memory=1GiB"]
    found, rows, results = peers(given.device), [], []
    with tempfile.TemporaryDirectory() as name, load_daemon.daemon(given) as daemon:
        folder = Path(name)
        for size in sizes:
            random = np.random.default_rng(1)
            x, y = (random.uniform(-1, 1, size).astype("f4") for _ in range(2))
            np.save(folder / "x.npy", x)
            np.save(folder / "y.npy", y)
            for kind, kernel in KERNELS.items():
                own = launches(daemon, kernel, folder, given, size)
                peer_times = {peer: times(kernel, x.copy(), y.copy(), given.launches) for peer, times in found.items()}
                results.append({"kernel": kind, "size": size, "accelerd": own, "peers": peer_times})
                median, longest, shortest = (own[key] / 1000 for key in ("median_ms", "max_ms", "min_ms"))
                rows.append([kind, f"{size:,}", rates(size, median, longest, shortest),
                             *(rates(size, statistics.median(times), max(times), min(times)) for times in peer_times.values()),
                             f"{size * kernel.bytes / median / 1e9:,.1f} GB/s"])
        load_daemon.table(["kernel", "elements", "accelerd, M elements/s", *found, "bandwidth"], rows)
        if "CuPy" in found:
            copies = ", ".join(f"{copy_bandwidth(size, given.launches) / 1e9:,.1f} GB/s with {size:,} elements" for size in sizes)
            print(f"\nA copy by CuPy: {copies}")
        print()
        search_rows = searches(daemon, given, folder)
        load_daemon.table(["searches", "p50 / p99"], search_rows)
        load_daemon.save(given, {"scenario": "kernels", "machine": load_daemon.machine(daemon), "kernels": results, "searches": search_rows})


if __name__ == "__main__":
    main()
