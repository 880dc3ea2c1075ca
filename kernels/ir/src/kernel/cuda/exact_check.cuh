// Compares a component of `count` elements of `size` bytes; prints the first that differs.
template <typename T, typename BITS>
static bool check(const char* name, const void* got, const void* expected, size_t count, size_t size, size_t offset, BITS infinity) {
    for (size_t i = 0; i < count; i++) {
        const BITS x = value_at<BITS>(got, i * size + offset);
        const BITS y = value_at<BITS>(expected, i * size + offset);
        if (is_same(x, y, infinity)) continue;
        std::printf("FAIL: element %zu of %s is %.17g (0x%llx), expected %.17g (0x%llx)\n", i, name,
            (double)value_at<T>(got, i * size + offset), (unsigned long long)x,
            (double)value_at<T>(expected, i * size + offset), (unsigned long long)y);
        return false;
    }
    return true;
}
