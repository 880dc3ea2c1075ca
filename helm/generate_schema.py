"""Writes the settings of `config` into the chart's schema, from the daemon's default.toml, so that Helm refuses misspelt ones, and
the descriptions of values, from the comments of values.yaml.

`python3 helm/generate_schema.py` writes; with `--check` it fails if the schema is not up to date.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from values_comments import commented

ROOT = Path(__file__).parents[1]
DEFAULTS = ROOT / "server/config/default.toml"
SCHEMA = ROOT / "helm/accelerd/values.schema.json"
WIDTH = 120
ADDRESSES = ("listen", "admin_listen", "health_listen")


def main() -> None:
    text = generated()
    if "--check" not in sys.argv[1:]:
        SCHEMA.write_text(text)
    elif SCHEMA.read_text() != text:
        sys.exit(f"{SCHEMA} is not up to date: run python3 helm/generate_schema.py")


def generated() -> str:
    """The schema with the settings of default.toml."""
    schema = json.loads(SCHEMA.read_text())
    config = section(tomllib.loads(DEFAULTS.read_text()))
    config["required"] = ["server", "http"]
    server = config["properties"]["server"]
    server["required"] = list(ADDRESSES)
    for name in ADDRESSES:
        server["properties"][name] = {"$ref": "#/definitions/address"}
    address = {"$ref": "#/definitions/address"}
    config["properties"]["http"]["properties"]["listen"] = {"anyOf": [address, {"const": ""}]}
    config["properties"]["http"]["required"] = ["listen"]
    config["properties"]["backend"]["properties"]["ordinals"]["items"] = {"type": "integer"}
    config["properties"]["models"]["properties"]["preload"]["items"] = {"$ref": "#/definitions/preload"}
    lanes = config["properties"]["lanes"]["properties"]
    for name in lanes:
        lanes[name] = {"$ref": "#/definitions/lane"}
    schema["definitions"]["lane"] = section(tomllib.loads(DEFAULTS.read_text())["lanes"]["default"])
    schema["properties"]["config"] = config
    describe(schema)
    return formatted(schema) + "\n"


def describe(schema: dict[str, Any]) -> None:
    """Adds the comments of values.yaml."""
    for value in commented():
        described = schema
        for name in value.path:
            described = described.get("properties", {}).get(name, {})
        described.pop("description", None)
        if value.comment:
            rest = dict(described)
            described.clear()
            described.update({"description": value.comment} | rest)


def section(settings: dict[str, Any]) -> dict[str, Any]:
    properties = {name: of_value(value) for name, value in settings.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def of_value(value: Any) -> dict[str, Any]:
    match value:
        case dict():
            return section(value)
        case "auto":  # or a number, or true or false
            return {"type": ["string", "integer", "boolean"]}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str() if re.fullmatch(r"[0-9]+[KMGT]?i?B", value):
            return {"$ref": "#/definitions/size"}
        case str() if re.fullmatch(r"[0-9]+(ms|s|m|h|days?)", value):
            return {"$ref": "#/definitions/duration"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array", "items": {"type": "string"}}
    raise TypeError(f"expected a value of TOML, got {value!r}")


def formatted(value: Any, indent: int = 0) -> str:
    """JSON with each object on one line, if it fits."""
    line = on_one_line(value)
    if not isinstance(value, dict) or (indent and indent + len(line) <= WIDTH):
        return line
    inner = " " * (indent + 2)
    entries = [f"{inner}{json.dumps(key)}: {formatted(of, indent + 2)}" for key, of in value.items()]
    return "{\n" + ",\n".join(entries) + "\n" + " " * indent + "}"


def on_one_line(value: Any) -> str:
    match value:
        case dict():
            entries = ", ".join(f"{json.dumps(key)}: {on_one_line(of)}" for key, of in value.items())
            return f"{{ {entries} }}" if entries else "{}"
        case list():
            return f"[{', '.join(map(on_one_line, value))}]"
    return json.dumps(value)


if __name__ == "__main__":
    main()
