"""Compares the parser with the running Python on part of its library and on mutated snippets.

`just conformance` runs all corpora.
"""

from __future__ import annotations

import corpora
import fuzz
import judge
import pytest
import report
import tools
from test_harness import library


@pytest.fixture(scope="module")
def parser() -> tools.Parser:
    program = tools.built_parser()
    if program is None:
        pytest.skip("no parser: cargo build --package accelerd-parser --example columns")
    return tools.Parser(program)


def cases(kind: str) -> list[corpora.Case]:
    sources = library(80)
    if kind == "mutations":
        bases = [snippet for source in sources for snippet in fuzz.snippets(source)]
        return list(fuzz.mutated([bases], 4000, 7))
    return [(str(at), source) for at, source in enumerate(sources)]


@pytest.mark.parametrize("kind", ["files", "mutations"])
def test_verdicts_and_trees_are_those_of_this_python(parser: tools.Parser, kind: str) -> None:
    oracle = tools.own_oracle()
    tally = judge.run(parser, oracle, cases(kind))
    hard = {name: cause.smallest[0] for name, cause in tally.causes.items() if not name.startswith("soft")}
    assert not {name: example for name, example in hard.items() if not report.reason(name, oracle.version)}
    assert tally.counts["equal"] > 0
