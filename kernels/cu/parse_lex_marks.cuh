// What parse_lex tells parse_write of a token whose bytes alone do not tell.

#pragma once

#include "parse_lex.cuh"

// Marks. A string's has MARK_CHANGED or not, a middle's the bits of its payload, shifted.
enum : u32 { MARK_NONE = 0, MARK_KIND = 1, MARK_STRING = 64, MARK_MIDDLE = 128, MARK_PENDING = 16, MARK_CHANGED = 1 };
// Of a middle: MARK_MIDDLE | raw 1 | changed 2 | spec 4 | pending 16.
enum : u32 { MIDDLE_RAW = 1, MIDDLE_CHANGED = 2, MIDDLE_SPEC = 4 };
