"""Runs kernels of one of Warp's test modules twice on equal random arguments: by Warp on the CPU, and as translated to WebAssembly.

    python3 warp_execution.py CASES RESULTS [--skip N] [--import-only]

warp_coverage.py starts this for each module, since Warp may crash. CASES is a pickled `Work`. RESULTS gets a line of JSON when
a case begins, and one with its outcome.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import json
import os
import pickle
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
import wasmtime
from accelerd import Client, TranslatedKernel

from warp_kernels import import_tests, is_refused, load

# Extents by the number of dimensions of the grid and the arrays.
EXTENTS = {1: 10_000, 2: 100, 3: 22, 4: 10}
SMALL_EXTENTS = {1: 64, 2: 12, 3: 6, 4: 4}
# Iterations of a thread, and seconds of all threads.
LOOP_BUDGET = 1 << 20
RUN_SECONDS = 10.0
# Of kernels of one text, such as one for each type, how many are tried.
VARIANTS = 16
ULP, ABSOLUTE, RELATIVE_OF_ATOMICS = 16, 1e-6, 1e-4
FAULTS = {1: "OutOfBounds", 2: "DivisionByZero", 3: "Assertion", 4: "InvalidValue", 5: "BudgetExhausted"}
# The first bytes of memory belong to the module.
RESERVED, PAGE, ALIGNMENT = 64, 1 << 16, 64
DTYPES = {
    "f16": "<f2", "bf16": "<u2", "f32": "<f4", "f64": "<f8", "bool": "u1",
    "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
}  # fmt: skip
FLOATS = ("f16", "bf16", "f32", "f64")


@dataclass
class Case:
    """A kernel that was translated."""

    name: str
    #: Line of its first decorator.
    line: int
    grid_dims: int
    params: list[Param]
    #: Whether it has no elementary function, which Warp rounds otherwise.
    exact: bool
    has_atomics: bool
    wasm: bytes


@dataclass
class Param:
    """A parameter of a kernel."""

    name: str
    #: Dimensions of an array; 0 for a value.
    dims: int
    size: int
    #: Name, type and offset of each component.
    components: list[tuple[str, str, int]]

    @property
    def alignment(self) -> int:
        return 4 if self.dims else max((np.dtype(DTYPES[dtype]).itemsize for _, dtype, _ in self.components), default=1)

    @property
    def structure(self) -> np.dtype:
        names = [f"{nth}" for nth in range(len(self.components))]
        formats = [DTYPES[dtype] for _, dtype, _ in self.components]
        offsets = [offset for *_, offset in self.components]
        return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size})


@dataclass
class Work:
    """What a process runs."""

    #: Folder of Warp's tests, and the name of the module within `warp.tests`.
    folder: Path
    module: str
    #: The daemon.
    address: str
    cases: list[Case]
    #: Name, line and use of atomics of the kernels that the module's text does not suffice for.
    others: list[tuple[str, int, bool]]


@dataclass(frozen=True)
class Attempt:
    """How arguments are chosen. Another attempt follows one that faults."""

    floats: tuple[float, float]
    #: The value of integers in arrays; None for valid indices.
    integer: int | None = None
    extents: dict[int, int] = field(default_factory=lambda: EXTENTS)
    #: Threads along a dimension are the extent divided by this.
    divisor: int = 1


ATTEMPTS = [
    Attempt((-2.0, 2.0)),
    Attempt((0.125, 1.0)),
    Attempt((1.0, 3.0), integer=1),
    Attempt((-2.0, 2.0), extents=SMALL_EXTENTS),
    Attempt((0.125, 1.0), extents=SMALL_EXTENTS, divisor=2),
    Attempt((0.125, 1.0), integer=1, extents=SMALL_EXTENTS, divisor=4),
]


class Refused(Exception):
    """A kernel cannot be launched in this way."""


class TooSlow(Refused):
    """The translation exceeds the time limit."""


@dataclass
class Launch:
    """Arguments of a kernel: the bytes of each parameter."""

    case: Case
    grid: list[int]
    extent: int
    data: list[np.ndarray]

    @classmethod
    def random(cls, case: Case, attempt: Attempt, seed: int) -> Launch:
        dims = max([case.grid_dims, *(param.dims for param in case.params)])
        extent = attempt.extents[dims]
        rng = np.random.default_rng(seed)
        data = []
        for param in case.params:
            count = extent**param.dims
            data.append(random_elements(param, count, extent, attempt, rng))
        return cls(case, [max(extent // attempt.divisor, 1)] * case.grid_dims, extent, data)


def random_elements(param: Param, count: int, extent: int, attempt: Attempt, rng: np.random.Generator) -> np.ndarray:
    elements = np.zeros(count, param.structure)
    for nth, (_, dtype, _) in enumerate(param.components):
        if dtype in FLOATS:
            values = rng.uniform(*attempt.floats, count)
            column: Any = to_bf16(values) if dtype == "bf16" else values
        elif dtype == "bool":
            column = rng.integers(0, 2, count)
        else:
            bound = min(extent, np.iinfo(DTYPES[dtype]).max)
            below = rng.integers(0, bound, count)
            column = bound if param.dims == 0 else below if attempt.integer is None else attempt.integer
        elements[f"{nth}"] = column
    return elements


def to_bf16(values: np.ndarray) -> np.ndarray:
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype("<u4") << 16).view("<f4")


class Wasm:
    """Runs modules of WebAssembly, with the elementary functions of the C library."""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.epoch_interruption = True
        self.engine = wasmtime.Engine(config)
        self.library = ctypes.CDLL(ctypes.util.find_library("m"))

    def run(self, launch: Launch) -> tuple[str | None, list[np.ndarray]]:
        """Return the name of the fault, if there is one, and the parameters afterwards."""
        store = wasmtime.Store(self.engine)
        store.set_epoch_deadline(1)
        module = wasmtime.Module(self.engine, launch.case.wasm)
        instance = wasmtime.Instance(store, module, [self.function(store, one) for one in module.imports])
        exports = instance.exports(store)
        memory, run = exports["memory"], exports["run"]
        block, places, end = layout(launch)
        memory.grow(store, end // PAGE + 1)
        memory.write(store, block, RESERVED)
        for data, place in zip(launch.data, places, strict=True):
            if place is not None:
                memory.write(store, data.tobytes(), place)
        grid = RESERVED + round_up(len(block), ALIGNMENT)
        memory.write(store, np.array(launch.grid, "<u4").tobytes(), grid)
        timer = threading.Timer(RUN_SECONDS, self.engine.increment_epoch)
        timer.start()
        try:
            faulted = run(store, RESERVED, grid, 0, int(np.prod(launch.grid)), LOOP_BUDGET)
        except wasmtime.Trap:
            raise TooSlow("the translation exceeds the time limit") from None
        finally:
            timer.cancel()
        if faulted:
            return FAULTS[int.from_bytes(memory.read(store, 16, 20), "little")], []
        after = []
        for param, data, place in zip(launch.case.params, launch.data, places, strict=True):
            written = data if place is None else memory.read(store, place, place + data.nbytes)
            after.append(data if place is None else np.frombuffer(bytes(written), param.structure))
        return None, after

    def function(self, store: wasmtime.Store, imported: wasmtime.ImportType) -> wasmtime.Func:
        operands = len(imported.type.params)
        function = getattr(self.library, imported.name)
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * operands
        if imported.name == "acosh":
            function = lambda x, acosh=function: acosh(x) if x >= 1 else float("nan")
        return wasmtime.Func(store, imported.type, function)


def layout(launch: Launch) -> tuple[bytes, list[int | None], int]:
    """Return the argument block, the address of the elements of each array, and the end of memory."""
    offsets, end = [], 0
    for param in launch.case.params:
        start = round_up(end, param.alignment)
        offsets.append(start)
        end = start + (36 if param.dims else param.size)
    block = bytearray(round_up(end, 8))
    places: list[int | None] = []
    free = RESERVED + round_up(len(block), ALIGNMENT) + ALIGNMENT
    for param, data, offset in zip(launch.case.params, launch.data, offsets, strict=True):
        if not param.dims:
            places.append(None)
            block[offset : offset + param.size] = data.tobytes()
            continue
        places.append(free)
        strides = [param.size * launch.extent ** (param.dims - 1 - axis) for axis in range(param.dims)]
        shape = [launch.extent] * param.dims
        filling = [0] * (4 - param.dims)
        block[offset : offset + 36] = np.array([free, *shape, *filling, *strides, *filling], "<i4").tobytes()
        free = round_up(free + data.nbytes, ALIGNMENT)
    return bytes(block), places, free


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


class Arguments:
    """Warp's arguments of a launch, with arrays of their own."""

    def __init__(self, kernel: wp.Kernel, launch: Launch) -> None:
        self.launch = launch
        self.at = {param.name: nth for nth, param in enumerate(launch.case.params)}
        self.arrays: dict[str, wp.array] = {}
        self.values = [self.value(argument.label, argument.type) for argument in kernel.adj.args]
        if len(self.arrays) != sum(param.dims > 0 for param in launch.case.params):
            raise Refused("Warp's parameters are others than the translation's")

    def value(self, name: str, type_: Any) -> Any:
        if name not in self.at:
            if not isinstance(type_, wp._src.codegen.Struct):
                raise Refused("Warp's parameters are others than the translation's")
            struct = type_()
            for key, variable in type_.vars.items():
                setattr(struct, key, self.value(f"{name}_{key}", variable.type))
            return struct
        param, data = self.launch.case.params[self.at[name]], self.launch.data[self.at[name]]
        element = type_.dtype if param.dims else type_
        is_indexed = param.dims > 0 and wp._src.types.matches_array_class(type_, wp.indexedarray)
        is_array = is_indexed or wp._src.types.matches_array_class(type_, wp.array)
        if param.dims and not (is_array and type_.ndim == param.dims):
            raise Refused(f"a parameter is of type {type(type_).__name__}")
        size = wp._src.types.type_size_in_bytes(element)
        if size != param.size:
            raise Refused(f"an element of {name} has {size} bytes for Warp, {param.size} for the translation")
        if not param.dims:
            return self.scalar(param, element, data)
        array = self.array(param, element, data)
        if not is_indexed:
            return array
        indices = [self.at[f"{name}_indices{axis}"] for axis in range(param.dims)]
        params, elements = self.launch.case.params, self.launch.data
        return wp.indexedarray(array, [self.array(params[at], wp.int32, elements[at]) for at in indices])

    def array(self, param: Param, element: Any, data: np.ndarray) -> wp.array:
        array = wp.zeros([self.launch.extent] * param.dims, dtype=element, device="cpu")
        ctypes.memmove(array.ptr, data.tobytes(), data.nbytes)
        self.arrays[param.name] = array
        return array

    def scalar(self, param: Param, element: Any, data: np.ndarray) -> Any:
        if isinstance(element, wp._src.codegen.Struct):
            struct = element()
            ctypes.memmove(ctypes.addressof(struct._ctype), data.tobytes(), data.nbytes)
            return struct
        if issubclass(element, ctypes.Array):
            return element.from_buffer_copy(data.tobytes())
        dtype = param.components[0][1]
        column = data["0"]
        number = (from_bf16(column) if dtype == "bf16" else column)[0].item()
        return bool(number) if dtype == "bool" else number

    def after(self) -> dict[str, np.ndarray]:
        structures = {param.name: param.structure for param in self.launch.case.params}
        return {
            name: np.frombuffer(ctypes.string_at(array.ptr, array.capacity), structures[name])
            for name, array in self.arrays.items()
        }


@dataclass
class Difference:
    """How results differ: nothing, or by the first element beyond the tolerance."""

    level: str = "same bits"
    first: str = ""
    changed: bool = False


LEVELS = ["same bits", "within tolerance", "within tolerance of atomics", "disagrees"]


def compare(launch: Launch, ours: list[np.ndarray], theirs: dict[str, np.ndarray]) -> Difference:
    found = Difference()
    for param, before, mine in zip(launch.case.params, launch.data, ours, strict=True):
        if param.name not in theirs:
            continue
        other = theirs[param.name]
        for nth, (component, dtype, _) in enumerate(param.components):
            one, two = mine[f"{nth}"], other[f"{nth}"]
            found.changed |= bool((two != before[f"{nth}"]).any())
            level, at = compare_column(one, two, dtype, launch.case)
            if LEVELS.index(level) > LEVELS.index(found.level):
                found.level = level
                where = f"{param.name}[{at}]{'.' if component else ''}{component}"
                shown = [from_bf16(column)[at] if dtype == "bf16" else column[at] for column in (one, two)]
                found.first = f"{where}: {shown[0]!r} translated, {shown[1]!r} by Warp"
                found.first += f", was {before[f'{nth}'][at]!r}"
    return found


def compare_column(one: np.ndarray, two: np.ndarray, dtype: str, case: Case) -> tuple[str, int]:
    size = one.dtype.itemsize
    different = np.ascontiguousarray(one).view(f"<u{size}") != np.ascontiguousarray(two).view(f"<u{size}")
    if dtype == "bf16":
        one, two = from_bf16(one), from_bf16(two)
    if dtype in FLOATS:
        different &= ~(np.isnan(one) & np.isnan(two))
    if not different.any():
        return "same bits", 0
    at = int(np.argmax(different))
    if dtype not in FLOATS:
        return "disagrees", at
    wide, reference = one.astype("f8"), two.astype("f8")
    with np.errstate(all="ignore"):
        distance = np.abs(wide - reference)
        spacing = np.spacing(np.abs(two)).astype("f8") * (1 << 16 if dtype == "bf16" else 1)
        finite = np.isfinite(wide) & np.isfinite(reference)
        near = finite & ((distance <= ULP * spacing) | (distance <= ABSOLUTE))
        near_sum = finite & (distance <= RELATIVE_OF_ATOMICS * np.maximum(np.abs(reference), 1))
    if not case.exact and not (different & ~near).any():
        return "within tolerance", at
    if case.has_atomics and not (different & ~near & ~near_sum).any():
        return "within tolerance of atomics", at
    return "disagrees", int(np.argmax(different & ~near)) if not case.exact else at


def translated(client: Client, kernel: wp.Kernel, has_atomics: bool) -> Case | dict[str, Any]:
    """Return the translation of a kernel with what it captures, or why there is none."""
    line = kernel.func.__code__.co_firstlineno
    try:
        found = client.translate(kernel, dialect="warp", targets=["wasm", "cuda"])
    except Exception as error:
        return {"code": "client", "message": str(error)[:200]}
    for one in found.kernels:
        if one.name == kernel.func.__name__:
            return case_of(one, line, has_atomics)
    wrong = found.diagnostics[0]
    return {"code": wrong.code, "message": wrong.message}


def case_of(kernel: TranslatedKernel, line: int, has_atomics: bool) -> Case:
    params = [
        Param(
            one.name,
            one.dims,
            one.element_size_bytes,
            [(part.name, part.dtype, part.offset_bytes) for part in one.components],
        )
        for one in kernel.params
    ]
    # A kernel without an example has no program, and no metadata.
    metadata = kernel.files.get("metadata.json")
    exact = metadata is not None and json.loads(metadata)["bit_exact"]
    return Case(kernel.name, line, kernel.grid_dims, params, exact, has_atomics, kernel.wasm or b"")


def outcome_of(case: Case, kernel: wp.Kernel | str | None, wasm: Wasm, seed: int) -> dict[str, Any]:
    """Return what the two runs of a case show."""
    if kernel is None:
        return {"outcome": "not launched", "reason": "no test that runs on the CPU makes the kernel"}
    if isinstance(kernel, str):
        return {"outcome": "not launched", "reason": f"Warp: {kernel[:200]}"}
    fault, slow = None, None
    for attempt in ATTEMPTS:
        if slow is not None and attempt.extents is EXTENTS:
            continue
        launch = Launch.random(case, attempt, seed)
        try:
            arguments = Arguments(kernel, launch)
            again, ours = wasm.run(launch)
        except TooSlow as refused:
            slow = refused
            continue
        except Refused as refused:
            return {"outcome": "not launched", "reason": str(refused)}
        if again is not None:
            fault = fault or again
            continue
        wp.launch(kernel, dim=launch.grid, inputs=arguments.values, device="cpu", block_dim=1)
        found = compare(launch, ours, arguments.after())
        return {
            "outcome": "disagree" if found.level == "disagrees" else "agree",
            "level": found.level,
            "changed": found.changed,
            "threads": int(np.prod(launch.grid)),
            "first": found.first,
        }
    if fault is None:
        return {"outcome": "not launched", "reason": str(slow)}
    return {"outcome": "fault", "reason": fault}


def work_lines(work: Work, skip: int, import_only: bool) -> Iterator[dict[str, Any]]:
    try:
        known = import_tests(work, import_only)
    except BaseException as error:
        yield {"import": f"{type(error).__name__}: {error}"[:300]}
        return
    cases: list[tuple[Case | dict[str, Any], wp.Kernel | None]] = []
    for case in work.cases:
        cases.append((case, next(iter(known.get((case.name, case.line), [])), None)))
    with Client(work.address) as client:
        for name, line, has_atomics in work.others:
            cases.append(first_translated(client, known.get((name, line), []), has_atomics))
    yield from run_cases(work, cases, skip)


def first_translated(
    client: Client, kernels: list[wp.Kernel], has_atomics: bool
) -> tuple[Case | dict[str, Any], wp.Kernel | None]:
    """Return the first of kernels of one text that is translated."""
    found: Case | dict[str, Any] = {}
    for kernel in kernels[:VARIANTS]:
        found = translated(client, kernel, has_atomics)
        if isinstance(found, Case):
            return found, kernel
    refused = [is_refused(kernel, f"refused_{nth}") for nth, kernel in enumerate(kernels[:VARIANTS])]
    return {**found, "refused": bool(refused) and all(refused)}, None


def run_cases(
    work: Work, cases: list[tuple[Case | dict[str, Any], wp.Kernel | None]], skip: int
) -> Iterator[dict[str, Any]]:
    present = [kernel for _, kernel in cases[skip:] if kernel is not None]
    loaded = iter(load(present, f"coverage_{re.sub(r'[^a-z0-9_]', '_', work.module)}_{skip}"))
    wasm = Wasm()
    for nth, (case, kernel) in enumerate(cases[skip:], skip):
        if isinstance(case, dict):
            yield {"case": nth, "lowered": False, **case}
            continue
        ready = None if kernel is None else next(loaded)
        yield {"begin": nth}
        try:
            outcome = outcome_of(case, ready, wasm, seed=case.line)
        except Exception as error:
            traceback.print_exc()
            outcome = {"outcome": "not launched", "reason": f"{type(error).__name__}: {error}"[:200]}
        yield {"case": nth, "lowered": True, **outcome}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--import-only", action="store_true", help="do not run tests for the kernels that they make")
    given = parser.parse_args()
    work = pickle.loads(given.cases.read_bytes())
    wp.config.quiet = True
    wp.config.kernel_cache_dir = str(given.cases.parent / "warp")
    wp.init()
    with open(given.results, "a") as results:
        for line in work_lines(work, given.skip, given.import_only):
            results.write(json.dumps(line) + "\n")
            results.flush()
    # Modules of tests may leave threads behind.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    # The cases were pickled by a program that imports this file by its name.
    sys.modules["warp_execution"] = sys.modules["__main__"]
    main()
