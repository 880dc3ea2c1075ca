"""Sources around the limits of CPython's tokenizer and parser, and long or deep ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

# The generator and the interesting sizes of each growing construct.
_GROWING: dict[str, tuple[Callable[[int], str], tuple[int, ...]]] = {
    "parentheses": (lambda n: "(" * n + "x" + ")" * n, (1, 50, 99, 100, 199, 200, 201, 300)),
    "open parentheses": (lambda n: "(" * n, (1, 199, 200, 201, 300)),
    "mixed brackets": (lambda n: "([{" * n + "1" + "}])" * n, (1, 20, 66, 67, 100)),
    "calls": (lambda n: "f(" * n + ")" * n, (1, 50, 199, 200, 201)),
    "subscripts": (lambda n: "a[" * n + "0" + "]" * n, (1, 50, 199, 200, 201)),
    "dicts": (lambda n: "{1:" * n + "2" + "}" * n, (1, 50, 199, 200, 201)),
    "blocks": (lambda n: "".join(" " * at + "if x:\n" for at in range(n)) + " " * n + "pass\n", (20, 98, 99, 100, 101)),
    "classes": (lambda n: "".join("\t" * at + "class A:\n" for at in range(n)) + "\t" * n + "x\n", (98, 99, 100)),
    "decimal digits": (lambda n: "9" * n, (4299, 4300, 4301, 5000)),
    "digits and underscores": (lambda n: "1_" * (n - 1) + "1", (4299, 4300, 4301)),
    "hexadecimal digits": (lambda n: "0x" + "f" * n, (4300, 4301, 9000)),
    "digits of a float": (lambda n: "1." + "3" * n + "e-5", (17, 400, 5000)),
    "digits of an imaginary number": (lambda n: "7" * n + "j", (17, 308, 309, 4301)),
    "exponents": (lambda n: f"1e{n}, 1e-{n}, {n}e0", (307, 308, 309, 323, 324, 400)),
    "f-strings in f-strings": (lambda n: "f'{" * n + "1" + "}'" * n, (1, 2, 5, 100, 148, 149, 150, 151, 200)),
    "format specifications": (lambda n: "f'" + "{x:" * n + "}" * n + "'", (1, 2, 3, 4, 5)),
    "brackets in a field": (lambda n: "f'{" + "(" * n + "1" + ")" * n + "}'", (1, 198, 199, 200, 201)),
    "unary minus": (lambda n: "-" * n + "1", (1, 100, 1000)),
    "not": (lambda n: "not " * n + "x", (1, 100, 1000)),
    "lambdas": (lambda n: "lambda: " * n + "x", (1, 100, 500)),
    "conditions": (lambda n: "a if b else " * n + "c", (1, 100, 500)),
    "powers": (lambda n: "2**" * n + "2", (1, 100, 500)),
    "attributes": (lambda n: "a" + ".b" * n, (1, 100, 1000)),
    "additions": (lambda n: "1+" * n + "1", (1, 100, 1000)),
    "comparisons": (lambda n: "a<" * n + "b", (1, 1000, 20_000)),
    "conjunctions": (lambda n: "a and " * n + "b", (1, 1000, 20_000)),
    "elements": (lambda n: "[" + "1," * n + "]", (1, 63, 64, 65, 1000, 50_000)),
    "elements over lines": (lambda n: "[\n" + "  1,\n" * n + "]", (63, 64, 65, 20_000)),
    "items": (lambda n: "{" + "'a': [b, (c)],\n" * n + "}", (1, 20, 40, 10_000)),
    "arguments": (lambda n: "f(" + "a, " * n + "*b, k=1, **c)", (1, 64, 255, 256, 10_000)),
    "parameters": (lambda n: "def f(" + ", ".join(f"a{at}=1" for at in range(n)) + "): pass", (1, 255, 256, 3000)),
    "targets": (lambda n: "a = " * n + "b", (1, 100, 5000)),
    "statements in a line": (lambda n: "x;" * n, (1, 100, 20_000)),
    "elif": (lambda n: "if a: pass\n" + "elif b: pass\n" * n + "else: pass\n", (1, 50, 500)),
    "decorators": (lambda n: "@d\n" * n + "def f(): pass\n", (1, 100, 5000)),
    "strings side by side": (lambda n: "'a' " * n, (1, 100, 20_000)),
    "fields": (lambda n: "f'" + "{x}" * n + "'", (1, 100, 10_000)),
    "long lines": (lambda n: "x = '" + "a" * n + "'", (1000, 1 << 20)),
    "long names": (lambda n: "a" * n + " = \u00e9" + "b" * n, (1000, 1 << 16)),
    "continued lines": (lambda n: "x = 1 + \\\n" * n + "2", (1, 100, 900)),
    "empty lines": (lambda n: "\n" * n + "x", (1, 70_000)),
    "patterns": (lambda n: "match x:\n case " + "[" * n + "y" + "]" * n + ": pass", (1, 50, 100, 199, 200)),
    "alternatives": (lambda n: "match x:\n case " + "1 | " * n + "2: pass", (1, 100, 2000)),
    "imports": (lambda n: "from a import (" + "b as c, " * n + ")", (1, 100, 10_000)),
    "parts": (lambda n: "import a" + ".a" * n, (1, 100, 3000)),
}


def limits() -> Iterator[tuple[str, bytes]]:
    """All sources, at top level and inside a block."""
    for name, (make, sizes) in _GROWING.items():
        for size in sizes:
            yield f"{size} {name}", make(size).encode()
            yield f"{size} {name}, indented", b"if x:\n    y = 1\n    " + make(size).replace("\n", "\n    ").encode()
