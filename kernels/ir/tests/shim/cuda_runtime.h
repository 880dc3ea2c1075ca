// What emitted programs take from the runtime of CUDA, for a compiler of the host: the memory of the device is the host's.
#pragma once

#include "cuda_device.h"

typedef int cudaError_t;
constexpr cudaError_t cudaSuccess = 0;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

struct cudaLaunchConfig_t {
    dim3 gridDim;
    dim3 blockDim;
};

inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }

template <typename T>
cudaError_t cudaMalloc(T** at, size_t bytes) {
    *at = (T*)std::malloc(bytes + 1);
    std::memset((void*)*at, 0xa5, bytes);
    return cudaSuccess;
}

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return cudaSuccess;
}

template <typename T>
cudaError_t cudaFree(T* at) {
    std::free((void*)at);
    return cudaSuccess;
}

inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

template <typename KERNEL>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* threads, KERNEL, size_t, int) {
    *blocks = 2;
    *threads = 32;
    return cudaSuccess;
}

template <typename... PARAMS, typename... ARGUMENTS>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(PARAMS...), ARGUMENTS... arguments) {
    gridDim = config->gridDim;
    blockDim = config->blockDim;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) kernel(arguments...);
    }
    return cudaSuccess;
}
