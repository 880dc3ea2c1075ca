"""The report of the units that take longest to build."""

from __future__ import annotations

import pytest

from build_times import units

REPORT = """<script>
const UNIT_DATA = [
  {"i": 0, "name": "fast", "version": "0.1.0", "target": "", "duration": 0.5, "sections": [["frontend", {"start": 0.0}]]},
  {"i": 1, "name": "slow", "version": "1.2.3", "target": " (lib test)", "duration": 12.25, "sections": null}
];
const CONCURRENCY_DATA = [];
</script>"""


def test_units_are_listed_by_their_time() -> None:
    assert units(REPORT) == [(12.25, "slow 1.2.3 (lib test)"), (0.5, "fast 0.1.0")]


def test_a_file_that_is_no_report_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a report"):
        units("<html></html>")
