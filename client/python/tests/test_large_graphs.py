"""Graphs whose arrays or outputs exceed a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_reference import Reference

from accelerd import Client, InvalidArgumentError
from accelerd.aio import AsyncClient

LARGE = np.arange(400, dtype=np.float32)
SMALL = np.full(400, 2, np.uint8)

Computed = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def computed(request: pytest.FixtureRequest, reference: tuple[Reference, str]) -> Computed:
    """A function that computes outputs: `computed(lambda client: [client.tensor(x) * 2])`."""

    def made(outputs: Callable[[Any], list[Any]], *, keep: bool = False) -> tuple[Any, ...]:
        if request.param == "blocking":
            with Client(reference[1], timeout=10, max_message_bytes=1500) as client:
                return (client.keep if keep else client.execute)(*outputs(client))

        async def awaited() -> tuple[Any, ...]:
            async with AsyncClient(reference[1], timeout=10, max_message_bytes=1500) as client:
                return await (client.keep if keep else client.execute)(*outputs(client))

        return asyncio.run(awaited())

    return made


def test_an_array_that_exceeds_a_message_is_uploaded_for_the_call(
    reference: tuple[Reference, str], computed: Computed
) -> None:
    def outputs(client: Any) -> list[Any]:
        return [(client.tensor(LARGE) * client.tensor(SMALL)).sum()]

    (total,) = computed(outputs)
    assert total == 2 * LARGE.sum()
    servicer = reference[0]
    assert len(servicer.uploads) == 1 and len(servicer.requests) == 1
    assert [bool(one.handle) for one in servicer.requests[0].inputs] == [True, False], "the smaller one is sent"
    assert servicer.resident == {}


def test_arrays_that_fit_are_not_uploaded(reference: tuple[Reference, str], computed: Computed) -> None:
    (total,) = computed(lambda client: [client.tensor(SMALL).sum()])
    assert total == 800 and reference[0].uploads == []


def test_outputs_that_exceed_a_message_are_kept_and_downloaded(
    reference: tuple[Reference, str], computed: Computed
) -> None:
    servicer = reference[0]
    servicer.max_response_bytes = 1500
    doubled, total = computed(lambda client: [client.tensor(LARGE) * 2.0, client.tensor(LARGE).sum()])
    np.testing.assert_array_equal(doubled, LARGE * 2)
    assert total == LARGE.sum()
    assert [all(one.keep for one in request.outputs) for request in servicer.requests] == [False, True]
    assert servicer.resident == {}


def test_kept_outputs_stay_when_the_arrays_of_the_call_are_freed(
    reference: tuple[Reference, str], computed: Computed
) -> None:
    (kept,) = computed(lambda client: [client.tensor(LARGE) * 2.0], keep=True)
    assert list(reference[0].resident) == [kept.resident.handle]


def test_what_was_uploaded_is_freed_if_the_call_fails(reference: tuple[Reference, str], computed: Computed) -> None:
    with pytest.raises(InvalidArgumentError, match="nothing"):
        computed(lambda client: [client.op("nothing", LARGE)])
    assert len(reference[0].uploads) == 1 and reference[0].resident == {}
