# Generated from _aio_verify.py by generate.py; do not edit.
"""Comparisons and verifications of the blocking client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import _verify
from ._blocking_call import Caller
from ._blocking_tensor import Tensor
from ._domain import Domain
from ._function import Computed, Side
from ._launch import KernelDevice
from ._methods import VerifyService
from ._tensor_factory import TensorFactory
from ._verification import Cases, Progress, Verification, VerifyOptions
from ._verify import Compared, ComparisonReport, PolicyOptions
from ._verify_report import VerifyReport

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class VerifyCalls(TensorFactory[Tensor]):
    """The calls of the blocking client that compare outputs and verify functions."""

    _caller: Caller

    def compare(
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
        return self._caller.run(call, timeout)

    def assert_close(
        self,
        actual: Compared,
        expected: Compared,
        *,
        policies: Mapping[str, PolicyOptions] | None = None,
        timeout: float | None = None,
        **policy: Unpack[PolicyOptions],
    ) -> None:
        """Compare outputs as `compare` does, and raise an AssertionError that says what differs unless all pass."""
        report = self.compare(actual, expected, policies=policies, timeout=timeout, **policy)
        report.check()

    def verify(
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
        """Verify that a subject computes what a reference computes, for any number of cases.

        Each side is a function in Python (the function, the text of a module, or a `KernelProgram` with a name and
        constants), a function of a WebAssembly module (a `Wasm`, or the bytes or the path of the module), or outputs
        that are computed already (an array, or a dict of arrays, whose first dimension is the cases). Functions run in
        child processes of the daemon.

        The call is retried until the first verdicts. If the connection breaks or the daemon drains after them, an
        UnavailableError is raised, because the totals of the report were only in that daemon. Failing cases are shrunk:
        their inputs are replaced by simpler ones while the case fails.

        Args:
            subject: The side that is verified.
            reference: The side that is correct.
            cases: Inputs by name, as arrays whose first dimension is the cases. They are sent in chunks, so their
                number is unlimited. None means that the daemon generates the cases.
            count: Number of cases that the daemon generates, 100,000 by default.
            seed: Seed of the generated cases.
            domains: Domains of generated inputs by name, such as `{"x": accelerd.testing.floats(-1.0, 1.0)}`. Other
                inputs have all values of their type except NaN and infinities.
            device: Where functions in Python run generated cases first: "cuda" for a GPU of the daemon, or "cpu". Cases
                whose results are not plainly equal on the GPU run on the CPU again, so the report is the same. None
                means "cpu".
            progress: A function that is called with the number of cases done and the number that failed, after each
                chunk of cases.
            timeout: Seconds for the whole call, retries included.
            **options: `VerifyOptions`: which elements count as equal, as in `compare()`, how outcomes are judged, the
                limits of a case, and what is reported.

        Returns:
            A report. It is true if all cases pass, and its text has the falsifying cases.

        Raises:
            TranslationError: A function in Python is outside the language; the text has the place and the reason.
            InvalidArgumentError: The parameters of a function are not those of the other function or of the cases, or
                `device` is "cuda" and the functions cannot run on a GPU.
        """
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
        timeout = self._caller.settings.seconds(timeout)
        with run.explained():
            for response in self._caller.retried_stream(VerifyService.VERIFY, run.requests, timeout):
                run.on_response(response)
        return run.report()

    def assert_equivalent(
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
        report = self.verify(
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
