#define CHECK(call)                                                                                    \
    do {                                                                                               \
        const cudaError_t status = (call);                                                             \
        if (status != cudaSuccess) {                                                                   \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));       \
            std::exit(2);                                                                              \
        }                                                                                              \
    } while (false)
