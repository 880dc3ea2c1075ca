// Kernels with the faults that the tests need.

// Writes to `address`, which is not mapped.
extern "C" __global__ void access_illegal_address(unsigned int* address) { *address = 1; }

// Runs until `*flag` is set, which nobody does.
extern "C" __global__ void never_end(const volatile unsigned int* flag) {
    while (*flag == 0) {}
}
