// lex_tokens: tokens, comments, and their bases by line and source. One block per tile, one thread per token.
//   see LexBatch; writes kinds, starts, ends, payloads, comment_*, line_tokens, the bases of lines, tokens and
//   comments, name_keys, name_firsts, soft_keywords
//   left to lex_multiline_ends: `ends` of tokens that span lines, and whether their text is changed
//   left to lex_number_names: payloads of names, which are slots here
// lex_scan_counts: exclusive scan of tile_counts in place; writes counts. It runs first.

#include "parse/token_kinds.cuh"
#include "parse/lex_marks.cuh"

struct TokenTile : Bytes {
    u32 start[SPAN_WORDS];
    u32 last[SPAN_WORDS + 1];
    u32 comment[SPAN_WORDS];
    u32 line[TILE_WORDS];
    u16 start_ranks[SPAN_WORDS], comment_ranks[SPAN_WORDS], line_ranks[TILE_WORDS];
    u32 scratch[33];
    u32 tokens, comments, lines, token_base, comment_base, line_base;
};

__device__ void load(TokenTile& t, const LexBatch& b) {
    load_bytes(t, b);
    const u32 bits = blockIdx.x * 3 * SPAN_WORDS;
    for (u32 i = threadIdx.x; i < SPAN_WORDS; i += LEX_THREADS) {
        t.start[i] = b.token_bits[bits + i];
        t.last[i] = b.token_bits[bits + SPAN_WORDS + i];
        t.comment[i] = b.token_bits[bits + 2 * SPAN_WORDS + i];
    }
    t.line[threadIdx.x] = b.line_bits[blockIdx.x * TILE_WORDS + threadIdx.x];
    if (threadIdx.x > 0) return;
    const u64 counts = b.tile_counts[blockIdx.x];
    t.last[SPAN_WORDS] = ~0u;
    t.line_base = (u32)b.tile_maps[blockIdx.x];
    t.token_base = (u32)counts & 0x7fffffffu;
    t.comment_base = (u32)(counts >> 31) & 0x7fffffffu;
}

// Counts tokens, comments and lines, for rank and select.
__device__ void count(TokenTile& t) {
    const u32 word = 2 * threadIdx.x;
    u32 first = 0, second = 0, total;
    if (word < SPAN_WORDS) {
        first = (u32)__popc(t.start[word]) | (u32)__popc(t.comment[word]) << 16;
        second = (u32)__popc(t.start[word + 1]) | (u32)__popc(t.comment[word + 1]) << 16;
    }
    const u32 before = block_exclusive_scan(first + second, t.scratch, &total);
    if (word < SPAN_WORDS) {
        t.start_ranks[word] = (u16)before;
        t.start_ranks[word + 1] = (u16)(before + first);
        t.comment_ranks[word] = (u16)(before >> 16);
        t.comment_ranks[word + 1] = (u16)((before + first) >> 16);
    }
    u32 lines;
    t.line_ranks[threadIdx.x] = (u16)block_exclusive_scan((u32)__popc(t.line[threadIdx.x]), t.scratch, &lines);
    if (threadIdx.x == 0) {
        t.tokens = total & 0xffff;
        t.comments = total >> 16;
        t.lines = lines;
    }
}

// A keyword, or a name with its slot as payload.
__device__ u32 identifier_token(const TokenTile& t, const LexBatch& b, u32 at, u32 length, u32 source, u32 token, u32* payload) {
    const u64 key = name_key(t, at, length, b.seed);
    if (length <= 8) {
        const u32 hash = keyword_hash(key);
        if (KEYWORDS.words[hash] == key) return KEYWORDS.kinds[hash];
        if (key == KEYWORD_MATCH || key == KEYWORD_CASE || key == KEYWORD_TYPE) {
            const u32 to = atomicAdd(&b.counts->soft_keywords, 1);
            if (to < b.list_cap) b.soft_keywords[to] = token;
        }
    }
    const u32 slot = name_slot(b, source, key);
    *payload = slot;
    if (slot == NO_SLOT) flag(b, source, FLAG_NAME_TABLE);
    else if (b.name_firsts[slot] < ~token) atomicMax(&b.name_firsts[slot], ~token);
    return T_NAME;
}

__device__ u32 string_payload(const TokenTile& t, u32 at) {
    u32 length = 0;
    while (is_identifier_char(byte_at(t, at + length))) length++;
    const u32 quote = byte_at(t, at + length);
    const bool triple = byte_at(t, at + length + 1) == quote && byte_at(t, at + length + 2) == quote;
    return prefix_of(byte_at(t, at), byte_at(t, at + 1), length).flags | (triple ? STRING_TRIPLE : 0);
}

// The kind and payload of a token; `pending`: it ends on a later line.
__device__ u32 token_at(const TokenTile& t, const LexBatch& b, u32 at, u32 length, u32 mark, u32 source, u32 token,
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
    if (is_identifier_char(c)) return identifier_token(t, b, at, length, source, token, payload);
    const u32 found = operator_of(t, at, length);
    *payload = found >> 8;
    return found & 255;
}

__device__ void write_tokens(const TokenTile& t, const LexBatch& b) {
    const u8* marks = b.marks + (u64)t.number * SPAN;
    for (u32 i = threadIdx.x; i < t.tokens; i += LEX_THREADS) {
        const u32 to = t.token_base + i;
        if (to >= b.token_cap) break;
        const u32 at = select(t.start, t.start_ranks, SPAN_WORDS, i), end = next_set(t.last, at) + 1;
        const u32 source = source_at(t, at), start = t.number * TILE + at - b.source_starts[source];
        u32 payload;
        bool pending;
        const u32 kind = token_at(t, b, at, end - at, marks[i], source, to, &payload, &pending);
        b.kinds[to] = (u8)kind;
        b.starts[to] = start;
        b.payloads[to] = payload;
        if (!pending) b.ends[to] = start + end - at;
    }
}

__device__ void write_comments(const TokenTile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.comments; i += LEX_THREADS) {
        const u32 to = t.comment_base + i;
        if (to >= b.comment_cap) break;
        const u32 at = select(t.comment, t.comment_ranks, SPAN_WORDS, i);
        const u32 source = source_at(t, at), start = t.number * TILE + at - b.source_starts[source];
        b.comment_starts[to] = start;
        b.comment_ends[to] = start + next_set(t.last, at) + 1 - at;
    }
}

// Writes the bases of lines, and of sources.
__device__ void write_bases(const TokenTile& t, const LexBatch& b) {
    for (u32 i = threadIdx.x; i < t.lines; i += LEX_THREADS) {
        const u32 at = select(t.line, t.line_ranks, TILE_WORDS, i), to = t.line_base + i;
        if (to < b.line_cap) b.line_tokens[to] = t.token_base + rank(t.start, t.start_ranks, at);
    }
    for (u32 word = threadIdx.x; word < TILE_WORDS; word += LEX_THREADS) {
        if (!(t.line[word] & 1) || !starts_source(t, b, word * 32)) continue;
        const u32 source = source_at(t, word * 32);
        b.line_bases[source] = t.line_base + t.line_ranks[word];
        b.token_bases[source] = t.token_base + t.start_ranks[word];
        b.comment_bases[source] = t.comment_base + t.comment_ranks[word];
    }
}

extern "C" __global__ void __launch_bounds__(LEX_THREADS) lex_tokens(LexBatch b) {
    __shared__ TokenTile t;
    load(t, b);
    __syncthreads();
    count(t);
    __syncthreads();
    write_tokens(t, b);
    write_comments(t, b);
    write_bases(t, b);
}

struct AddCounts {
    __device__ u64 operator()(u64 first, u64 second) const { return first + second; }
};

extern "C" __global__ void __launch_bounds__(LEX_WIDE_THREADS) lex_scan_counts(LexBatch b) {
    __shared__ u64 scratch[33];
    const u64 total = array_exclusive_scan(b.tile_counts, b.tiles, 0, scratch, AddCounts());
    if (threadIdx.x > 0) return;
    const u32 tokens = (u32)total & 0x7fffffffu, lines = b.counts->lines;
    b.counts->tokens = b.token_bases[b.sources] = tokens;
    b.counts->comments = b.comment_bases[b.sources] = (u32)(total >> 31) & 0x7fffffffu;
    if (lines < b.line_cap) b.line_tokens[lines] = tokens;
}
