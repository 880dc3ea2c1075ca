"""Judges a batch: parses each source with the running Python and compares the parser's answer.

    python3.13 oracle.py CLIENT SOURCES ANSWERS OUTCOMES [FEATURE_VERSION]

Runs on any CPython from 3.10 on, without packages. CLIENT is the folder of the package `accelerd`, of which only the tree is
imported. OUTCOMES is JSON lines, one per source. With `reference` for ANSWERS, answers are made from CPython's tree.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tokenize
import types
import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

# CPython's own limits of stack and memory, which are not part of the language.
_EXHAUSTED = (MemoryError, RecursionError)


def load_client(client: str) -> None:
    """Makes the modules of a package importable without its `__init__`, which needs gRPC."""
    package = types.ModuleType("accelerd")
    package.__path__ = [client]
    sys.modules.setdefault("accelerd", package)
    sys.path.insert(0, str(HERE))


def judge(source: bytes, answer: Any, feature_version: tuple[int, int] | None = None) -> dict[str, Any]:
    """The outcome of one source: `equal`, `refused` by both, `different` with a cause, or `exhausted`."""
    try:
        theirs = ast.parse(source, feature_version=feature_version)
    except _EXHAUSTED:
        return {"outcome": "exhausted"}
    except (SyntaxError, ValueError) as error:
        return _judge_error(source, answer, error)
    if answer.error is not None:
        ours = answer.error
        return _different(
            f"only ours refuses: {ours.kind}: {ours.message}", line=_line(answer.text or source, ours.start)
        )
    return _judge_tree(source, answer, theirs)


def _judge_error(source: bytes, answer: Any, error: Exception) -> dict[str, Any]:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    if answer.error is None:
        return _different(
            f"only CPython refuses: {type(error).__name__}: {message}",
            line=getattr(error, "lineno", None),
            error=[type(error).__name__, message, *_position(error)],
        )
    ours = answer.error
    if ours.kind == "panic":
        return _different(f"panic: {ours.message}")
    position = _position(error)
    same = {
        "same_line": position[0] == ours.position[0],
        "same_column": position[1] == ours.position[1],
        "same_class": type(error).__name__ == ours.kind,
        "same_message": message == ours.message,
    }
    return {
        "outcome": "refused",
        **same,
        "same_all": all(same.values()),
        "same_end": all(same.values()) and position == list(ours.position),
        "theirs": f"{type(error).__name__}:{position[0]}:{position[1]}: {message}",
        "ours": f"{ours.kind}:{ours.position[0]}:{ours.position[1]}: {ours.message}",
        "error": [type(error).__name__, message, *position],
    }


def _position(error: Exception) -> list[int | None]:
    """Line, column, end line and end column."""
    return [getattr(error, name, None) for name in ("lineno", "offset", "end_lineno", "end_offset")]


def _judge_tree(source: bytes, answer: Any, theirs: ast.Module) -> dict[str, Any]:
    from accelerd._tree import Tree
    from compare import first_difference

    try:
        ours = Tree.from_bytes(answer.text or source, answer.columns).to_ast()
    except Exception as error:  # Invalid columns are a difference of this source.
        return _different(f"columns: {type(error).__name__}: {error}")
    found = first_difference(theirs, ours)
    if found is None:
        return {"outcome": "equal"}
    place = re.sub(r"\[\d+\]", "[]", found.path)
    last = (re.findall(r"\.\w+", place) or ["."])[-1]
    # Most of CPython's own bugs are in format specifications: their causes are kept apart.
    where = f".format_spec {last}" if ".format_spec." in place else last
    what = where if re.search(r"lineno|offset", place) else f"{where}: {found.theirs} != {found.ours}"
    return _different(f"tree: {what}", path=found.path, theirs=found.theirs, ours=found.ours, place=place)


def _different(cause: str, **more: Any) -> dict[str, Any]:
    # Groups messages that differ only in names and numbers.
    return {"outcome": "different", "cause": re.sub(r"'[^']*'|\d+", "_", cause)[:120], "detail": cause[:300], **more}


def _line(text: bytes, place: int) -> int:
    return 1 + len(re.findall(rb"\r\n?|\n", text[:place]))


def decoded(source: bytes) -> bytes:
    """A source decoded as CPython does, as UTF-8."""
    encoding, _ = tokenize.detect_encoding(BytesIO(source).readline)
    return source if encoding in ("utf-8", "utf-8-sig") else source.decode(encoding).encode()


def _reference_answers(sources: list[bytes]) -> Iterator[Any]:
    """The answers of a perfect parser."""
    from frames import Answer, ParseError
    from reference import columns_of

    for source in sources:
        try:
            text = decoded(source)
            yield Answer(text, columns_of(ast.parse(source), text), None)
        except Exception as error:
            place = sum(
                len(line) for line in source.splitlines(keepends=True)[: (getattr(error, "lineno", 1) or 1) - 1]
            )
            yield Answer(source, None, ParseError(type(error).__name__, place, place, getattr(error, "msg", str(error))))


def main(client: str, sources_file: str, answers_file: str, outcomes_file: str, feature: str = "") -> None:
    load_client(client)
    from frames import read_answers, read_blocks

    warnings.simplefilter("ignore")
    feature_version = tuple(map(int, feature.split("."))) if feature else None
    sys.setrecursionlimit(20_000)
    sources = list(read_blocks(Path(sources_file).read_bytes()))
    if answers_file == "reference":
        answers: Iterator[Any] = _reference_answers(sources)
    else:
        answers = read_answers(Path(answers_file).read_bytes())
    with open(outcomes_file, "w") as out:
        for source, answer in zip(sources, answers, strict=True):
            out.write(json.dumps(judge(source, answer, feature_version)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
