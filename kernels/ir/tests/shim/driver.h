// Runs emitted device code: reads launches from the standard input and writes what they left to the standard output.
//
// A launch is, in little-endian words: number of the kernel, number of blocks, threads of a block, number of arrays; for each its
// size in bytes, u64, and its bytes; number of pointers; for each its offset in the parameter block, the number of its array, and its
// offset in the array, u32 each; number of descriptors; the descriptors, which are stopped if they have an address to look at; size of the parameter block; the block. The answer is the
// memory for a fault, and the arrays.
#pragma once

#include <vector>

template <typename T>
static bool read_some(T* to, size_t count) {
    return std::fread(to, sizeof(T), count, stdin) == count;
}

static unsigned read_word() {
    unsigned word = 0;
    if (!read_some(&word, 1)) std::exit(3);
    return word;
}

typedef void (*Entry)(const ir::Launch&, const void* params);

static int run_launches(const Entry* entries) {
    unsigned kernel;
    while (read_some(&kernel, 1)) {
        gridDim = dim3(read_word());
        blockDim = dim3(read_word());
        std::vector<std::vector<unsigned long long>> arrays(read_word());
        std::vector<size_t> sizes;
        for (auto& array : arrays) {
            unsigned long long size = 0;
            read_some(&size, 1);
            array.resize(size / 8 + 1);
            read_some((char*)array.data(), size);
            sizes.push_back(size);
        }
        std::vector<unsigned> pointers(3 * read_word());
        read_some(pointers.data(), pointers.size());
        std::vector<ir::Launch> launches(read_word());
        read_some(launches.data(), launches.size());
        const unsigned size = read_word();
        std::vector<unsigned long long> block(size / 8);
        read_some(block.data(), block.size());
        for (size_t at = 0; at < pointers.size(); at += 3) {
            char* address = (char*)arrays[pointers[at + 1]].data() + pointers[at + 2];
            std::memcpy((char*)block.data() + pointers[at], &address, sizeof(address));
        }
        ir::Fault fault = {};
        fault.thread = fault.lowest = ~0ull;
        static unsigned stop = 1;
        for (auto& launch : launches) {
            launch.fault = &fault;
            if (launch.stop != nullptr) launch.stop = &stop;
            for (blockIdx.x = gridDim.x; blockIdx.x-- > 0;) {
                for (threadIdx.x = blockDim.x; threadIdx.x-- > 0;) entries[kernel](launch, block.data());
            }
        }
        std::fwrite(&fault, sizeof(fault), 1, stdout);
        for (size_t at = 0; at < arrays.size(); at++) std::fwrite(arrays[at].data(), 1, sizes[at], stdout);
    }
    return 0;
}
