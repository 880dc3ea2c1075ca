"""Tests that texts of others are printed without an effect on the terminal."""

from __future__ import annotations

from datetime import datetime, timezone

import grpc
import numpy as np
import pytest

from accelerd._errors import error
from accelerd._kernel import KernelDiagnostic, TranslatedKernel, TranslationError
from accelerd._proto import verify_pb2 as pb
from accelerd._resident import ResidentTensor
from accelerd._verify import ComparisonReport, received_output
from accelerd._verify_report import received_report
from accelerd._visible import visible

HOSTILE = "a\x1b]0;title\x07b\x9b31m\rc\u202ed\u2028e\x7f"
HIDDEN = set(HOSTILE) - set("ab]0;title31mcde")


def assert_visible(text: str, lines: int) -> None:
    assert not HIDDEN & set(text), repr(text)
    assert len(text.split("\n")) == lines, repr(text)
    assert "\\x1b]0;title" in text


@pytest.mark.parametrize("character", [*map(chr, [*range(32), *range(0x7F, 0xA0)]), "\u2028", "\u202e", "\u2066"])
def test_control_characters_are_escaped(character: str) -> None:
    shown = visible(f"<{character}>")
    assert character not in shown and shown.isprintable() and shown.startswith("<\\")


def test_other_characters_are_kept() -> None:
    text = "Zwölf \u4e2d\u6587 \U0001f600 \\x1b 'a' \"b\""
    assert visible(text) == text


def test_errors_print_texts_visibly_and_keep_them() -> None:
    failed = error(grpc.StatusCode.NOT_FOUND, f"collection {HOSTILE}\nforged line")
    assert_visible(str(failed), 1)
    assert failed.message == f"collection {HOSTILE}\nforged line"


def test_kernels_print_names_visibly() -> None:
    diagnostic = KernelDiagnostic(f"k{HOSTILE}", "code", f"got {HOSTILE}\nforged", 1, 2)
    assert_visible(str(diagnostic), 1)
    assert_visible(str(TranslationError((diagnostic, diagnostic))), 2)
    assert_visible(repr(TranslatedKernel(f"{HOSTILE}\n", 1, (), True, {f"{HOSTILE}.cu": b""})), 1)


def test_resident_tensors_print_their_device_visibly() -> None:
    now = datetime.now(timezone.utc)
    assert_visible(repr(ResidentTensor("h", np.dtype("f4"), (2,), 8, f"{HOSTILE}\n", now, now, now)), 1)


def test_reports_print_names_visibly() -> None:
    name = f"{HOSTILE}\nforged"
    output = pb.OutputComparison(name=name, verdict=pb.OUTPUT_VERDICT_SHAPE_MISMATCH, actual_dtype=3, expected_dtype=3)
    functions = pb.FunctionSummary(subject_outcomes={name: 3})
    summary = pb.VerifySummary(case_count=3, failed_count=3, outputs=[output], functions=functions)
    report = received_report(summary, name, None, None)
    assert_visible(repr(report), 4)
    compared = received_output(output, False)
    assert_visible(repr(ComparisonReport(False, (compared, compared))), 3)
