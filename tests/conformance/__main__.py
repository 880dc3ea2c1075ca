"""Compares accelerd's parser with CPython's on libraries, fixtures, packages and mutated snippets.

python3 tests/conformance                                      all corpora, which takes a while
python3 tests/conformance --only 'library*' --judge 3.13       some corpora
python3 tests/conformance --only mutations --count 1000000     more cases of one
python3 tests/conformance --judge 3.13-as-3.8                  against `ast.parse(feature_version=...)`
"""

from __future__ import annotations

import argparse
import sys
import time
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any

import corpora
import judge
import report
import tools


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="corpora to run; wildcards are allowed")
    parser.add_argument("--skip", action="append", default=[], help="corpora to skip; wildcards are allowed")
    parser.add_argument("--judge", action="append", help="versions, or 3.13-as-3.8; default 3.13, 3.11 and 3.14")
    parser.add_argument("--count", type=int, default=100_000, help="number of mutated snippets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="maximum of cases per corpus")
    parser.add_argument("--reference", action="store_true", help="use columns made from CPython's tree, to test the harness")
    parser.add_argument("--differences", type=Path, default=tools.CACHE / "differences.txt", help="output file of the differences")
    parser.add_argument("--errors", action="store_true", help="write only the section about errors")
    parser.add_argument("--no-reduce", action="store_true", help="do not reduce the sources of differences")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[corpora.Corpus]:
    every = corpora.corpora(options.count, options.seed)
    wanted = options.only or ["*"]
    return [
        one
        for one in every
        if any(fnmatch(one.name, name) for name in wanted) and not any(fnmatch(one.name, name) for name in options.skip)
    ]


def examples(
    parser: tools.Parser, oracle: tools.Oracle, corpus: str, tally: judge.Tally, reduce: bool
) -> dict[str, tuple[int, str, str, bytes, dict[str, Any]]]:
    """The smallest example of each cause."""
    found = {}
    for name, cause in tally.causes.items():
        (where, source), outcome = cause.smallest[0]
        if reduce and not name.startswith("soft") and len(source) > 60 and len(found) < 60:
            source = judge.reduced(parser, oracle, source, name)
            (outcome,) = judge.judge_all(parser, oracle, [source])
        why = report.reason(name, oracle.version)
        found[name] = cause.count, f"{corpus}, {where}, {oracle.name}", why, source, outcome
    return found


def merge(into: dict[str, Any], found: dict[str, Any]) -> None:
    for name, (count, *example) in found.items():
        before = into.get(name)
        best = example if before is None or len(example[2]) < len(before[3]) else before[1:]
        into[name] = (count + (before[0] if before else 0), *best)


def main() -> int:
    options = arguments()
    program = None if options.reference else tools.built_parser()
    if program is None and not options.reference:
        sys.exit("no parser: cargo build --release --package accelerd-parser --example columns")
    parser = tools.Parser(program)
    differing: dict[str, Any] = {}
    for oracle in tools.oracles(tuple(options.judge or ("3.13", "3.11", "3.14"))):
        for corpus in chosen(options):
            start = time.monotonic()
            cases = iter(corpus.cases())
            if options.limit:
                cases = islice(cases, options.limit)
            tally = judge.run(parser, oracle, cases)
            if not options.reference and not options.limit:
                report.save(corpus.name, oracle, tally)
                if not options.errors:
                    report.write_results()
                report.write_errors(len(corpora.OLD_RELEASES))
            merge(differing, examples(parser, oracle, corpus.name, tally, not options.no_reduce))
            report.write_differences(options.differences, differing)
            counts = ", ".join(f"{tally.counts[one]} {one}" for one in report.COUNTS)
            print(f"{oracle.name}: {corpus.name}: {counts}; {time.monotonic() - start:.0f} s", flush=True)
    return int(any(not name.startswith("soft") and not why for name, (_, _, why, *_) in differing.items()))


if __name__ == "__main__":
    sys.exit(main())
