"""Comparisons and verifications of the asyncio client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import _verify
from ._aio_call import AsyncCaller
from ._aio_tensor import AsyncTensor
from ._domain import Domain
from ._function import Computed, Side
from ._launch import KernelDevice
from ._tensor_factory import TensorFactory
from ._verification import VERIFY, Cases, Progress, Verification, VerifyOptions
from ._verify import Compared, ComparisonReport, PolicyOptions
from ._verify_report import VerifyReport

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class AsyncVerifyCalls(TensorFactory[AsyncTensor]):
    """The calls of the asyncio client that compare outputs and verify functions."""

    _caller: AsyncCaller

    async def compare(
        self,
        actual: Compared,
        expected: Compared,
        *,
        policies: Mapping[str, PolicyOptions] | None = None,
        max_mismatches: int = 10,
        row_verdicts: bool = False,
        timeout: float | None = None,
        **policy: Unpack[PolicyOptions],
    ) -> ComparisonReport:
        """Compare outputs with expected ones, matched by name.

        If the policy has no tolerance, those of torch.testing for the element type apply. All elements are compared,
        and the report is the same on every device.

        Args:
            actual: The computed outputs: an array or a tensor, or a mapping of names to them.
            expected: The expected outputs, in the same form.
            policies: Policies of outputs by name, in place of `policy`.
            max_mismatches: Maximum number of mismatches to list for an output.
            row_verdicts: Whether to return which rows, along the first dimension, have a mismatch.
            timeout: Seconds for the whole call, retries included.
            **policy: Which elements count as equal, such as `atol=1e-5, rtol=0, equal_nan=True` or `max_ulps=4`.

        Returns:
            A report. It is true if all outputs pass, and its text says what differs.
        """
        call = _verify.compare(
            *self._compared(actual, expected),
            policy,
            policies or {},
            max_mismatches,
            row_verdicts,
            self._caller.settings,
        )
        return await self._caller.run(call, timeout)

    async def assert_close(
        self,
        actual: Compared,
        expected: Compared,
        *,
        policies: Mapping[str, PolicyOptions] | None = None,
        timeout: float | None = None,
        **policy: Unpack[PolicyOptions],
    ) -> None:
        """Compare outputs as `compare` does, and raise an AssertionError that says what differs unless all pass."""
        report = await self.compare(actual, expected, policies=policies, timeout=timeout, **policy)
        report.check()

    async def verify(
        self,
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
        """Verify that a subject computes what a reference computes. Takes the arguments of `Client.verify`."""
        run = Verification(
            Side.of("subject", subject),
            Side.of("reference", reference),
            cases,
            count,
            seed,
            domains,
            device,
            progress,
            self._compare_input,
            self._caller.settings,
            **options,
        )
        timeout = self._caller.settings.timeout if timeout is None else timeout
        with run.explained():
            async for response in self._caller.stream(VERIFY, run.requests(), timeout):
                run.on_response(response)
        return run.report()

    async def assert_equivalent(
        self,
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
    ) -> None:
        """Verify as `verify` does, and raise an AssertionError with the falsifying cases unless all cases pass."""
        __tracebackhide__ = True
        report = await self.verify(
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
        report.check()
