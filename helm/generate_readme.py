"""Writes the values of the chart into its README, from the comments of values.yaml.

`python3 helm/generate_readme.py` writes; with `--check` it fails if the README is not up to date.
"""

from __future__ import annotations

import json
import sys

from values_comments import CHART, Value, commented

README = CHART / "README.md"
START = "<!-- values: written by helm/generate_readme.py -->\n"


def main() -> None:
    text = generated()
    if "--check" not in sys.argv[1:]:
        README.write_text(text)
    elif README.read_text() != text:
        sys.exit(f"{README} is not up to date: run python3 helm/generate_readme.py")


def generated() -> str:
    before, _ = README.read_text().split(START)
    return before + START + "".join(section(group) for group in groups())


def groups() -> list[list[Value]]:
    """The values by their first name; those that are no sections stay with their neighbours."""
    groups: list[list[Value]] = []
    for value in commented():
        if len(value.path) > 1 or (groups and not is_section(value) and not is_section(groups[-1][0])):
            groups[-1].append(value)
        else:
            groups.append([value])
    return groups


def is_section(value: Value) -> bool:
    depth = len(value.path)
    return any(other.comment and len(other.path) > depth and other.path[:depth] == value.path for other in commented())


def section(group: list[Value]) -> str:
    rows = [value for value in group if value.comment and not is_section(value)]
    heads = [value for value in group if is_section(value) and value.comment]
    text = "".join(f"\n`{value.name}`: {value.comment}\n" for value in heads)
    table = "".join(f"| `{value.name}` | `{json.dumps(value.default)}` | {value.comment} |\n" for value in rows)
    return f"{text}\n| value | default | meaning |\n|---|---|---|\n{table}"


if __name__ == "__main__":
    main()
