// Lexes one physical line, by one thread: marks where tokens start and end, and their kinds where their bytes do not
// tell. Rare cases fall back to the CPU.

#pragma once

#include "parse/lex_marks.cuh"
#include "parse/lex_number.cuh"

// Kinds of open brackets: three bits each on the stack.
enum : u32 { OPEN_PAREN, OPEN_BRACKET, OPEN_BRACE, OPEN_FIELD, OPEN_SPEC_FIELD };
#define MAX_DEPTH 20u
#define MAX_FRAMES 4u
#define MAX_FIELDS 3u

enum : u32 { IN_LITERAL, IN_FORMAT_SPEC, AFTER_FIELD };

// A tile with the tokens found in it.
struct Tile : Text {
    __align__(16) u8 marks[SPAN];
    u32 start[SPAN_WORDS];   // first bytes of tokens
    u32 last[SPAN_WORDS];    // last bytes of tokens and comments
    u32 comment[SPAN_WORDS]; // first bytes of comments
    u16 start_ranks[SPAN_WORDS];
    u8 state[MAX_SPECIAL];   // after each special line
    u32 multiline_ends[MAX_MULTILINE];
    u32 multiline_count, taken, before, line_base;
};

// The result of lexing a line.
struct LineResult {
    u32 flags; // fallback reasons
    u32 state; // start state of the next line
    u32 joins; // a backslash joins the next line
};

// The lexer of one line.
struct Lexer {
    Tile& t;
    u32 line, newline;       // first byte, and line feed
    u32 at;
    u64 stack;               // open brackets, three bits each, the innermost lowest
    u32 depth;
    u32 frames;              // open f-strings, eight bits each: quote, triple, raw, depth << 3
    u32 frame_count;
    u32 closes, close_kinds; // closing brackets of earlier lines' brackets
    bool inherited;          // the text began on an earlier line
    LineResult out;

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

    __device__ void token(u32 from, u32 end, u32 mark) {
        set_bit(t.start, from);
        set_bit(t.last, end - 1);
        if (mark != MARK_NONE) t.marks[from] = (u8)mark;
    }

    __device__ bool in_field() const { return depth > 0 && (stack & 7) >= OPEN_FIELD; }

    __device__ bool open(u32 kind) {
        if (depth == MAX_DEPTH) return fail(FLAG_NESTING);
        stack = stack << 3 | kind;
        depth++;
        return true;
    }

    __device__ void pop() {
        stack >>= 3;
        depth--;
    }

    // Records the end of a token that began on an earlier line.
    __device__ void close_inherited(u32 end) {
        inherited = false;
        const u32 number = atomicAdd(&t.multiline_count, 1);
        if (number < MAX_MULTILINE) t.multiline_ends[number] = line | (end - line) << 16;
        else fail(FLAG_LINE_STATE);
    }

    // A name, a keyword, or a string with a prefix.
    __device__ bool name() {
        const u32 from = at, end = next_clear(t.identifier, at), next = byte_at(t, end);
        if (next >= 128) return fail(FLAG_NON_ASCII);
        if (end - from <= 2 && (next == '"' || next == '\'')) {
            const Prefix prefix = prefix_of(byte(), byte(1), end - from);
            if (prefix.valid) return string(prefix, end);
        }
        token(from, end, MARK_NONE);
        at = end;
        return true;
    }

    __device__ bool string(const Prefix& prefix, u32 quote_at) {
        const u32 from = at, quote = byte_at(t, quote_at);
        const bool triple = byte_at(t, quote_at + 1) == quote && byte_at(t, quote_at + 2) == quote;
        const u32 body = quote_at + (triple ? 3 : 1);
        if (prefix.fields) {
            if (frame_count == MAX_FRAMES) return fail(FLAG_NESTING);
            token(from, body, MARK_KIND + (prefix.is_t ? T_T_STRING_START : T_F_STRING_START));
            push_frame(quote == '"', triple, prefix.flags & STRING_RAW);
            at = body;
            return literal(IN_LITERAL);
        }
        at = body;
        return rest_of_string(from, quote, triple);
    }

    // The rest of a plain string; `from` is its token's start, unless an earlier line has it.
    __device__ bool rest_of_string(u32 from, u32 quote, bool triple) {
        u32 changed = 0;
        for (;;) {
            at = next_set(t.stop, at);
            const u32 c = byte();
            if (at >= newline) return triple ? line_ends_inside(from, LITERAL_PLAIN, true, quote, MARK_STRING)
                                             : fail(FLAG_LEXICAL);
            if (c == '\\') {
                changed = MARK_CHANGED;
                if (ends_line(t, at + 1, newline))
                    return line_ends_inside(from, LITERAL_PLAIN, triple, quote, MARK_STRING);
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

    // Ends the line inside a string, whose token ends on a later line.
    __device__ bool line_ends_inside(u32 from, u32 literal_kind, bool triple, u32 quote, u32 mark) {
        if (frame_count > (literal_kind == LITERAL_PLAIN ? 0u : 1u)) return fail(FLAG_MULTILINE_FIELD);
        if (!inherited) token(from, newline + 1, mark | MARK_PENDING);
        out.state = state_of(literal_kind, triple, quote);
        at = newline;
        return true;
    }

    __device__ void push_frame(bool double_quote, bool triple, bool raw) {
        frames = frames << 8 | double_quote | triple << 1 | raw << 2 | depth << 3;
        frame_count++;
    }

    // The text of the innermost f-string, up to a replacement field or its end.
    __device__ bool literal(u32 part) {
        const u32 frame = frames & 255, quote = frame & 1 ? '"' : '\'', height = frame >> 3;
        const bool triple = frame & 2, raw = frame & 4;
        u32 from = at, changed = 0;
        bool in_name = false;
        for (;;) {
            at = next_set(t.stop, at);
            const u32 c = byte();
            if (at >= newline) {
                if (!triple || part != IN_LITERAL || in_name) return fail(triple ? FLAG_MULTILINE_FIELD : FLAG_LEXICAL);
                return line_ends_inside(from, raw ? LITERAL_RAW_FORMATTED : LITERAL_FORMATTED, true, quote,
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
                if (part == IN_FORMAT_SPEC || byte(1) != '{') {
                    middle(from, changed, part, raw);
                    return field(part, height);
                }
                changed = MIDDLE_CHANGED;
                at += 2;
            } else if (c == '}') {
                if (in_name) {
                    in_name = false;
                    at++;
                } else if (part != IN_LITERAL) {
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
                    if (part != IN_LITERAL || in_name) return fail(FLAG_MULTILINE_FIELD);
                    return line_ends_inside(from, raw ? LITERAL_RAW_FORMATTED : LITERAL_FORMATTED, triple, quote,
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

    // Emits the text before `at`, if there is any.
    __device__ void middle(u32 from, u32 changed, u32 part, bool raw) {
        if (inherited) close_inherited(at);
        else if (at > from)
            token(from, at, MARK_MIDDLE | changed | (raw ? MIDDLE_RAW : 0) | (part == IN_FORMAT_SPEC ? MIDDLE_SPEC : 0));
    }

    __device__ bool field(u32 part, u32 height) {
        u32 fields = 0;
        for (u32 i = 0; i < depth - height; i++) fields += (stack >> (3 * i) & 7) >= OPEN_FIELD;
        if (fields >= MAX_FIELDS) return fail(FLAG_LEXICAL);
        token(at, at + 1, MARK_KIND + T_FIELD_OPEN);
        at++;
        return open(part == IN_LITERAL ? OPEN_FIELD : OPEN_SPEC_FIELD);
    }

    // The `}` of a replacement field; returns the part of the string that follows.
    __device__ u32 end_field() {
        const u32 part = (stack & 7) == OPEN_SPEC_FIELD ? AFTER_FIELD : IN_LITERAL;
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
            if (closes == MAX_OPEN) return fail(FLAG_NESTING);
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
            return c == '!' || literal(IN_FORMAT_SPEC);
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
        const u32 end = number_end(t, at);
        if (end == INVALID_NUMBER) return fail(FLAG_LEXICAL);
        token(at, end, MARK_NONE);
        at = end;
        return true;
    }

    // Lexes one token or gap of code. False: the line ends, or falls back.
    __device__ bool step() {
        u32 c = byte();
        // Spaces are as common as tokens: one step for each would cost the whole warp.
        if (c == ' ') c = byte_at(t, ++at);
        switch (c) {
            case ' ': case '\t': case '\f':
                at++;
                return true;
            case '\r':
                at++;
                return byte() == '\n' || fail(FLAG_LONE_CARRIAGE_RETURN);
            case '\n':
                if (frame_count > 0) fail(FLAG_MULTILINE_FIELD);
                return false;
            case '#':
                if (frame_count > 0) return fail(FLAG_MULTILINE_FIELD);
                set_bit(t.comment, at);
                set_bit(t.last, newline - 1 - (byte_at(t, newline - 1) == '\r'));
                return false;
            case '\\':
                if (!ends_line(t, at + 1, newline)) return fail(FLAG_LEXICAL);
                if (frame_count > 0) return fail(FLAG_MULTILINE_FIELD);
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
        if (is_identifier_char(c)) return name();
        return fail(c >= 128 ? FLAG_NON_ASCII : FLAG_LEXICAL);
    }

    // Resumes a string that began on an earlier line.
    __device__ bool resume(u32 state) {
        const u32 literal_kind = (state - 1) >> 2, of = state_class(state), quote = of & 1 ? '\'' : '"';
        const bool triple = of <= 2;
        inherited = true;
        if (literal_kind == LITERAL_PLAIN) return rest_of_string(at, quote, triple);
        push_frame(quote == '"', triple, literal_kind == LITERAL_RAW_FORMATTED);
        return literal(IN_LITERAL);
    }

    // Final checks; returns the line's unmatched brackets: counts at bits 4 and 8, kinds at bits 12 and 38.
    __device__ u64 end() {
        if (out.state == STATE_CODE && frame_count > 0) fail(FLAG_MULTILINE_FIELD);
        if (depth > MAX_OPEN) fail(FLAG_NESTING);
        u64 opens = 0;
        for (u32 i = 0; i < depth && i < MAX_OPEN; i++) opens |= (stack >> (3 * (depth - 1 - i)) & 3) << (2 * i);
        return closes << 4 | depth << 8 | (u64)close_kinds << 12 | opens << 38;
    }
};
