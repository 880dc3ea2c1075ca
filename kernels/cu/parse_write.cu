// parse_write: tokens, comments, and where those of lines and sources begin.
//   see LexBatch; writes kinds, starts, ends, payloads, comment_*, line_tokens, the bases of lines, tokens and
//   comments, name_keys, name_firsts, soft
//   not written: `ends` of tokens that go over several lines and whether their text is changed (parse_close); payloads
//   of names are slots yet (parse_number)
// parse_join_counts: tokens and comments before each tile; tile_counts in place, counts. It comes first.
// One block a tile, and a thread a token.

#include "parse_lex_words.cuh"
#include "parse_lex_marks.cuh"

struct WriteTile : Bytes {
    u32 start[WORDS];
    u32 last[WORDS + 1];
    u32 comment[WORDS];
    u32 line[TILE_WORDS];
    u16 start_before[WORDS], comment_before[WORDS], line_before[TILE_WORDS];
    u32 scratch[33];
    u32 tokens, comments, lines, token_base, comment_base, line_base;
};

__device__ void load(WriteTile& t, const LexBatch& b) {
    load_bytes(t, b);
    const u32 bits = blockIdx.x * 3 * WORDS;
    for (u32 i = threadIdx.x; i < WORDS; i += THREADS) {
        t.start[i] = b.token_bits[bits + i];
        t.last[i] = b.token_bits[bits + WORDS + i];
        t.comment[i] = b.token_bits[bits + 2 * WORDS + i];
    }
    t.line[threadIdx.x] = b.line_bits[blockIdx.x * TILE_WORDS + threadIdx.x];
    if (threadIdx.x > 0) return;
    const u64 counts = b.tile_counts[blockIdx.x];
    t.last[WORDS] = ~0u;
    t.line_base = (u32)b.tile_maps[blockIdx.x];
    t.token_base = (u32)counts & 0x7fffffffu;
    t.comment_base = (u32)(counts >> 31) & 0x7fffffffu;
}

// Numbers tokens, comments and lines in their order.
__device__ void count(WriteTile& t) {
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
    u32 lines;
    t.line_before[threadIdx.x] = (u16)block_before((u32)__popc(t.line[threadIdx.x]), t.scratch, &lines);
    if (threadIdx.x == 0) {
        t.tokens = total & 0xffff;
        t.comments = total >> 16;
        t.lines = lines;
    }
}

// A word that starts with a letter: keyword, or name in its slot.
__device__ u32 word_at(const WriteTile& t, const LexBatch& b, u32 at, u32 length, u32 source, u32 token, u32* payload) {
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

__device__ u32 string_payload(const WriteTile& t, u32 at) {
    u32 length = 0;
    while (is_part(byte_at(t, at + length))) length++;
    const u32 quote = byte_at(t, at + length);
    const bool triple = byte_at(t, at + length + 1) == quote && byte_at(t, at + length + 2) == quote;
    return prefix_of(byte_at(t, at), byte_at(t, at + 1), length).flags | (triple ? STRING_TRIPLE : 0);
}

// What a token is; whether its end is unknown yet comes back in `pending`.
__device__ u32 token_at(const WriteTile& t, const LexBatch& b, u32 at, u32 length, u32 mark, u32 source, u32 token,
    u32* payload, bool* pending) {
    const u32 c = byte_at(t, at);
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
    if (is_part(c)) return word_at(t, b, at, length, source, token, payload);
    const u32 found = operator_of(t, at, length);
    *payload = found >> 8;
    return found & 255;
}

__device__ void write_tokens(const WriteTile& t, const LexBatch& b) {
    const u8* marks = b.marks + (u64)t.number * SPAN;
    for (u32 i = threadIdx.x; i < t.tokens; i += THREADS) {
        const u32 to = t.token_base + i;
        if (to >= b.token_cap) break;
        const u32 at = pick(t.start, t.start_before, WORDS, i), behind = next_set(t.last, at) + 1;
        const u32 source = source_at(t, at), start = t.number * TILE + at - b.source_starts[source];
        u32 payload;
        bool pending;
        const u32 kind = token_at(t, b, at, behind - at, marks[i], source, to, &payload, &pending);
        b.kinds[to] = (u8)kind;
        b.starts[to] = start;
        b.payloads[to] = payload;
        if (!pending) b.ends[to] = start + behind - at;
    }
}

__device__ void write_comments(const WriteTile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.comments; i += THREADS) {
        const u32 to = t.comment_base + i;
        if (to >= b.comment_cap) break;
        const u32 at = pick(t.comment, t.comment_before, WORDS, i);
        const u32 source = source_at(t, at), start = t.number * TILE + at - b.source_starts[source];
        b.comment_starts[to] = start;
        b.comment_ends[to] = start + next_set(t.last, at) + 1 - at;
    }
}

// Tokens before each line, and before each source.
__device__ void write_bases(const WriteTile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.lines; i += THREADS) {
        const u32 at = pick(t.line, t.line_before, TILE_WORDS, i), to = t.line_base + i;
        if (to < b.line_cap) b.line_tokens[to] = t.token_base + rank(t.start, t.start_before, at);
    }
    for (u32 word = threadIdx.x; word < TILE_WORDS; word += THREADS) {
        if (!(t.line[word] & 1) || !starts_source(t, b, word * 32)) continue;
        const u32 source = source_at(t, word * 32);
        b.line_bases[source] = t.line_base + t.line_before[word];
        b.token_bases[source] = t.token_base + t.start_before[word];
        b.comment_bases[source] = t.comment_base + t.comment_before[word];
    }
}

extern "C" __global__ void __launch_bounds__(256) parse_write(LexBatch b) {
    __shared__ WriteTile t;
    load(t, b);
    __syncthreads();
    count(t);
    __syncthreads();
    write_tokens(t, b);
    write_comments(t, b);
    write_bases(t, b);
}

struct JoinCounts {
    __device__ u64 operator()(u64 first, u64 second) const { return first + second; }
};

// One block.
extern "C" __global__ void __launch_bounds__(1024) parse_join_counts(LexBatch b) {
    __shared__ u64 scratch[33];
    const u64 total = join_before(b.tile_counts, b.tiles, 0, scratch, JoinCounts());
    if (threadIdx.x > 0) return;
    const u32 tokens = (u32)total & 0x7fffffffu, lines = b.counts[COUNT_LINES];
    b.counts[COUNT_TOKENS] = b.token_bases[b.sources] = tokens;
    b.counts[COUNT_COMMENTS] = b.comment_bases[b.sources] = (u32)(total >> 31) & 0x7fffffffu;
    if (lines < b.line_cap) b.line_tokens[lines] = tokens;
}
