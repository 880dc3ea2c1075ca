"""End-to-end test of all-MiniLM-L6-v2, from `models.preload` to `accelctl search`."""

from __future__ import annotations

import email
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from minilm.daemon import Ctl, running

LIBRARY = Path(json.__file__).parent.parent


@pytest.fixture(scope="module")
def ctl() -> Iterator[Ctl]:
    with running() as ctl:
        yield ctl


def test_the_model_has_the_settings_of_its_files(ctl: Ctl) -> None:
    model = ctl("models", "inspect", "minilm")
    assert (model["architecture"], model["dimensions"], model["vocabulary_size"]) == ("bert", 384, 30_522)
    assert (model["max_tokens"], model["default_max_tokens"]) == (512, 256)
    assert (model["pooling"], model["normalize"], model["accepts_text"]) == ("mean", True, True)


def test_search_finds_functions_by_description(ctl: Ctl) -> None:
    folders = [Path(json.__file__).parent, Path(email.__file__).parent, LIBRARY / "gzip.py", LIBRARY / "socketserver.py"]
    done = ctl("index", *folders, "--collection", "library", "--model", "minilm")
    assert done["indexed"] > 20
    expected = {
        "convert an object to a json string": "json/",
        "read a gzip compressed file": "gzip.py",
        "handle each request of a server in a new thread": "socketserver.py",
        "parse the header of a mail message": "email/",
    }
    answers = ctl("search", *expected, "--collection", "library", "-k", "3", "--context", "0")["queries"]
    for answer, place in zip(answers, expected.values(), strict=True):
        assert place in answer["hits"][0]["path"], answer
