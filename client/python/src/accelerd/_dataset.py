"""Data sets of kernels and their translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ._errors import malformed
from ._kernel import TARGETS, KernelTarget
from ._kernel_program import DIALECTS, KernelDialect
from ._launch import DEVICE_NAMES, DEVICES, KernelDevice
from ._message import choice, message
from ._proto import kernel_pb2 as pb
from ._timing import seconds
from ._visible import visible

#: What a kernel of a data set is an example of.
DatasetCategory: TypeAlias = Literal[
    "arithmetic",
    "vector",
    "matrix",
    "control_flow",
    "math",
    "atomic",
    "nested_loop",
    "multi_conditional",
    "combined",
    "scalar_param",
    "stencil",
    "bitwise",
]
#: A split of a data set.
DatasetSplit: TypeAlias = Literal["train", "validation", "test"]
#: How far results agree with the interpreter's: all bits; within the tolerances of torch.testing; not so; the run ended
#: with a fault; or the translation did not compile or run.
DatasetAgreement: TypeAlias = Literal["equal", "close", "different", "fault", "failed"]


def _named(enum: Any, prefix: str) -> dict[int, Any]:
    """Return the plain names of an enum's values."""
    return {number: name.removeprefix(prefix).lower() for name, number in enum.items() if number}


_CATEGORIES = _named(pb.DatasetCategory, "DATASET_CATEGORY_")
_SPLITS = _named(pb.DatasetSplit, "DATASET_SPLIT_")
_AGREEMENTS = _named(pb.DatasetAgreement, "DATASET_AGREEMENT_")
_DIALECT_NAMES = _named(pb.KernelDialect, "KERNEL_DIALECT_")
_CATEGORY_NUMBERS = {name: number for number, name in _CATEGORIES.items()}


@dataclass(frozen=True)
class DatasetRun:
    """A run of a translation on the example of its kernel, compared with the interpreter's results."""

    #: "cpu" for WebAssembly, "cuda" for PTX.
    device: KernelDevice
    agreement: DatasetAgreement
    #: Numbers that were compared, in all arrays that the kernel writes.
    element_count: int
    #: Numbers with other bits. NaN equals NaN.
    different_count: int
    #: The greatest distance of two finite floating-point numbers, in units in the last place.
    max_ulp_error: int
    #: Seconds that the threads ran.
    execution_time: float
    #: Why there are no results.
    message: str


@dataclass(frozen=True, repr=False)
class DatasetPair:
    """A kernel in Python, its translations, and what they compute."""

    #: Its place in the sequence of kernels. Places of kernels that are equal to earlier ones are left out.
    index: int
    #: SHA-256 of the syntax tree without the names that the module gives, in hexadecimal digits.
    id: str
    #: The same without the values of constants. All pairs of a structure are in one split.
    structure_id: str
    split: DatasetSplit
    category: DatasetCategory
    dialect: KernelDialect
    #: Name of the function.
    name: str
    #: The module.
    source: str
    #: Contents of the files of the translations by name.
    files: Mapping[str, bytes] = field(hash=False)
    #: As in :class:`TranslatedKernel`.
    bit_exact: bool
    runs: tuple[DatasetRun, ...]

    def __repr__(self) -> str:
        return visible(f"<DatasetPair {self.index}: {self.name}, {self.dialect}, {self.split}>")


def request(
    count: int,
    seed: int,
    categories: Sequence[DatasetCategory],
    dialects: Sequence[KernelDialect],
    targets: Sequence[KernelTarget],
    first_index: int,
    validation_percent: int | None,
    test_percent: int | None,
    device: KernelDevice | None,
) -> pb.GenerateDatasetRequest:
    """Return the request of a call that makes pairs."""
    return message(
        pb.GenerateDatasetRequest,
        {"pair_count": "count"},
        pair_count=count,
        seed=seed,
        categories=[choice("categories", name, _CATEGORY_NUMBERS) for name in categories],
        dialects=[choice("dialects", name, DIALECTS) for name in dialects],
        targets=[choice("targets", name, TARGETS) for name in targets],
        first_index=first_index,
        validation_percent=validation_percent,
        test_percent=test_percent,
        device=choice("device", device, DEVICES),
    )


class Progress:
    """The pairs of a request that are there, so that another call continues after the last of them."""

    def __init__(self, request: pb.GenerateDatasetRequest) -> None:
        #: The request for the missing pairs.
        self._missing = pb.GenerateDatasetRequest()
        self._missing.CopyFrom(request)
        #: A daemon leaves out pairs that are equal to earlier ones of the same call.
        self._ids: set[str] = set()

    def request(self) -> pb.GenerateDatasetRequest:
        """Return the request for the missing pairs."""
        request = pb.GenerateDatasetRequest()
        request.CopyFrom(self._missing)
        return request

    def is_new(self, response: pb.GenerateDatasetResponse) -> bool:
        """Process a response. Returns whether no pair before is equal to its pair."""
        if not response.HasField("pair"):
            raise malformed("a response without a pair")
        self._missing.first_index = response.pair.index + 1
        if response.pair.id in self._ids:
            return False
        self._ids.add(response.pair.id)
        self._missing.pair_count = max(self._missing.pair_count - 1, 0)
        return True

    @property
    def is_complete(self) -> bool:
        """Whether all pairs are there."""
        return bool(self._ids) and not self._missing.pair_count


def pair(response: pb.GenerateDatasetResponse) -> DatasetPair:
    """Return the pair of a response."""
    made = response.pair
    return DatasetPair(
        index=made.index,
        id=made.id,
        structure_id=made.structure_id,
        split=_SPLITS.get(made.split, "unknown"),
        category=_CATEGORIES.get(made.category, "unknown"),
        dialect=_DIALECT_NAMES.get(made.dialect, "unknown"),
        name=made.name,
        source=made.source,
        files={file.name: file.content for file in made.files},
        bit_exact=made.bit_exact,
        runs=tuple(_run(run) for run in made.runs),
    )


def _run(run: pb.DatasetRun) -> DatasetRun:
    return DatasetRun(
        device=DEVICE_NAMES.get(run.device, "cpu"),
        agreement=_AGREEMENTS.get(run.agreement, "unknown"),
        element_count=run.element_count,
        different_count=run.different_count,
        max_ulp_error=run.max_ulp_error,
        execution_time=seconds(run.execution_time),
        message=run.message,
    )
