"""Compares trees of generated f-strings with the running Python's."""

from __future__ import annotations

import sys

import fstrings
import judge
import pytest
import report
import tools


@pytest.mark.skipif(sys.version_info < (3, 13), reason="an f-string is one of Python 3.13 in every version")
def test_generated_fstrings_have_the_trees_of_this_python() -> None:
    program = tools.built_parser()
    if program is None:
        pytest.skip("no parser: cargo build --package accelerd-parser --example columns")
    oracle = tools.own_oracle()
    cases = fstrings.fstrings(4000, 11, sys.version_info >= (3, 14))
    tally = judge.run(tools.Parser(program), oracle, cases)
    hard = {name: cause.smallest[0] for name, cause in tally.causes.items() if not name.startswith("soft")}
    assert not {name: example for name, example in hard.items() if not report.reason(name, oracle.version)}
    assert tally.counts["equal"] > 2000
