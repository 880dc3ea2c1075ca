// Compares a component of `count` elements of `size` bytes; prints the first that differs. Integers must be the same. An error of
// floating-point numbers may be `tolerance` times the greatest expected magnitude; 16-bit ones may be neighbors.
template <typename T, typename BITS>
static bool check(const char* name, const void* got, const void* expected, size_t count, size_t size, size_t offset, BITS infinity) {
    double greatest = 0;
    for (size_t i = 0; i < count; i++) {
        const double magnitude = std::fabs((double)value_at<T>(expected, i * size + offset));
        if (infinity != 0 && std::isfinite(magnitude) && magnitude > greatest) greatest = magnitude;
    }
    const double tolerance = sizeof(T) == 8 ? TOLERANCE_F64 : TOLERANCE_F32;
    const double error = sizeof(T) == 2 ? 1 : tolerance * greatest;
    for (size_t i = 0; i < count; i++) {
        const BITS x = value_at<BITS>(got, i * size + offset);
        const BITS y = value_at<BITS>(expected, i * size + offset);
        const double a = (double)value_at<T>(got, i * size + offset);
        const double b = (double)value_at<T>(expected, i * size + offset);
        if (is_same(x, y, infinity)) continue;
        if (infinity != 0 && std::fabs(a - b) <= error) continue;
        std::printf("FAIL: element %zu of %s is %.17g (0x%llx), expected %.17g (0x%llx)\n", i, name, a,
            (unsigned long long)x, b, (unsigned long long)y);
        return false;
    }
    return true;
}
