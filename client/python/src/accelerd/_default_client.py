"""The default client of a process, and the calls that use it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ._blocking_client import Client
from ._domain import Domain
from ._function import Computed
from ._launch import KernelDevice
from ._verification import Cases, Progress, VerifyOptions
from ._verify_report import VerifyReport

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


def default_client() -> Client:
    """Return the client of this process for functions that are given none."""
    return _client_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _client_of(process: int) -> Client:
    # A client does not survive a fork, so each process has its own.
    return Client()


def verify(
    subject: Computed,
    reference: Computed,
    *,
    cases: Cases | None = None,
    count: int | None = None,
    seed: int = 0,
    domains: Mapping[str, Domain] | None = None,
    device: KernelDevice | None = None,
    progress: Progress | None = None,
    timeout: float | None = None,
    **options: Unpack[VerifyOptions],
) -> VerifyReport:
    """Verify that a subject computes what a reference computes, as `Client.verify` of the default client does.

    The default client is that of `@accelerd.kernel`: `Client()`, which ACCELERD_SERVER names the daemon of. The
    arguments, the report and the errors are those of `Client.verify`.
    """
    return default_client().verify(
        subject,
        reference,
        cases=cases,
        count=count,
        seed=seed,
        domains=domains,
        device=device,
        progress=progress,
        timeout=timeout,
        **options,
    )
