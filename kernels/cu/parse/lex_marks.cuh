// Marks by which lex_lines passes to lex_tokens what a token's bytes do not tell.

#pragma once

#include "parse/lex.cuh"

// Of a string: MARK_STRING | changed 1 | pending 16. Pending tokens end on a later line.
enum : u32 { MARK_NONE = 0, MARK_KIND = 1, MARK_STRING = 64, MARK_MIDDLE = 128, MARK_PENDING = 16, MARK_CHANGED = 1 };
// Of a middle: MARK_MIDDLE | raw 1 | changed 2 | spec 4 | pending 16.
enum : u32 { MIDDLE_RAW = 1, MIDDLE_CHANGED = 2, MIDDLE_SPEC = 4 };
