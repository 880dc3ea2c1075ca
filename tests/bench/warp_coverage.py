"""Translates the kernels of NVIDIA Warp's own tests, and compares the translations with Warp on random arguments.

    pip install warp-lang==1.19.* wasmtime numpy
    python3 warp_coverage.py (--bin FOLDER | --server ADDRESS) [--tests FOLDER] [--json FILE] [MODULE ...]

--bin is the folder of accelerd, of which a daemon is started. MODULE is a module of the tests, such as `test_math`; left out, all
run. docs/benchmarks/kernels.md explains the table. A disagreement makes the exit status 1.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import importlib.util
import json
import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelerd import Client, KernelDiagnostic, TranslatedKernel, Translation

HERE = Path(__file__).resolve().parent
START_TIMEOUT = 60.0
# Seconds for what a process does of a module.
MODULE_SECONDS = 300.0
# Files of what the language leaves out.
OUTSIDE = ("tile", "geometry", "fem", "cuda", "interop")
# Functions of Warp that are neither arithmetic nor atomics, by the start of their names.
SPECIAL = (
    "tile", "mesh", "volume", "hash_grid", "bvh", "texture", "print", "sample", "closest", "intersect", "adjoint", "grad", "func_",
    "static", "expect", "address", "ref", "svd", "qr", "eig", "noise", "pnoise", "curl", "block_dim", "zeros", "array", "iter_", "mlp",
    "tid_", "lower_bound", "Texture", "Mesh", "Volume", "Hash", "fabric", "indexed", "rand_init_", "map",
)  # fmt: skip
ARRAYS = ("array", "array1d", "array2d", "array3d", "array4d")
# Differences that docs/kernels.md describes: the kernel, and the reason.
DOCUMENTED: dict[str, str] = {
    "test_static.k": "an expression with side effects in wp.static is evaluated for each translation",
}


@dataclass
class Kernel:
    """A kernel of the tests, and what became of it."""

    module: str
    name: str
    line: int
    nested: bool
    #: Whether its source assigns to elements of an array.
    writes: bool
    #: Whether it consists of scalars, vectors, matrices, atomics and functions, and captures nothing.
    self_contained: bool
    has_atomics: bool
    #: Whether it has parameters of open types, so that its function objects say what it is.
    is_generic: bool = False
    code: str = ""
    message: str = ""
    lowered: bool = False
    #: Whether Warp cannot translate it either.
    refused: bool = False
    #: Whether it was lowered from the function object with what it captures, not from the text of its module.
    with_captures: bool = False
    outcome: str = ""
    reason: str = ""
    level: str = ""
    changed: bool = False
    threads: int = 0

    def settle(self, found: dict[str, Any]) -> None:
        """Take what a process found."""
        self.with_captures = found["lowered"] and not self.lowered
        self.lowered = found["lowered"]
        self.refused = found.get("refused", False)
        self.code, self.message = found.get("code", self.code), found.get("message", self.message)
        self.outcome, self.level = found.get("outcome", ""), found.get("level", "")
        self.reason = " ".join((found.get("reason") or found.get("first", "")).split())
        self.changed, self.threads = found.get("changed", False), found.get("threads", 0)

    @property
    def inside(self) -> bool:
        return not any(part.removeprefix("test_").startswith(OUTSIDE) for part in self.module.split("."))


@dataclass
class Source:
    """Definitions of a module of the tests."""

    tree: ast.Module
    functions: dict[str, list[ast.FunctionDef]] = field(default_factory=dict)
    #: Kernels, and whether each is within a function.
    kernels: list[tuple[ast.FunctionDef, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.visit(self.tree, False)

    def visit(self, node: ast.AST, nested: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                if is_decorated(child, "kernel"):
                    self.kernels.append((child, nested))
                elif is_decorated(child, "func"):
                    self.functions.setdefault(child.name, []).append(child)
            self.visit(child, nested or isinstance(child, ast.FunctionDef))


def is_decorated(function: ast.FunctionDef, name: str) -> bool:
    called = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
    return any(ast.unparse(one) in (f"wp.{name}", f"warp.{name}") for one in called)


def described(source: Source, function: ast.FunctionDef, nested: bool, module: str) -> Kernel:
    bodies = list(reached(source, function))
    calls = [ast.unparse(node.func) for body in bodies for node in ast.walk(body) if isinstance(node, ast.Call)]
    line = min([function.lineno, *(one.lineno for one in function.decorator_list)])
    writes, atomics = writes_of(function), any("atomic_" in call for call in calls)
    atomics |= any(
        isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript)
        for body in bodies
        for node in ast.walk(body)
    )
    own = is_self_contained(source, function, bodies, calls, nested)
    annotations = [ast.unparse(one.annotation) if one.annotation else "Any" for one in function.args.args]
    is_generic = any(re.search(r"\b(Any|Float|Int|Scalar)\b", one) for one in annotations)
    return Kernel(module, function.name, line, nested, writes, own, atomics, is_generic)


def reached(source: Source, function: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    """A kernel and the functions that it calls."""
    pending, seen = [function], set()
    while pending:
        one = pending.pop()
        yield one
        for node in ast.walk(one):
            if isinstance(node, ast.Name) and node.id in source.functions and node.id not in seen:
                seen.add(node.id)
                pending += source.functions[node.id]


def writes_of(function: ast.FunctionDef) -> bool:
    arrays = {one.arg for one in function.args.args if one.annotation and "array" in ast.unparse(one.annotation)}
    for node in ast.walk(function):
        targets: list[ast.AST] = []
        if isinstance(node, ast.Assign):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("wp.atomic_", "wp.tile_store")):
            targets = list(node.args[:1])
        for target in targets:
            written = isinstance(target, (ast.Subscript, ast.Attribute)) or not isinstance(node, ast.Assign)
            if written and arrays & {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}:
                return True
    return False


def is_self_contained(
    source: Source, function: ast.FunctionDef, bodies: list[ast.FunctionDef], calls: list[str], nested: bool
) -> bool:
    if any(call == "print" or call.removeprefix("wp.").startswith(SPECIAL) for call in calls if call != "wp.printf"):
        return False
    if "wp.printf" in calls or any(one.annotation is None for one in function.args.args):
        return False
    if not all(is_plain(one.annotation) for one in function.args.args):
        return False
    # What a function around the kernel binds is captured.
    return not nested or not (names_of(bodies) - bound(bodies) - top_level(source.tree))


def is_plain(annotation: ast.AST | None) -> bool:
    """Whether a parameter is an array or a value of numbers, by types of Warp alone."""
    text = ast.unparse(annotation) if annotation else "Any"
    words = text.replace("(", " ").replace(")", " ").replace("[", " ").replace("]", " ").replace("=", " ").split()
    plain = ("wp.", "warp.", "float", "int", "bool", "dtype", "ndim", "shape", "length", "'")
    special = ("wp.indexed", "wp.fabric", "wp.tile", "wp.Texture", "Any", "wp.Volume", "wp.Mesh", "wp.fixed")
    return all(one.startswith(plain) or one.strip(",").isdigit() for one in words) and not any(
        one.startswith(special) for one in words
    )


def names_of(bodies: list[ast.FunctionDef]) -> set[str]:
    return {node.id for body in bodies for node in ast.walk(body) if isinstance(node, ast.Name)}


def bound(bodies: list[ast.FunctionDef]) -> set[str]:
    known = {"float", "int", "bool", "range", "abs", "min", "max", "len", "round", "True", "False"}
    for body in bodies:
        known |= {body.name, *(one.arg for one in body.args.args)}
        known |= {node.id for node in ast.walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return known


def top_level(tree: ast.Module) -> set[str]:
    known = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            known |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            known.add(node.name)
        elif isinstance(node, ast.Assign):
            known |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return known


def examine(client: Client, path: Path, module: str) -> tuple[list[Kernel], list[tuple[Kernel, TranslatedKernel]]]:
    """Return the kernels of a module, and those that were translated."""
    text = path.read_text()
    source = Source(ast.parse(text))
    kernels = [described(source, function, nested, module) for function, nested in source.kernels]
    ends = {min([one.lineno, *(d.lineno for d in one.decorator_list)]): one.end_lineno for one, _ in source.kernels}
    if not kernels:
        return [], []
    translation = client.translate(text, dialect="warp", targets=["wasm", "cuda"])
    return kernels, list(assigned(kernels, ends, translation))


def assigned(
    kernels: list[Kernel], ends: dict[int, int | None], translation: Translation
) -> Iterator[tuple[Kernel, TranslatedKernel]]:
    """Assign translations and diagnostics to the kernels by name; kernels of one name have the order of the source."""
    by_name: dict[str, list[Kernel]] = collections.defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel)
    lowered: dict[str, list[TranslatedKernel]] = collections.defaultdict(list)
    for translated in translation.kernels:
        lowered[translated.name].append(translated)
    failed: dict[str, list[KernelDiagnostic]] = collections.defaultdict(list)
    for diagnostic in translation.diagnostics:
        failed[diagnostic.kernel].append(diagnostic)
    for name, some in by_name.items():
        left = list(some)
        sure = not any(one.is_generic for one in some)
        for diagnostic in failed[name] or failed[""]:
            within = [one for one in left if one.line <= diagnostic.line <= (ends[one.line] or 0)]
            kernel = (within or left or [None])[0]
            if kernel:
                # One in a function that several kernels of the name call does not tell which it means.
                sure &= bool(within) or len(some) == 1
                kernel.code, kernel.message = diagnostic.code, diagnostic.message
                left.remove(kernel)
        if not sure or len(left) != len(lowered[name]):
            # These are translated one by one, from their function objects.
            continue
        for kernel, translated in zip(left, lowered[name], strict=True):
            kernel.lowered = True
            yield kernel, translated


def execute(client: Client, tests: Path, kernels: list[Kernel], lowered: list[tuple[Kernel, TranslatedKernel]]) -> None:
    """Run the kernels of a module in processes of their own, and set their outcomes."""
    from warp_execution import Work, case_of

    others = [one for one in kernels if not one.lowered]
    every = [kernel for kernel, _ in lowered] + others
    cases = [case_of(translated, kernel.line, kernel.has_atomics) for kernel, translated in lowered]
    rest = [(one.name, one.line, one.has_atomics) for one in others]
    work = Work(tests, every[0].module, client.target, cases, rest)
    with tempfile.TemporaryDirectory(prefix="accelerd-benchmark-") as folder:
        path, results = Path(folder, "cases"), Path(folder, "results")
        path.write_bytes(pickle.dumps(work))
        skip, options = 0, []
        while skip < len(every):
            results.write_text("")
            end = run_process([str(path), str(results), "--skip", str(skip), *options])
            lines = [json.loads(line) for line in results.read_text().splitlines()]
            for line in lines:
                if "case" in line:
                    every[line["case"]].settle(line)
            if lines and "import" in lines[-1]:
                leave_out(every[skip:], f"import: {lines[-1]['import']}")
                return
            if lines and "begin" in lines[-1]:
                skip = lines[-1]["begin"]
                every[skip].lowered = True
                leave_out([every[skip]], f"Warp's process {end} in the kernel")
                skip += 1
            elif lines and "case" in lines[-1] and lines[-1]["case"] + 1 == len(every):
                return
            elif not options:
                # A test that only has to make kernels ended the process.
                options = ["--import-only"]
            else:
                leave_out(every[skip:], f"Warp's process {end} before a kernel")
                return


def leave_out(kernels: list[Kernel], reason: str) -> None:
    for kernel in kernels:
        if kernel.lowered:
            kernel.outcome, kernel.reason = "not launched", reason


def run_process(arguments: list[str]) -> str:
    """Run cases in a process of their own, and return how it ended."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(HERE / "warp_execution.py"), *arguments]
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=MODULE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "exceeded the time limit"
    return f"ended with status {done.returncode}"


@contextlib.contextmanager
def daemon(binaries: Path) -> Iterator[str]:
    """Start a daemon that uses the CPU, and yield its address."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    listen, admin, health = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    sets = ["backend.kind=cpu", f"server.admin_listen={admin}", f"server.health_listen={health}"]
    extra = [word for value in [*sets, "drain.endpoint_delay=0s"] for word in ("--set", value)]
    with tempfile.TemporaryDirectory(prefix="accelerd-benchmark-") as folder, open(Path(folder, "log"), "w") as log:
        process = subprocess.Popen([binaries / "accelerd", "serve", "--listen", listen, *extra], stdout=log, stderr=log)
        try:
            wait_for(listen, process)
            yield listen
        finally:
            process.terminate()
            process.wait()


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    from accelerd import AccelerdError, Client

    until = time.monotonic() + START_TIMEOUT
    with Client(address, timeout=1) as client:
        while True:
            try:
                client.stats()
                return
            except AccelerdError:
                if time.monotonic() > until or process.poll() is not None:
                    raise


def groups(kernels: list[Kernel]) -> dict[str, list[Kernel]]:
    """The kernels that Warp translates."""
    valid = [one for one in kernels if not one.refused]
    return {
        "all": valid,
        "write an array": [one for one in valid if one.writes and one.inside],
        "self-contained": [one for one in valid if one.writes and one.inside and one.self_contained],
    }


def share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f}%)" if whole else "0"


def report(kernels: list[Kernel]) -> None:
    print(f"{sum(one.refused for one in kernels)} kernels that Warp refuses are left out.\n")
    print(
        "| kernels | number | lowered | launched | same bits | within tolerance | changed an array | documented | disagree | fault | not launched |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, some in groups(kernels).items():
        count = collections.Counter(one.outcome for one in some)
        levels = collections.Counter(one.level for one in some if one.outcome == "agree")
        launched = count["agree"] + count["disagree"] + count["documented"]
        near = count["agree"] - levels["same bits"]
        cells = [name, str(len(some)), share(sum(one.lowered for one in some), len(some)), str(launched)]
        cells += [
            share(levels["same bits"], launched),
            share(near, launched),
            str(sum(one.changed for one in some if one.outcome == "agree")),
        ]
        cells += [str(count[one]) for one in ("documented", "disagree", "fault", "not launched")]
        print(f"| {' | '.join(cells)} |")
    for name, some in groups(kernels).items():
        print(f"\nNot lowered, {name}:")
        reasons = collections.Counter((one.code, one.message) for one in some if not one.lowered)
        codes = collections.Counter(one.code for one in some if not one.lowered)
        print("  " + ", ".join(f"{code or 'unknown'} {number}" for code, number in codes.most_common()))
        for (code, message), number in reasons.most_common(25):
            print(f"  {number:4} {code}: {message}")
    for outcome in ("not launched", "fault", "documented"):
        print(f"\n{outcome.capitalize()}:")
        for reason, number in collections.Counter(one.reason for one in kernels if one.outcome == outcome).most_common(
            15
        ):
            print(f"  {number:4} {reason}")
    print("\nDisagreements:")
    for one in kernels:
        if one.outcome == "disagree":
            print(f"  {one.module}:{one.line} {one.name}: {one.reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", help="a daemon that runs already")
    where.add_argument("--bin", type=Path, help="the folder of accelerd")
    parser.add_argument("--tests", type=Path, help="folder of Warp's tests; left out, that of the installed package")
    parser.add_argument("--client", type=Path, default=HERE.parents[1] / "client" / "python" / "src")
    parser.add_argument("--json", type=Path, help="where a record of each kernel is written")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    given = parser.parse_args()
    sys.path.insert(0, str(given.client))
    from accelerd import Client

    tests = given.tests or Path(importlib.util.find_spec("warp").origin).parent / "tests"
    kernels: list[Kernel] = []
    with daemon(given.bin) if given.bin else contextlib.nullcontext(given.server) as address, Client(address) as client:
        for path in sorted(tests.rglob("*.py")):
            module = ".".join(path.relative_to(tests).with_suffix("").parts)
            if given.modules and module not in given.modules:
                continue
            found, lowered = examine(client, path, module)
            kernels += found
            if found:
                execute(client, tests, found, lowered)
            for one in found:
                if one.outcome == "disagree" and (reason := DOCUMENTED.get(f"{module}.{one.name}")):
                    one.outcome, one.reason = "documented", reason
            if found:
                count = collections.Counter(one.outcome for one in found)
                launched = f"{count['agree']} agree, {count['disagree']} disagree"
                total = sum(one.lowered for one in found)
                print(f"{module}: {len(found)} kernels, {total} lowered, {launched}", file=sys.stderr, flush=True)
    report(kernels)
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in kernels], indent=1) + "\n")
    sys.exit(any(one.outcome == "disagree" for one in kernels))


if __name__ == "__main__":
    main()
