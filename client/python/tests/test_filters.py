"""Filters as messages: lists that are empty, and integers that no double represents."""

from __future__ import annotations

import numpy as np
import pytest

from accelerd import Collection, _points
from accelerd._payload import PayloadTable
from accelerd._proto import similarity_pb2 as pb

#: A time in nanoseconds: doubles near it are 256 apart.
TIME = 1_764_000_000_123_456_789

NO_PROMPTS = _points.Prompts("", None, "", None)


def condition(test: object) -> pb.Condition:
    made = _points.make_filter({"t": test}, None)
    assert made is not None
    return made.must[0]


@pytest.mark.parametrize("ids", [[], (), range(0), np.zeros(0, np.int64)])
def test_a_list_of_no_ids_is_sent_as_present(ids: object) -> None:
    request = _points.delete_points("c", ids, {"g": 1}, None).request  # type: ignore[arg-type]
    sent = pb.DeletePointsRequest.FromString(request.SerializeToString())
    assert sent.filter.HasField("ids")
    assert sent.filter.ids == pb.PointIds()
    assert len(sent.filter.must) == 1


def test_ids_that_are_not_given_are_absent() -> None:
    sent = _points.delete_points("c", None, {"g": 1}, None).request
    assert not sent.filter.HasField("ids")
    assert _points.make_filter({}, {}) is None


def test_an_empty_list_of_values_is_sent_as_present() -> None:
    for values in ([], set(), np.zeros(0)):
        sent = pb.Condition.FromString(condition(values).SerializeToString())
        assert sent.WhichOneof("test") == "any_of"
        assert len(sent.any_of.values) == 0


def test_pairs_test_a_field_several_times() -> None:
    made = _points.make_filter([("n", slice(0, 9)), ("n", [1, 2])], (("n", 1),))
    assert made is not None
    assert [(one.field, one.WhichOneof("test")) for one in made.must] == [("n", "range"), ("n", "any_of")]
    assert [one.field for one in made.must_not] == ["n"] and _points.make_filter([], ()) is None
    assert _points.conditions([("n", 1), ("m", 2)], [("n", 1)]) == {
        "filter.must[0]": "where['n']",
        "filter.must[1]": "where['m']",
        "filter.must_not[0]": "where_not['n']",
    }
    for wrong in (["n"], [("n",)], "n", ("n", 1)):
        with pytest.raises(
            TypeError, match="where: expected a dict of field to condition, or a list of pairs of these"
        ):
            _points.make_filter(wrong, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("test", [(0, 100), (), (1,), range(0, 100)])
def test_a_tuple_is_neither_a_range_nor_a_list_of_values(test: object) -> None:
    expected = r"expected slice\(low, high\) for a range, or a list for values of which one is equal, got"
    with pytest.raises(ValueError, match=rf"^where\['t'\]: {expected}"):
        _points.make_filter({"t": test}, None)
    with pytest.raises(ValueError, match=rf"^where_not\['t'\]: {expected}"):
        _points.make_filter(None, {"t": test})


def test_conditions_are_named_by_their_filter() -> None:
    with pytest.raises(TypeError, match=r"^where_not\['t'\]: expected a value, a list of values or slice"):
        _points.make_filter(None, {"t": {}})
    with pytest.raises(TypeError, match="expected names of fields of type str, got int 5"):
        _points.make_filter({5: 1}, None)  # type: ignore[dict-item]


FILTERED = ["search", "scroll", "scroll_columns", "count", "delete_points"]


@pytest.mark.parametrize("documented", [Collection, *(getattr(Collection, name) for name in FILTERED)])
def test_the_documentation_of_filters_has_ranges(documented: object) -> None:
    assert "slice(low, high)" in (documented.__doc__ or "")


def test_a_search_by_no_ids_is_sent_as_such() -> None:
    sent = _points.search("c", {"ids": []}).request
    assert sent.WhichOneof("query") == "ids"


def test_bounds_that_no_double_represents_stay_integers() -> None:
    sent = condition(slice(TIME, TIME + 100))
    assert (sent.number_range.gte.int_value, sent.number_range.lt.int_value) == (TIME, TIME + 100)
    sent = condition(slice(np.int64(TIME), None))
    assert sent.number_range.gte.int_value == TIME
    assert not sent.number_range.HasField("lt")
    mixed = condition(slice(2**53 + 1, 1e18))
    assert (mixed.number_range.gte.int_value, mixed.number_range.lt.double_value) == (2**53 + 1, 1e18)


def test_bounds_that_are_doubles_are_sent_in_the_form_of_earlier_versions() -> None:
    assert condition(slice(1, 2.5)).range == pb.Range(gte=1.0, lt=2.5)
    assert condition(slice(-(2**63), 2**64)).range == pb.Range(gte=-(2.0**63), lt=2.0**64)
    assert condition(slice(None)).range == pb.Range()


def test_bounds_outside_of_64_bits_are_refused_unless_a_double_represents_them() -> None:
    for bound in (2**63 + 1, -(2**63) - 1, 10**400):
        with pytest.raises(ValueError, match=r"where\['t'\]: expected integers from -2\*\*63 to 2\*\*63 - 1"):
            condition(slice(0, bound))


@pytest.mark.parametrize("test", [2**63, [1, 2**70], np.uint64(2**63)])
def test_values_outside_of_64_bits_are_refused_by_the_name_of_their_field(test: object) -> None:
    with pytest.raises(ValueError, match=r"^where\['t'\]: expected integers from -2\*\*63 to 2\*\*63 - 1, got"):
        condition(test)


@pytest.mark.parametrize("test", ["a\ud800", ["b", "a\ud800"]])
def test_texts_without_an_encoding_are_refused_by_the_name_of_their_field(test: object) -> None:
    with pytest.raises(ValueError, match=r"^where\['t'\]: .*lone surrogate at index 1$"):
        condition(test)


def test_names_without_an_encoding_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^where\[.*\]: name: lone surrogate at index 0$"):
        _points.make_filter({"\ud800": 1}, None)
    for payloads in ([{"\ud800": 1}], {"\ud800": [1]}):
        with pytest.raises(ValueError, match=r"^payloads\[.*\]: name: lone surrogate at index 0$"):
            PayloadTable(payloads, 1)
    with pytest.raises(ValueError, match=r"^name: lone surrogate at index 1$"):
        _points.describe("a\ud800")


def test_durability_has_three_values() -> None:
    def create(durable: bool | None) -> pb.CreateCollectionRequest:
        request: pb.CreateCollectionRequest = _points.create("c", 2, "cosine", "", "", NO_PROMPTS, "", durable).request
        return request

    assert (create(None).durable, create(None).durability) == (False, pb.DURABILITY_UNSPECIFIED)
    assert (create(True).durable, create(True).durability) == (True, pb.DURABILITY_LOG)
    assert (create(False).durable, create(False).durability) == (False, pb.DURABILITY_MEMORY)
    with pytest.raises(TypeError, match="durable: expected a bool or None, got int"):
        _points.create("c", 2, "cosine", "", "", NO_PROMPTS, "", 1)  # type: ignore[arg-type]
