"""Measures a chain of matrix products on one device and, data-parallel, on several.

    PYTHONPATH=client/python/src python3 data_parallel.py --bin FOLDER [--devices cuda:0,cuda:1]

Rows go through `relu(rows @ weights)` once for each of --layers, and their sum is returned. Weights and rows are resident, on every
device; with --sent the rows are part of each call instead, and of its time. The kinds of calls take turns. Prints the median of each,
its range, and how many times faster it is than one device.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import load_daemon
import numpy as np

from accelerd import Client, DataParallel, Tensor

WARM_UP = 3


class Chain:
    """The products, with their operands on all devices."""

    def __init__(self, client: Client, given: argparse.Namespace, devices: Sequence[str]) -> None:
        random = np.random.default_rng(1)
        shape = (given.columns, given.columns)
        scale = np.float32((2 / given.columns) ** 0.5)
        matrices = [random.standard_normal(shape, np.float32) * scale for _ in range(given.layers)]
        self.client, self.dtype, self.copies = client, given.dtype, []
        self.weights = [self._resident(matrix, devices) for matrix in matrices]
        rows = random.standard_normal((given.rows, given.columns), np.float32)
        self.rows = client.tensor(rows) if given.sent else self._resident(rows, devices)

    def _resident(self, array: np.ndarray, devices: Sequence[str]) -> Tensor:
        uploaded = self.client.upload(array, device=devices[0])
        tensor = uploaded.to(self.dtype).keep()
        uploaded.free()
        self.copies += [self.client.copy(tensor, device) for device in devices[1:]]
        return tensor

    def run(self, devices: Sequence[str] | None) -> float:
        """Compute the sum, on parts of the rows if devices are given."""
        values = self.rows.to(self.dtype)
        for matrix in self.weights:
            values = self.client.xp.maximum(values @ matrix, 0)
        total = values.to("f32").sum()
        parallel = None if devices is None else DataParallel([self.rows], devices, sum=[total])
        return float(self.client.execute(total, data_parallel=parallel)[0])


def measured(kinds: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each call. All kinds compute one sum, but for rounding."""
    sums = {name: [call() for _ in range(WARM_UP)][-1] for name, call in kinds.items()}
    if not np.allclose(list(sums.values()), next(iter(sums.values())), rtol=1e-2):
        raise SystemExit(f"expected equal sums, got {sums}")
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, call in kinds.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--devices", default="cuda:0,cuda:1", help="the first one is measured alone as well")
    parser.add_argument("--rows", type=int, default=2 * 8192)
    parser.add_argument("--columns", type=int, default=8192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--sent", action="store_true", help="send the rows with each call, as f32")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    devices = given.devices.split(",")
    with ExitStack() as stack:
        daemon = stack.enter_context(load_daemon.daemon(given))
        address = daemon.command[daemon.command.index("--server") + 1].removeprefix("http://")
        client = stack.enter_context(Client(address, timeout=600, max_message_bytes=(1 << 31) - 1))
        chain = Chain(client, given, list(dict.fromkeys(devices)))
        kinds: dict[str, Callable[[], float]] = {
            devices[0]: lambda: chain.run(None),
            f"data-parallel on {devices[0]}": lambda: chain.run(devices[:1]),
            f"data-parallel on {', '.join(devices)}": lambda: chain.run(devices),
        }
        times = measured(kinds, given.rounds)
        machine = load_daemon.machine(daemon)
        load_daemon.save(given, {"scenario": "data parallel", "machine": machine, "seconds": times})
    print(f"{given.layers} products of [{given.rows}, {given.columns}] and [{given.columns}, {given.columns}], {given.dtype}, "
          f"{given.rounds} calls each, on {machine['devices'][:len(set(devices))]}")
    first = statistics.median(times[devices[0]])
    rows = []
    for name, all_times in times.items():
        median, shown = statistics.median(all_times), [load_daemon.ms(1e3 * one) for one in (min(all_times), max(all_times))]
        rows.append([name, load_daemon.ms(1e3 * median), " to ".join(shown), f"{first / median:.2f}"])
    load_daemon.table(["call", "median", "range", "speed"], rows)


if __name__ == "__main__":
    main()
