"""The corpora of sources."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fuzz
import limits
import token_fuzz
import tools
from frames import read_blocks

PACKAGES = ["django", "sqlalchemy", "numpy", "pandas", "scipy", "scikit-learn"]
# Not used during development.
UNSEEN_PACKAGES = ["sympy", "twisted", "ansible-core", "mypy"]

# Releases for Python 2.
OLD_RELEASES = {
    "BeautifulSoup": "3.2.1",
    "CherryPy": "3.1.2",
    "Django": "1.4",
    "Fabric": "1.0.0",
    "Genshi": "0.6",
    "Paste": "1.7.5",
    "SQLAlchemy": "0.7.0",
    "Twisted": "12.0.0",
    "boto": "2.0",
    "docutils": "0.5",
    "feedparser": "5.1",
    "mechanize": "0.2.5",
    "pycrypto": "2.6",
    "simplejson": "2.0.9",
    "suds": "0.4",
    "web.py": "0.37",
    "xlwt": "0.7.5",
    "zope.interface": "3.6.0",
}

SYNTAX_TESTS = (
    r"test_(grammar|syntax|ast|patma|fstring|type_params|unpack|named_expr|except_star|positional|keywordonly|unparse)"
)

Case = tuple[str, bytes]


@dataclass(frozen=True)
class Corpus:
    """A named set of sources."""

    name: str
    cases: Callable[[], Iterable[Case]]


def corpora(fuzz_count: int, seed: int) -> list[Corpus]:
    """All corpora."""
    libraries = [Corpus(f"library {version}", lambda version=version: library(version)) for version in ("3.11", "3.13")]
    texts = [
        Corpus("doctests and strings of Lib/test", lambda: extracted("3.13")),
        Corpus("ruff's fixtures", ruff),
    ]
    packages = [Corpus(name, lambda name=name: package(name)) for name in [*PACKAGES, *UNSEEN_PACKAGES]]
    made = [
        Corpus("limits", limits.limits),
        Corpus("Python 2 releases", old_releases),
        Corpus("mutations", lambda: mutations(fuzz_count, seed)),
        Corpus("token_fuzz", lambda: token_fuzz.sources(fuzz_count, seed)),
    ]
    return [*libraries, *texts, *packages, *made]


def library(version: str) -> Iterator[Case]:
    """The standard library of a version, its tests included."""
    folder = library_folder(version)
    return files(folder, skip="site-packages") if folder else iter(())


def library_folder(version: str) -> Path | None:
    """The folder of a version's standard library."""
    found = [oracle for oracle in tools.oracles((version,)) if oracle.command[0] != "node"]
    if not found:
        return None
    script = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    return Path(
        subprocess.run([found[0].command[0], "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    )


def files(folder: Path, skip: str = "", pattern: str = "*.py") -> Iterator[Case]:
    """The files of a folder, named by relative path."""
    for file in sorted(folder.rglob(pattern)):
        inside = file.relative_to(folder)
        if skip not in inside.parts and file.is_file():
            yield str(inside), file.read_bytes()


def extracted(version: str) -> Iterator[Case]:
    """Doctests and string constants of the standard library's tests."""
    folder = library_folder(version)
    if folder is None:
        return
    (oracle,) = tools.oracles((version,))
    out = tools.cache_folder() / f"extracted-{version}.bin"
    if not out.exists():
        subprocess.run([oracle.command[0], tools.HERE / "extract.py", folder / "test", out], check=True)
    for at, block in enumerate(read_blocks(out.read_bytes())):
        yield f"text {at}", block


def ruff() -> Iterator[Case]:
    """The fixtures of ruff's parser."""
    folder = tools.ruff_fixtures()
    return files(folder) if folder else iter(())


def package(name: str) -> Iterator[Case]:
    """The modules of a package from PyPI."""
    yield from archived(tools.wheel(name))


def old_releases() -> Iterator[Case]:
    """The modules of old releases, most of which are Python 2."""
    for name, version in OLD_RELEASES.items():
        yield from archived(tools.old_release(name, version))


def archived(archive: Path) -> Iterator[Case]:
    """The modules in an archive."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            for inside in sorted(opened.namelist()):
                if inside.endswith(".py"):
                    yield inside, opened.read(inside)
        return
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.name.endswith(".py") and member.isfile():
                yield member.name, opened.extractfile(member).read()


def mutations(count: int, seed: int) -> Iterator[Case]:
    """Mutated snippets of the other corpora."""
    groups = []
    for cases in (library("3.13"), library_tests("3.13"), ruff(), extracted("3.13")):
        snippets = [snippet for _, source in cases for snippet in fuzz.snippets(source)]
        groups += [snippets] if snippets else []
    return fuzz.mutated(groups, count, seed)


def library_tests(version: str) -> Iterator[Case]:
    """CPython's syntax tests, which cover every construct."""
    return (case for case in library(version) if re.search(SYNTAX_TESTS, case[0]))
