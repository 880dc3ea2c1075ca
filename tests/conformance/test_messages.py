"""Compares the parser's errors with the recorded errors of each version, and those with the running Python's."""

from __future__ import annotations

import sys

import messages
import pytest
import tools

RECORDED = messages.recorded()


@pytest.fixture(scope="module")
def parser() -> tools.Parser:
    program = tools.built_parser()
    if program is None:
        pytest.skip("no parser: cargo build --package accelerd-parser --example columns")
    return tools.Parser(program)


@pytest.mark.parametrize("version", messages.VERSIONS)
def test_errors_are_those_recorded(parser: tools.Parser, version: str) -> None:
    known = RECORDED["known"].get(version, {})
    texts = messages.sources()
    said = dict(zip(texts, messages.ours(parser, version, list(texts.values())), strict=True))
    recorded = {written: RECORDED["errors"][written][version] for written in texts}
    differing = {
        written: (error, said[written])
        for written, error in recorded.items()
        if (said[written] or [])[:4] != (error or [])[:4] and written not in known
    }
    assert not differing
    assert sum(error is not None for error in recorded.values()) > 500


def test_recorded_errors_are_those_of_this_python() -> None:
    oracle = tools.own_oracle()
    if oracle.version not in messages.VERSIONS:
        pytest.skip(f"no recorded errors of {oracle.version}")
    texts = messages.sources()
    found = dict(zip(texts, messages.theirs(oracle, list(texts.values())), strict=True))
    changed = {one: error for one, error in found.items() if error != RECORDED["errors"][one][oracle.version]}
    # Other patch releases may differ in a few.
    assert len(changed) <= (0 if sys.version_info[:3] == (3, 11, 7) else 10), changed


@pytest.mark.parametrize("pattern", [one for one, entry in RECORDED["messages"].items() if "unreachable" not in entry])
def test_every_message_has_a_source(pattern: str) -> None:
    versions = RECORDED["messages"][pattern]["versions"]
    for version in versions:
        assert any(messages.shows(pattern, errors.get(version)) for errors in RECORDED["errors"].values()), version
