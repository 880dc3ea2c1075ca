"""Measures baselines on this GPU: torch's matmul + topk, and flash-kmeans if it is installed.

    python3 baseline_gpu.py [--quick] > baseline_gpu.jsonl

Prints one JSON line for each figure: median and quartiles in milliseconds, by CUDA events, with fresh random inputs on the
device.
"""

import argparse
import json
import statistics
import sys

import torch

DEVICE = torch.device("cuda")


def timed(run, repeats=30, warm=5):
    """The milliseconds of each run, by CUDA events."""
    for _ in range(warm):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in events:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]


def say(**row):
    times = row.pop("times")
    quartiles = statistics.quantiles(times, n=4)
    row |= {"median_ms": round(quartiles[1], 4), "q1_ms": round(quartiles[0], 4), "q3_ms": round(quartiles[2], 4)}
    print(json.dumps(row), flush=True)


def search(rows, dim, dtype, queries, k):
    """Cosine top-k of random unit rows in plain torch: matmul and topk, in query batches that fit into memory."""
    corpus = torch.nn.functional.normalize(torch.randn(rows, dim, device=DEVICE)).to(dtype)
    sets = [torch.nn.functional.normalize(torch.randn(queries, dim, device=DEVICE)).to(dtype) for _ in range(4)]
    turn = iter(range(1 << 30))

    def run():
        return torch.topk(sets[next(turn) % len(sets)] @ corpus.T, k)

    name = str(dtype).removeprefix("torch.")
    say(op="search", baseline=f"torch {name}", rows=rows, dim=dim, queries=queries, k=k, times=timed(run, 20 if queries > 256 else 40))


def kmeans(rows, dim, clusters, iterations):
    try:
        from flash_kmeans import batch_kmeans_Euclid
    except ImportError:
        print("flash-kmeans is not installed: no k-means baseline", file=sys.stderr)
        return
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(1, rows, dim, device=DEVICE, dtype=dtype)

        def run():
            return batch_kmeans_Euclid(x, n_clusters=clusters, max_iters=iterations, tol=0.0, verbose=False)

        try:
            times = timed(run, repeats=7, warm=2)
        except Exception as error:  # a peer that does not run is reported, and the others go on
            print(f"flash-kmeans {dtype}: {error}", file=sys.stderr)
            continue
        name = str(dtype).removeprefix("torch.")
        say(op="kmeans", baseline=f"flash-kmeans {name}", rows=rows, dim=dim, clusters=clusters, iterations=iterations, times=times)


def ceilings():
    """Ceilings of the machine: a large copy and a large bf16 GEMM."""
    source = torch.randn(1 << 30, device=DEVICE)
    target = torch.empty_like(source)
    times = timed(lambda: target.copy_(source), 10)
    gigabytes = 2 * source.numel() * 4 / 1e9
    print(json.dumps({"op": "ceiling", "what": "copy", "tb_per_s": round(gigabytes / statistics.median(times), 3)}))
    del source, target
    a, b = (torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    times = timed(lambda: a @ b, 10)
    print(json.dumps({"op": "ceiling", "what": "bf16 matmul", "tflop_per_s": round(2 * 8192**3 / statistics.median(times) / 1e9, 1)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    rows = 100_000 if parser.parse_args().quick else 1_000_000
    torch.backends.cuda.matmul.allow_tf32 = False
    properties = torch.cuda.get_device_properties(DEVICE)
    print(json.dumps({"op": "machine", "device": properties.name, "torch": torch.__version__}))
    ceilings()
    for dim in (768, 128):
        for dtype in (torch.float32, torch.bfloat16):
            for queries in (1, 16, 100, 1024):
                search(rows, dim, dtype, queries, 10)
                torch.cuda.empty_cache()
    for clusters in (256, 1024):
        kmeans(rows, 128, clusters, 20)


if __name__ == "__main__":
    main()
