"""Parsing: columns taken apart by source, and against a real daemon."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from accelerd import AccelerdError, Client, Parsed, _build
from accelerd._parse import parsed, request
from accelerd._proto import parse_pb2 as pb

MODULE = b'''import os.path as p
from .x import a, b


class Client:
    """Talks."""

    @property
    def name(self): return p  # it

    async def connect(self):
        def inner(): ...
'''


def numbers(*column: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in column)


def answer() -> pb.ParseResponse:
    """About `pass`, something that is no Python, and `break # x`."""
    told = pb.Diagnostic(**{"class": pb.DIAGNOSTIC_CLASS_TAB_ERROR}, message="mixed", line=2, column=3, start=7, end=8)
    return pb.ParseResponse(
        results=[
            pb.SourceResult(node_count=1, token_count=1),
            pb.SourceResult(diagnostic=told),
            pb.SourceResult(node_count=1, token_count=1, comment_count=1, text=b"break # x"),
        ],
        nodes=pb.NodeColumns(
            kinds=bytes([pb.NODE_KIND_PASS, pb.NODE_KIND_BREAK]),
            fields=bytes([pb.NODE_FIELD_BODY] * 2),
            parents=b"\xff" * 8,
            starts=numbers(0, 0),
            ends=numbers(4, 5),
            aux=numbers(0, 0),
        ),
        tokens=pb.TokenColumns(
            kinds=bytes([pb.TOKEN_KIND_PASS, pb.TOKEN_KIND_BREAK]), starts=numbers(0, 0), ends=numbers(4, 5)
        ),
        comments=pb.SpanColumns(starts=numbers(6), ends=numbers(9)),
    )


def sources() -> pb.ParseRequest:
    return request([b"pass", b"\tx\n  \ty", b"anything"], ["tree", "tokens", "comments"], 0)


def test_columns_are_taken_apart_by_source() -> None:
    one, wrong, other = parsed(sources(), answer())
    assert ast.dump(one.to_ast()) == ast.dump(ast.parse("pass"))
    assert ast.dump(other.to_ast(), include_attributes=True) == ast.dump(ast.parse("break"), include_attributes=True)
    assert (one.tokens[0].kind, other.tokens[0].end, other.comments) == ("pass", 5, [(6, 9)])
    assert not wrong.is_valid and wrong.diagnostic is not None and wrong.tokens == []
    with pytest.raises(TabError) as raised:
        wrong.to_ast()
    assert (raised.value.lineno, raised.value.offset, raised.value.text) == (2, 3, "  \ty")


def test_answers_that_lie_are_refused() -> None:
    fewer, longer = answer(), answer()
    del fewer.results[0]
    longer.nodes.aux += b"1234"
    for lie in (fewer, longer):
        with pytest.raises(AccelerdError, match="malformed"):
            parsed(sources(), lie)


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TypeError):
        request("x = 1", [], 0)
    with pytest.raises(ValueError, match="got 'trees'"):
        request(["x = 1"], ["trees"], 0)
    (outlined,) = parsed(request(["x"], ["outline"], 0), pb.ParseResponse(results=[pb.SourceResult()]))
    with pytest.raises(ValueError, match="not asked for"):
        outlined.to_ast()


def same(source: bytes, made: Parsed) -> None:
    # Before Python 3.12 the parts of an f-string had the places of the whole.
    places = sys.version_info >= (3, 12)
    expected, got = (ast.dump(one, include_attributes=places) for one in (ast.parse(source), made.to_ast()))
    # The difference of two long lines would take pytest minutes to show.
    is_same = got == expected
    assert is_same, made


LIBRARIES = ("asyncio", "email", "json", "importlib", "unittest", "concurrent/futures")


@pytest.mark.parametrize("builder", ["python", "c"])
def test_trees_of_libraries_are_those_of_this_python(
    client: Client, builder: str, node_builder: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_build, "_node_builder", node_builder if builder == "c" else None)
    library = Path(ast.__file__).parent
    files = [file for name in LIBRARIES for file in sorted((library / name).rglob("*.py"))]
    files += [Path(pytest.__file__), Path(__file__), library / "ast.py", library / "typing.py"]
    given = [file.read_bytes() for file in files]
    for source, made in zip(given, client.parse(given), strict=True):
        same(source, made)


def test_a_source_has_its_outline_tokens_and_comments(client: Client) -> None:
    (made,) = client.parse([MODULE], outputs=["outline", "tokens", "comments"])
    assert [(item.kind, item.qualified_name) for item in made.outline] == [
        ("Import", "os.path as p"),
        ("ImportFrom", ".x import a, b"),
        ("ClassDef", "Client"),
        ("FunctionDef", "Client.name"),
        ("AsyncFunctionDef", "Client.connect"),
        ("FunctionDef", "Client.connect.inner"),
    ]
    around, name = made.outline[2:4]
    assert around.docstring is not None and MODULE[slice(*around.docstring)] == b'"""Talks."""'
    assert (name.line, name.end_line, name.parent) == (8, 9, 2)
    assert [MODULE[start:end] for start, end in made.comments] == [b"# it"]
    assert [MODULE[token.start : token.end] for token in made.tokens[:3]] == [b"import", b"os", b"."]


def test_what_is_no_python_has_cpythons_verdict(client: Client) -> None:
    wrong, right = client.parse(["if x:\npass", "match = 1"])
    assert right.is_valid and wrong.diagnostic is not None
    assert (wrong.diagnostic.cls, wrong.diagnostic.line) == (IndentationError, 2)
    with pytest.raises(IndentationError):
        wrong.to_ast()
    (new,) = client.parse(["type X = int"], feature_version=11)
    assert not new.is_valid
