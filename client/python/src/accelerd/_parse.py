"""Parsed sources: verdicts, trees, outlines, tokens, comments."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ._call import Method, Operation, Part, Settings, SplitOperation, parts_by_bytes
from ._errors import AccelerdError, from_item, malformed
from ._kinds import FIELDS, KINDS, OPERATORS
from ._proto import parse_pb2 as pb
from ._tree import Tree

#: What is parsed: text, or the bytes of a file.
Source: TypeAlias = "str | bytes | bytearray | memoryview"
Output: TypeAlias = Literal["tree", "tokens", "comments", "outline", "line_starts"]
Mode: TypeAlias = Literal["exec", "eval", "single"]
Root = TypeVar("Root", bound=ast.mod)

PARSE = Method("ParseService", "Parse", pb.ParseResponse)
PARSE_STREAM = Method("ParseService", "ParseStream", pb.ParseStreamResponse)
# Versions of the grammar that the daemon knows; a newer Python parses with the newest of them.
_OLDEST, _NEWEST = 8, 14
# An answer is larger than its request: about 1.7 times for trees, and more with tokens.
_ANSWER_GROWTH = 4
_MAX_SOURCES = 65_536

OUTPUTS: dict[str, pb.ParseOutput] = {
    "tree": pb.PARSE_OUTPUT_TREE,
    "tokens": pb.PARSE_OUTPUT_TOKENS,
    "comments": pb.PARSE_OUTPUT_COMMENTS,
    "outline": pb.PARSE_OUTPUT_OUTLINE,
    "line_starts": pb.PARSE_OUTPUT_LINE_STARTS,
}
MODES: dict[str, pb.ParseMode] = {
    "exec": pb.PARSE_MODE_EXEC,
    "eval": pb.PARSE_MODE_EVAL,
    "single": pb.PARSE_MODE_SINGLE,
}

# Each column: its message, its field there, bytes a number, and the result's field with its rows.
_COLUMNS = {
    **{name: ("nodes", name, 1, "node_count") for name in ("kinds", "fields")},
    **{name: ("nodes", name, 4, "node_count") for name in ("parents", "starts", "ends", "aux")},
    **{f"name_{name}": ("names", name, 4, "name_count") for name in ("starts", "ends")},
    "value_tags": ("values", "tags", 1, "value_count"),
    **{f"value_{name}": ("values", name, 4, "value_count") for name in ("starts", "ends")},
    "extra": ("", "extra", 1, "extra_size"),
    "line_starts": ("", "line_starts", 4, "line_count"),
    "token_kinds": ("tokens", "kinds", 1, "token_count"),
    **{f"token_{name}": ("tokens", name, 4, "token_count") for name in ("starts", "ends")},
    **{f"comment_{name}": ("comments", name, 4, "comment_count") for name in ("starts", "ends")},
}
_TREE = tuple(name for name in _COLUMNS if not name.startswith(("token_", "comment_", "line_")))
_CLASSES: dict[int, type[Exception]] = {
    pb.DIAGNOSTIC_CLASS_SYNTAX_ERROR: SyntaxError,
    pb.DIAGNOSTIC_CLASS_INDENTATION_ERROR: IndentationError,
    pb.DIAGNOSTIC_CLASS_TAB_ERROR: TabError,
    pb.DIAGNOSTIC_CLASS_VALUE_ERROR: ValueError,
    pb.DIAGNOSTIC_CLASS_UNICODE_DECODE_ERROR: UnicodeDecodeError,
    pb.DIAGNOSTIC_CLASS_UNICODE_ENCODE_ERROR: UnicodeEncodeError,
}


def _lower_names(enum: Any, prefix: str) -> tuple[str, ...]:
    return tuple("" if not v.number else v.name.removeprefix(prefix).lower() for v in enum.DESCRIPTOR.values)


#: What the numbers in columns mean: each name is at its number's place, and number 0 is none.
NODE_KINDS: tuple[str, ...] = tuple(KINDS)
NODE_FIELDS: tuple[str, ...] = tuple(FIELDS)
NODE_OPERATORS: tuple[str, ...] = tuple(OPERATORS)
TOKEN_KINDS: tuple[str, ...] = _lower_names(pb.TokenKind, "TOKEN_KIND_")
VALUE_TAGS: tuple[str, ...] = _lower_names(pb.ValueTag, "VALUE_TAG_")
#: The parent of a row without one, and an `aux` that is none.
NO_ROW = (1 << 32) - 1


class OutputNotRequestedError(ValueError):
    """An output of `parse` that its call did not ask for."""

    def __init__(self, output: str) -> None:
        super().__init__(f"the output {output!r} was not asked for: parse(..., outputs=[..., {output!r}])")
        self.output = output

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.output,)


@dataclass(frozen=True)
class Diagnostic:
    """The first error of a source, as CPython reports it.

    Lines count from 1 and offsets are in characters from 1, as those of `SyntaxError`; None where CPython has None.
    """

    #: The exception that CPython would raise: SyntaxError, a subclass of it, ValueError or a subclass of it.
    cls: type[Exception]
    message: str
    lineno: int | None
    offset: int | None
    end_lineno: int | None
    end_offset: int | None
    #: Bytes of the text where it starts and ends.
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line, 0 where CPython names none."""
        return max(self.lineno or 0, 0)

    @property
    def column(self) -> int:
        """The offset in characters from 1, 0 where CPython names none."""
        return max(self.offset or 0, 0)

    def error(self, filename: str = "<unknown>", text: bytes | str = b"") -> Exception:
        """The exception that `ast.parse` raises, with its attributes; `text` is the source, for the line in it."""
        source = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        if issubclass(self.cls, SyntaxError):
            place = filename, self.lineno, self.offset, self._line(source), self.end_lineno, self.end_offset
            return self.cls(self.message, place)
        if self.cls is UnicodeDecodeError:
            return _decode_error(self.message, source[self.start : self.end])
        if self.cls is UnicodeEncodeError:
            return _encode_error(self.message, source)
        return self.cls(self.message)

    def _line(self, source: bytes) -> str | None:
        """The line as CPython quotes it.

        It quotes the line that its tokenizer is in with the newline at its end, also where the source lacks it. Without
        it come a line that the tokenizer has left when the error is found, and errors of the tokenizer itself.
        """
        if self.lineno is None:
            return None
        lines = re.split(rb"\r\n?|\n", source.removeprefix(b"\xef\xbb\xbf"))
        if not 0 < self.lineno <= len(lines):
            return None
        line = lines[self.lineno - 1].decode("utf-8", "replace")
        is_last = self.lineno == len(lines) or (self.lineno == len(lines) - 1 and not lines[-1])
        is_left = (self.end_lineno or 0) > self.lineno or (not is_last and "was never closed" in self.message)
        is_past_the_end = self.lineno == len(lines) and not line
        return line if is_left or is_past_the_end or _OF_THE_TOKENIZER.match(self.message) else line + "\n"


_OF_THE_TOKENIZER = re.compile(
    r"unterminated|unmatched|closing parenthesis|leading zeros|too many nested|f-string: expecting"
    r"|invalid (?:digit|character|non-printable|\w+ literal)"
)
_DECODE_MESSAGE = re.compile(r"'([^']+)' codec can't decode bytes? (?:0x\w+ )?in position (\d+)(?:-(\d+))?: (.*)", re.S)


def _decode_error(message: str, written: bytes) -> Exception:
    """A UnicodeDecodeError with this message."""
    found = _DECODE_MESSAGE.fullmatch(message)
    if found is None:
        return ValueError(message)
    codec, start, last, reason = found.groups()
    end = int(last or start) + 1
    return UnicodeDecodeError(codec, written.ljust(end, b"?"), int(start), end, reason)


def _encode_error(message: str, source: bytes) -> Exception:
    """The UnicodeEncodeError of a text with lone surrogates."""
    try:
        source.decode("utf-8", "surrogatepass").encode()
    except UnicodeError as error:
        return error
    return ValueError(message)


@dataclass(frozen=True)
class OutlineItem:
    """A function, class or import."""

    #: FunctionDef, AsyncFunctionDef, ClassDef, Import or ImportFrom.
    kind: str
    #: Of an import what is imported, as in `os.path as p` or `.x import a, b`.
    name: str
    #: The name after those of the functions and classes around it, as in `Client.connect`.
    qualified_name: str
    #: Bytes of the text, decorators included.
    start: int
    end: int
    #: Lines, from 1.
    line: int
    end_line: int
    #: Index in the outline of the function or class around it.
    parent: int | None
    #: Where the docstring's literal starts and ends.
    docstring: tuple[int, int] | None


class Token(NamedTuple):
    """A token; `text[start:end]` of its source is what stands there."""

    #: `name`, `number`, `string`, `left_paren`, ...: one of TOKEN_KINDS.
    kind: str
    start: int
    end: int


class Nodes(NamedTuple):
    """The nodes of a tree as columns: a row is a node. proto/accelerd/v1/parse.proto explains their order.

    `nodes.starts[nodes.kinds == NODE_KINDS.index("Call")]` is where all calls start.
    """

    #: uint8, places in NODE_KINDS.
    kinds: NDArray[np.uint8]
    #: uint8, places in NODE_FIELDS: the field of the parent that a node is in.
    fields: NDArray[np.uint8]
    #: uint32, rows; NO_ROW for those in the body of the module.
    parents: NDArray[np.uint32]
    #: uint32, bytes of the text.
    starts: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    #: uint32, by kind: a name, a value, a context, a place in NODE_OPERATORS, ...
    aux: NDArray[np.uint32]


class TokenColumns(NamedTuple):
    """Tokens as columns."""

    #: uint8, places in TOKEN_KINDS.
    kinds: NDArray[np.uint8]
    #: uint32, bytes of the text.
    starts: NDArray[np.uint32]
    ends: NDArray[np.uint32]


class Parsed(Generic[Root]):
    """What became of one source. What was not asked for raises `OutputNotRequestedError`."""

    def __init__(
        self, text: bytes, result: pb.SourceResult, columns: dict[str, memoryview], asked: frozenset[str], mode: Mode
    ) -> None:
        #: The source as UTF-8; all places are bytes of it.
        self.text = text
        self._result = result
        self._columns = columns
        self._asked = asked
        self._mode = mode

    def __repr__(self) -> str:
        verdict = f"line {self._result.diagnostic.line}: {self._result.diagnostic.message}"
        return f"Parsed({len(self.text)} bytes, {'valid' if self.is_valid else verdict})"

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("text", "_asked", "_mode")}
        columns = {name: bytes(column) for name, column in self._columns.items()}
        return {**kept, "_result": self._result.SerializeToString(), "_columns": columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._result = pb.SourceResult.FromString(state["_result"])
        self._columns = {name: memoryview(column) for name, column in state["_columns"].items()}

    @property
    def is_valid(self) -> bool:
        """Whether it is Python."""
        return not self._result.HasField("diagnostic")

    @cached_property
    def diagnostic(self) -> Diagnostic | None:
        """Why it is not Python."""
        if self.is_valid:
            return None
        sent = self._result.diagnostic
        return Diagnostic(
            cls=_CLASSES.get(getattr(sent, "class"), SyntaxError),
            message=sent.message,
            lineno=sent.lineno if sent.HasField("lineno") else None,
            offset=sent.offset if sent.HasField("offset") else None,
            end_lineno=sent.end_lineno if sent.HasField("end_lineno") else None,
            end_offset=sent.end_offset if sent.HasField("end_offset") else None,
            start=sent.start,
            end=sent.end,
        )

    def raise_for_diagnostic(self, filename: str = "<unknown>") -> None:
        """Raises what `ast.parse` raises where it is not Python."""
        if self.diagnostic is not None:
            raise self.diagnostic.error(filename, self.text)

    @cached_property
    def tree(self) -> Tree:
        """The columns of its tree. Raises what CPython would raise where it is not Python."""
        return self._tree("<unknown>")

    def _tree(self, filename: str) -> Tree:
        self.raise_for_diagnostic(filename)
        self._require("tree")
        return Tree.from_bytes(self.text, {name: self._columns[name] for name in _TREE})

    def to_ast(self, filename: str = "<unknown>") -> Root:
        """The tree that `ast.parse` builds, in the running Python's classes. Raises what CPython would raise.

        filename: what a SyntaxError names.
        """
        self.raise_for_diagnostic(filename)
        return cast(Root, self.tree.to_ast(self._mode))

    @cached_property
    def nodes(self) -> Nodes:
        """The nodes as columns: views, without copies. Raises what CPython would raise where it is not Python."""
        self.raise_for_diagnostic()
        self._require("tree")
        return Nodes(*(self._array(name) for name in Nodes._fields))

    @cached_property
    def names(self) -> list[str]:
        """The names that `aux` refers to."""
        return self.tree.names()

    @cached_property
    def values(self) -> list[Any]:
        """The values of constants that `aux` refers to."""
        return self.tree.values()

    @cached_property
    def line_starts(self) -> NDArray[np.uint32]:
        """Where each line starts: a view."""
        self._require("line_starts", "tree")
        return self._array("line_starts")

    @cached_property
    def outline(self) -> list[OutlineItem]:
        """Functions, classes and imports, in the order of the source."""
        self._require("outline")
        items: list[OutlineItem] = []
        for item in self._result.outline:
            parent = item.parent if item.HasField("parent") and item.parent < len(items) else None
            around = "" if parent is None else items[parent].qualified_name + "."
            docstring = item.docstring_start, item.docstring_end
            items.append(
                OutlineItem(
                    kind=KINDS[item.kind] if item.kind < len(KINDS) else "",
                    name=item.name,
                    qualified_name=around + item.name,
                    start=item.start,
                    end=item.end,
                    line=item.line,
                    end_line=item.end_line,
                    parent=parent,
                    docstring=docstring if any(docstring) else None,
                )
            )
        return items

    @cached_property
    def token_columns(self) -> TokenColumns:
        """Tokens other than comments, newlines and indentation; of a source with an error those before it."""
        self._require("tokens")
        return TokenColumns(*(self._array(f"token_{name}") for name in TokenColumns._fields))

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens as a list."""
        kinds, starts, ends = (column.tolist() for column in self.token_columns)
        names = (TOKEN_KINDS[kind] if kind < len(TOKEN_KINDS) else "" for kind in kinds)
        return [Token(*row) for row in zip(names, starts, ends, strict=True)]

    @cached_property
    def comments(self) -> list[tuple[int, int]]:
        """Where each comment starts and ends, from `#` to the end of the line."""
        self._require("comments")
        starts, ends = (self._array(f"comment_{name}").tolist() for name in ("starts", "ends"))
        return list(zip(starts, ends, strict=True))

    def _require(self, *outputs: str) -> None:
        if not self._asked & {*outputs}:
            raise OutputNotRequestedError(outputs[0])

    def _array(self, name: str) -> NDArray[Any]:
        return np.frombuffer(self._columns[name], np.uint8 if _COLUMNS[name][2] == 1 else "<u4")


@dataclass(frozen=True)
class ParseOutcome(Generic[Root]):
    """What became of one batch of a stream."""

    #: Which batch, counted from 0.
    sequence: int
    #: Its sources' results; None where the batch failed.
    parsed: list[Parsed[Root]] | None
    #: Why it failed.
    error: AccelerdError | None


class ParseOptions:
    """Checked options of a parse."""

    def __init__(self, outputs: Sequence[str], feature_version: int | tuple[int, int] | None, mode: str) -> None:
        if isinstance(outputs, str) or (unknown := [name for name in outputs if name not in OUTPUTS]):
            got = outputs if isinstance(outputs, str) else unknown[0]
            raise ValueError(f"outputs: expected a list of {', '.join(OUTPUTS)}, got {got!r}")
        if mode not in MODES:
            raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
        self.outputs = list(outputs) or ["tree"]
        self.feature_version = _minor(feature_version)
        self.mode = cast(Mode, mode)

    def request(self, sources: list[bytes], types: list[pb.SourceType]) -> pb.ParseRequest:
        """The message."""
        return pb.ParseRequest(
            sources=sources,
            source_types=types[:1] if len({*types}) == 1 else types,
            outputs=[OUTPUTS[name] for name in self.outputs],
            feature_version=self.feature_version,
            mode=MODES[self.mode],
        )


def _minor(version: int | tuple[int, int] | None) -> int:
    if version is None:
        return max(_OLDEST, min(sys.version_info[1], _NEWEST))
    if isinstance(version, tuple) and len(version) == 2 and version[0] == 3:
        version = version[1]
    if not isinstance(version, int) or isinstance(version, bool) or not (version == 0 or version >= _OLDEST):
        raise ValueError(
            f"feature_version: expected (3, n) or n, from {_OLDEST} on, or 0 for the newest, got {version!r}"
        )
    return version


def encoded(sources: Iterable[Source]) -> tuple[list[bytes], list[pb.SourceType]]:
    """Sources as they are sent: text as UTF-8, and what it is."""
    if isinstance(sources, (str, bytes, bytearray, memoryview)) or not isinstance(sources, Iterable):
        raise TypeError(f"sources: expected a list of str or bytes, got one {type(sources).__name__}")
    data: list[bytes] = []
    types: list[pb.SourceType] = []
    for at, source in enumerate(sources):
        if isinstance(source, str):
            # A lone surrogate is for the daemon to refuse, with the words of CPython.
            data.append(source.encode("utf-8", "surrogatepass"))
            types.append(pb.SOURCE_TYPE_TEXT)
        elif isinstance(source, (bytes, bytearray, memoryview)):
            data.append(bytes(source))
            types.append(pb.SOURCE_TYPE_FILE)
        else:
            got = type(source).__name__
            raise TypeError(f"sources[{at}]: expected str, bytes, bytearray or memoryview, got {got}")
    return data, types


def parse(sources: Iterable[Source], options: ParseOptions, settings: Settings) -> SplitOperation[list[Parsed[Any]]]:
    """Parses sources, in as many calls as their answers need."""
    data, types = encoded(sources)
    limit = settings.max_message_bytes // _ANSWER_GROWTH

    def operation(part: Part) -> Operation[list[Parsed[Any]]]:
        request = options.request(data[part.start : part.stop], types[part.start : part.stop])
        return Operation(PARSE, request, lambda answer: parsed(request, answer))

    return SplitOperation(
        parts_by_bytes(map(len, data), limit, _MAX_SOURCES) if data else [],
        operation,
        lambda done: [one for _, results in done for one in results],
    )


class ParseStream:
    """A stream of batches; each request is kept until its answer, which needs its sources."""

    def __init__(self, options: ParseOptions) -> None:
        self._options = options
        self._sent: dict[int, pb.ParseRequest] = {}

    def request(self, sequence: int, sources: Iterable[Source]) -> pb.ParseStreamRequest:
        """The message of a batch."""
        request = self._options.request(*encoded(sources))
        self._sent[sequence] = request
        return pb.ParseStreamRequest(sequence=sequence, parse=request)

    def outcome(self, answer: pb.ParseStreamResponse) -> ParseOutcome[Any]:
        """What became of a batch."""
        request = self._sent.pop(answer.sequence, None)
        kind = answer.WhichOneof("result")
        if request is None or kind is None:
            raise malformed(f"an answer to batch {answer.sequence}")
        if kind == "error":
            return ParseOutcome(answer.sequence, None, from_item(answer.error))
        return ParseOutcome(answer.sequence, parsed(request, answer.parse), None)


def parsed(request: pb.ParseRequest, answer: pb.ParseResponse) -> list[Parsed[Any]]:
    """What became of each source."""
    if len(answer.results) != len(request.sources):
        raise malformed(f"{len(answer.results)} results of {len(request.sources)} sources")
    parts = {name: _parts(name, answer) for name in _COLUMNS}
    asked = frozenset(name for name, number in OUTPUTS.items() if number in request.outputs)
    mode = next((name for name, number in MODES.items() if number == request.mode), "exec")
    found: list[Parsed[Any]] = []
    for source, result in zip(request.sources, answer.results, strict=True):
        text = result.text if result.HasField("text") else source
        columns = {name: next(part) for name, part in parts.items()}
        found.append(Parsed(text, result, columns, asked or frozenset(["tree"]), cast(Mode, mode)))
    return found


def _parts(name: str, answer: pb.ParseResponse) -> Iterator[memoryview]:
    """A column, divided by source."""
    table, field, size, count = _COLUMNS[name]
    owner: Any = getattr(answer, table) if table else answer
    column = memoryview(getattr(owner, field))
    counts = [getattr(result, count) * size for result in answer.results]
    if sum(counts) != len(column):
        raise malformed(f"{name}: {len(column)} bytes, the results say {sum(counts)}")
    return _slices(column, counts)


def _slices(column: memoryview, sizes: list[int]) -> Iterator[memoryview]:
    at = 0
    for size in sizes:
        yield column[at : at + size]
        at += size
