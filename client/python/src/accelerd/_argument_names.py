"""Names of arguments for the fields of requests that the daemon refuses.

A caller knows the arguments of the client, not the messages of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ._errors import AccelerdError, FieldViolation

_IDS = {"ids.numbers": "ids", "ids.uuids": "ids", "ids.packed_numbers": "ids", "ids.packed_uuids": "ids"}
_TEXTS = {"texts.values": "texts"}
_EMBED = {**_TEXTS, "output_type": "output"}
_FILTER = {**{f"filter.{field}": argument for field, argument in _IDS.items()}, "filter": "where"}
_UPSERT = {**_IDS, **_TEXTS, "payload_columns.columns": "payloads", "payload_columns": "payloads"}
_BENCHMARK = {"run_count": "runs", "warm_up_count": "warm_up", "fixed_arguments": "fixed"}
_LIMITS = {f"limits.{name}": name for name in ("fuel", "memory_bytes", "loop_budget")}
#: The arguments of a method, by the paths of fields; the longest path that a field begins with is replaced.
ARGUMENTS: dict[str, Mapping[str, str]] = {
    "Embed": _EMBED,
    "EmbedStream": _EMBED,
    "Rerank": {"documents.values": "documents"},
    "Tokenize": _TEXTS,
    "Translate": {"cuda_arch": "arch"},
    "Compile": {f"program.{name}": name for name in ("source", "name", "dialect", "constants")},
    "Launch": {"program": "kernel", "kernel_id": "kernel"},
    "EvictKernel": {"kernel_id": "kernel"},
    "Benchmark": {
        **_BENCHMARK,
        "launch.program": "kernel",
        "launch.kernel_id": "kernel",
        "reference.name": "reference_name",
        "reference.source": "reference",
        **{f"launch.{name}": name for name in ("arguments", "grid", "outputs", "loop_budget", "device")},
    },
    "Evaluate": {
        **_BENCHMARK,
        "subject.dynamic_shared_memory_bytes": "shared_memory",
        **{f"subject.{name}": name for name in ("source", "entry", "params", "grid", "block")},
        "arguments": "params",
        "reference.grid": "reference_grid",
        "reference.program": "reference",
        "reference.program.name": "reference_name",
        "expected.outputs": "expected",
    },
    "GenerateDataset": {"pair_count": "count"},
    "FindSimilar": {"score_threshold": "threshold"},
    "Cluster": {
        "cluster_count": "clusters",
        "init_count": "n_init",
        "input": "source",
        "vectors": "source",
    },
    "CreateCollection": {"durability": "durable"},
    "Upsert": _UPSERT,
    "UpsertStream": {**_UPSERT, **{f"upsert.{field}": name for field, name in _UPSERT.items()}},
    "Search": {
        **_IDS,
        **_TEXTS,
        **_FILTER,
        "limit": "k",
        "score_threshold": "threshold",
        "include_payload": "payload",
        "query": "texts, vectors or ids",
    },
    "GetPoints": {**_IDS, "include_vectors": "vectors"},
    "ScrollPoints": {
        **_FILTER,
        "limit": "page_size",
        "include_payload": "payload",
        "include_vectors": "vectors",
    },
    "CountPoints": _FILTER,
    "DeletePoints": _FILTER,
    "UploadTensor": {"shape": "array", "data": "array"},
    "Verify": {
        **_LIMITS,
        "limits.timeout": "case_timeout",
        "generator.case_count": "count",
        "generator.seed": "seed",
        "generator.domains": "domains",
        "expected_outcome": "expect",
        "cases.expected_outcomes": "expect",
        "kernel": "subject",
        "wasm": "subject",
        "given_outputs": "subject",
        "cases.actual": "subject",
        "reference_kernel": "reference",
        "reference_wasm": "reference",
        "expected_outputs": "reference",
        "cases.expected": "reference",
        "cases.inputs": "cases",
        "skip_shrinking": "shrink",
    },
}
#: Options of a policy by the paths of its fields.
_POLICY = {
    "close.atol": "atol",
    "close.rtol": "rtol",
    "ulp.max_distance": "max_ulps",
    "max_norm.rtol": "max_norm",
    "combination": "require",
    "nan": "equal_nan",
    "infinity": "forbid_infinity",
    "distinguish_zero_sign": "signed_zero",
    "shape": "ignore_shape",
    "order": "any_order",
}
_OF_POLICY = re.compile(
    r"(?:policy|(?P<several>output_policies)\[(?P<name>.*?)\])(?:\.tolerances\[\d+\])?\.(?P<path>.+)"
)
#: Conditions of a filter are named as a whole.
_CONDITION = "filter.must"
_WORD = re.compile(r"[a-z]+(?:_[a-z]+)*")
#: Fields whose names are words that a description may use for other things.
_COMMON_WORDS = {"filter", "input", "query", "kernel", "program", "vectors", "wasm", "arguments"}


def with_arguments(problem: AccelerdError, method: str, conditions: Mapping[str, str] | None = None) -> AccelerdError:
    """Return an error of the daemon with the names of arguments in place of those of fields.

    Args:
        problem: The error.
        method: Name of the method that was called. Methods of different services have different names.
        conditions: Names of the conditions of a filter by their fields.
    """
    names = {**ARGUMENTS.get(method, {}), **(conditions or {})}
    message, violations = problem.message, []
    if not problem.violations:
        # An item of a stream has the text only.
        field, colon, rest = message.partition(": ")
        is_field = problem.code.name == "INVALID_ARGUMENT" and " " not in field
        named = argument(field, names) if colon and is_field else field
        return problem if named == field else _replaced(problem, f"{named}: {rest}", ())
    for violation in problem.violations:
        named, description = argument(violation.field, names), _described(violation.description, names)
        violations.append(FieldViolation(violation.field, violation.description, named))
        message = message.replace(f"{violation.field}: {violation.description}", f"{named}: {description}")
    return _replaced(problem, message, tuple(violations))


def argument(field: str, names: Mapping[str, str]) -> str:
    """Return the name of the argument for the path of a field; the path itself if it has no other name."""
    path = field.removeprefix("header.")
    if (policy := _OF_POLICY.fullmatch(path)) is not None:
        option = _POLICY.get(policy["path"], policy["path"])
        return f"policies[{policy['name']!r}].{option}" if policy["several"] else option
    path = re.sub(r"^output_policies\[(.*?)\]", lambda of: f"policies[{of[1]!r}]", path)
    found = max((one for one in names if _begins(path, one)), key=len, default=None)
    if found is None:
        return path
    return names[found] + ("" if found.startswith(_CONDITION) else path[len(found) :])


def _begins(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", ".", "[")


def _described(description: str, names: Mapping[str, str]) -> str:
    """Return a description, which may name other fields."""
    words = {field: name for field, name in names.items() if _WORD.fullmatch(field) and field not in _COMMON_WORDS}
    return _WORD.sub(lambda word: words.get(word[0], word[0]), description)


def _replaced(problem: AccelerdError, message: str, violations: tuple[FieldViolation, ...]) -> AccelerdError:
    details = replace(problem.details, violations=violations)
    return type(problem)(problem.code, message, details)
