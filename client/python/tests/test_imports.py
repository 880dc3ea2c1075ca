"""Tests that the modules of the package import in one direction, also where only a type checker imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SOURCES / "accelerd"
EXTENSION = "accelerd._node_builder"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py") if "_proto" not in path.parts}


def imported(name: str, path: Path) -> Iterator[str]:
    """The modules that a module imports anywhere: at its top, in functions and under TYPE_CHECKING."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: -(node.level - 1) or None] if node.level else []
            source = ".".join([*parents, *([node.module] if node.module else [])])
            names = {f"{source}.{alias.name}" for alias in node.names} - {EXTENSION}
            yield from names & MODULES.keys()
            if names - MODULES.keys():
                yield source


def test_modules_import_in_one_direction() -> None:
    arrows = {name: {*imported(name, path)} & MODULES.keys() - {name} for name, path in MODULES.items()}
    assert sum(map(len, arrows.values())) > len(MODULES)
    list(TopologicalSorter(arrows).static_order())
