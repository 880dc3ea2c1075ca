"""The documents are complete: every call has a link, every reason of an error its code, and anchors lead to headings."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import generate_calls  # noqa: E402
import site_pages  # noqa: E402


def test_the_page_of_calls_is_written_from_the_protocol():
    assert generate_calls.PAGE.read_text() == generate_calls.page()
    protocol = "".join(file.read_text() for file in generate_calls.PROTOS.glob("*.proto"))
    assert generate_calls.MESSAGES.read_text() == generate_calls.messages_page()
    assert len(generate_calls.calls()) == len(re.findall(r"^  rpc ", protocol, re.MULTILINE)) > 40


def test_the_page_of_messages_has_every_field():
    for file in generate_calls.PROTOS.glob("*.proto"):
        listed = generate_calls.types(file.stem)
        assert [one.name for one in listed if not "".join(one.comment).strip()] == []
        text = re.sub(r"//[^\n]*|^extend .*?^}", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
        declared = re.findall(r"^\s*(?:message|enum) (\w+)", text, re.MULTILINE)
        assert [one.name.rpartition(".")[2] for one in listed] == declared
        numbered = re.findall(r"^\s+[\w.<>, ]*?(\w+) = \d+(?: \[[^\]]*\])?;", text, re.MULTILINE)
        assert sorted(field.name for one in listed for field in one.fields) == sorted(numbered)
        assert [field.name for one in listed for field in one.fields if not field.comment] == []


def test_the_readme_links_to_every_call():
    readme = (ROOT / "README.md").read_text()
    missing = [call.name for call in generate_calls.calls() if f"[{call.name}](docs/calls.md#{call.anchor})" not in readme]
    assert missing == []


def test_calls_of_the_page_are_documented_and_have_methods_that_exist():
    assert [call.name for call in generate_calls.calls() if not "".join(call.comment).strip()] == []
    names = [call.name for call in generate_calls.calls()]
    assert len(set(names)) == len(names), "headings are unique"
    assert set(generate_calls.PYTHON) <= set(names)
    client = "".join(file.read_text() for file in (ROOT / "client/python/src/accelerd").glob("_blocking_*.py"))
    methods = {one.split(".")[1] for several in generate_calls.PYTHON.values() for one in several.split(", ")}
    assert [method for method in methods if f"    def {method}(" not in client] == []


def anchors(document):
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", ["README.md", "BENCHMARKS.md", "SECURITY.md", *(one.relative_to(ROOT).as_posix() for one in (ROOT / "docs").rglob("*.md"))])
def test_anchors_lead_to_headings(name):
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^):\s]*)#([^)\s]+)\)", text)
    found = {(target, anchor) for target, anchor in links if (target or name).endswith(".md")}
    broken = [(target, anchor) for target, anchor in found if anchor not in anchors((ROOT / name).parent / target if target else ROOT / name)]
    assert broken == []


@pytest.mark.parametrize(
    ("link", "source", "page", "target"),
    [
        ("../SECURITY.md", "docs/tensor.md", "tensor.md", "project/security.md"),
        ("docs/calls.md", "README.md", "index.md", "calls.md"),
        ("../../docs/tensor.md", "client/python/README.md", "project/client-python.md", "../tensor.md"),
        ("overload.svg", "docs/benchmarks/overload.md", "benchmarks/overload.md", "overload.svg"),
        ("../proto/accelerd/v1", "docs/calls.md", "calls.md", f"{site_pages.FORGE}/proto/accelerd/v1"),
        ("no/such.md", "README.md", "index.md", "no/such.md"),
        ("../../etc/passwd", "README.md", "index.md", "../../etc/passwd"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_files_of_the_forge(link, source, page, target):
    assert site_pages.resolved(link, source, page) == target


def test_links_in_code_stay():
    text = "[a](docs/calls.md#embed) `[b](docs/calls.md)`\n```\n[c](docs/calls.md)\n```\n[d](https://example.com/docs/calls.md)"
    assert site_pages.rewritten(text, "README.md", "index.md") == text.replace("docs/calls.md#", "calls.md#", 1)


def test_public_names_are_those_that_a_package_exports():
    names = site_pages.public_names("client/python/src/accelerd/__init__.py")
    assert names[0] == "AccelerdError" and names.index("Client") < names.index("NODE_KINDS")
    assert "AsyncClient" in site_pages.public_names("client/python/src/accelerd/aio.py")


def reasons():
    """Reason and code of each row of the page of errors."""
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([A-Z_]+) \| (.+?) \| (.+?) \|$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    return [(reason, code) for reason, code, _, _ in rows]


def code_name(variant):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", variant).upper()


def test_every_reason_has_a_row_with_its_code():
    source = (ROOT / "server/src/status.rs").read_text().split("#[cfg(test)]")[0]
    made = re.findall(r'(?:with_reason|retry)\(\s*Code::(\w+),\s*(?:[\w.()]+|format!\(.*?\)),\s*"([A-Z_]+)"', source)
    detailed = re.findall(r'(?:with|set)_error_info\("([A-Z_]+)".*?bounds::status\(\s*Code::(\w+)', source, re.DOTALL)
    expected = {(reason, code_name(code)) for code, reason in made} | {(reason, code_name(code)) for reason, code in detailed}
    # Built in a function, with the code of its callers.
    expected -= {pair for pair in expected if pair[0] == "OUT_OF_MEMORY"}
    expected |= {("OUT_OF_MEMORY", "RESOURCE_EXHAUSTED")}
    assert len(expected) > 30
    assert expected - set(reasons()) == set()


def test_every_reason_of_a_refusal_has_a_row():
    source = (ROOT / "server/src/auth/refusal.rs").read_text().split("#[cfg(test)]")[0]
    named = set(re.findall(r'"([A-Z_]{4,})"', source))
    assert named and named <= {reason for reason, _ in reasons()}


def test_no_row_is_twice_or_incomplete():
    lines = re.findall(r"^\| `[A-Z_]+` .*$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert len(lines) == len(reasons()) == len(set(reasons()))


def test_codes_without_a_reason_are_named():
    source = (ROOT / "server/src/status.rs").read_text().split("#[cfg(test)]")[0]
    bare = {name.upper() for name in re.findall(r"(?:Status|Self)::(cancelled|out_of_range|internal)\(", source)}
    text = (ROOT / "docs/errors.md").read_text()
    assert bare == {"CANCELLED", "OUT_OF_RANGE", "INTERNAL"}
    assert all(name in text.split("\n## ")[0] for name in bare)
