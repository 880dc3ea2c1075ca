"""The strings of signatures are the values of the protocol's enums."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from accelerd import _choices, _dataset, _evaluate, _kernel, _kernel_benchmark, _kernel_program, _launch, _verification
from accelerd._proto import device_pb2, embed_pb2, kernel_pb2, similarity_pb2, tensor_pb2, verify_pb2

#: Types of strings by enum and prefix.
CHOICES: list[tuple[Any, Any, str]] = [
    (_choices.Metric, similarity_pb2.Metric, "METRIC"),
    (_choices.Fusion, similarity_pb2.Fusion, "FUSION"),
    (_choices.Pooling, embed_pb2.Pooling, "POOLING"),
    (_choices.TruncationSide, embed_pb2.TruncationSide, "TRUNCATION_SIDE"),
    (_choices.LongInput, embed_pb2.LongInput, "LONG_INPUT"),
    (_choices.Precision, embed_pb2.Precision, "PRECISION"),
    (_choices.OutputType, embed_pb2.OutputType, "OUTPUT_TYPE"),
    (_choices.DeviceKind, device_pb2.DeviceKind, "DEVICE_KIND"),
    (_choices.DeviceState, device_pb2.DeviceState, "DEVICE_STATE"),
    (_choices.OutputVerdict, verify_pb2.OutputVerdict, "OUTPUT_VERDICT"),
    (_choices.MismatchKind, verify_pb2.MismatchKind, "MISMATCH_KIND"),
    (_verification.OutcomePolicy, verify_pb2.OutcomePolicy, "OUTCOME_POLICY"),
    (_kernel.KernelTarget, kernel_pb2.KernelTarget, "KERNEL_TARGET"),
    (_kernel_program.KernelDialect, kernel_pb2.KernelDialect, "KERNEL_DIALECT"),
    (_launch.KernelDevice, kernel_pb2.KernelDevice, "KERNEL_DEVICE"),
    (_kernel_benchmark.BenchmarkVerdict, kernel_pb2.BenchmarkVerdict, "BENCHMARK_VERDICT"),
    (_evaluate.EvaluationVerdict, kernel_pb2.EvaluationVerdict, "EVALUATION_VERDICT"),
    (_dataset.DatasetCategory, kernel_pb2.DatasetCategory, "DATASET_CATEGORY"),
    (_dataset.DatasetSplit, kernel_pb2.DatasetSplit, "DATASET_SPLIT"),
    (_dataset.DatasetAgreement, kernel_pb2.DatasetAgreement, "DATASET_AGREEMENT"),
]


@pytest.mark.parametrize(("choices", "enum", "prefix"), CHOICES, ids=[prefix for _, _, prefix in CHOICES])
def test_strings_are_the_values_of_an_enum(choices: Any, enum: Any, prefix: str) -> None:
    names = {name.removeprefix(f"{prefix}_").lower() for name in enum.keys() if enum.Value(name)}  # noqa: SIM118
    assert {*get_args(choices)} - {"", "unknown"} == names


def test_a_collection_is_stored_in_types_of_tensors() -> None:
    for name in _choices.Storage.__args__:
        assert not name or tensor_pb2.Dtype.Value(f"DTYPE_{name.upper()}")
