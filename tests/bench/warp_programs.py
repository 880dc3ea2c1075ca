"""Repeats launches of programs that use NVIDIA Warp by a daemon, on the arguments that they have there, and compares the results.

    pip install warp-lang==1.19.* mujoco-warp==4.0.* newton==1.8.* usd-core
    python3 warp_programs.py capture FOLDER [--seconds N] [PROGRAM ...]
    python3 warp_programs.py compare FOLDER (--bin FOLDER | --server ADDRESS) [--json FILE]

`capture` runs models of MuJoCo Warp, and the examples of Newton and Warp, for two steps on the CPU, and writes the first launch of each
kernel that changes an array. PROGRAM is a part of a name; left out, all run, but for those that FOLDER has. `compare` repeats the
launches; a wrong result makes the exit status 1. A kernel is a file, a line and a name. docs/benchmarks/kernels.md has results.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import importlib
import json
import os
import pickle
import re
import signal
import time
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from accelerd import Client, KernelFault, geometry
from accelerd._kernel_program import Program
from accelerd._kernel_source import KernelModule
from accelerd._launch import KernelInfo, Launch, compile_kernel
from accelerd._proto import kernel_pb2 as pb
from warp_coverage import daemon

PACKAGES = Path(wp.__file__).parents[1]
MODELS = (
    "humanoid/humanoid.xml", "collision.xml", "constraints.xml", "pendula.xml", "flex/floppy.xml", "ray.xml", "collision_sdf/nutbolt.xml",
    "actuation/muscle.xml", "tendon/wrap.xml", "primitives.xml", "hfield/hfield.xml", "convex_collision/box100.xml",
)  # fmt: skip
# Examples that need a GPU, a window, several machines, other packages, or do not end.
SKIPPED = (
    "render_opengl", "spin_lock", "torch", "cupy", "jax", "mgpu", "replay_viewer", "custom_allocator", "alloc_tracker", "work_queue",
    "burgers",
)  # fmt: skip
# Steps of a program.
STEPS = 2
# Launches of one kernel that are tried until one changes an array, and the most bytes of its arrays.
MAX_TRIES, MAX_BYTES = 8, 40 << 20
# Seconds of a compilation or a launch by the daemon.
TIMEOUT = 120.0
# Arguments are compared as in warp_execution.py; sums of many terms in another order, and functions of rounded results, differ by more.
ULP, ABSOLUTE, RELATIVE, RELATIVE_OF_ATOMICS = 16, 1e-6, 1e-5, 1e-4
# Those that no kernel could be told from before come first.
OUTCOMES = ("same bits", "within tolerance", "wrong", "fault", "refused", "not launched")
QUERIES = re.compile(rb"mesh_|bvh_|hash_grid_|volume_")


class Captured(NamedTuple):
    """A launch by Warp."""

    #: File, line and name of the kernel.
    key: tuple[str, int, str]
    #: The kernel as the client sends it, or why it cannot.
    program: bytes | str
    grid: list[int]
    #: Arguments by parameter, as they were, and the arrays after it.
    before: dict[str, Any]
    after: dict[str, np.ndarray]
    #: Arrays for queries of geometry.
    tables: dict[str, Any]
    #: Address, shape, strides and bytes of an element of the arrays.
    places: dict[str, tuple[int, tuple[int, ...], tuple[int, ...], int]]
    is_tiled: bool
    has_atomics: bool


class Stopped(BaseException):
    """The time of a program is over."""


def programs() -> Iterator[tuple[str, str]]:
    """Yield kinds and names: one example of each folder in turn, so that an early end has seen every folder."""
    yield from (("mujoco_warp", model) for model in MODELS)
    folders: dict[str, list[tuple[str, str]]] = {}
    for kind in ("newton", "warp"):
        for path in sorted((PACKAGES / kind / "examples").rglob("example_*.py")):
            if not any(word in path.name for word in SKIPPED) and not {"benchmarks", "distributed"} & set(path.parts):
                name = ".".join(path.relative_to(PACKAGES).with_suffix("").parts)
                folders.setdefault(str(path.parent), []).append((kind, name))
    while folders:
        for folder in list(folders):
            yield folders[folder].pop(0)
            if not folders[folder]:
                del folders[folder]


class Recorder:
    """Takes the place of Warp's launches, and writes those of kernels that it has not seen."""

    def __init__(self, out: Any, seen: set[tuple[str, int, str]]) -> None:
        self.out, self.seen = out, seen
        self.tries: collections.Counter[tuple[str, int, str]] = collections.Counter()
        self.objects: Any = weakref.WeakSet()
        self.places: dict[str, tuple[int, tuple[int, ...], tuple[int, ...], int]] = {}
        self.is_tiled = False
        context = wp._src.context
        self.launch_by_warp, launch_tiled = context.launch, context.launch_tiled

        def tiled(*arguments: Any, **named: Any) -> Any:
            self.is_tiled = True
            return launch_tiled(*arguments, **named)

        context.launch = wp.launch = self.launch
        context.launch_tiled = wp.launch_tiled = tiled
        for cls in (wp.Mesh, wp.Bvh, wp.HashGrid, wp.Volume):
            self.note_objects(cls)

    def note_objects(self, cls: Any) -> None:
        made = cls.__init__

        def init(this: Any, *arguments: Any, **named: Any) -> None:
            # Volumes that are allocated get their handle later.
            self.objects.add(this)
            made(this, *arguments, **named)

        cls.__init__ = init

    def launch(self, kernel: Any, dim: Any = None, inputs: Any = (), outputs: Any = (), *rest: Any, **named: Any) -> Any:
        def run() -> Any:
            return self.launch_by_warp(kernel, dim, inputs, outputs, *rest, **named)

        is_tiled, self.is_tiled = self.is_tiled, False
        is_plain = hasattr(kernel, "adj") and not named.get("adjoint") and not named.get("record_cmd") and len(rest) < 5
        if not is_plain or dim is None:
            return run()
        code = kernel.func.__code__
        key = (os.path.realpath(code.co_filename), code.co_firstlineno, code.co_name)
        values = [*inputs, *outputs]
        size = sum(getattr(value, "capacity", 0) or 0 for value in values)
        if key in self.seen or self.tries[key] >= MAX_TRIES or not np.prod(dim) or size > MAX_BYTES:
            return run()
        self.tries[key] += 1
        one = kernel.add_overload(kernel.infer_argument_types(values)) if kernel.is_generic else kernel
        before = self.arguments(one, values)
        program, tables = self.program(one, before)
        places = dict(self.places)
        result = run()
        after = {name: value for name, value in self.arguments(one, values).items() if isinstance(value, np.ndarray)}
        if any(before[name].tobytes() != array.tobytes() for name, array in after.items()):
            self.seen.add(key)
            grid = [int(extent) for extent in (dim if hasattr(dim, "__len__") else [dim])]
            has_atomics = "atomic_" in one.adj.source or "+=" in one.adj.source
            pickle.dump(tuple(Captured(key, program, grid, before, after, tables, places, is_tiled, has_atomics)), self.out)
            self.out.flush()
        return result

    def program(self, kernel: Any, before: dict[str, Any]) -> tuple[bytes | str, dict[str, Any]]:
        """Return the kernel as the client sends it, and the tables of the objects among the arguments."""
        try:
            program = Program.of(kernel, None, "warp", {}).message.SerializeToString()
        except Exception as error:
            return f"{type(error).__name__}: {error}", {}
        used = {handle for value in before.values() for handle in handles(np.asarray(value))}
        objects = [one for one in self.objects if getattr(one, "id", None) and int(one.id) in used]
        try:
            return program, dict(geometry(*objects)) if objects and QUERIES.search(program) else {}
        except Exception as error:
            return f"geometry: {type(error).__name__}: {error}", {}

    def arguments(self, kernel: Any, values: list[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.places.clear()
        for argument, value in zip(kernel.adj.args, values, strict=False):
            self.add(found, argument.label, argument.type, value)
        return found

    def add(self, found: dict[str, Any], name: str, type_: Any, value: Any) -> None:
        """Add an argument by the names of the translation's parameters."""
        types = wp._src.types
        if isinstance(type_, wp._src.codegen.Struct):
            if has_arrays(type_):
                for key, variable in type_.vars.items():
                    self.add(found, f"{name}_{key}", variable.type, getattr(value, key))
            else:
                found[name] = np.frombuffer(bytes(value._ctype), type_.numpy_dtype())[0]
        elif types.is_array(type_):
            self.add_array(found, name, type_, value)
        elif isinstance(value, (wp.Mesh, wp.Bvh, wp.HashGrid, wp.Volume)):
            found[name] = value.id
        elif isinstance(value, ctypes.Array) or hasattr(value, "_wp_scalar_type_"):
            found[name] = np.array(value).reshape(value._shape_)
        else:
            found[name] = getattr(value, "value", value)

    def add_array(self, found: dict[str, Any], name: str, type_: Any, value: Any) -> None:
        if value is None:
            scalar = getattr(type_.dtype, "_wp_scalar_type_", type_.dtype)
            shape = [0] * type_.ndim + list(getattr(type_.dtype, "_shape_", ()))
            found[name] = np.zeros(shape, wp._src.types.warp_type_to_np_dtype.get(scalar, np.float32))
            return
        array = value.data if isinstance(value, wp.indexedarray) else value
        found[name] = np.array(array.numpy() if isinstance(array, wp.array) else array)
        if isinstance(array, wp.array) and array.ptr:
            size = wp._src.types.type_size_in_bytes(array.dtype)
            self.places[name] = int(array.ptr), tuple(array.shape), tuple(array.strides), size
        if isinstance(value, wp.indexedarray):
            for axis, indices in enumerate(value.indices[: value.ndim]):
                every = np.arange(array.shape[axis], dtype=np.int32)
                found[f"{name}_indices{axis}"] = every if indices is None else np.array(indices.numpy())


def handles(value: np.ndarray) -> Iterator[int]:
    """Yield numbers that may be handles of objects."""
    if value.dtype.fields is not None:
        for name in value.dtype.names or ():
            yield from handles(value[name])
    elif value.dtype.kind in "iu" and value.dtype.itemsize == 8:
        yield from value.reshape(-1)[:10_000].tolist()


def has_arrays(struct: Any) -> bool:
    fields = [variable.type for variable in struct.vars.values()]
    nested = any(has_arrays(one) for one in fields if isinstance(one, wp._src.codegen.Struct))
    return nested or not fields or any(wp._src.types.is_array(one) for one in fields)


def run(kind: str, name: str) -> None:
    """Run a program without a window."""
    if kind == "mujoco_warp":
        import mujoco
        import mujoco_warp

        model = mujoco.MjModel.from_xml_path(str(PACKAGES / "mujoco_warp" / "test_data" / name))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        on_device, state = mujoco_warp.put_model(model), mujoco_warp.put_data(model, data, nworld=2)
        for _ in range(STEPS):
            mujoco_warp.step(on_device, state)
        return
    example = started(kind, importlib.import_module(name).Example)
    for _ in range(STEPS):
        example.step()
    example.render()


def started(kind: str, cls: Any) -> Any:
    if kind == "warp":
        for options in ({"stage_path": None}, {"quiet": True}):
            with contextlib.suppress(TypeError):
                return cls(**options)
        return cls()
    import newton.examples
    import newton.viewer

    parser = cls.create_parser() if hasattr(cls, "create_parser") else newton.examples.create_parser()
    try:
        return cls(newton.viewer.ViewerNull(), parser.parse_known_args([])[0])
    except TypeError:
        return cls(newton.viewer.ViewerNull())


def capture(folder: Path, seconds: float, selected: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MPLBACKEND"] = "Agg"
    # Contraction to fused multiply-adds is a documented difference.
    made = wp._src.context.Module.__init__

    def init(module: Any, *arguments: Any, **named: Any) -> None:
        made(module, *arguments, **named)
        module.options.update(fuse_fp=False, enable_backward=False)

    wp._src.context.Module.__init__ = init
    wp.config.optimization_level = 1
    import warp.fem

    with contextlib.suppress(ImportError):
        import mujoco_warp
        import newton.examples
    seen = {one.key for path in folder.glob("*.pkl") for one in captured(path)}
    begin = time.monotonic()
    for nth, (kind, name) in enumerate(programs()):
        if selected and not any(word in name for word in selected):
            continue
        path = folder / f"{nth:03}.pkl"
        if path.exists():
            continue
        # A program may crash.
        if (process := os.fork()) == 0:
            try:
                capture_one(kind, name, path, seconds, seen)
            finally:
                os._exit(0)
        # What does not end is in code of Warp, where no signal is handled.
        until = time.monotonic() + 1.5 * seconds
        while os.waitpid(process, os.WNOHANG) == (0, 0):
            time.sleep(0.1)
            if time.monotonic() > until:
                os.kill(process, signal.SIGKILL)
        known = len(seen)
        seen |= {one.key for one in captured(path)}
        print(f"{time.monotonic() - begin:.0f} s, {name}: {len(seen) - known} of {len(seen)} kernels", flush=True)


def capture_one(kind: str, name: str, path: Path, seconds: float, seen: set[tuple[str, int, str]]) -> None:
    def stop(*_: Any) -> None:
        raise Stopped

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with path.open("wb") as out, path.with_suffix(".log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            Recorder(out, seen)
            run(kind, name)
        except BaseException:
            traceback.print_exc()


def captured(path: Path) -> Iterator[Captured]:
    with path.open("rb") as file, contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            yield Captured(*pickle.load(file))


def repeated(client: Client, one: Captured) -> tuple[str, str]:
    """Return the outcome of a launch by the daemon, and its reason."""
    if isinstance(one.program, str):
        return "refused", one.program
    message = pb.KernelProgram.FromString(one.program)
    caller = client._caller
    try:
        compiled = compile_kernel(Program(KernelModule(message.source, {}), message), caller.settings)
        kernel = KernelInfo(**caller.until(compiled, caller.settings.deadline(TIMEOUT)))
    except Exception as error:
        return "refused", str(error)
    try:
        arguments = given_arguments(kernel, one)
        outputs = list(kernel.written_arrays)
        launch = Launch(kernel, (), arguments, given_grid(kernel, one), outputs, None, None, caller.settings)
        found = caller.until(launch.operation(caller.settings), caller.settings.deadline(TIMEOUT))
    except KernelFault as error:
        return "fault", str(error)
    except Exception as error:
        return "not launched", f"{type(error).__name__}: {error}"
    found = found if isinstance(found, dict) else {outputs[0]: found}
    levels = [compared(name, found[name], one.after[name], one.has_atomics) for name in outputs]
    return max(levels, key=lambda level: OUTCOMES.index(level[0]), default=("same bits", ""))


def given_arguments(kernel: KernelInfo, one: Captured) -> dict[str, Any]:
    shared = in_one_memory(one)
    none = {"geometry_ints": np.zeros(1, np.int32), "geometry_vectors": np.zeros((1, 3), np.float32)}
    names = [param.name for param in kernel.params]
    return {name: {**none, **one.before, **shared, **one.tables}[name] for name in names}


def in_one_memory(one: Captured) -> dict[str, np.ndarray]:
    """Return the arrays that share memory, as arrays that do."""
    ranges = []
    for name, (address, shape, strides, size) in one.places.items():
        if np.prod(shape):
            ends = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
            ranges.append((address + sum(min(end, 0) for end in ends), address + sum(max(end, 0) for end in ends) + size, name))
    found: dict[str, np.ndarray] = {}
    ranges.sort()
    while ranges:
        start, end, _ = ranges[0]
        group = []
        while ranges and ranges[0][0] < end:
            end = max(end, ranges[0][1])
            group.append(ranges.pop(0)[2])
        memory = np.zeros(end - start, np.uint8)
        for name in group if len(group) > 1 else ():
            address, _, strides, _ = one.places[name]
            array = one.before[name]
            components = np.empty(array.shape[len(strides) :], array.dtype).strides
            found[name] = np.ndarray(array.shape, array.dtype, memory.data, address - start, strides + components)
            found[name][...] = array
    return found


def given_grid(kernel: KernelInfo, one: Captured) -> list[int]:
    """Return the grid of the translation. A block has one thread."""
    grid = [*one.grid[:-1], 1] if one.is_tiled else one.grid
    grid = grid + [1] * (kernel.grid_dims - len(grid))
    if len(grid) == kernel.grid_dims:
        return grid
    # Warp gives the index of a flattened grid, or the first indices of a larger one.
    return grid[: kernel.grid_dims] if one.is_tiled or kernel.grid_dims > 1 else [int(np.prod(grid))]


def compared(name: str, ours: np.ndarray, theirs: np.ndarray, has_atomics: bool) -> tuple[str, str]:
    """Return how an array agrees, and the first element that does not."""
    worst = ("same bits", "")
    for one, two in columns(np.ascontiguousarray(ours), np.ascontiguousarray(theirs)):
        bits = np.dtype(f"u{two.dtype.itemsize}")
        different = one.view(bits) != two.view(bits)
        if two.dtype.kind == "f":
            different &= ~(np.isnan(one) & np.isnan(two))
        if not different.any():
            continue
        near = np.zeros(different.shape, bool)
        if two.dtype.kind == "f":
            with np.errstate(all="ignore"):
                distance = np.abs(one.astype("f8") - two.astype("f8"))
                relative = (RELATIVE_OF_ATOMICS if has_atomics else RELATIVE) * np.maximum(np.abs(two.astype("f8")), 1.0)
                near = (distance <= ULP * np.spacing(np.abs(two)).astype("f8")) | (distance <= relative)
        if (bad := different & ~near).any():
            at = tuple(int(index) for index in np.argwhere(bad)[0])
            return "wrong", f"{name}{list(at)}, {bad.sum()} of {bad.size}: {one[at]!r} translated, {two[at]!r} by Warp"
        worst = ("within tolerance", "")
    return worst


def columns(ours: np.ndarray, theirs: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the arrays, or those of each field of a struct."""
    if theirs.dtype.fields is None:
        yield ours.reshape(theirs.shape), theirs
        return
    ours = ours if ours.dtype.fields is not None else ours.reshape(-1).view(theirs.dtype).reshape(theirs.shape)
    for name in theirs.dtype.names or ():
        yield from columns(ours[name], theirs[name])


def package(file: str) -> str:
    path = os.path.relpath(file, PACKAGES)
    prefixes = {
        "mujoco_warp": "MuJoCo Warp", "newton/examples": "examples of Newton", "newton": "Newton", "warp/examples": "examples of Warp",
        "warp/fem": "warp.fem", "warp/_src/fem": "warp.fem",
    }  # fmt: skip
    return next((name for prefix, name in prefixes.items() if path.startswith(prefix)), "others of Warp")


def compare(client: Client, folder: Path, results: Path | None) -> int:
    """Print a table, and why launches do not agree. Return the number of wrong ones."""
    found: dict[tuple[str, int, str], tuple[str, str, str]] = {}
    for path in sorted(folder.glob("*.pkl")):
        for one in captured(path):
            changes = (one.before[name].tobytes() != array.tobytes() for name, array in one.after.items())
            if one.key not in found and any(changes):
                found[one.key] = (*repeated(client, one), path.stem)
                if found[one.key][0] not in OUTCOMES[:2]:
                    print(os.path.relpath(one.key[0], PACKAGES), *one.key[1:], *found[one.key], flush=True)
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for (file, *_), (outcome, *_) in found.items():
        for row in (package(file), "all"):
            table[row][outcome] += 1
    print("|".join(("", "program", "kernels", "agree", *OUTCOMES, "")))
    for row, counts in sorted(table.items(), key=lambda item: -item[1].total()):
        agree = counts["same bits"] + counts["within tolerance"]
        print("|".join(map(str, ("", row, counts.total(), agree, *(counts[outcome] for outcome in OUTCOMES), ""))))
    reasons = collections.Counter(
        (outcome, re.sub(r"`[^`]*`|\d+", "_", reason)[:120]) for outcome, reason, _ in found.values() if outcome not in OUTCOMES[:2]
    )
    for (outcome, reason), count in reasons.most_common():
        print(f"{count:4} {outcome}: {reason}")
    if results:
        results.write_text(json.dumps([[*key, *one] for key, one in found.items()], indent=0))
    return table["all"]["wrong"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    capturing = commands.add_parser("capture")
    capturing.add_argument("folder", type=Path)
    capturing.add_argument("--seconds", type=float, default=75.0, help="time limit of a program")
    capturing.add_argument("programs", nargs="*", metavar="PROGRAM")
    comparing = commands.add_parser("compare")
    comparing.add_argument("folder", type=Path)
    where = comparing.add_mutually_exclusive_group(required=True)
    where.add_argument("--bin", type=Path, help="the folder of accelerd")
    where.add_argument("--server", help="a daemon that runs already")
    comparing.add_argument("--json", type=Path, help="a file for the outcome of each kernel")
    given = parser.parse_args()
    wp.config.quiet = True
    wp.init()
    if given.command == "capture":
        capture(given.folder, given.seconds, given.programs)
        return
    served = daemon(given.bin) if given.bin else contextlib.nullcontext(given.server)
    with served as address, Client(address) as client:
        raise SystemExit(compare(client, given.folder, given.json) > 0)


if __name__ == "__main__":
    main()
