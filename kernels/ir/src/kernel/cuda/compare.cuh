// The value at a place in memory.
template <typename T>
static T value_at(const void* memory, size_t offset) {
    T value;
    std::memcpy(&value, (const char*)memory + offset, sizeof(T));
    return value;
}

// Whether two values are the same: equal bits, or both NaN. The bits of a NaN are above those of infinity, which is 0 for integers.
template <typename BITS>
static bool is_same(BITS got, BITS expected, BITS infinity) {
    const BITS magnitude = (BITS)((BITS)~(BITS)0 >> 1);
    const bool are_nan = infinity != 0 && (got & magnitude) > infinity && (expected & magnitude) > infinity;
    return got == expected || are_nan;
}
