// Unsigned integers with the order of elements: NaN is greater than any number, and -0 equals 0.
//
// The source that includes this file defines before:
//   Element                   the bits of an element: u8, u16, u32 or u64
//   Key                       of a key: u32 or u64
//   KEY_BITS                  the size of an element
//   IS_BOOL, IS_FLOAT, IS_SIGNED
//   INFINITE                  the bits of infinity, of floating-point types
//   IS_DESCENDING             whether the order is reversed

#pragma once
#include "common/common.cuh"

constexpr Key KEY_MASK = (Key)~(Key)0 >> (8 * sizeof(Key) - KEY_BITS), KEY_SIGN = (Key)1 << (KEY_BITS - 1);

__device__ __forceinline__ Key sort_key(Element element) {
    Key key = element;
    if (IS_BOOL) key = key != 0;
    if (IS_FLOAT) {
        const Key magnitude = key & (KEY_SIGN - 1);
        const Key ordered = key & KEY_SIGN ? ~key & KEY_MASK : key | KEY_SIGN;
        key = magnitude > (Key)INFINITE ? KEY_MASK : magnitude == 0 ? KEY_SIGN : ordered;
    } else if (IS_SIGNED) {
        key ^= KEY_SIGN;
    }
    return IS_DESCENDING ? key ^ KEY_MASK : key;
}
