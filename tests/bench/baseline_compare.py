"""Times NumPy on the cases of `compare_bench`: the verdict alone, and the report of numpy.testing.

python3 baseline_compare.py
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable

import numpy as np

SAMPLES = 5
PAIRS = 1 << 25


def measure(name: str, run: Callable[[], object]) -> None:
    """Print the median time of a run, and the pairs it compares in a second."""
    run()
    times = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(f"{name:<52} {median * 1e3:9.1f} ms {PAIRS / median / 1e9:6.3f} G pairs/s", flush=True)


def report(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare as tests do, where a mismatch is described."""
    with contextlib.suppress(AssertionError):
        np.testing.assert_allclose(actual, expected, rtol=1.3e-6, atol=1e-5)


def main() -> None:
    random = np.random.default_rng(1)
    print(f"NumPy {np.__version__}, {PAIRS} pairs")
    expected = random.uniform(1, 2, PAIRS).astype(np.float32)
    near = (expected.view(np.uint32) + random.integers(1, 6, PAIRS, np.uint32)).view(np.float32)
    far = near.copy()
    far[::10_000] *= 3
    for name, actual in (("equal", expected.copy()), ("all within tolerance", near), ("one in 10,000 mismatches", far)):
        measure(f"f32, {name}: array_equal", lambda actual=actual: np.array_equal(actual, expected))
        measure(
            f"f32, {name}: isclose", lambda actual=actual: np.isclose(actual, expected, rtol=1.3e-6, atol=1e-5).all()
        )
        measure(f"f32, {name}: testing", lambda actual=actual: report(actual, expected))
    wide, near_wide = expected.astype(np.float64), near.astype(np.float64)
    measure("f64, all within tolerance: isclose", lambda: np.isclose(near_wide, wide, rtol=1e-6, atol=1e-5).all())


if __name__ == "__main__":
    main()
