"""Verifications: what is sent, and what is received, for functions and for cases in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._call import Part, Settings
from ._domain import Domain
from ._errors import malformed, too_large
from ._function import Side
from ._input_types import by_name as by_name_of_sides
from ._kernel import explained
from ._kernel_arguments import typed_value
from ._kernel_program import Program
from ._launch import DEVICES, KernelDevice
from ._message import by_name, check_encodable, choice, duration, message
from ._proto import verify_pb2 as pb
from ._resident import tensor_input
from ._tensor import Value
from ._verify import PolicyOptions, bits_of_rows, inputs, policy_message, policy_messages
from ._verify_report import VerifyReport, received_report
from ._wire import Chunk, field

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


#: Cases that are generated, unless a number is given.
DEFAULT_COUNT = 100_000
#: Bytes of the cases of a message, unless the messages of the client are smaller.
CHUNK_BYTES = 4 << 20
#: The name of a function's only output.
_RESULT = "result"
#: What a message has besides the elements of its cases.
_OVERHEAD = 64

OutcomePolicy: TypeAlias = Literal["both_or_neither", "reference_defines", "result_required"]
#: Inputs by name: arrays whose first dimension is the cases.
Cases: TypeAlias = "Mapping[str, ArrayLike]"
#: A function that is called with the number of cases done and the number that failed.
Progress: TypeAlias = "Callable[[int, int], None]"

_OUTCOMES: dict[Any, pb.OutcomePolicy] = {
    "both_or_neither": pb.OUTCOME_POLICY_BOTH_OR_NEITHER,
    "reference_defines": pb.OUTCOME_POLICY_REFERENCE_DEFINES,
    "result_required": pb.OUTCOME_POLICY_RESULT_REQUIRED,
}


class VerifyOptions(PolicyOptions, total=False):
    """How a verification judges and reports cases, and what a case may use. The defaults are the daemon's."""

    #: Policies of outputs by name, in place of the others.
    policies: Mapping[str, PolicyOptions]
    #: What it means if a side has no result: the case fails unless both have none ("both_or_neither", the default); it
    #: passes if the reference has none ("reference_defines"); it always fails ("result_required").
    outcome_policy: OutcomePolicy
    #: How the subject must end, such as "integer_division_by_zero", in place of `outcome_policy`: in all cases, or a
    #: name for each case that is given.
    expect: str | Sequence[str]
    #: The most mismatches of an output to list.
    max_mismatches: int
    #: The most failing cases to return with their inputs.
    max_counterexamples: int
    #: Whether to look for simpler inputs with which a case fails.
    shrink: bool
    #: Whether to run the subject twice, and count cases whose results differ.
    check_determinism: bool
    #: Whether to return which cases fail.
    case_verdicts: bool
    #: Seconds that a case may run.
    case_timeout: float | None
    #: Instructions of WebAssembly that a case may execute, about.
    fuel: int | None
    #: Bytes of memory of an instance of a module.
    memory_bytes: int | None
    #: The most iterations of all loops of a function in Python.
    loop_budget: int | None


class Verification:
    """A verification: the messages of its stream, and what the responses say."""

    def __init__(
        self,
        subject: Side,
        reference: Side,
        cases: Cases | None,
        count: int | None,
        seed: int,
        domains: Mapping[str, Domain] | None,
        device: KernelDevice | None,
        progress: Progress | None,
        convert: Callable[[str, Any], Any],
        settings: Settings,
        **options: Unpack[VerifyOptions],
    ) -> None:
        self._name = reference.name if reference.function is not None else subject.name
        self._programs = [one.function if isinstance(one.function, Program) else None for one in (subject, reference)]
        self._seed, self._progress = seed, progress
        self._has_verdicts = bool(options.get("case_verdicts"))
        self._verdicts: list[NDArray[np.bool_]] = []
        self._done = self._failed = 0
        self._summary: pb.VerifySummary | None = None
        dtypes = by_name_of_sides((reference.params, subject.params))
        self._tensors = {
            pb.VerifyCases.ACTUAL_FIELD_NUMBER: _outputs(subject, reference, convert),
            pb.VerifyCases.EXPECTED_FIELD_NUMBER: _outputs(reference, subject, convert),
            pb.VerifyCases.INPUTS_FIELD_NUMBER: _inputs(cases, dtypes),
        }
        self._is_generated = subject.function is not None and reference.function is not None and cases is None
        self._expect = _expected_outcomes(options.get("expect", ""))
        header = _header(subject, reference, device, options)
        if self._is_generated:
            if self._expect is not None:
                raise ValueError("expect: expected one name with generated cases, got a name for each case")
            header.generator.CopyFrom(_generator(count, seed, {} if domains is None else domains))
        else:
            _check_cases(subject, reference, cases, count, domains)
        self._header = pb.VerifyRequest(header=header).SerializeToString()
        if len(self._header) > settings.max_message_bytes:
            raise too_large("the functions of a verification", len(self._header), settings.max_message_bytes)
        self._parts = [] if self._is_generated else self._split(settings)

    def _split(self, settings: Settings) -> list[Part]:
        named = [(name, value.array) for tensors in self._tensors.values() for name, value in tensors.items()]
        counts = {array.shape[0] if array.ndim else None for _, array in named}
        if len(counts) != 1 or None in counts:
            got = ", ".join(f"{name} {array.shape}" for name, array in named)
            raise ValueError(f"cases: expected arrays whose first dimension is the cases, the same for all, got {got}")
        count = named[0][1].shape[0]
        if count == 0:
            raise ValueError("cases: expected at least one case, got none")
        if self._expect is not None and len(self._expect) != count:
            raise ValueError(f"expect: expected a name for each of {count} cases, got {len(self._expect)}")
        each = sum(array.nbytes // count for _, array in named)
        each += max((2 + len(name) for name in self._expect or ()), default=0)
        overhead = sum(_OVERHEAD + len(name) + 10 * array.ndim for name, array in named)
        if each + overhead > settings.max_message_bytes:
            raise too_large("a case", each + overhead, settings.max_message_bytes)
        limit = min(CHUNK_BYTES, settings.max_message_bytes - overhead)
        rows_of_chunk = max(limit // max(each, 1), 1)
        starts = range(0, count, rows_of_chunk)
        return [Part(start, min(start + rows_of_chunk, count)) for start in starts]

    def explained(self) -> AbstractContextManager[None]:
        """Raise a `TranslationError` in place of an error of the daemon about a function in Python."""
        return explained(kernel=self._programs[0], reference_kernel=self._programs[1])

    def requests(self) -> Iterator[bytes]:
        """Iterate over the messages: the header, then chunks of cases."""
        yield self._header
        for part in self._parts:
            yield b"".join(self._chunk(part))

    def _chunk(self, part: Part) -> list[Chunk]:
        cases: list[Chunk] = []
        for number, tensors in self._tensors.items():
            for name, value in tensors.items():
                rows = Value(value.number, value.array[part.start : part.stop])
                cases += field(number, tensor_input(name, rows))
        for name in (self._expect or [])[part.start : part.stop]:
            cases += field(pb.VerifyCases.EXPECTED_OUTCOMES_FIELD_NUMBER, [name.encode()])
        return field(pb.VerifyRequest.CASES_FIELD_NUMBER, cases)

    def on_response(self, response: pb.VerifyResponse) -> None:
        """Add a response."""
        if response.HasField("summary"):
            self._summary = response.summary
            return
        verdicts = response.cases
        self._done = verdicts.first_case + verdicts.case_count
        self._failed += verdicts.failed_count
        if self._has_verdicts:
            self._verdicts.append(bits_of_rows(verdicts.failed_cases, verdicts.case_count))
        if self._progress is not None:
            self._progress(self._done, self._failed)

    def report(self) -> VerifyReport:
        """Return the report, once all responses are there."""
        if self._summary is None:
            raise malformed("a verification without a summary")
        failed_cases = np.concatenate([np.empty(0, np.bool_), *self._verdicts]) if self._has_verdicts else None
        seed = self._seed if self._is_generated else None
        return received_report(self._summary, self._name, seed, failed_cases)


def _expected_outcomes(expect: str | Sequence[str]) -> list[str] | None:
    """Return the outcome that each case must have; None if there is one for all."""
    if isinstance(expect, str):
        return None
    if not isinstance(expect, Sequence):
        raise TypeError(f"expect: expected a str or a sequence of str, got {type(expect).__name__}")
    for at, one in enumerate(expect):
        if not isinstance(one, str):
            raise TypeError(f"expect[{at}]: expected a str, got {type(one).__name__}")
        check_encodable(f"expect[{at}]", one)
    return list(expect)


def _check_cases(subject: Side, reference: Side, cases: Cases | None, count: int | None, domains: Any) -> None:
    has_function = subject.function is not None or reference.function is not None
    if has_function and cases is None:
        raise ValueError("cases: expected the inputs of the outputs that are given, got None")
    if not has_function and cases is not None:
        raise ValueError("cases: expected None with outputs on both sides, got inputs")
    for name, value in (("count", count), ("domains", domains)):
        if value is not None:
            raise ValueError(f"{name}: expected None with cases that are given, got {value!r}")


def _outputs(side: Side, other: Side, convert: Callable[[str, Any], Any]) -> dict[str, Value]:
    if side.function is not None:
        return {}
    is_unnamed = other.function is not None and not isinstance(side.outputs, Mapping)
    found = inputs(side.name, {_RESULT: side.outputs} if is_unnamed else side.outputs, convert)
    for name, value in found.items():
        if not isinstance(value, Value):
            raise TypeError(f"{side.name}: expected arrays, got the resident tensor {name!r}; compare() takes it")
    return {name: value for name, value in found.items() if isinstance(value, Value)}


def _inputs(cases: Cases | None, dtypes: Mapping[str, str]) -> dict[str, Value]:
    if cases is None:
        return {}
    if not isinstance(cases, Mapping) or not cases:
        raise TypeError(f"cases: expected a dict of arrays, at least one, got {cases!r}"[:200])
    found = {}
    for name, given in by_name("cases", cases, "arrays").items():
        what = f"cases[{name!r}]"
        # An array has its own type, which the daemon converts if the functions have a wider one.
        is_list = isinstance(given, (list, tuple, range))
        given = list(given) if isinstance(given, range) else given
        is_typed = is_list and name in dtypes
        value = typed_value(what, given, dtypes[name]) if is_typed else Value.of(given, what)
        found[name] = _narrow(value) if is_list else value
    return found


def _narrow(value: Value) -> Value:
    """Return integers of 64 bits as ones of 32 bits if they fit, as the other side may have a parameter of 32 bits."""
    array, limits = value.array, np.iinfo(np.int32)
    if array.dtype != np.int64 or np.any((array < limits.min) | (array > limits.max)):
        return value
    return Value.of(array.astype(np.int32))


def _generator(count: int | None, seed: int, domains: Mapping[str, Domain]) -> pb.CaseGenerator:
    for name, domain in by_name("domains", domains, "domains").items():
        if not isinstance(domain, Domain):
            expected = "floats(), integers(), booleans() or lists() of accelerd.testing"
            raise TypeError(f"domains[{name!r}]: expected {expected}, got {type(domain).__name__}")
    if isinstance(count, int) and count < 1:
        raise ValueError(f"count: expected an integer of at least 1, got {count}")
    return message(
        pb.CaseGenerator,
        {"case_count": "count"},
        case_count=DEFAULT_COUNT if count is None else count,
        seed=seed,
        domains={name: domain.message(name) for name, domain in domains.items()},
    )


def _header(subject: Side, reference: Side, device: KernelDevice | None, options: VerifyOptions) -> pb.VerifyHeader:
    unknown = set(options) - set(VerifyOptions.__annotations__)
    if unknown:
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    policy = {name: value for name, value in options.items() if name in PolicyOptions.__annotations__}
    limits = message(
        pb.CaseLimits,
        fuel=options.get("fuel"),
        memory_bytes=options.get("memory_bytes"),
        loop_budget=options.get("loop_budget"),
    )
    if (timeout := options.get("case_timeout")) is not None:
        limits.timeout.CopyFrom(duration("case_timeout", timeout))
    header = message(
        pb.VerifyHeader,
        policy=policy_message(policy),  # type: ignore[arg-type]
        output_policies=policy_messages(options.get("policies", {})),
        max_mismatches=options.get("max_mismatches"),
        case_verdicts=options.get("case_verdicts", False),
        limits=limits,
        outcome_policy=choice("outcome_policy", options.get("outcome_policy", "both_or_neither"), _OUTCOMES),
        expected_outcome=expect if isinstance(expect := options.get("expect", ""), str) else "",
        max_counterexamples=options.get("max_counterexamples"),
        skip_shrinking=not options.get("shrink", True),
        check_determinism=options.get("check_determinism", False),
        device=choice("device", device, DEVICES),
    )
    for side, kernel, wasm, given in (
        (subject, header.kernel, header.wasm, header.given_outputs),
        (reference, header.reference_kernel, header.reference_wasm, header.expected_outputs),
    ):
        if side.function is None:
            given.SetInParent()
        elif isinstance(side.function, Program):
            kernel.CopyFrom(side.function.message)
        else:
            wasm.CopyFrom(side.function)
    return header
