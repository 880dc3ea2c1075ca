// What emitted kernels call, in the namespace of what scalar functions call.

namespace ir {

// What one launch runs: `count` threads of a grid from thread `first`. Threads are numbered from 0, the last dimension fastest.
// The host fills it; see `Launch` of the crate.
struct Fault;
struct Launch {
    const volatile u32* stop;  // null, or a word that ends the launch once it is not 0
    Fault* fault;
    u64 first;
    u64 count;
    u64 budget;  // iterations of loops that each thread may run
    int grid[4];
};

// The fault of the lowest thread that has one: a `FaultRecord` of the crate, and what threads decide by. In the device's memory;
// the host sets `thread` and `lowest` to all ones, and the rest to 0.
struct Fault {
    u64 thread;
    i64 index;
    u32 kind;  // 0 as long as there is no fault
    u32 site;
    u32 array;
    u32 axis;
    int extent;
    u32 reserved;
    u64 lowest;
    u32 lock;
    u32 stopped;  // 1 once a thread has seen the word `stop`
};

constexpr u32 NONE = 0xffffffffu;

enum FaultKind { OUT_OF_BOUNDS = 1, DIVISION_BY_ZERO, ASSERTION, INVALID_VALUE, BUDGET_EXHAUSTED };

// A strided array; strides are in bytes, and that of the last axis has 32 bits.
template <int DIMS>
struct Array {
    char* data;
    i64 strides[DIMS];
    int shape[DIMS];
};

// Iterations, and threads of the grid, that a thread of the device runs before it looks at the word `stop`, which costs a read
// from the host's memory.
constexpr u32 ITERATIONS_PER_POLL = 4096;
constexpr u32 THREADS_PER_POLL = 64;

#ifdef IR_ONE_THREAD
// The fault belongs to one thread, of which the first one is kept.
__device__ __forceinline__ void record_fault(
    Fault* fault, u64, u32 kind, u32, u32, u32, i64, int) {
    if (fault->kind == 0) fault->kind = kind;
}

__device__ __forceinline__ void record_stop(Fault* fault) { fault->stopped = 1; }
#else
// Keeps the fault if no lower thread has one. `lowest` turns away most threads without the lock. The lowest of all is never turned
// away, for all others are above it; and the lock makes what it wrote the last word, for those that come later compare
// themselves with it. Lanes of a warp take the lock in turns: the loop body of the one that has it includes the release.
__device__ __noinline__ void record_fault(
    Fault* fault, u64 thread, u32 kind, u32 site, u32 array, u32 axis, i64 index, int extent) {
    if (atomicMin(&fault->lowest, thread) < thread) return;
    for (bool is_done = false; !is_done;) {
        if (atomicCAS(&fault->lock, 0u, 1u) != 0u) continue;
        __threadfence();
        volatile Fault* kept = fault;
        if (thread < kept->thread) {
            kept->thread = thread;
            kept->index = index;
            kept->extent = extent;
            kept->kind = kind;
            kept->site = site;
            kept->array = array;
            kept->axis = axis;
        }
        __threadfence();
        atomicExch(&fault->lock, 0u);
        is_done = true;
    }
}

__device__ __forceinline__ void record_stop(Fault* fault) { *(volatile u32*)&fault->stopped = 1; }
#endif

__device__ __forceinline__ bool is_stopped(const Launch& launch) {
    if (launch.stop == nullptr || *launch.stop == 0) return false;
    record_stop(launch.fault);
    return true;
}

// A thread of the grid. A thread of the device runs every so many of them.
struct Thread {
    const Launch& launch;
    u64 nth;  // of the launch
    u64 id;   // of the grid
    u64 budget;
    u32 iterations;  // until the next poll
    u32 threads;     // until the next poll

    __device__ __forceinline__ Thread(const Launch& of) : Thread(of, (u64)blockIdx.x * blockDim.x + threadIdx.x) {}

    __device__ __forceinline__ Thread(const Launch& of, u64 nth) : launch(of), nth(nth), threads(THREADS_PER_POLL) {
        start();
    }

    __device__ __forceinline__ void start() {
        id = launch.first + nth;
        budget = launch.budget;
        take_iterations();
    }

    __device__ __forceinline__ void take_iterations() {
        iterations = budget < ITERATIONS_PER_POLL ? (u32)budget : ITERATIONS_PER_POLL;
        budget -= iterations;
    }

    __device__ __forceinline__ bool is_running() const { return nth < launch.count; }

    __device__ __forceinline__ void advance() {
        nth += (u64)gridDim.x * blockDim.x;
        start();
        if (--threads != 0) return;
        threads = THREADS_PER_POLL;
        if (is_stopped(launch)) nth = launch.count;
    }
};

// Threads of the grid that a thread of the device runs at once if the kernel reads before it writes: it waits for the reads of all of
// them together.
constexpr int THREADS_AT_ONCE = 4;

template <typename BODY, typename PARAMS>
__device__ __forceinline__ void read_ahead(const Launch& launch, const PARAMS& params) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    // A block runs consecutive threads, unless there are so few that they must be spread over all blocks.
    const bool is_large = launch.count > stride;
    const u64 distance = is_large ? blockDim.x : stride;
    u64 first = (u64)blockIdx.x * (is_large ? THREADS_AT_ONCE * blockDim.x : blockDim.x) + threadIdx.x;
    while (first < launch.count) {
        BODY bodies[THREADS_AT_ONCE];
#pragma unroll
        for (int nth = 0; nth < THREADS_AT_ONCE; nth++) {
            Thread thread(launch, first + nth * distance);
            if (thread.is_running()) bodies[nth].read_inputs(params, thread);
        }
#pragma unroll
        for (int nth = 0; nth < THREADS_AT_ONCE; nth++) {
            Thread thread(launch, first + nth * distance);
            if (bodies[nth].has_read) bodies[nth].write_outputs(params, thread);
        }
        first += THREADS_AT_ONCE * stride;
        if (first < launch.count && is_stopped(launch)) return;
    }
}

__device__ __forceinline__ void fault(const Thread& thread, u32 kind, u32 site) {
    record_fault(thread.launch.fault, thread.id, kind, site, NONE, 0, 0, 0);
}

// Takes all iterations of a loop at once, if the thread has them before its next poll.
__device__ __forceinline__ bool take_iterations(Thread& thread, u64 count) {
    if (count > thread.iterations) return false;
    thread.iterations -= (u32)count;
    return true;
}

// Whether a loop may start another iteration.
__device__ __forceinline__ bool iterate(Thread& thread) {
    if (thread.iterations == 0) {
        if (is_stopped(thread.launch)) return false;
        if (thread.budget == 0) {
            fault(thread, BUDGET_EXHAUSTED, NONE);
            return false;
        }
        thread.take_iterations();
    }
    thread.iterations--;
    return true;
}

// The position along the last dimension of what is left of the number of a thread.
__device__ __forceinline__ int split(u64& rest, int extent) {
    int last;
    if (rest <= 0xffffffffull) {
        last = (int)((u32)rest % (u32)extent);
        rest = (u32)rest / (u32)extent;
    } else {
        last = (int)(rest % (u32)extent);
        rest /= (u32)extent;
    }
    return last;
}

// Indices are `int` or `i64`: 64 bits take a GPU several times as many instructions.
__device__ __forceinline__ bool is_within(int index, int extent) { return (u32)index < (u32)extent; }
__device__ __forceinline__ bool is_within(i64 index, int extent) { return (u64)index < (u64)(i64)extent; }

// Whether an element is outside its array. The fault of the first index that is beyond its extent is reported.
template <int AXIS = 0, int DIMS, typename INDEX, typename... INDICES>
__device__ __forceinline__ bool is_outside(
    const Thread& thread, u32 site, u32 array, const Array<DIMS>& a, INDEX index, INDICES... rest) {
    if (!is_within(index, a.shape[AXIS])) {
        record_fault(thread.launch.fault, thread.id, OUT_OF_BOUNDS, site, array, AXIS, index, a.shape[AXIS]);
        return true;
    }
    if constexpr (sizeof...(rest) != 0) {
        return is_outside<AXIS + 1>(thread, site, array, a, rest...);
    } else {
        return false;
    }
}

// The product in one instruction; the compiler would take four once it knows that the index is not negative.
__device__ __forceinline__ i64 multiply_wide(int index, int stride) {
#ifdef __CUDA_ARCH__
    i64 product;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(index), "r"(stride));
    return product;
#else
    return (i64)index * stride;
#endif
}

// The bytes from the first element along the last axis, whose stride has 32 bits.
__device__ __forceinline__ i64 along_last(int index, i64 stride) { return multiply_wide(index, (int)stride); }
__device__ __forceinline__ i64 along_last(i64 index, i64 stride) { return index * (int)stride; }

// The bytes from the first element to another one.
template <int AXIS = 0, int DIMS, typename INDEX, typename... INDICES>
__device__ __forceinline__ i64 offset(const Array<DIMS>& a, INDEX index, INDICES... rest) {
    if constexpr (sizeof...(rest) == 0) {
        return along_last(index, a.strides[AXIS]);
    } else {
        return index * a.strides[AXIS] + offset<AXIS + 1>(a, rest...);
    }
}

// The component at an offset in an element.
template <typename T, int OFFSET = 0, int DIMS, typename... INDICES>
__device__ __forceinline__ T& at(const Array<DIMS>& a, INDICES... indices) {
    return *(T*)(a.data + offset(a, indices...) + OFFSET);
}

}  // namespace ir
