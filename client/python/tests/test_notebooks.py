"""What notebooks show: escaped, bounded, in the colours of the page, and without a call."""

from __future__ import annotations

import html.parser
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from tensor_reference import serve

from accelerd import (
    Client,
    Clusters,
    Device,
    Hit,
    HitList,
    Hits,
    MemoryPool,
    Point,
    PointList,
    Points,
    SearchResult,
    Similar,
)
from accelerd._html import MAX_ROWS, ResultList

MARKUP = "<script>alert('&\"')</script>\ud800"


class Parser(html.parser.HTMLParser):
    """Tags and text of HTML, whose tags must be balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def rows(self) -> int:
        return self.tags.count("tr") - self.tags.count("thead")


def shown(value: Any) -> Parser:
    text = value._repr_html_()
    assert len(text) < 40_000
    # Every colour is the page's.
    assert text.count("color:") == text.count("color:inherit") + text.count("background-color:")
    assert "#fff" not in text and "#000" not in text
    text.encode()
    return Parser(text)


def hits(count: int) -> HitList:
    return HitList(Hit(at, 1 / (at + 1), {"n": at, MARKUP: MARKUP}) for at in range(count))


def points(count: int) -> Points:
    return Points([*range(count)], {MARKUP: [MARKUP] * count}, np.zeros((count, 3), np.float32))


MANY = 1_000_000
DEVICE = Device(MARKUP, "cpu", "", "", "ready", 2, 3, MemoryPool(1, 2, 3, 4, 5))


def columns(count: int) -> Hits:
    offsets = np.array([0, count], np.uint32)
    return Hits(offsets, [*range(count)], np.zeros(count, np.float32), {MARKUP: [MARKUP] * count})


def clusters(count: int) -> Clusters:
    return Clusters(np.zeros((count, 2), np.float32), np.arange(count, dtype=np.int32), 1.5, 3, True, [])


RESULTS = {
    "hits": hits,
    "search": lambda count: SearchResult([hits(1), HitList(hits(3)[:1] * (count - 1))]),
    "columns": columns,
    "points": lambda count: PointList([Point(MARKUP, {"n": 1, MARKUP: MARKUP}, np.zeros(3, np.float32))] * count),
    "pages": points,
    "clusters": clusters,
    "similar": lambda count: Similar(np.zeros((count, 1), np.int32), np.zeros((count, 1), np.float32)),
    "devices": lambda count: ResultList([DEVICE] * count),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_million_rows_show_twenty_and_their_number(name: str) -> None:
    page = shown(RESULTS[name](MANY))
    assert page.rows == MAX_ROWS == 20
    assert "1,000,000" in page.text and "of which 20 are shown" in page.text
    few = shown(RESULTS[name](3))
    assert few.rows == 3 and "are shown" not in few.text


@pytest.mark.parametrize("name", RESULTS)
def test_markup_is_escaped(name: str) -> None:
    page = shown(RESULTS[name](2))
    assert "script" not in page.tags
    if name not in ("clusters", "similar"):
        assert "alert('&\"')</script>\\ud800" in page.text


def test_empty_results_are_shown() -> None:
    for value in (HitList(), SearchResult(), PointList(), columns(0), points(0), clusters(0), ResultList()):
        assert shown(value).rows == 0


def test_many_fields_and_long_values_are_cut() -> None:
    wide = HitList([Hit(1, 0.5, {f"field {at}": "x" * 1000 for at in range(100)})])
    page = shown(wide)
    assert page.tags.count("th") == 12 and max(map(len, page.texts)) < 200


def test_a_dataclass_is_a_table_of_its_fields() -> None:
    page = shown(DEVICE)
    assert page.rows == len(fields(Device)) and {"kind", "cpu", "memory_bytes"} <= {*page.texts}


@pytest.fixture(scope="module")
def local() -> Iterator[Client]:
    with serve() as (_, target), Client(target, timeout=10) as client:
        yield client


def test_tensors_show_what_is_here(local: Client) -> None:
    nowhere = Client("nowhere:1")
    product = nowhere.tensor(np.ones((3, 3))) @ np.ones((3, 3))
    assert "matmul" in shown(product).text and "not computed" in shown(product).text
    large = shown(nowhere.tensor(np.arange(1_000_000.0).reshape(1000, 1000)))
    assert "5.005e+03]]" in large.text and "of which the first elements are shown" in large.text
    assert "7." in shown(nowhere.tensor(np.float32(7))).text
    assert shown(nowhere.tensor(np.zeros((2, 0, 3)))).text
    total = local.tensor(np.arange(4.0)).sum()
    total.numpy()
    assert "6." in shown(total).text
    assert len(shown(nowhere.tensor(np.zeros((9,) * 6))).texts) < 10


def test_parsed_sources_show_a_tree_an_outline_or_the_error(client: Client) -> None:
    source = f"class A:\n    def f(self):\n        return 1 + x < 2\n{'y = 1' + chr(10)}" * 2000 + "s = '<b>'\n"
    (tree,) = client.parse([source])
    text = shown(tree).text
    assert (
        "nodes" in text and "  FunctionDef  def f(self):" in text and text.index("ClassDef") < text.index("FunctionDef")
    )
    (outline,) = client.parse([source], outputs=["outline"])
    assert shown(outline).rows == 20 and "A.f" in shown(outline).text and "4,000" in shown(outline).text
    (invalid,) = client.parse(["x = '<b>' +"])
    assert "invalid syntax" in shown(invalid).text
    (small,) = client.parse(["s = '<b>'"])
    assert "Constant  '<b>'" in shown(small).text and "b" not in shown(small).tags
    (tokens,) = client.parse(["x"], outputs=["tokens"])
    assert "valid" in shown(tokens).text


def test_reports_show_what_fails(client: Client) -> None:
    passed = client.compare({"a": np.ones(3), "b": np.ones(2)}, {"a": np.ones(3), "b": np.ones(2)})
    assert "✓ all 2 outputs pass" in shown(passed).text and shown(passed).rows == 2
    actual = {f"{MARKUP[:-1]}{at}": np.arange(5.0) for at in range(30)}
    failed = client.compare(actual, {name: np.zeros(5) for name in actual})
    page = shown(failed)
    assert "✗ 30 of 30 outputs fail" in page.text and page.rows == 20 and "Mismatched elements: 4 / 5" in page.text
    assert "script" not in page.tags

    def double(x: float) -> float:
        return 2.0 * x

    def triple(x: float) -> float:
        return 3.0 * x

    report = client.verify(triple, double, cases={"x": np.arange(5.0)})
    page = shown(report)
    assert f"✗ {report.name}: 4 of 5 cases fail" in page.text and "Falsifying case" in page.text
    assert "✓" in shown(client.verify(double, double, cases={"x": np.arange(5.0)})).text


def test_lists_of_calls_and_statistics_are_shown(client: Client) -> None:
    collection = client.create_collection("notebook", dimensions=2)
    with client.upload(np.zeros(3)) as kept:
        assert "f64[3]" in shown(kept).text
        for listed, name in (
            (client.devices(), "cpu"),
            (client.models(), "builtin"),
            (client.collections(), "notebook"),
            (client.list_tensors(), "handle"),
        ):
            assert name in shown(listed).text
    assert "squared_l2" not in shown(collection.describe()).text and "cosine" in shown(collection.describe()).text
    page = shown(client.stats())
    assert "accelerd" in page.text and "LaneStats" in page.text
    collection.delete()


def test_a_list_of_results_is_a_list() -> None:
    @dataclass
    class One:
        n: int

    made = ResultList([One(1)])
    assert made == [One(1)] and isinstance(made, list) and "One" in shown(made).text
