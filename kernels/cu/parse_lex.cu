// parse_lex: text to tokens, comments and physical lines, for many sources at once.
//   see LexBatch; writes line_*, kinds, starts, ends, payloads, comment_*, the bases of lines, tokens and comments,
//   name_keys, name_firsts, closers, soft, and counts
//   not written: `ends` of tokens that go over several lines and whether their text is changed (parse_close), payloads of
//   names, which are slots yet (parse_number)
// One block a tile, in the order of tickets. The state at the start of the tile comes from the tiles before by look-back
// over maps; so do, later, the places to write to. Each line is lexed by one thread and checked against the next one's
// state: what the maps got wrong shows, and its source is flagged.

#include "parse_lex_line.cuh"
#include "parse_lex_states.cuh"
#include "parse_lex_words.cuh"

#define THREADS 256u
#define WARPS (THREADS / 32)

// Brings the text in, and clears what is collected.
__device__ void load(Tile& t, const LexBatch& b) {
    const uint4* from = (const uint4*)(b.text + (u64)t.number * TILE - (t.number ? FRONT : 0));
    uint4* to = (uint4*)t.text + (t.number ? 0 : 1);
    const uint4 lines = make_uint4(0x0a0a0a0au, 0x0a0a0a0au, 0x0a0a0a0au, 0x0a0a0a0au);
    if (t.number == 0 && threadIdx.x == 0) *(uint4*)t.text = lines;
    for (u32 i = threadIdx.x; i < SPAN / 16 + (t.number ? 1 : 0); i += THREADS) to[i] = from[i];
    if (threadIdx.x == 0) ((uint4*)t.text)[SPAN / 16 + 1] = lines;
    for (u32 i = threadIdx.x; i < SPAN / 16; i += THREADS) ((uint4*)t.marks)[i] = make_uint4(0, 0, 0, 0);
    for (u32 i = threadIdx.x; i < WORDS; i += THREADS) t.start[i] = t.last[i] = t.comment[i] = 0;
    for (u32 i = threadIdx.x; i < MOST_SPECIAL; i += THREADS) t.map[i] = 0;
    t.classes[threadIdx.x] = (u8)class_of(threadIdx.x);
    if (threadIdx.x == 0) {
        t.part[WORDS] = 0;
        t.stop[WORDS] = t.newline[WORDS] = t.last[WORDS] = ~0u;
        t.closed = 0;
        t.first_source = b.tile_sources[t.number];
    }
}

// Bitmaps over the bytes: a warp takes 32 bytes at a time.
__device__ void classify(Tile& t, const LexBatch& b) {
    const u32 lane = threadIdx.x & 31;
    const u32 last_source = b.tile_sources[t.number + 2];
    for (u32 word = threadIdx.x >> 5; word < WORDS; word += WARPS) {
        const u32 at = word * 32 + lane, c = byte_at(t, at), next = byte_at(t, at + 1), other = byte_at(t, at + 2);
        const u32 of = t.classes[c];
        const bool quote = c == '\'' || c == '"';
        const bool event = (quote && c == next && c == other) ||
            (c == '\\' && (next == '\n' || (next == '\r' && other == '\n')));
        const u32 part = __ballot_sync(FULL_WARP, of & IS_PART), stop = __ballot_sync(FULL_WARP, of & IS_STOP);
        const u32 newline = __ballot_sync(FULL_WARP, c == '\n'), events = __ballot_sync(FULL_WARP, event);
        if (lane == 0) {
            t.part[word] = part;
            t.stop[word] = stop;
            t.newline[word] = newline;
            t.event[word] = events;
            const u32 place = t.number * TILE + word * 32;
            t.source[word] = (u16)(last_at_most(b.source_starts, t.first_source, last_source, place) - t.first_source);
        }
    }
}

// Notes carriage returns; alone they are left to the CPU. `at` is one.
__device__ void note_return(Tile& t, const LexBatch& b, u32 at) {
    const u32 source = t.first_source + t.source[at >> 5];
    const u32 place = t.number * TILE + at - b.source_starts[source];
    b.returns[source] = 1;
    if (byte_at(t, at + 1) != '\n' || place + 1 >= b.source_lens[source]) flag(b, source, FLAG_LONE_RETURN);
}

// Where lines of sources start; a text that ends with a newline has an empty line behind it.
__device__ void find_lines(Tile& t, const LexBatch& b) {
    for (u32 word = threadIdx.x; word < TILE_WORDS; word += THREADS) {
        const u32 source = t.first_source + t.source[word], start = b.source_starts[source];
        const u32 place = t.number * TILE + word * 32, end = b.source_lens[source] + 1;
        const u32 carry = word ? t.newline[word - 1] >> 31 : t.text[FRONT - 1] == '\n';
        u32 mask = 0;
        if (place >= start && place - start < end) {
            const u32 left = end - (place - start);
            mask = left >= 32 ? ~0u : (1u << left) - 1;
        }
        t.line[word] = ((t.newline[word] << 1 | carry) & mask) | (place == start);
        u32 special = place == start;
        const u8* front = t.text + FRONT;
        const bool joined = front[-2] == '\\' || (front[-2] == '\r' && front[-3] == '\\');
        if (word == 0 && carry && joined) special |= t.line[0] & 1;
        t.special[word] = special;
    }
}

// The line that a place is in, if it starts in the tile.
__device__ void mark_line_of(Tile& t, u32 at) {
    for (u32 word = min(at >> 5, TILE_WORDS - 1) + 1; word-- > 0;) {
        u32 lines = t.line[word];
        if (word == at >> 5) lines &= below(at) << 1 | 1;
        if (lines == 0) continue;
        atomicOr(&t.special[word], 1u << (31 - __clz(lines)));
        return;
    }
}

__device__ void find_special(Tile& t) {
    for (u32 word = threadIdx.x; word < WORDS; word += THREADS) {
        for (u32 left = t.event[word]; left; left &= left - 1) {
            const u32 at = word * 32 + (u32)__ffs(left) - 1;
            mark_line_of(t, at);
            if (byte_at(t, at) != '\\') continue;
            const u32 next = at + 2 + (byte_at(t, at + 1) == '\r');
            if (next < TILE && has_bit(t.line, next)) set_bit(t.special, next);
        }
    }
}

__device__ void count_lines(Tile& t) {
    const u32 word = threadIdx.x;
    const u32 own = (u32)__popc(t.line[word]) | (u32)__popc(t.special[word]) << 16;
    u32 total;
    const u32 before = block_before(own, t.scratch, &total);
    t.line_before[word] = (u16)before;
    t.special_before[word] = (u16)(before >> 16);
    if (word == 0) {
        t.lines = total & 0xffff;
        t.specials = min(total >> 16, MOST_SPECIAL);
    }
    __syncthreads();
}

__device__ bool starts_source(const Tile& t, const LexBatch& b, u32 at) {
    return b.source_starts[t.first_source + t.source[at >> 5]] == t.number * TILE + at;
}

// The map of each special line; that of a source's first one forgets what was before.
__device__ void map_special(Tile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.specials * MAP_CLASSES; i += THREADS) {
        const u32 number = i / MAP_CLASSES, of = i % MAP_CLASSES;
        const u32 at = pick(t.special, t.special_before, TILE_WORDS, number);
        const bool first = (at & 31) == 0 && starts_source(t, b, at);
        if (!first) atomicOr(&t.map[number], walk_line(t, at, of) << (4 * of));
        else if (of == 0) atomicOr(&t.map[number], walk_line(t, at, 0) * 0x11111u);
    }
}

struct JoinTiles {
    __device__ u64 operator()(u64 first, u64 second) const {
        const u32 lines = (u32)first + (u32)second;
        return lines | (u64)join_maps((u32)(first >> 32), (u32)(second >> 32)) << 32;
    }
};

// States behind special lines, and what comes before the tile. One warp.
__device__ void follow_states(Tile& t, const LexBatch& b) {
    const u32 lane = threadIdx.x & 31, share = (t.specials + 31) / 32;
    const u32 from = min(lane * share, t.specials), end = min(from + share, t.specials);
    u32 own = MAP_STAYS;
    for (u32 i = from; i < end; i++) own = join_maps(own, t.map[i]);
    u32 all = own;
#pragma unroll
    for (u32 step = 1; step < 32; step <<= 1) {
        const u32 earlier = __shfl_up_sync(FULL_WARP, all, step);
        if (lane >= step) all = join_maps(earlier, all);
    }
    const u32 total = __shfl_sync(FULL_WARP, all, 31), previous = __shfl_up_sync(FULL_WARP, all, 1);
    const u64 none = (u64)MAP_STAYS << 32;
    const u64 before = look_back(b.tile_maps, t.number, t.lines | (u64)total << 32, none, JoinTiles());
    const u32 first = map_state((u32)(before >> 32), STATE_CODE);
    u32 state = lane == 0 ? first : map_state(previous, first);
    for (u32 i = from; i < end; i++) {
        state = map_state(t.map[i], state);
        t.state[i] = (u8)state;
    }
    if (lane == 0) {
        t.before = first;
        t.line_base = (u32)before;
    }
}

// The state at the start of a line, or behind the tile's last one.
__device__ __forceinline__ u32 state_at(const Tile& t, u32 at) {
    u32 before = at < TILE ? rank(t.special, t.special_before, at) : t.specials;
    before = min(before, t.specials);
    return before ? t.state[before - 1] : t.before;
}

struct Columns {
    u32 column, alternate, behind;
};

__device__ __forceinline__ Columns indentation(const Tile& t, u32 at) {
    Columns c = {0, 0, at};
    for (;; c.behind++) {
        const u32 byte = byte_at(t, c.behind);
        if (byte == ' ') c.column++, c.alternate++;
        else if (byte == '\t') c.column = (c.column / 8 + 1) * 8, c.alternate++;
        else if (byte == '\f') c.column = c.alternate = 0;
        else return c;
    }
}

// Lexes a line; gives what is kept of it, and its columns.
__device__ u64 lex_line(Tile& t, const LexBatch& b, u32 at, u32* columns) {
    const u32 source = t.first_source + t.source[at >> 5], start = b.source_starts[source];
    const u32 len = b.source_lens[source], place = t.number * TILE + at - start;
    u64 kept = place == 0 ? LINE_FIRST : 0;
    *columns = 0;
    if (place >= len) return kept | LINE_CODE;
    const u32 newline = next_set(t.newline, at);
    if (newline >= SPAN) {
        flag(b, source, FLAG_LONG_LINE);
        return kept;
    }
    const u32 state = place == 0 ? STATE_CODE : state_at(t, at);
    Lexer lexer(t, at, newline);
    if (place == 0 && byte_at(t, at) == 0xef && byte_at(t, at + 1) == 0xbb && byte_at(t, at + 2) == 0xbf) lexer.at += 3;
    if (state == STATE_CODE) {
        const Columns c = indentation(t, lexer.at);
        lexer.at = c.behind;
        *columns = c.column | c.alternate << 16;
        kept |= LINE_CODE | (byte_at(t, c.behind) == '\\' ? LINE_BACKSLASH : 0);
        if (c.column > 0xffff) lexer.fail(FLAG_INDENTATION);
    }
    lexer.run(state);
    const bool ends = newline + 1 - at + place >= len;
    if (ends && lexer.out.joins) lexer.fail(FLAG_LEXICAL);
    if (lexer.out.state != (ends ? STATE_CODE : state_at(t, newline + 1))) lexer.fail(FLAG_STATE);
    if (lexer.out.flags) flag(b, source, lexer.out.flags);
    return kept | (lexer.out.joins ? LINE_JOINS : 0) | lexer.out.brackets;
}

__device__ void lex_lines(Tile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.lines; i += THREADS) {
        const u32 at = pick(t.line, t.line_before, TILE_WORDS, i), to = t.line_base + i;
        u32 columns;
        const u64 kept = lex_line(t, b, at, &columns);
        if (to >= b.line_cap) continue;
        b.line_starts[to] = t.number * TILE + at - b.source_starts[t.first_source + t.source[at >> 5]];
        b.line_columns[to] = columns;
        b.line_brackets[to] = kept;
    }
}

// Numbers tokens and comments in their order.
__device__ void count_tokens(Tile& t) {
    const u32 word = 2 * threadIdx.x;
    u32 first = 0, second = 0, total;
    if (word < WORDS) {
        first = (u32)__popc(t.start[word]) | (u32)__popc(t.comment[word]) << 16;
        second = (u32)__popc(t.start[word + 1]) | (u32)__popc(t.comment[word + 1]) << 16;
    }
    const u32 before = block_before(first + second, t.scratch, &total);
    if (word < WORDS) {
        t.start_before[word] = (u16)before;
        t.start_before[word + 1] = (u16)(before + first);
        t.comment_before[word] = (u16)(before >> 16);
        t.comment_before[word + 1] = (u16)((before + first) >> 16);
    }
    if (word == 0) {
        t.tokens = total & 0xffff;
        t.comments = total >> 16;
    }
    __syncthreads();
}

struct JoinCounts {
    __device__ u64 operator()(u64 first, u64 second) const { return first + second; }
};

// A word that starts with a letter: keyword, or name in its slot.
__device__ u32 word_at(const Tile& t, const LexBatch& b, u32 at, u32 length, u32 source, u32 token, u32* payload) {
    const u64 key = name_key(t, at, length, b.seed);
    if (length <= 8) {
        const u32 hash = keyword_hash(key);
        if (KEYWORDS.words[hash] == key) return KEYWORDS.kinds[hash];
        if (key == WORD_MATCH || key == WORD_CASE || key == WORD_TYPE) {
            const u32 to = atomicAdd(&b.counts[COUNT_SOFT], 1);
            if (to < b.list_cap) b.soft[to] = token;
        }
    }
    const u32 slot = name_slot(b, source, key);
    *payload = slot;
    if (slot == NO_SLOT) flag(b, source, FLAG_NAMES);
    else if (b.name_firsts[slot] < ~token) atomicMax(&b.name_firsts[slot], ~token);
    return T_NAME;
}

__device__ u32 string_payload(const Tile& t, u32 at) {
    u32 length = 0;
    while (is_part(t, byte_at(t, at + length))) length++;
    const u32 quote = byte_at(t, at + length);
    const bool triple = byte_at(t, at + length + 1) == quote && byte_at(t, at + length + 2) == quote;
    return prefix_of(byte_at(t, at), byte_at(t, at + 1), length).flags | (triple ? STRING_TRIPLE : 0);
}

// What a token is; whether its end is unknown yet comes back in `pending`.
__device__ u32 token_at(const Tile& t, const LexBatch& b, u32 at, u32 length, u32 source, u32 token, u32* payload,
    bool* pending) {
    const u32 mark = t.marks[at], c = byte_at(t, at);
    *payload = 0;
    *pending = mark & MARK_PENDING;
    if (mark >= MARK_MIDDLE) {
        *payload = (mark & MIDDLE_RAW ? STRING_RAW : 0) | (mark & MIDDLE_CHANGED ? STRING_CHANGED : 0) |
            (mark & MIDDLE_SPEC ? STRING_SPEC : 0);
        return T_F_STRING_MIDDLE;
    }
    if (mark >= MARK_STRING) {
        *payload = string_payload(t, at);
        if (mark & MARK_CHANGED && !(*payload & STRING_RAW)) *payload |= STRING_CHANGED;
        return T_STRING;
    }
    if (mark != MARK_NONE) {
        const u32 kind = mark - MARK_KIND;
        if (kind == T_F_STRING_START || kind == T_T_STRING_START) *payload = string_payload(t, at);
        *pending = false;
        return kind;
    }
    if (is_digit(c) || (c == '.' && length > 1 && is_digit(byte_at(t, at + 1)))) return T_NUMBER;
    if (is_part(t, c)) return word_at(t, b, at, length, source, token, payload);
    const u32 found = operator_of(t, at, length);
    *payload = found >> 8;
    return found & 255;
}

__device__ void write_tokens(const Tile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.tokens; i += THREADS) {
        const u32 to = t.token_base + i;
        if (to >= b.token_cap) break;
        const u32 at = pick(t.start, t.start_before, WORDS, i), behind = next_set(t.last, at) + 1;
        const u32 source = t.first_source + t.source[at >> 5], start = t.number * TILE + at - b.source_starts[source];
        u32 payload;
        bool pending;
        const u32 kind = token_at(t, b, at, behind - at, source, to, &payload, &pending);
        b.kinds[to] = (u8)kind;
        b.starts[to] = start;
        b.payloads[to] = payload;
        if (!pending) b.ends[to] = start + behind - at;
    }
}

__device__ void write_comments(const Tile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.comments; i += THREADS) {
        const u32 to = t.comment_base + i;
        if (to >= b.comment_cap) break;
        const u32 at = pick(t.comment, t.comment_before, WORDS, i);
        const u32 source = t.first_source + t.source[at >> 5], start = t.number * TILE + at - b.source_starts[source];
        u32 end = next_set(t.newline, at);
        if (byte_at(t, end - 1) == '\r') end--;
        b.comment_starts[to] = start;
        b.comment_ends[to] = start + end - at;
    }
}

// Tokens before each line, and before each source; ends that lines gave to earlier tokens.
__device__ void write_bases(const Tile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.lines; i += THREADS) {
        const u32 at = pick(t.line, t.line_before, TILE_WORDS, i), to = t.line_base + i;
        if (to < b.line_cap) b.line_tokens[to] = t.token_base + rank(t.start, t.start_before, at);
    }
    for (u32 word = threadIdx.x; word < TILE_WORDS; word += THREADS) {
        if (!(t.line[word] & 1) || !starts_source(t, b, word * 32)) continue;
        const u32 source = t.first_source + t.source[word];
        b.line_bases[source] = t.line_base + t.line_before[word];
        b.token_bases[source] = t.token_base + t.start_before[word];
        b.comment_bases[source] = t.comment_base + t.comment_before[word];
    }
    for (u32 i = threadIdx.x; i < min(t.closed, MOST_CLOSERS); i += THREADS) {
        const u32 at = t.closers[i] & 0xffff, behind = at + (t.closers[i] >> 16);
        const u32 to = atomicAdd(&b.counts[COUNT_CLOSERS], 1);
        if (to >= b.list_cap) break;
        const u32 source = t.first_source + t.source[at >> 5];
        b.closers[3 * to] = t.token_base + rank(t.start, t.start_before, at);
        b.closers[3 * to + 1] = t.number * TILE + behind - b.source_starts[source];
        b.closers[3 * to + 2] = source;
    }
}

// Behind the last tile.
__device__ void write_totals(const Tile& t, const LexBatch& b) {
    const u32 lines = t.line_base + t.lines, tokens = t.token_base + t.tokens, comments = t.comment_base + t.comments;
    b.counts[COUNT_LINES] = b.line_bases[b.sources] = lines;
    b.counts[COUNT_TOKENS] = b.token_bases[b.sources] = tokens;
    b.counts[COUNT_COMMENTS] = b.comment_bases[b.sources] = comments;
    if (lines < b.line_cap) b.line_tokens[lines] = tokens;
}

extern "C" __global__ void __launch_bounds__(256) parse_lex(LexBatch b) {
    __shared__ Tile t;
    if (threadIdx.x == 0) t.number = atomicAdd(&b.counts[COUNT_TICKET], 1);
    __syncthreads();
    load(t, b);
    __syncthreads();
    classify(t, b);
    __syncthreads();
    find_lines(t, b);
    for (u32 at = threadIdx.x; at < TILE; at += THREADS)
        if (byte_at(t, at) == '\r') note_return(t, b, at);
    __syncthreads();
    find_special(t);
    __syncthreads();
    count_lines(t);
    map_special(t, b);
    __syncthreads();
    if (threadIdx.x < 32) follow_states(t, b);
    __syncthreads();
    lex_lines(t, b);
    __syncthreads();
    count_tokens(t);
    if (threadIdx.x < 32) {
        const u64 own = t.tokens | (u64)t.comments << 31;
        const u64 before = look_back(b.tile_counts, t.number, own, 0, JoinCounts());
        if (threadIdx.x == 0) {
            t.token_base = (u32)before & 0x7fffffffu;
            t.comment_base = (u32)(before >> 31) & 0x7fffffffu;
        }
    }
    __syncthreads();
    write_tokens(t, b);
    write_comments(t, b);
    write_bases(t, b);
    if (threadIdx.x == 0 && t.number + 1 == b.tiles) write_totals(t, b);
}
