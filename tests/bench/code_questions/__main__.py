"""Prints how often `accelctl search` finds the function that answers a developer's question, first and among five.

    python3 tests/bench/code_questions SOURCES [--bin FOLDER] [--index=FLAGS] [--search=FLAGS] [--role ROLE] [--misses]

SOURCES holds a folder of each project of `questions.json`, by its name, at the version named there. The questions were
written before anything was searched for. The ranking was chosen by those of the roles `shown` and `tuning`; those of
`held-out` confirm it and were never looked at one by one. A hit counts where its lines have the first line of the
function's definition, or lie within it: of a chunk of more than 60 lines, such as a class without its methods' bodies,
only if the chunk has the function's own name.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[2] / "target"))
START_TIMEOUT = 60.0
TOP = 5
ROLES = ("shown", "tuning", "held-out")
LONG_CHUNK = 60


@contextlib.contextmanager
def daemon(binaries: Path) -> Iterator[str]:
    """A daemon with the built-in model, and its URL."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    main, admin, health = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    flags = ["--listen", main, "--set", f"server.admin_listen={admin}", "--set", f"server.health_listen={health}"]
    flags += ["--set", "drain.endpoint_delay=0s"]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([binaries / "accelerd", "serve", *flags], stdout=log, stderr=log)
        ask = [binaries / "accelerd", "health", "--address", health, "--service", "readiness"]
        until = time.monotonic() + START_TIMEOUT
        try:
            while subprocess.run(ask, capture_output=True).returncode != 0:
                log.seek(0)
                assert process.poll() is None and time.monotonic() < until, log.read()
            yield f"http://{main}"
        finally:
            process.terminate()
            process.wait()


def accelctl(binaries: Path, server: str, *words: str | Path) -> Any:
    """Runs a command; what it says, as JSON. `search` exits with 1 where it finds nothing."""
    command = [binaries / "accelctl", "--json", "--server", server, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def definition(root: Path, path: str, start: str) -> range:
    """The lines of a definition, whose first line is there exactly once. It ends where a line as far to the left starts
    with a closing bracket."""
    lines = (root / path).read_text().splitlines()
    found = [at for at, line in enumerate(lines) if start in line]
    assert len(found) == 1, f"{root / path} has {len(found)} lines with {start!r}, expected 1: is it the right version?"
    first = lines[found[0]]
    indent = first[: len(first) - len(first.lstrip())]
    closing = (at for at in range(found[0] + 1, len(lines)) if lines[at].startswith((indent + "}", indent + ")")))
    ends = [at for at in closing if not lines[at].rstrip().endswith(("{", "=> {"))]
    return range(found[0] + 1, (ends[0] if ends else found[0]) + 2)


def rank(hits: list[dict[str, Any]], path: str, lines: range, start: str) -> int:
    """The rank of the first hit that is a definition; 0 where none is."""
    words = re.findall(r"\w+", start)
    for hit in hits:
        if hit["path"] != path:
            continue
        if hit["start_line"] in lines and hit["end_line"] <= lines[-1] + 2:
            return int(hit["rank"])
        short = hit["end_line"] - hit["start_line"] < LONG_CHUNK
        own = re.findall(r"\w+", hit.get("name") or "")
        if hit["start_line"] <= lines[0] <= hit["end_line"] and (short or (own and own[-1] in words)):
            return int(hit["rank"])
    return 0


def main() -> None:
    """Indexes each project, asks, and prints a line a project and one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--bin", type=Path, default=TARGET / "debug", help="folder of accelerd and accelctl")
    parser.add_argument("--index", default="", help="flags for `accelctl index`")
    parser.add_argument("--search", default="", help="flags for `accelctl search`")
    parser.add_argument("--role", choices=ROLES, action="append", help="ask about these projects only")
    parser.add_argument("--misses", action="store_true", help="print the questions whose answer is not first")
    args = parser.parse_args()
    projects = json.loads((HERE / "questions.json").read_text())
    with daemon(args.bin) as server:
        for role in args.role or ROLES:
            ranks = [ask(server, project, args) for project in projects if project["role"] == role]
            show(role, "", "", [rank for of_project in ranks for rank in of_project])


def ask(server: str, project: dict[str, Any], args: argparse.Namespace) -> list[int]:
    """Indexes a project and asks its questions; the rank of each answer."""
    name, root, ranks = project["project"], args.sources / project["project"], []
    index = ["index", root, "--collection", name, "--name", name, *shlex.split(args.index)]
    chunks = accelctl(args.bin, server, *index)["chunks"]
    questions = [one[0] for one in project["questions"]]
    flags = ["-k", str(TOP), "--context", "0", *shlex.split(args.search)]
    answers = accelctl(args.bin, server, "search", "--collection", name, *flags, "--", *questions)["queries"]
    for (question, path, start), answer in zip(project["questions"], answers, strict=True):
        lines = definition(root, path, start)
        ranks.append(rank(answer["hits"], f"{name}/{path}", lines, start))
        if args.misses and ranks[-1] != 1:
            found = [f"{hit['path']}:{hit['start_line']} {hit.get('name') or ''}" for hit in answer["hits"]]
            print(f"  {ranks[-1]} {question!r}: {path}:{lines[0]}", *found, sep="\n      ")
    show(name, project["language"], f"{chunks} chunks", ranks)
    return ranks


def show(name: str, language: str, chunks: str, ranks: list[int]) -> None:
    """A line of figures."""
    first, among = ranks.count(1), sum(one > 0 for one in ranks)
    print(f"{name:9} {language:10} {chunks:>12}  first {first:2}  in five {among:2}  of {len(ranks)}", flush=True)


if __name__ == "__main__":
    main()
