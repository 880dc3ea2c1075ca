"""Parsing: trees, outlines, tokens and comments of sources."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import _html
from ._call import Operation, Part, Settings, SplitOperation, parts_by_bytes
from ._diagnostic import Diagnostic, received_diagnostic
from ._errors import AccelerdError, from_item, malformed
from ._kinds import FIELDS, KINDS, OPERATORS
from ._message import is_among
from ._methods import ParseService
from ._proto import parse_pb2 as pb
from ._tree import Tree
from ._visible import visible

#: A source: text, or the bytes of a file.
Source: TypeAlias = "str | bytes | bytearray | memoryview"
Output: TypeAlias = Literal["tree", "tokens", "comments", "outline", "line_starts"]
Mode: TypeAlias = Literal["exec", "eval", "single"]
Root = TypeVar("Root", bound=ast.mod)

# Versions of the grammar that the daemon supports; a newer Python uses the newest.
_OLDEST, _NEWEST = 8, 14
# Bound on the size of a response relative to its request: about 1.7 for trees, and more with tokens.
_RESPONSE_GROWTH = 4
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

# Each column: its message, its field there, bytes per row, and the field of the result with its number of rows.
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


def _lower_names(enum: Any, prefix: str) -> tuple[str, ...]:
    return tuple("" if not v.number else v.name.removeprefix(prefix).lower() for v in enum.DESCRIPTOR.values)


#: Names of the numbers in columns, indexed by number; 0 is unspecified.
NODE_KINDS: tuple[str, ...] = tuple(KINDS)
NODE_FIELDS: tuple[str, ...] = tuple(FIELDS)
NODE_OPERATORS: tuple[str, ...] = tuple(OPERATORS)
TOKEN_KINDS: tuple[str, ...] = _lower_names(pb.TokenKind, "TOKEN_KIND_")
VALUE_TAGS: tuple[str, ...] = _lower_names(pb.ValueTag, "VALUE_TAG_")
#: `parent` of a row without a parent, and `aux` without a value.
NO_ROW = (1 << 32) - 1
# Characters of a node's source that a notebook shows.
_MAX_SHOWN = 60


class OutputNotRequestedError(ValueError):
    """An output that the call of `parse` did not request."""

    def __init__(self, output: str) -> None:
        super().__init__(f"the output {output!r} was not requested: use parse(..., outputs=[..., {output!r}])")
        self.output = output

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.output,)


@dataclass(frozen=True)
class OutlineItem:
    """A function, class or import."""

    #: FunctionDef, AsyncFunctionDef, ClassDef, Import or ImportFrom.
    kind: str
    #: The name; of an import its operand, as in `os.path as p` or `.x import a, b`.
    name: str
    #: The name prefixed with those of the enclosing functions and classes, as in `Client.connect`.
    qualified_name: str
    #: Range of bytes in the text, decorators included.
    start: int
    end: int
    #: Lines, from 1.
    line: int
    end_line: int
    #: Index in the outline of the enclosing function or class; None at the top level.
    parent: int | None
    #: Range of bytes of the docstring's literal.
    docstring: tuple[int, int] | None


class Token(NamedTuple):
    """A token: `text[start:end]` of its source."""

    #: One of TOKEN_KINDS: `name`, `number`, `string`, `left_paren`, ...
    kind: str
    start: int
    end: int


class Nodes(NamedTuple):
    """The nodes of a tree as columns, one row per node, in the order that `proto/accelerd/v1/parse.proto` documents.

    `nodes.starts[nodes.kinds == NODE_KINDS.index("Call")]` are the starts of all calls.
    """

    #: uint8, indices in NODE_KINDS.
    kinds: NDArray[np.uint8]
    #: uint8, indices in NODE_FIELDS: the field of the parent that a node is in.
    fields: NDArray[np.uint8]
    #: uint32, rows; NO_ROW for the nodes in the body of the module.
    parents: NDArray[np.uint32]
    #: uint32, ranges of bytes in the text.
    starts: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    #: uint32, by kind: a name, a value, a context, an index in NODE_OPERATORS, ...
    aux: NDArray[np.uint32]


class TokenColumns(NamedTuple):
    """Tokens as columns."""

    #: uint8, indices in TOKEN_KINDS.
    kinds: NDArray[np.uint8]
    #: uint32, ranges of bytes in the text.
    starts: NDArray[np.uint32]
    ends: NDArray[np.uint32]


def _depth(parents: NDArray[np.uint32], row: int) -> int:
    depth = 0
    while (row := int(parents[row])) != NO_ROW:
        depth += 1
    return depth


class Parsed(Generic[Root]):
    """Result of one source. Outputs that the call did not request raise `OutputNotRequestedError`."""

    def __init__(
        self,
        text: bytes,
        result: pb.SourceResult,
        columns: dict[str, memoryview],
        outputs: frozenset[str],
        mode: Mode,
        feature_version: int | None = None,
    ) -> None:
        #: The source as UTF-8; all positions are byte offsets in it.
        self.text = text
        self._result = result
        self._columns = columns
        self._outputs = outputs
        self._mode = mode
        self._feature_version = feature_version

    def __repr__(self) -> str:
        diagnostic = visible(f"line {self._result.diagnostic.line}: {self._result.diagnostic.message}")
        return f"Parsed({len(self.text)} bytes, {'valid' if self.is_valid else diagnostic})"

    def _repr_html_(self) -> str:
        if self.diagnostic is not None:
            return _html.text(f"{self!r}\n{self.diagnostic}")
        if "outline" in self._outputs:
            rows = ([item.kind, item.qualified_name, item.line] for item in self.outline)
            caption = f"{self!r}, {len(self.outline):,} functions, classes and imports"
            return _html.table(caption, ["kind", "name", "line"], rows, len(self.outline))
        return _html.text("\n".join([repr(self), *(self._shown_nodes() if "tree" in self._outputs else ())]))

    def _shown_nodes(self) -> Iterator[str]:
        """Iterate over the lines of the first nodes in the order of the source, indented by their depth."""
        nodes = self.nodes
        yield f"{len(nodes.kinds):,} nodes"
        # Of nodes with the same range the outer one comes first.
        order = np.lexsort((-nodes.ends.astype(np.int64), nodes.starts))[: 4 * _html.MAX_ROWS].tolist()
        depths = {row: _depth(nodes.parents, row) for row in order}
        order.sort(key=lambda row: (nodes.starts[row], -int(nodes.ends[row]), depths[row]))
        for row in order[: _html.MAX_ROWS]:
            depth = depths[row]
            source = self.text[nodes.starts[row] : nodes.ends[row]].decode(errors="replace").partition("\n")[0]
            yield f"{'  ' * depth}{NODE_KINDS[nodes.kinds[row]]}  {source[:_MAX_SHOWN]}"

    def __getstate__(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("text", "_outputs", "_mode", "_feature_version")}
        columns = {name: bytes(column) for name, column in self._columns.items()}
        return {**plain, "_result": self._result.SerializeToString(), "_columns": columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._result = pb.SourceResult.FromString(state["_result"])
        self._columns = {name: memoryview(column) for name, column in state["_columns"].items()}

    @property
    def is_valid(self) -> bool:
        """Whether the source is valid Python."""
        return not self._result.HasField("diagnostic")

    @cached_property
    def diagnostic(self) -> Diagnostic | None:
        """The first error; None if the source is valid."""
        if self.is_valid:
            return None
        return received_diagnostic(self._result.diagnostic, self._feature_version)

    def raise_for_diagnostic(self, filename: str = "<unknown>") -> None:
        """Raise the exception of `ast.parse` if the source is invalid."""
        if self.diagnostic is not None:
            raise self.diagnostic.error(filename, self.text)

    @cached_property
    def tree(self) -> Tree:
        """The columns of the tree. Raises the exception of `ast.parse` if the source is invalid."""
        return self._tree("<unknown>")

    def _tree(self, filename: str) -> Tree:
        self.raise_for_diagnostic(filename)
        self._require("tree")
        return Tree.from_bytes(self.text, {name: self._columns[name] for name in _TREE})

    def to_ast(self, filename: str = "<unknown>") -> Root:
        """Return the tree that `ast.parse` builds, of the running Python's classes.

        Args:
            filename: The filename of a SyntaxError.

        Raises:
            SyntaxError, ValueError: The source is invalid.
        """
        self.raise_for_diagnostic(filename)
        return cast(Root, self.tree.to_ast(self._mode))

    @cached_property
    def nodes(self) -> Nodes:
        """The nodes as columns, without a copy. Raises the exception of `ast.parse` if the source is invalid."""
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
        """The start of each line, without a copy."""
        self._require("line_starts", "tree")
        return self._array("line_starts")

    @cached_property
    def outline(self) -> list[OutlineItem]:
        """Functions, classes and imports, in source order."""
        self._require("outline")
        items: list[OutlineItem] = []
        for item in self._result.outline:
            parent = item.parent if item.HasField("parent") and item.parent < len(items) else None
            prefix = "" if parent is None else items[parent].qualified_name + "."
            docstring = item.docstring_start, item.docstring_end
            items.append(
                OutlineItem(
                    kind=KINDS[item.kind] if item.kind < len(KINDS) else "",
                    name=item.name,
                    qualified_name=prefix + item.name,
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
        """Tokens without comments, newlines and indentation. A source with an error has those before the error."""
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
        """Ranges of bytes of the comments, from `#` to the end of the line."""
        self._require("comments")
        starts, ends = (self._array(f"comment_{name}").tolist() for name in ("starts", "ends"))
        return list(zip(starts, ends, strict=True))

    def _require(self, *outputs: str) -> None:
        if not self._outputs & {*outputs}:
            raise OutputNotRequestedError(outputs[0])

    def _array(self, name: str) -> NDArray[Any]:
        return np.frombuffer(self._columns[name], np.uint8 if _COLUMNS[name][2] == 1 else "<u4")


@dataclass(frozen=True)
class ParseOutcome(Generic[Root]):
    """Outcome of one batch of a stream."""

    #: Index of the batch.
    sequence: int
    #: Results of its sources; None if the batch failed.
    parsed: list[Parsed[Root]] | None
    #: Why the batch failed; None if it did not.
    error: AccelerdError | None


class ParseOptions:
    """Validated options of a parse."""

    def __init__(self, outputs: Sequence[str], feature_version: int | tuple[int, int] | None, mode: str) -> None:
        if isinstance(outputs, str) or (unknown := [name for name in outputs if not is_among(name, OUTPUTS)]):
            got = outputs if isinstance(outputs, str) else unknown[0]
            raise ValueError(f"outputs: expected a list of {', '.join(OUTPUTS)}, got {got!r}")
        if not is_among(mode, MODES):
            raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
        self.outputs = list(outputs) or ["tree"]
        self.feature_version = _minor(feature_version)
        self.mode = cast(Mode, mode)

    def request(self, sources: list[bytes], types: list[pb.SourceType]) -> pb.ParseRequest:
        """Return the message."""
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
            f"feature_version: expected (3, n) or n with n at least {_OLDEST}, or 0 for the newest, got {version!r}"
        )
    return version


def encoded(sources: Iterable[Source]) -> tuple[list[bytes], list[pb.SourceType]]:
    """Encode sources. Returns their bytes and types."""
    if isinstance(sources, (str, bytes, bytearray, memoryview)) or not isinstance(sources, Iterable):
        raise TypeError(f"sources: expected a list of str or bytes, got {type(sources).__name__}")
    data: list[bytes] = []
    types: list[pb.SourceType] = []
    for at, source in enumerate(sources):
        if isinstance(source, str):
            # The daemon reports a lone surrogate with CPython's message.
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
    """Parse sources, in several calls if the responses may exceed a message."""
    data, types = encoded(sources)
    limit = settings.max_message_bytes // _RESPONSE_GROWTH

    def operation(part: Part) -> Operation[list[Parsed[Any]]]:
        request = options.request(data[part.start : part.stop], types[part.start : part.stop])
        return Operation(ParseService.PARSE, request, lambda response: parsed(request, response))

    return SplitOperation(
        parts_by_bytes(map(len, data), limit, _MAX_SOURCES) if data else [],
        operation,
        lambda done: [one for _, results in done for one in results],
        "sources were parsed",
    )


class ParseStream:
    """A stream of batches. A response refers to the sources of its request, which is kept until then."""

    def __init__(self, options: ParseOptions) -> None:
        self._options = options
        self._sent: dict[int, pb.ParseRequest] = {}

    def request(self, sequence: int, sources: Iterable[Source]) -> pb.ParseStreamRequest:
        """Return the message of a batch."""
        request = self._options.request(*encoded(sources))
        self._sent[sequence] = request
        return pb.ParseStreamRequest(sequence=sequence, parse=request)

    def outcome(self, response: pb.ParseStreamResponse) -> ParseOutcome[Any]:
        """Return the outcome of a batch."""
        request = self._sent.pop(response.sequence, None)
        kind = response.WhichOneof("result")
        if request is None or kind is None:
            raise malformed(f"unexpected sequence {response.sequence}")
        if kind == "error":
            return ParseOutcome(response.sequence, None, from_item(response.error))
        return ParseOutcome(response.sequence, parsed(request, response.parse), None)


def parsed(request: pb.ParseRequest, response: pb.ParseResponse) -> list[Parsed[Any]]:
    """Return the result of each source."""
    if len(response.results) != len(request.sources):
        raise malformed(f"{len(response.results)} results for {len(request.sources)} sources")
    parts = {name: _parts(name, response) for name in _COLUMNS}
    outputs = frozenset(name for name, number in OUTPUTS.items() if number in request.outputs)
    mode = next((name for name, number in MODES.items() if number == request.mode), "exec")
    found: list[Parsed[Any]] = []
    for source, result in zip(request.sources, response.results, strict=True):
        text = result.text if result.HasField("text") else source
        columns = {name: next(part) for name, part in parts.items()}
        version = request.feature_version or None
        found.append(Parsed(text, result, columns, outputs or frozenset(["tree"]), cast(Mode, mode), version))
    return found


def _parts(name: str, response: pb.ParseResponse) -> Iterator[memoryview]:
    """Iterate over a column's slices by source."""
    table, field, size, count = _COLUMNS[name]
    owner: Any = getattr(response, table) if table else response
    column = memoryview(getattr(owner, field))
    counts = [getattr(result, count) * size for result in response.results]
    if sum(counts) != len(column):
        raise malformed(f"{name}: expected {sum(counts)} bytes, got {len(column)}")
    return _slices(column, counts)


def _slices(column: memoryview, sizes: list[int]) -> Iterator[memoryview]:
    at = 0
    for size in sizes:
        yield column[at : at + size]
        at += size
