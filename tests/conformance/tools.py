"""The tools of the harness: the parser, the Pythons that judge it, and downloads into an ignored folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from frames import CLASSES, PANIC, Answer, ParseError, write_answer, write_blocks

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CACHE = TARGET / "conformance"
CLIENT = ROOT / "client" / "python" / "src" / "accelerd"
# Seconds. A source takes milliseconds, so after this one of the batch does not terminate.
BATCH_TIMEOUT = 300


@dataclass(frozen=True)
class Oracle:
    """A Python to compare with."""

    name: str
    # The version of its grammar.
    version: str
    command: tuple[str, ...]
    # The `feature_version` to pass, if any.
    feature_version: str = ""

    def judge(self, sources: Path, answers: Path | str, outcomes: Path) -> list[dict[str, Any]]:
        """One outcome per source."""
        feature = [self.feature_version] if self.feature_version else []
        subprocess.run([*self.command, CLIENT, sources, answers, outcomes, *feature], check=True)
        return [json.loads(line) for line in outcomes.open()]


class Parser:
    """The parser: the example `columns` of its crate, or without a program the oracle's reference columns."""

    def __init__(self, program: Path | None) -> None:
        self.program = program

    def answer(self, version: str, sources: Sequence[bytes], answers: Path) -> Path | str:
        """Parses a batch and writes a file of answers."""
        if self.program is None:
            return "reference"
        answers.write_bytes(self._answer(version, sources))
        return answers

    def bytes_of(self, version: str, sources: Sequence[bytes]) -> bytes:
        """Parses a batch; returns the encoded answers."""
        return self._answer(version, sources)

    def _answer(self, version: str, sources: Sequence[bytes]) -> bytes:
        try:
            done = subprocess.run(
                [self.program, version], input=write_blocks(sources), capture_output=True, timeout=BATCH_TIMEOUT
            )
            failure = f"exit status {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            failure = "no answer in time"
        if not failure:
            return done.stdout
        if len(sources) == 1:
            return write_answer(Answer(b"", None, ParseError(CLASSES[PANIC], 0, 0, failure)))
        # One source crashed the process: bisect.
        middle = len(sources) // 2
        return self._answer(version, sources[:middle]) + self._answer(version, sources[middle:])


def built_parser() -> Path | None:
    """The example `columns`, if built."""
    if named := os.environ.get("ACCELERD_COLUMNS"):
        return Path(named)
    built = [TARGET / profile / "examples" / "columns" for profile in ("release", "debug")]
    return next((program for program in built if program.exists()), None)


@cache
def oracles(versions: tuple[str, ...]) -> list[Oracle]:
    """A Python of each version; 3.14 falls back to Pyodide in node. `3.13-as-3.8` passes a `feature_version`."""
    found = [_with_feature_version(version) or _native(version) or _pyodide(version) for version in versions]
    for version, oracle in zip(versions, found, strict=True):
        if oracle is None:
            print(f"no Python {version} found: skipped", file=sys.stderr)
    return [oracle for oracle in found if oracle is not None]


def _with_feature_version(version: str) -> Oracle | None:
    base, _, feature_version = version.partition("-as-")
    native = _native(base) if feature_version else None
    if native is None:
        return None
    return Oracle(f"{native.name} as {feature_version}", feature_version, native.command, feature_version)


def own_oracle() -> Oracle:
    """The running Python."""
    return Oracle(*_described((sys.executable,)), (sys.executable, str(HERE / "oracle.py")))


def _native(version: str) -> Oracle | None:
    for python in (f"python{version}", *_pyenv(version)):
        path = shutil.which(python)
        name, got = _described((path,)) if path else ("", "")
        if got == version:
            return Oracle(name, version, (path, str(HERE / "oracle.py")))
    return None


def _described(python: Sequence[str]) -> tuple[str, str]:
    """A Python's name and version; empty where it does not start."""
    script = "import platform as p; print(p.python_implementation(), p.python_version())"
    done = subprocess.run([*python, "-c", script], capture_output=True, text=True)
    name = done.stdout.strip()
    return name, ".".join(name.split()[-1].split(".")[:2]) if name else ""


def _pyenv(version: str) -> list[str]:
    if not shutil.which("pyenv"):
        return []
    run = {"capture_output": True, "text": True}
    there = subprocess.run(["pyenv", "versions", "--bare"], **run).stdout.split()
    prefixes = [
        subprocess.run(["pyenv", "prefix", one], **run).stdout.strip() for one in there if one.startswith(f"{version}.")
    ]
    return [f"{prefix}/bin/python" for prefix in prefixes]


def _pyodide(version: str) -> Oracle | None:
    """Pyodide, CPython for WebAssembly, from npm; its major version is CPython's."""
    if not (shutil.which("node") and shutil.which("npm")) or version != "3.14":
        return None
    folder = CACHE / "pyodide"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            subprocess.run(
                ["npm", "pack", "--silent", "pyodide@314"], cwd=scratch, check=True, stdout=subprocess.DEVNULL
            )
            (packed,) = Path(scratch).glob("pyodide-*.tgz")
            with tarfile.open(packed) as archive:
                archive.extractall(scratch, filter="data")
            Path(scratch, "package").rename(folder)
    release = json.loads((folder / "package.json").read_text())["version"]
    return Oracle(f"CPython {version} of pyodide {release}", version, ("node", str(HERE / "pyodide.mjs"), str(folder)))


def cache_folder() -> Path:
    """The folder of downloads and results, which git ignores."""
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE


def ruff_fixtures() -> Path | None:
    """The fixtures in the source of ruff's parser, a dependency of the baseline benchmark."""
    manifest = ROOT / "tests" / "bench" / "parse" / "Cargo.toml"
    done = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", manifest],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(f"no fixtures of ruff: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    (package,) = [one for one in json.loads(done.stdout)["packages"] if one["name"] == "ruff_python_parser"]
    folder = Path(package["manifest_path"]).parent / "resources"
    return folder if folder.exists() else None


def old_release(name: str, version: str) -> Path:
    """The source archive of a Python 2 release, downloaded once.

    `pip download` would run the release's setup, so only pip's finder and session are used.
    """
    from pip._internal.commands import create_command
    from pip._internal.models.target_python import TargetPython
    from pip._vendor.packaging.specifiers import SpecifierSet

    folder = cache_folder() / "releases"
    folder.mkdir(exist_ok=True)
    if there := sorted(folder.glob(f"{name}-{version}.*")):
        return there[0]
    command: Any = create_command("download")
    options, _ = command.parse_args(["--no-deps", "--no-binary", ":all:", "--quiet"])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(
            options=options,
            session=session,
            target_python=TargetPython(py_version_info=(2, 7, 18)),
            ignore_requires_python=True,
        )
        link = finder.find_best_candidate(name, SpecifierSet(f"=={version}")).best_candidate.link
        answer = session.get(link.url_without_fragment)
        answer.raise_for_status()
    archive = folder / link.filename
    archive.write_bytes(answer.content)
    return archive


def wheel(name: str) -> Path:
    """A package's archive, downloaded once."""
    folder = cache_folder() / "packages"
    folder.mkdir(exist_ok=True)
    normal = re.sub(r"[-_.]+", "_", name).lower()
    there = [file for file in folder.iterdir() if re.sub(r"[-_.]+", "_", file.name).lower().startswith(f"{normal}_")]
    if there:
        return there[0]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--dest",
        folder,
    ]
    subprocess.run([*command, name], check=True)
    return wheel(name)
