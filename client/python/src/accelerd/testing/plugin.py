"""A plugin of pytest: the fixture `accelerd_client`, and options that choose the daemon and the seed of cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .. import AccelerdError, Client, VerifyReport
from .._function import Computed
from ._equivalent import from_root

#: Seconds until a daemon must have answered.
_TIMEOUT = 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("accelerd")
    group.addoption("--accelerd-target", metavar="TARGET", help="daemon that runs functions: host:port or unix:///path")
    group.addoption(
        "--accelerd-seed", type=int, metavar="N", help="seed of generated cases, in place of the tests' own"
    )
    group.addoption(
        "--accelerd-skip",
        action="store_true",
        default=False,
        help="skip tests that need a daemon if there is none; otherwise they are errors",
    )
    parser.addini("accelerd_target", "daemon that runs functions; default: ACCELERD_SERVER, then localhost:7433")


class _RootedClient(Client):
    """A client for which paths of modules are relative to pytest's root directory."""

    def __init__(self, target: str | None, root: Path) -> None:
        super().__init__(target)
        self._root = root

    def verify(self, subject: Computed, reference: Computed, **named: Any) -> VerifyReport:
        """Verify as `Client.verify` does."""
        return super().verify(from_root(subject, self._root), from_root(reference, self._root), **named)


@pytest.fixture(scope="session")
def accelerd_client(pytestconfig: pytest.Config) -> Iterator[Client]:
    """Return a client of the daemon: `--accelerd-target`, the setting `accelerd_target`, or that of `Client()`.

    Paths of modules that it verifies are relative to pytest's root directory.
    """
    target = pytestconfig.getoption("accelerd_target") or pytestconfig.getini("accelerd_target") or None
    with _RootedClient(target, pytestconfig.rootpath) as client:
        try:
            client.devices(timeout=_TIMEOUT)
        except AccelerdError as problem:
            hint = "start one with `accelerd serve`, or name it by --accelerd-target"
            message = f"no daemon at {client.target}: {problem}; {hint}"
            if pytestconfig.getoption("accelerd_skip"):
                pytest.skip(message)
            pytest.fail(message, pytrace=False)
        yield client
