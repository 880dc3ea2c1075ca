"""Tests of parsing: slicing of columns, and results of a real daemon."""

from __future__ import annotations

import ast
import pickle
import sys
from pathlib import Path

import pytest

from accelerd import (
    NO_ROW,
    NODE_FIELDS,
    NODE_KINDS,
    TOKEN_KINDS,
    AccelerdError,
    Client,
    OutputNotRequestedError,
    Parsed,
    _tree,
)
from accelerd._parse import ParseOptions, encoded, parsed
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
    places = {"lineno": 2, "offset": 3, "start": 7, "end": 8}
    told = pb.Diagnostic(**{"class": pb.DIAGNOSTIC_CLASS_TAB_ERROR}, message="mixed", **places)
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


def request(sources: list[str | bytes], outputs: list[str]) -> pb.ParseRequest:
    return ParseOptions(outputs, None, "exec").request(*encoded(sources))


def sources() -> pb.ParseRequest:
    return request([b"pass", b"\tx\n  \ty", b"anything"], ["tree", "tokens", "comments"])


def test_columns_are_taken_apart_by_source() -> None:
    one, wrong, other = parsed(sources(), answer())
    assert ast.dump(one.to_ast()) == ast.dump(ast.parse("pass"))
    assert ast.dump(other.to_ast(), include_attributes=True) == ast.dump(ast.parse("break"), include_attributes=True)
    assert (one.tokens[0].kind, other.tokens[0].end, other.comments) == ("pass", 5, [(6, 9)])
    assert not wrong.is_valid and wrong.diagnostic is not None and wrong.tokens == []
    with pytest.raises(TabError) as raised:
        wrong.to_ast()
    assert (raised.value.lineno, raised.value.offset, raised.value.text) == (2, 3, "  \ty\n")


def test_answers_that_lie_are_refused() -> None:
    fewer, longer = answer(), answer()
    del fewer.results[0]
    longer.nodes.aux += b"1234"
    for lie in (fewer, longer):
        with pytest.raises(AccelerdError, match="malformed"):
            parsed(sources(), lie)


def test_arguments_that_make_no_sense_are_refused() -> None:
    for one in ("x = 1", b"x = 1", bytearray(b"x"), memoryview(b"x"), 3):
        with pytest.raises(TypeError, match="sources: expected a list of str or bytes, got "):
            encoded(one)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"sources\[1\]: expected str, bytes, bytearray or memoryview, got PosixPath"):
        encoded(["x", Path("x")])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"outputs: expected a list of tree, .* got 'trees'"):
        request(["x = 1"], ["trees"])
    with pytest.raises(ValueError, match="mode: expected one of exec, eval, single, got 'func_type'"):
        ParseOptions(["tree"], None, "func_type")
    for wrong in ((2, 7), 7, -1, "3.11", (3, 11, 2), True):
        with pytest.raises(ValueError, match="feature_version: expected"):
            ParseOptions(["tree"], wrong, "exec")  # type: ignore[arg-type]


def test_the_grammar_is_that_of_the_running_python_unless_named() -> None:
    running = max(8, min(sys.version_info[1], 14))
    versions = {None: running, 0: 0, 12: 12, (3, 9): 9}
    for given, sent in versions.items():
        assert ParseOptions(["tree"], given, "exec").feature_version == sent


@pytest.mark.parametrize("output", ["tree", "tokens", "comments", "outline", "line_starts"])
def test_outputs_that_were_not_asked_for_raise_one_error(output: str) -> None:
    others = [name for name in ("tree", "tokens", "comments", "outline") if name != output]
    others = ["outline"] if output == "line_starts" else others
    (one,) = parsed(request(["x"], others), pb.ParseResponse(results=[pb.SourceResult()]))
    readers = {"tree": ["tree", "nodes", "names", "values"], "tokens": ["tokens", "token_columns"]}
    for reader in readers.get(output, [output]):
        with pytest.raises(OutputNotRequestedError, match=f"{output!r} was not requested") as raised:
            getattr(one, reader)
        assert raised.value.output == output
    if output == "tree":
        with pytest.raises(OutputNotRequestedError):
            one.to_ast()


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
    monkeypatch.setattr(_tree, "_node_builder", node_builder if builder == "c" else None)
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


TEXTS = [
    "# coding: latin-1\nx = 'é'",
    "# -*- coding: utf-16 -*-\nx = 'é'",
    "# coding: nonsense\nx = 1",
    "\ufeffx = 1",
    "x = 'é' # \ud83d",
    "x = '\ud83d\ude00'",
    "s = 'a\r\nb'",
    "'\u2028'\nx",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_parsed_as_text(client: Client, text: str) -> None:
    (made,) = client.parse([text])
    try:
        expected = ast.dump(ast.parse(text), include_attributes=True)
    except (SyntaxError, ValueError) as error:
        with pytest.raises(type(error)) as raised:
            made.to_ast()
        assert attributes(raised.value) == attributes(error)
    else:
        assert ast.dump(made.to_ast(), include_attributes=True) == expected


def attributes(error: Exception) -> dict[str, object]:
    names = ["msg", "filename", "lineno", "offset", "end_lineno", "end_offset", "encoding", "start", "end", "reason"]
    found = {name: getattr(error, name) for name in names if hasattr(error, name)}
    return {"class": type(error), "str": str(error), **found}


WRONG = [
    "x +=",
    "x +=\n",
    "if x:\npass\n",
    "def f(:\n    pass",
    "a = (1,\n  2\nb = 3\n",
    "for x in\r\n  y: pass",
    "x = 'é' é é\n",
    "class A:\n\tx = 1\n        y = 2\n",
    "\n\n  x = 1",
    "f(a b)",
    "x = {1: }\ny\n",
    "f(x for x in y, 1)\n",
    "del f()\n",
    "f(a",
    "f(a\n\n",
    "x = )\n",
    "1a\n",
    "\xa0x\n",
    "'abc",
    '"""abc\n',
    "x = 08",
    "return return\n",
]


@pytest.mark.parametrize("source", WRONG)
def test_errors_have_cpythons_attributes(client: Client, source: str) -> None:
    with pytest.raises(SyntaxError) as theirs:
        ast.parse(source, "module.py")
    (made,) = client.parse([source])
    with pytest.raises(SyntaxError) as ours:
        made.to_ast(filename="module.py")
    assert attributes(ours.value) == attributes(theirs.value)
    assert ours.value.text == theirs.value.text
    assert ours.value.args == theirs.value.args


@pytest.mark.parametrize("mode", ["exec", "eval", "single"])
@pytest.mark.parametrize("source", ["f(x)", "x, *y", "lambda: (yield)", "x = 1", "if x: y", "a; b", "", "1 +", "x\ny"])
def test_modes_are_those_of_ast_parse(client: Client, mode: str, source: str) -> None:
    try:
        expected = ast.parse(source, mode=mode)
    except SyntaxError:
        assert not client.parse([source], mode=mode)[0].is_valid
        return
    (made,) = client.parse([source], mode=mode)
    assert ast.dump(made.to_ast(), include_attributes=True) == ast.dump(expected, include_attributes=True)
    compile(made.to_ast(), "x", mode)


def test_sources_may_be_any_kind_of_bytes(client: Client) -> None:
    sources = [b"x = 1", bytearray(b"x = 1"), memoryview(b"yx = 1")[1:], "x = 1"]
    made = client.parse(sources)
    assert len({ast.dump(one.to_ast(), include_attributes=True) for one in made}) == 1


def test_columns_are_views_with_names(client: Client) -> None:
    (made,) = client.parse(["f(x)\ng()\n"], outputs=["tree", "tokens"])
    nodes = made.nodes
    calls = nodes.kinds == NODE_KINDS.index("Call")
    places = zip(nodes.starts[calls], nodes.ends[calls], strict=True)
    assert [made.text[start:end] for start, end in places] == [b"f(x)", b"g()"]
    functions = nodes.fields == NODE_FIELDS.index("func")
    assert [made.names[aux >> 2] for aux in nodes.aux[functions]] == ["f", "g"]
    assert (nodes.parents == NO_ROW).sum() == 2
    assert made.line_starts.tolist()[:2] == [0, 5]
    kinds = [TOKEN_KINDS[kind] for kind in made.token_columns.kinds]
    assert kinds == [token.kind for token in made.tokens]
    assert kinds == ["name", "left_paren", "name", "right_paren", "name", "left_paren", "right_paren"]
    for column in (*nodes, *made.token_columns):
        assert not column.flags.owndata
        with pytest.raises(ValueError):
            column[:] = 0


def test_results_are_pickled(client: Client) -> None:
    valid, wrong = client.parse(["f(x)", "x +="], outputs=["tree", "tokens"])
    expected = ast.dump(valid.to_ast(), include_attributes=True)
    again, refused = pickle.loads(pickle.dumps([valid, wrong]))
    assert ast.dump(again.to_ast(), include_attributes=True) == expected and again.tokens == valid.tokens
    assert refused.diagnostic == wrong.diagnostic


def test_a_stream_parses_batch_after_batch(client: Client) -> None:
    batches = [[f"x{n} = {n}", b"y"] for n in range(20)]
    batches[3] = ["x +="]
    outcomes = {one.sequence: one for one in client.parse_stream(iter(batches))}
    assert sorted(outcomes) == list(range(20))
    for sequence, outcome in outcomes.items():
        assert outcome.error is None and outcome.parsed is not None
        assert len(outcome.parsed) == len(batches[sequence])
        if sequence != 3:
            assert ast.unparse(outcome.parsed[0].to_ast()) == f"x{sequence} = {sequence}"
    assert not outcomes[3].parsed[0].is_valid
    with pytest.raises(TypeError, match=r"sources\[0\]"):
        list(client.parse_stream([["x"], [1]]))  # type: ignore[list-item]
    empty, fine = sorted(client.parse_stream([[], ["x"]]), key=lambda one: one.sequence)
    assert empty.parsed is None and isinstance(empty.error, AccelerdError) and fine.error is None


def test_more_sources_than_a_message_holds_are_parsed_in_parts(server: str) -> None:
    sources = [f"x{n} = [{'1, ' * 2000}1]" for n in range(40)]
    with Client(server, max_message_bytes=100_000) as small:
        made = small.parse(sources)
    assert [ast.unparse(one.to_ast())[:3].split()[0] for one in made] == [f"x{n}" for n in range(40)]
    assert Client(server).parse([]) == []
