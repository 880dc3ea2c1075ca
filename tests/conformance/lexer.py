"""Compares the lexer with CPython's, token by token, on Python files.

    python tests/conformance/lexer.py PATH... [--tool target/release/examples/tokens]

Runs on the CPython to compare with, 3.12 or later. Folders are searched for UTF-8 files.
"""

import argparse
import ast
import io
import keyword
import pathlib
import subprocess
import sys
import tokenize
import warnings

SKIPPED = {tokenize.NL, tokenize.ENDMARKER, tokenize.ENCODING}
CLASSES = {
    tokenize.NUMBER: "Number",
    tokenize.STRING: "String",
    tokenize.FSTRING_START: "FStringStart",
    tokenize.FSTRING_MIDDLE: "FStringMiddle",
    tokenize.FSTRING_END: "FStringEnd",
}


def expected(text):
    """Lines of tokens with byte offsets and indentation depths, and comments."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()) + 1)

    def place(row, column):
        line = lines[row - 1] if row <= len(lines) else ""
        return starts[row - 1] + (column if line.isascii() else len(line[:column].encode()))

    result, tokens, comments, depth = [], [], [], 0
    for kind, string, start, end, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind in SKIPPED:
            continue
        if kind == tokenize.COMMENT:
            comments.append((place(*start), place(*end)))
        elif kind == tokenize.INDENT:
            depth += 1
        elif kind == tokenize.DEDENT:
            depth -= 1
        elif kind == tokenize.NEWLINE:
            result.append((depth, tokens))
            tokens = []
        else:
            name = CLASSES.get(kind, "Word" if kind == tokenize.NAME else "Symbol")
            span = (name, place(*start), place(*end))
            if name == "FStringMiddle" and tokens and tokens[-1][0] == name:
                tokens[-1] = (name, tokens[-1][1], span[2])
            elif name != "FStringMiddle" or string:
                tokens.append(span)
    if tokens:
        result.append((depth, tokens))
    return result, comments


def actual(output):
    """The same from the output of the example `tokens`, file by file."""
    path = None
    for record in output:
        kind, *rest = record.rstrip("\n").split(" ", 4)
        if kind == "F":
            if path is not None:
                yield path, lines, comments, error
            path, lines, comments, error, levels = record[2:-1], [], [], None, [0]
        elif kind == "L":
            column = int(rest[0])
            while levels[-1] > column:
                levels.pop()
            if levels[-1] < column:
                levels.append(column)
            lines.append((len(levels) - 1, []))
        elif kind == "T":
            lines[-1][1].append((rest[0], int(rest[1]), int(rest[2])))
        elif kind == "V":
            lines[-1][1][-1] += (rest[0], bytes.fromhex(rest[1]))
        elif kind == "C":
            comments.append((int(rest[0]), int(rest[1])))
        else:
            error = record[2:-1]
    if path is not None:
        yield path, lines, comments, error


def value_of(written):
    value = ast.literal_eval(written)
    if isinstance(value, bytes):
        return ["Bytes", value]
    return ["UnicodeStr" if written.startswith("u") else "Str", value.encode("utf-8", "surrogatepass")]


PLAIN = {"Number", "String", "FStringStart", "FStringMiddle", "FStringEnd"}


def coarse(line, text):
    """Maps tokens to CPython's few kinds; the kinds of words are checked by their text."""
    for kind, start, end, *value in line:
        if value and value != value_of(text[start:end].decode()):
            kind = f"{kind} with {value}"
            yield kind, start, end
            continue
        if kind in PLAIN:
            yield kind, start, end
            continue
        written = text[start:end].decode()
        word = written[0].isidentifier()
        if word and (keyword.iskeyword(written) != (kind != "Name") or keyword.iskeyword(written) and kind.lower() != written.lower()):
            kind = f"{kind} for {written}"
            yield kind, start, end
            continue
        yield "Word" if word else "Symbol", start, end


def same(want, got, text):
    """Whether two tokens are equal, except for the ends of text with doubled braces, which CPython 3.12 and 3.13 place inconsistently."""
    if want == got:
        return True
    doubled = b"{{" in text[got[1] : got[2] + 1] or b"}}" in text[got[1] - 1 : got[2] + 1]
    return want[0] == got[0] == "FStringMiddle" and want[1] == got[1] and doubled


def difference(path, lines, comments, error):
    data = pathlib.Path(path).read_bytes()
    try:
        if tokenize.detect_encoding(io.BytesIO(data).readline)[0] not in ("utf-8", "utf-8-sig"):
            return "skipped"
        data.decode()
    except (SyntaxError, UnicodeDecodeError):
        return "skipped"
    text = data.removeprefix(b"\xef\xbb\xbf").decode().replace("\r\n", "\n").replace("\r", "\n")
    if b"\r" in data or data.startswith(b"\xef\xbb\xbf"):
        return "skipped"
    try:
        want, want_comments = expected(text)
    except (SyntaxError, tokenize.TokenError) as found:
        return None if error else f"expected an error: {found}"
    if error:
        try:
            compile(data, path, "exec", dont_inherit=True, flags=0x400)
        except (SyntaxError, ValueError):
            return None
        return f"unexpected error: {error}"
    if comments != want_comments:
        return "comments differ"
    for (want_depth, want_tokens), (depth, tokens) in zip(want, lines):
        got_tokens = list(coarse(tokens, data))
        for one, other in zip(want_tokens, got_tokens):
            if not same(one, other, data):
                return f"expected {one}, got {other}: {data[one[1]:one[2]]!r}"
        if (want_depth, len(want_tokens)) != (depth, len(got_tokens)):
            return f"expected {len(want_tokens)} tokens at depth {want_depth}, got {len(got_tokens)} at {depth}: {want_tokens[:1]}"
    return None if len(want) == len(lines) else f"expected {len(want)} lines, got {len(lines)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--tool", default="target/release/examples/tokens")
    arguments = parser.parse_args()
    files = [file for path in arguments.paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    run = subprocess.run([arguments.tool], input="\n".join(map(str, files)), capture_output=True, text=True, check=True)
    equal = different = skipped = 0
    for path, *found in actual(io.StringIO(run.stdout, newline="\n")):
        reason = difference(path, *found)
        equal += reason is None
        skipped += reason == "skipped"
        if reason not in (None, "skipped"):
            different += 1
            print(f"{path}: {reason}")
    print(f"{equal} equal, {different} different, {skipped} in other encodings, with other newlines or a mark")
    sys.exit(different > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
