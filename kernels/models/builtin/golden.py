"""Writes tests/golden/tokens.json: texts and their token ids, to test the Rust tokeniser."""

import json
import random
from pathlib import Path

import pairs
import table
from tokenizer import Tokenizer

TEXTS = [
    "", " ", "a", "_", "9", "\x00", "\n\t\r", "the quick brown fox",
    "Return the HTTPServer's URLs, IDs and XMLHttpRequests.", "parseHTTPUrls2 to_snake_case CONSTANT_NAME __init__",
    "def read_csv(path: str, *, sep=',') -> DataFrame:\n    return pd.read_csv(path, sep=sep)",
    "x1y2z3 0x7fff 3.14159 1e-9 2024-11-21 sha256 utf8 int8x16", "URLs URLset IDs IDsNow Bs ABs aBs As ABCs2",
    "café naïve Ångström ÉCOLE straße STRAẞE œuvre Łódź İstanbul ıssız þorn",
    "cafe\u0301 e\u0301\u0302\u0303cole \u0301\u0301 a\u0301B\u0301C", "soft\u00adhyphen zero\u200bwidth\u2060joined\ufeff",
    "ﬁle oﬃce ﬄuent Ｆｕｌｌｗｉｄｔｈ１２３ ĳsland Ǆ ŉ ǆ", "中文 text 混合mixed中文mixed", "Привет, мир! γειά σου κόσμε",
    "🎉party🎉time 👩‍👩‍👧 𝓶𝓪𝓽𝓱 \U0010ffff end", "\u2028line\u2029paragraph\u0085next\u00a0space", "١٢٣ ４５６ ²³ ½ Ⅳ ①",
    "a" * 128, "b" * 129, "c" * 5000 + " after", "é" * 128, "é" * 129 + " after", "ß" * 64, "ß" * 65,
    "Aa" * 64, "A" * 127 + "s", "A1" * 64, "x" * 127 + "\u0301" * 1000, "word" + "\u0301" * 1000 + "Word",
    "zzzqqqxxjj supercalifragilisticexpialidocious antidisestablishmentarianism",
    "don't can't it's e.g. i.e. U.S.A. C++ C# F# .NET node.js", "http://example.com/a/b?c=d&e=f#g user@example.com",
    "if x is None: raise ValueError(f'bad {x!r}')", "\ud7ff\ue000\ufffd private\uf8ffuse", "K\u212a \u212bngstrom µm Ω",
]


def synthetic(count):
    """Random strings of characters that are special to the tokeniser."""
    random_of = random.Random(5)
    alphabet = ["a", "e", "s", "t", "S", "A", "T", "Z", "0", "7", "_", " ", ".", "é", "É", "ß", "\u0301", "\u00ad", "中", "🎉",
                "read", "Http", "URLs", "data", "ing"]
    return ["".join(random_of.choices(alphabet, k=random_of.randrange(1, 40))) for _ in range(count)]


def main():
    """Writes the file."""
    pieces, folded, _, _ = table.read(pairs.HERE / "table.bin")
    tokenizer = Tokenizer(pieces, folded)
    cases = [{"text": text, "ids": tokenizer.encode(text)} for text in [*TEXTS, *synthetic(300)]]
    lines = ",\n".join(json.dumps(case) for case in cases)
    path = Path(__file__).parent.parent / "tests" / "golden" / "tokens.json"
    path.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
