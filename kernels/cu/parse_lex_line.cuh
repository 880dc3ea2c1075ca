// The tokens of one line, by one thread: it marks where they start and end, and what they are where their bytes alone
// do not tell. Whatever is rare is left to the CPU.

#pragma once

#include "parse_lex_marks.cuh"
#include "parse_lex_number.cuh"

// Kinds of open brackets, three bits each on the stack.
enum : u32 { OPEN_PAREN, OPEN_BRACKET, OPEN_BRACE, OPEN_FIELD, OPEN_SPEC_FIELD };
#define MOST_DEPTH 20u
#define MOST_FRAMES 4u
#define MOST_FIELDS 3u

enum : u32 { PART_OUTSIDE, PART_SPEC, PART_BEHIND_FIELD };

// The tokens of a tile.
struct Tile : Text {
    __align__(16) u8 marks[SPAN];
    u32 start[WORDS];     // first bytes of tokens
    u32 last[WORDS];      // last bytes of tokens and comments
    u32 comment[WORDS];   // first bytes of comments
    u16 start_before[WORDS];
    u8 state[MOST_SPECIAL];  // behind each special line
    u32 closers[MOST_CLOSERS];
    u32 closed, taken, before, line_base;
};

// What a line leaves behind.
struct Line {
    u32 flags;     // reasons to give the source up
    u32 state;     // of the next line
    u32 joins;     // the next line belongs to it
};

// The lexer of a line.
struct Lexer {
    Tile& t;
    u32 line, newline;  // its first byte and its line feed
    u32 at;
    u64 stack;   // open brackets, three bits each, innermost lowest
    u32 depth;
    u32 frames;  // open f-strings, eight bits each: quote, triple, raw, depth << 3
    u32 frame_count;
    u32 closes, close_kinds;  // brackets of earlier lines that close here
    bool inherited;           // the text in front goes back to an earlier line
    Line out;

    __device__ explicit Lexer(Tile& tile) : t(tile) {}

    __device__ void begin(u32 first, u32 line_feed) {
        line = at = first;
        newline = line_feed;
        stack = 0;
        depth = frames = frame_count = closes = close_kinds = 0;
        inherited = false;
        out = {0, STATE_CODE, 0};
    }

    __device__ u32 byte(u32 ahead = 0) const { return byte_at(t, at + ahead); }

    __device__ bool fail(u32 reason) {
        out.flags |= reason;
        return false;
    }

    __device__ void token(u32 from, u32 behind, u32 mark) {
        set_bit(t.start, from);
        set_bit(t.last, behind - 1);
        if (mark != MARK_NONE) t.marks[from] = (u8)mark;
    }

    __device__ bool in_field() const { return depth > 0 && (stack & 7) >= OPEN_FIELD; }

    __device__ bool open(u32 kind) {
        if (depth == MOST_DEPTH) return fail(FLAG_NESTING);
        stack = stack << 3 | kind;
        depth++;
        return true;
    }

    __device__ void pop() {
        stack >>= 3;
        depth--;
    }

    // Notes that an earlier line's token ends here.
    __device__ void close_inherited(u32 behind) {
        inherited = false;
        const u32 number = atomicAdd(&t.closed, 1);
        if (number < MOST_CLOSERS) t.closers[number] = line | (behind - line) << 16;
        else fail(FLAG_STATE);
    }

    // A name, a keyword, or a string with a prefix.
    __device__ bool name() {
        const u32 from = at, behind = next_clear(t.part, at), next = byte_at(t, behind);
        if (next >= 128) return fail(FLAG_WIDE);
        if (behind - from <= 2 && (next == '"' || next == '\'')) {
            const Prefix prefix = prefix_of(byte(), byte(1), behind - from);
            if (prefix.valid) return string(prefix, behind);
        }
        token(from, behind, MARK_NONE);
        at = behind;
        return true;
    }

    __device__ bool string(const Prefix& prefix, u32 quote_at) {
        const u32 from = at, quote = byte_at(t, quote_at);
        const bool triple = byte_at(t, quote_at + 1) == quote && byte_at(t, quote_at + 2) == quote;
        const u32 body = quote_at + (triple ? 3 : 1);
        if (prefix.fields) {
            if (frame_count == MOST_FRAMES) return fail(FLAG_NESTING);
            token(from, body, MARK_KIND + (prefix.is_t ? T_T_STRING_START : T_F_STRING_START));
            push_frame(quote == '"', triple, prefix.flags & STRING_RAW);
            at = body;
            return literal(PART_OUTSIDE);
        }
        at = body;
        return rest_of_string(from, quote, triple);
    }

    // From a place in a plain string on; `from` is its token's start, unless an earlier line has it.
    __device__ bool rest_of_string(u32 from, u32 quote, bool triple) {
        u32 changed = 0;
        for (;;) {
            at = next_set(t.stop, at);
            const u32 c = byte();
            if (at >= newline) return triple ? line_ends_inside(from, FLAVOUR_PLAIN, true, quote, MARK_STRING)
                                             : fail(FLAG_LEXICAL);
            if (c == '\\') {
                changed = MARK_CHANGED;
                if (ends_line(t, at + 1, newline))
                    return line_ends_inside(from, FLAVOUR_PLAIN, triple, quote, MARK_STRING);
                at += 2;
            } else if (c == quote && (!triple || (byte(1) == quote && byte(2) == quote))) {
                at += triple ? 3 : 1;
                if (inherited) close_inherited(at);
                else token(from, at, MARK_STRING | changed);
                return true;
            } else {
                at++;
            }
        }
    }

    // The line ends inside a string: its token ends on a later line.
    __device__ bool line_ends_inside(u32 from, u32 flavour, bool triple, u32 quote, u32 mark) {
        if (frame_count > (flavour == FLAVOUR_PLAIN ? 0u : 1u)) return fail(FLAG_FIELD_LINES);
        if (!inherited) token(from, newline + 1, mark | MARK_PENDING);
        out.state = state_of(flavour, triple, quote);
        at = newline;
        return true;
    }

    __device__ void push_frame(bool double_quote, bool triple, bool raw) {
        frames = frames << 8 | double_quote | triple << 1 | raw << 2 | depth << 3;
        frame_count++;
    }

    // The literal text of the innermost f-string, up to a field or its end.
    __device__ bool literal(u32 part) {
        const u32 frame = frames & 255, quote = frame & 1 ? '"' : '\'', height = frame >> 3;
        const bool triple = frame & 2, raw = frame & 4;
        u32 from = at, changed = 0;
        bool in_name = false;
        for (;;) {
            at = next_set(t.stop, at);
            const u32 c = byte();
            if (at >= newline) {
                if (!triple || part != PART_OUTSIDE || in_name) return fail(triple ? FLAG_FIELD_LINES : FLAG_LEXICAL);
                return line_ends_inside(from, raw ? FLAVOUR_RAW_FIELDS : FLAVOUR_FIELDS, true, quote,
                    MARK_MIDDLE | (raw ? MIDDLE_RAW : 0));
            }
            if (c == quote && (!triple || (byte(1) == quote && byte(2) == quote))) {
                if (depth > height) return fail(FLAG_LEXICAL);
                middle(from, changed, part, raw);
                token(at, at + (triple ? 3 : 1), MARK_KIND + T_F_STRING_END);
                at += triple ? 3 : 1;
                frames >>= 8;
                frame_count--;
                return true;
            }
            if (c == '{') {
                if (part == PART_SPEC || byte(1) != '{') {
                    middle(from, changed, part, raw);
                    return field(part, height);
                }
                changed = MIDDLE_CHANGED;
                at += 2;
            } else if (c == '}') {
                if (in_name) {
                    in_name = false;
                    at++;
                } else if (part != PART_OUTSIDE) {
                    middle(from, changed, part, raw);
                    part = end_field();
                    from = at;
                    changed = 0;
                } else if (byte(1) == '}') {
                    changed = MIDDLE_CHANGED;
                    at += 2;
                } else {
                    return fail(FLAG_LEXICAL);
                }
            } else if (c == '\\') {
                if (!raw) changed = MIDDLE_CHANGED;
                const u32 next = byte(1);
                if (ends_line(t, at + 1, newline)) {
                    if (part != PART_OUTSIDE || in_name) return fail(FLAG_FIELD_LINES);
                    return line_ends_inside(from, raw ? FLAVOUR_RAW_FIELDS : FLAVOUR_FIELDS, triple, quote,
                        MARK_MIDDLE | (raw ? MIDDLE_RAW : 0));
                }
                if (next == '{' || next == '}') {
                    at++;
                } else if (next == 'N' && byte(2) == '{' && !raw) {
                    in_name = true;
                    at += 3;
                } else {
                    at += 2;
                }
            } else {
                at++;
            }
        }
    }

    // Text in front of a place, if there is any.
    __device__ void middle(u32 from, u32 changed, u32 part, bool raw) {
        if (inherited) close_inherited(at);
        else if (at > from)
            token(from, at, MARK_MIDDLE | changed | (raw ? MIDDLE_RAW : 0) | (part == PART_SPEC ? MIDDLE_SPEC : 0));
    }

    __device__ bool field(u32 part, u32 height) {
        u32 fields = 0;
        for (u32 i = 0; i < depth - height; i++) fields += (stack >> (3 * i) & 7) >= OPEN_FIELD;
        if (fields >= MOST_FIELDS) return fail(FLAG_LEXICAL);
        token(at, at + 1, MARK_KIND + T_FIELD_OPEN);
        at++;
        return open(part == PART_OUTSIDE ? OPEN_FIELD : OPEN_SPEC_FIELD);
    }

    // The `}` of a field; gives the part of the string that goes on behind it.
    __device__ u32 end_field() {
        const u32 part = (stack & 7) == OPEN_SPEC_FIELD ? PART_BEHIND_FIELD : PART_OUTSIDE;
        token(at, at + 1, MARK_KIND + T_FIELD_CLOSE);
        at++;
        pop();
        return part;
    }

    __device__ bool close(u32 c) {
        if (c == '}' && in_field()) {
            const u32 part = end_field();
            return literal(part);
        }
        const u32 kind = c == ')' ? OPEN_PAREN : c == ']' ? OPEN_BRACKET : OPEN_BRACE;
        if (depth > 0) {
            if ((stack & 7) != kind) return fail(FLAG_LEXICAL);
            pop();
        } else {
            if (closes == MOST_OPEN) return fail(FLAG_NESTING);
            close_kinds |= kind << (2 * closes++);
        }
        token(at, at + 1, MARK_NONE);
        at++;
        return true;
    }

    __device__ bool operator_here(u32 c) {
        const u32 next = byte(1);
        u32 length = 1;
        if (in_field() && (c == ':' || (c == '!' && next != '='))) {
            token(at, at + 1, MARK_KIND + (c == ':' ? T_FIELD_COLON : T_FIELD_BANG));
            at++;
            return c == '!' || literal(PART_SPEC);
        }
        if (next == '=') {
            length = c == ',' || c == ';' || c == '~' ? 1 : 2;
        } else if (c == '!' || (c == '<' && next == '>')) {
            return fail(FLAG_LEXICAL);
        } else if (c == next && (c == '*' || c == '/' || c == '<' || c == '>')) {
            length = byte(2) == '=' ? 3 : 2;
        } else if (c == '-' && next == '>') {
            length = 2;
        }
        token(at, at + length, MARK_NONE);
        at += length;
        return true;
    }

    __device__ bool dot() {
        const u32 next = byte(1);
        if (next >= '0' && next <= '9') return number();
        const u32 length = next == '.' && byte(2) == '.' ? 3 : 1;
        token(at, at + length, MARK_NONE);
        at += length;
        return true;
    }

    __device__ bool number() {
        const u32 behind = behind_number(t, at);
        if (behind == NO_NUMBER) return fail(FLAG_LEXICAL);
        token(at, behind, MARK_NONE);
        at = behind;
        return true;
    }

    // One token or gap of code. False: the line ends, or is given up.
    __device__ bool step() {
        u32 c = byte();
        // Spaces are as common as tokens: a turn of its own for each would cost the whole warp.
        if (c == ' ') c = byte_at(t, ++at);
        switch (c) {
            case ' ': case '\t': case '\f':
                at++;
                return true;
            case '\r':
                at++;
                return byte() == '\n' || fail(FLAG_LONE_RETURN);
            case '\n':
                if (frame_count > 0) fail(FLAG_FIELD_LINES);
                return false;
            case '#':
                if (frame_count > 0) return fail(FLAG_FIELD_LINES);
                set_bit(t.comment, at);
                set_bit(t.last, newline - 1 - (byte_at(t, newline - 1) == '\r'));
                return false;
            case '\\':
                if (!ends_line(t, at + 1, newline)) return fail(FLAG_LEXICAL);
                if (frame_count > 0) return fail(FLAG_FIELD_LINES);
                out.joins = 1;
                return false;
            case '"': case '\'': return string({true, false, false, 0}, at);
            case '(': case '[': case '{':
                token(at, at + 1, MARK_NONE);
                at++;
                return open(c == '(' ? OPEN_PAREN : c == '[' ? OPEN_BRACKET : OPEN_BRACE);
            case ')': case ']': case '}': return close(c);
            case '.': return dot();
            case '+': case '-': case '*': case '/': case '%': case '@': case '&': case '|': case '^': case '~':
            case '<': case '>': case '=': case ';': case ',': case ':': case '!':
                return operator_here(c);
            default: break;
        }
        if (c >= '0' && c <= '9') return number();
        if (is_part(c)) return name();
        return fail(c >= 128 ? FLAG_WIDE : FLAG_LEXICAL);
    }

    // From the end of a string that an earlier line began.
    __device__ bool resume(u32 state) {
        const u32 flavour = (state - 1) >> 2, of = state_class(state), quote = of & 1 ? '\'' : '"';
        const bool triple = of <= 2;
        inherited = true;
        if (flavour == FLAVOUR_PLAIN) return rest_of_string(at, quote, triple);
        push_frame(quote == '"', triple, flavour == FLAVOUR_RAW_FIELDS);
        return literal(PART_OUTSIDE);
    }

    // What is left to see when the line has ended: its brackets that match none of its own, counts at bits 4 and 8,
    // kinds at bits 12 and 38.
    __device__ u64 end() {
        if (out.state == STATE_CODE && frame_count > 0) fail(FLAG_FIELD_LINES);
        if (depth > MOST_OPEN) fail(FLAG_NESTING);
        u64 opens = 0;
        for (u32 i = 0; i < depth && i < MOST_OPEN; i++) opens |= (stack >> (3 * (depth - 1 - i)) & 3) << (2 * i);
        return closes << 4 | depth << 8 | (u64)close_kinds << 12 | opens << 38;
    }
};
