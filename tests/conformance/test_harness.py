"""Tests the harness: it finds all differences and no others, and the client's tree rebuilds CPython's."""

from __future__ import annotations

import ast
import lzma
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import corpora
import fuzz
import judge
import oracle
import pack
import pytest
import tools
from compare import first_difference
from frames import COLUMNS, Answer, ParseError, read_answers, read_blocks, write_answer, write_blocks
from reference import columns_of

pytestmark = pytest.mark.filterwarnings("ignore")

SOURCE = (
    b"@d\nclass A(B, k=1):\n    def f(self, *a: int, b=2, **c):\n        return [x.y for x in a if not f'{b!r:>{c}}']\n"
)


def library(count: int) -> list[bytes]:
    """A fixed sample of the running Python's library."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(file for file in folder.rglob("*.py") if "site-packages" not in file.parts)
    return [file.read_bytes() for file in random.Random(0).sample(files, count)]


def all_nodes(change: Callable[[Any], bool]) -> Iterator[ast.Module]:
    """Trees of SOURCE, each with one node changed."""
    for at, _ in enumerate(ast.walk(ast.parse(SOURCE))):
        tree = ast.parse(SOURCE)
        # Nodes without fields are shared by all trees.
        if change(list(ast.walk(tree))[at]):
            yield tree


def moved(node: Any) -> bool:
    if hasattr(node, "end_col_offset"):
        node.end_col_offset += 1
    return hasattr(node, "end_col_offset")


def shortened(node: Any) -> bool:
    full = [value for value in vars(node).values() if isinstance(value, list) and value]
    for value in full[:1]:
        del value[-1]
    return bool(full)


def emptied(node: Any) -> bool:
    fields = [name for name, value in vars(node).items() if name in node._fields and value is not None]
    for name in fields[:1]:
        setattr(node, name, None)
    return bool(fields)


def retyped(node: Any) -> bool:
    numbers = isinstance(node, ast.Constant) and isinstance(node.value, int)
    if numbers:
        node.value = float(node.value)
    return numbers


@pytest.mark.parametrize("change", [moved, shortened, emptied, retyped])
def test_a_tree_changed_anywhere_differs(change: Callable[[Any], bool]) -> None:
    original = ast.parse(SOURCE)
    changed = list(all_nodes(change))
    assert changed
    for tree in changed:
        # Before 3.12 positions inside f-strings are not compared.
        same = first_difference(original, tree) is None
        assert not same or (change is moved and any(isinstance(node, ast.JoinedStr) for node in ast.walk(tree)))
    assert sum(first_difference(original, tree) is None for tree in changed) <= 8


def test_a_difference_has_the_path_of_the_first_node() -> None:
    found = first_difference(ast.parse("x = 1\nf(y, 2)"), ast.parse("x = 1\nf(z, 3)"))
    assert found == (".body[1].value.args[0].id", "'y'", "'z'")


def test_a_tree_equals_itself_however_deep() -> None:
    depth = 3000
    trees = [ast.Constant(1), ast.Constant(1)]
    for _ in range(depth):
        trees = [ast.UnaryOp(ast.USub(), tree) for tree in trees]
    assert first_difference(*trees) is None


def test_answers_survive_encoding() -> None:
    columns = columns_of(ast.parse(SOURCE), SOURCE)
    answers = [Answer(SOURCE, columns, None), Answer(b"", None, ParseError("TabError", 1, 2, "mixed"))]
    assert list(read_answers(b"".join(map(write_answer, answers)))) == answers
    assert list(read_blocks(write_blocks([b"", b"a", SOURCE]))) == [b"", b"a", SOURCE]


@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in ("extra", "name_starts", "value_starts")])
def test_a_wrong_column_is_a_difference(column: str) -> None:
    columns = columns_of(ast.parse(SOURCE), SOURCE)
    for wrong in (columns[column][:-4], bytes(len(columns[column]))):
        outcome = oracle.judge(SOURCE, Answer(b"", {**columns, column: wrong}, None))
        assert outcome["outcome"] == "different", outcome


def test_different_verdicts_are_distinguished() -> None:
    columns = columns_of(ast.parse("x"), b"x")
    error = Answer(b"", None, ParseError("SyntaxError", 2, 3, "invalid syntax"))
    assert oracle.judge(b"x", error)["cause"] == "only ours refuses: SyntaxError: invalid syntax"
    assert (
        oracle.judge(b"x y", Answer(b"", columns, None))["cause"] == "only CPython refuses: SyntaxError: invalid syntax"
    )
    both = oracle.judge(b"x y", error._replace(error=error.error._replace(position=(1, 3, 1, 4))))
    assert (both["outcome"], both["same_line"], both["same_class"], both["same_message"]) == (
        "refused",
        True,
        True,
        True,
    )


def test_a_feature_version_is_passed_to_the_oracle() -> None:
    error = Answer(b"", None, ParseError("SyntaxError", 0, 0, ""))
    source = b"type X = int" if sys.version_info >= (3, 12) else b"match x:\n case 1: pass"
    older, newer = ((3, 11), (3, 12)) if sys.version_info >= (3, 12) else ((3, 9), (3, 10))
    assert oracle.judge(source, error, older)["outcome"] == "refused"
    assert oracle.judge(source, error, newer)["outcome"] == "different"


def test_mutations_are_deterministic_and_tokens_lossless() -> None:
    bases = [snippet for source in library(5) for snippet in fuzz.snippets(source)]
    assert (
        list(fuzz.mutated([bases], 50, 1)) == list(fuzz.mutated([bases], 50, 1)) != list(fuzz.mutated([bases], 50, 2))
    )
    assert all(b"".join(fuzz.tokens_of(source)) == source for source in bases)


def test_trees_rebuilt_from_columns_are_equal() -> None:
    sources = library(60)
    bases = [snippet for source in sources for snippet in fuzz.snippets(source)]
    sources += [source for _, source in fuzz.mutated([bases], 500, 1)]
    for source, answer in zip(sources, oracle._reference_answers(sources), strict=True):
        outcome = oracle.judge(source, answer)
        assert outcome["outcome"] in ("equal", "refused", "exhausted"), (source, outcome)


def test_a_difference_is_reduced_to_its_cause(tmp_path: Path) -> None:
    class Wrong(tools.Parser):
        """Rejects sources with a lambda."""

        def answer(self, version: str, sources: Any, answers: Path) -> Path:
            made = oracle._reference_answers(list(sources))
            refused = Answer(b"", None, ParseError("SyntaxError", 0, 0, "no lambda"))
            parts = [
                write_answer(refused if b"lambda" in one else other) for one, other in zip(sources, made, strict=True)
            ]
            answers.write_bytes(b"".join(parts))
            return answers

    source = SOURCE + b"g = [1, lambda: 3, 4]\n" + SOURCE
    cause = "only ours refuses: SyntaxError: no lambda"
    smallest = judge.reduced(Wrong(None), tools.own_oracle(), source, cause)
    assert b"lambda" in smallest and len(smallest) <= 12


def test_packed_corpora_have_every_source_once(tmp_path: Path) -> None:
    one = corpora.Corpus("one", lambda: iter([("a", b"x"), ("b", b"y"), ("c", b"x")]))
    other = corpora.Corpus("other", lambda: iter([("d", b"y"), ("e", b"")]))
    out = tmp_path / "corpora.xz"
    pack.pack(out, [one, other])
    blocks = list(read_blocks(lzma.open(out).read()))
    assert blocks == [b"one", (2).to_bytes(4, "little"), b"x", b"y", b"other", (1).to_bytes(4, "little"), b""]


def test_all_corpora_are_packed() -> None:
    names = [corpus.name for corpus in pack.chosen(7, 3)]
    assert names == [corpus.name for corpus in corpora.corpora(1, 1)]
    assert len(list(dict(zip(names, pack.chosen(7, 3)))["token_fuzz"].cases())) == 3
