"""A pytest plugin that prints the outcome as `N passed, N failed, N skipped`."""


def pytest_terminal_summary(terminalreporter):
    count = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    failed = count["failed"] + count["error"]
    terminalreporter.write_line(f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped")
