"""The built-in model's tokeniser; a golden file keeps the Rust implementation equal.

1. A character outside ASCII is replaced by what the character map says: an accented Latin letter by its plain
   letters, a mark by nothing. An unlisted one separates words, as ASCII punctuation and space do.
2. A run of letters and digits is split where digits begin or end and at camelCase: `parseHTTPUrls2` is parse,
   HTTP, Urls, 2. An `s` after two capitals belongs to them (`URLs`). A run of more than 128 bytes is dropped: it is data.
3. A word in lower case is split into the longest pieces of the vocabulary, from the left. `##` marks a piece that
   continues a word. Every single letter and digit is in the vocabulary in both forms, so nothing is unknown.
"""

import re
import unicodedata
from functools import lru_cache

MAX_RUN = 128
RUN = re.compile(r"[A-Za-z0-9]+")
WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
SPECIAL = {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L",
           "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "ħ": "h", "Ħ": "H", "ı": "i", "ŋ": "ng"}
LETTERS = [*range(0xC0, 0x250), *range(0x1E00, 0x1F00), *range(0xFB00, 0xFB07), *range(0xFF10, 0xFF5B), 0x212A, 0x212B]
MARKS = [0xAD, *range(0x300, 0x370), *range(0x200B, 0x2010), 0x2060, *range(0xFE00, 0xFE10), 0xFEFF]


def character_map():
    """Character -> its replacement by at most three ASCII letters or digits."""
    folded = {chr(code): "" for code in MARKS}
    for char in map(chr, LETTERS):
        plain = "".join(c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c))
        plain = SPECIAL.get(char, plain)
        if RUN.fullmatch(plain) and len(plain) <= 3:
            folded[char] = plain
    return dict(sorted(folded.items()))


class Tokenizer:
    """Text -> token ids, over a list of pieces."""

    def __init__(self, pieces, folded=None):
        self.folded = {ord(char): plain for char, plain in (folded or character_map()).items()}
        self.starts = {piece: i for i, piece in enumerate(pieces) if not piece.startswith("##")}
        self.inner = {piece[2:]: i for i, piece in enumerate(pieces) if piece.startswith("##")}
        self.longest = max(map(len, [*self.starts, *self.inner]))
        self.pieces_of = lru_cache(maxsize=1 << 20)(self._pieces_of)

    def words(self, text):
        """The words of a text, in lower case."""
        text = text if text.isascii() else text.translate(self.folded)
        for run in RUN.findall(text):
            if len(run) <= MAX_RUN:
                yield from (word.lower() for word in WORD.findall(run))

    def encode(self, text):
        """The token ids of a text."""
        return [i for word in self.words(text) for i in self.pieces_of(word)]

    def _pieces_of(self, word):
        ids, at, known = [], 0, self.starts
        while at < len(word):
            ends = range(min(len(word), at + self.longest), at, -1)
            end = next(end for end in ends if word[at:end] in known)
            ids.append(known[word[at:end]])
            at, known = end, self.inner
        return tuple(ids)
