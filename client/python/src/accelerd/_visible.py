"""Prints the control characters of foreign text visibly.

Names and messages are stored by one caller and shown in the terminal of another. An escape sequence in them would move
the cursor, recolour or retitle that terminal, and a newline or a bidirectional override would forge output.
"""

from __future__ import annotations

import re

#: Control characters, separators of lines and paragraphs, and those that act on the order of the text around them.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return a text of one line in which control characters, newlines among them, are escaped as in Python."""
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
