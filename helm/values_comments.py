"""The values of the chart with the comments of values.yaml, which describe them in the schema and in the chart's README."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "accelerd"
KEY = re.compile(r"( *)([A-Za-z_]+):")


@dataclass(frozen=True)
class Value:
    """A value, or a section of values, and its comment."""

    path: tuple[str, ...]
    default: Any
    comment: str

    @property
    def name(self) -> str:
        return ".".join(self.path)


@functools.cache
def commented() -> list[Value]:
    """Values in the order of the file, each before those in it. Their comments end where an indented example begins."""
    text = (CHART / "values.yaml").read_text()
    defaults = yaml.safe_load(text)
    values: list[Value] = []
    path: tuple[str, ...] = ()
    lines: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            lines.append(stripped[1:])
            continue
        found = KEY.match(line)
        if found and isinstance(at(defaults, path[: len(found[1]) // 2]), dict):
            path = (*path[: len(found[1]) // 2], found[2])
            values.append(Value(path, at(defaults, path), prose(lines)))
        lines = []
    return values


def prose(lines: list[str]) -> str:
    kept = [line.strip() for line in lines if not line.startswith("  ")]
    return " ".join(kept)


def at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = values[name]
    return values
