"""Times PyTorch on the cases of `tensor_bench`: eager, and compiled where fusion matters. Then times CuPy on those that it has, if it is
installed. Needs PyTorch and a GPU.

    python3 baseline_tensor.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch.nn import functional

SAMPLES, RUNS = 9, 10


def measure(name: str, run: Callable[[], object], moved: int = 0, flops: float = 0.0) -> None:
    """Print the median time of a run, and its bandwidth or arithmetic rate."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        for _ in range(RUNS):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / RUNS)
    median = statistics.median(times)
    spread = (max(times) - min(times)) / median * 100
    rate = f"{flops / median / 1e12:.1f} TFLOP/s" if flops else f"{moved / median / 1e12:.2f} TB/s"
    print(f"{name:<44} {median * 1e3:9.4f} ms ±{spread:2.0f}%  {rate:>14}", flush=True)


def chain(x: torch.Tensor) -> torch.Tensor:
    """Ten elementwise operations one after the other."""
    return torch.relu(torch.tanh((x * 1.5 + 0.25).abs().sqrt() * 0.75 - 0.5) * 2.0 + 1.0)


def main() -> None:
    torch.manual_seed(0)
    count, rows, columns = 128 << 20, 16_384, 4096
    print(torch.__version__, torch.cuda.get_device_name())
    a, b = (torch.randn(count, device="cuda") for _ in range(2))
    measure("copy, 128M f32", lambda: b.copy_(a), 8 * count)
    measure("add, 128M f32", lambda: a + b, 12 * count)
    measure("add, 10M f32", lambda: a[:10_000_000] + b[:10_000_000], 120_000_000)
    measure("relu, 1M f32", lambda: torch.relu(a[:1_000_000]), 8_000_000)
    c, d = a.bfloat16(), b.bfloat16()
    measure("add, 128M bf16", lambda: c + d, 6 * count)
    measure("chain of ten, 128M f32", lambda: chain(a), 8 * count)
    compiled = torch.compile(chain)
    measure("chain of ten, 128M f32, compiled", lambda: compiled(a), 8 * count)
    measure("sum, 128M f32", lambda: a.sum(), 4 * count)
    del b, c, d
    x, w = torch.randn(rows, columns, device="cuda"), torch.randn(columns, device="cuda")
    size = 4 * rows * columns
    measure("gelu, 16384 x 4096 f32", lambda: functional.gelu(x), 2 * size)
    measure("softmax, 16384 x 4096 f32", lambda: functional.softmax(x, -1), 2 * size)
    measure("layer_norm, 16384 x 4096 f32", lambda: functional.layer_norm(x, (columns,), w, w), 2 * size)
    other = torch.randn_like(x)
    measure("layer_norm of a sum, 16384 x 4096 f32", lambda: functional.layer_norm(x + other, (columns,), w), 3 * size)
    fused = torch.compile(lambda p, q: functional.layer_norm(p + q, (columns,), w))
    measure("layer_norm of a sum, 16384 x 4096 f32, compiled", lambda: fused(x, other), 3 * size)
    del other
    measure("sum of rows, 16384 x 4096 f32", lambda: x.sum(-1), size)
    measure("sum of columns, 16384 x 4096 f32", lambda: x.sum(0), size)
    measure("argmax of rows, 16384 x 4096 f32", lambda: x.argmax(-1), size)
    measure("transpose, 16384 x 4096 f32", lambda: x.t().contiguous(), 2 * size)
    products = [(extent, torch.float32, "f32") for extent in (128, 512, 1024, 2048, 8192)] + [(8192, torch.bfloat16, "bf16")]
    for extent, dtype, name in products:
        m, n = (torch.randn(extent, extent, device="cuda", dtype=dtype) for _ in range(2))
        measure(f"matmul {extent}, {name}", lambda m=m, n=n: m @ n, flops=2.0 * extent**3)
    y, v, bias = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((8192, 768), (3072, 768), (3072,)))
    flops = 2.0 * 8192 * 768 * 3072
    measure("linear 768 -> 3072 + gelu, 8192 rows bf16", lambda: functional.gelu(functional.linear(y, v, bias)), flops=flops)
    del y, v, bias
    images, filters = torch.randn(32, 64, 128, 128, device="cuda"), torch.randn(128, 64, 3, 3, device="cuda")
    flops = 2.0 * 32 * 126 * 126 * 128 * 64 * 9
    for name, dtype in (("f32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)):
        torch.backends.cudnn.allow_tf32 = name == "tf32"
        i, f = images.to(dtype), filters.to(dtype)
        measure(f"conv2d 64 -> 128, 32 x 128 x 128, {name}", lambda i=i, f=f: functional.conv2d(i, f), flops=flops)
    size = 4 * images.numel()
    mean, variance = torch.randn(64, device="cuda"), torch.rand(64, device="cuda")
    measure("batch_norm, 32 x 64 x 128 x 128 f32", lambda: functional.batch_norm(images, mean, variance), 2 * size)
    measure("max_pool2d 2 x 2, 32 x 64 x 128 x 128 f32", lambda: functional.max_pool2d(images, 2), size * 5 // 4)
    measure("avg_pool2d 3 x 3, 32 x 64 x 128 x 128 f32", lambda: functional.avg_pool2d(images, 3, 1, 1), 2 * size)
    attention = functional.scaled_dot_product_attention
    for shape, causal in (((4, 8, 512, 64), False), ((4, 16, 4096, 128), False), ((64, 12, 512, 64), False), ((4, 16, 4096, 128), True)):
        q, k, u = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        flops = (2.0 if causal else 4.0) * q.numel() * shape[2]
        name = f"attention {' x '.join(map(str, shape))}, {'causal ' if causal else ''}bf16"
        measure(name, lambda q=q, k=k, u=u, causal=causal: attention(q, k, u, is_causal=causal), flops=flops)
    q, k, u = (torch.randn(8, 8, rows, 128, device="cuda", dtype=torch.bfloat16) for rows in (1, 32_768, 32_768))
    measure("attention of 1 query to 32768 keys, 8 x 8 x 128, bf16", lambda: attention(q, k, u), 4 * k.numel())
    q, k, u = (torch.randn(4, 8, 2048, 64, device="cuda") for _ in range(3))
    measure("attention 4 x 8 x 2048 x 64, f32", lambda: attention(q, k, u), flops=4.0 * q.numel() * 2048)
    time_cupy(count, rows, columns)


def time_cupy(count: int, rows: int, columns: int) -> None:
    """Time CuPy on the same cases."""
    try:
        import cupy
    except ImportError:
        return
    torch.cuda.empty_cache()
    print("CuPy", cupy.__version__)
    a, b = (cupy.random.standard_normal(count, dtype=cupy.float32) for _ in range(2))
    measure("copy, 128M f32", lambda: cupy.copyto(b, a), 8 * count)
    measure("add, 128M f32", lambda: a + b, 12 * count)
    measure("add, 10M f32", lambda: a[:10_000_000] + b[:10_000_000], 120_000_000)
    measure("relu, 1M f32", lambda: cupy.maximum(a[:1_000_000], 0), 8_000_000)
    # Without a name CuPy calls the kernel "<lambda>", which does not compile.
    fuse = cupy.fuse(kernel_name="chain")
    chained = fuse(lambda x: cupy.maximum(cupy.tanh(cupy.sqrt(cupy.absolute(x * 1.5 + 0.25)) * 0.75 - 0.5) * 2.0 + 1.0, 0))
    measure("chain of ten, 128M f32, fused", lambda: chained(a), 8 * count)
    measure("sum, 128M f32", lambda: a.sum(), 4 * count)
    x = a[: rows * columns].reshape(rows, columns)
    size = 4 * rows * columns
    measure("sum of rows, 16384 x 4096 f32", lambda: x.sum(-1), size)
    measure("sum of columns, 16384 x 4096 f32", lambda: x.sum(0), size)
    measure("argmax of rows, 16384 x 4096 f32", lambda: x.argmax(-1), size)
    measure("transpose, 16384 x 4096 f32", lambda: cupy.ascontiguousarray(x.T), 2 * size)
    for extent in (128, 512, 1024, 2048, 8192):
        m, n = (cupy.random.standard_normal((extent, extent), dtype=cupy.float32) for _ in range(2))
        measure(f"matmul {extent}, f32", lambda m=m, n=n: m @ n, flops=2.0 * extent**3)


if __name__ == "__main__":
    main()
