// Draws scalars as `scalars.rs` of the crate does, bit for bit. 16-bit floating-point types are left out.

namespace cases {

typedef ir::u8 u8;
typedef ir::u32 u32;
typedef ir::u64 u64;
typedef ir::i64 i64;
typedef __int128 i128;
typedef unsigned __int128 u128;

// SplitMix64, as in `random.rs`.
struct Random {
    static constexpr u64 GOLDEN = 0x9e3779b97f4a7c15ull;
    u64 state;

    __device__ __forceinline__ static u64 mix(u64 z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

    __device__ __forceinline__ Random(u64 key, u64 number) : state(mix(key + number * GOLDEN)) {}

    __device__ __forceinline__ u64 bits() {
        state += GOLDEN;
        return mix(state);
    }

    __device__ __forceinline__ u64 below(u64 bound) { return __umul64hi(bits(), bound); }

    __device__ __forceinline__ bool is_even() { return (bits() & 1) == 0; }

    __device__ __forceinline__ double unit() { return (double)(bits() >> 11) * 0x1p-53; }

    __device__ __forceinline__ int within(u32 most) { return (int)below(2 * (u64)most + 1) - (int)most; }

    __device__ __forceinline__ double with_any_sign(double value) { return is_even() ? value : -value; }
};

// The encoding of floating-point types.
template <typename T>
struct Type {
    static constexpr bool IS_FLOAT = false;
};
template <>
struct Type<float> {
    typedef u32 Word;
    static constexpr bool IS_FLOAT = true;
    static constexpr Word INFINITE = 0x7f800000u;
    static constexpr Word SIGN = 0x80000000u;
    static constexpr Word QUIET_NAN = 0x7fc00000u;
};
template <>
struct Type<double> {
    typedef u64 Word;
    static constexpr bool IS_FLOAT = true;
    static constexpr Word INFINITE = 0x7ff0000000000000ull;
    static constexpr Word SIGN = 0x8000000000000000ull;
    static constexpr Word QUIET_NAN = 0x7ff8000000000000ull;
};

template <typename T>
__device__ __forceinline__ T quiet_nan() {
    return ir::number(Type<T>::QUIET_NAN, T());
}

// The value with these bits, which are the low ones.
template <typename T>
__device__ __forceinline__ T from_bits(u64 bits) {
    if constexpr (Type<T>::IS_FLOAT) {
        return ir::number((typename Type<T>::Word)bits, T());
    } else {
        return (T)bits;
    }
}

// No ordinal of a value.
constexpr i128 NO_ORDINAL = (i128)1 << 100;

template <typename T>
__device__ __forceinline__ i128 ordinal(T value) {
    if constexpr (Type<T>::IS_FLOAT) {
        const auto bits = ir::word(value);
        const auto magnitude = bits & (Type<T>::SIGN - 1);
        if (magnitude > Type<T>::INFINITE) return NO_ORDINAL;
        return (bits & Type<T>::SIGN) == 0 ? (i128)magnitude : -1 - (i128)magnitude;
    } else {
        return (i128)value;
    }
}

template <typename T>
__device__ __forceinline__ T from_ordinal(i128 place) {
    if constexpr (Type<T>::IS_FLOAT) {
        typedef typename Type<T>::Word Word;
        return ir::number(place < 0 ? Type<T>::SIGN | (Word)(-1 - place) : (Word)place, T());
    } else {
        return (T)place;
    }
}

// A floating-point number as an integer of type T: truncated and saturated.
template <typename T>
struct Truncated;
#define CASES_TRUNCATED(T, FUNCTION)                                                       \
    template <>                                                                            \
    struct Truncated<T> {                                                                  \
        template <typename FLOAT>                                                          \
        __device__ __forceinline__ static T of(FLOAT x) { return (T)ir::FUNCTION(x); }     \
    };
CASES_TRUNCATED(ir::i8, to_i8)
CASES_TRUNCATED(ir::i16, to_i16)
CASES_TRUNCATED(int, to_i32)
CASES_TRUNCATED(i64, to_i64)
CASES_TRUNCATED(u8, to_u8)
CASES_TRUNCATED(ir::u16, to_u16)
CASES_TRUNCATED(u32, to_u32)
CASES_TRUNCATED(u64, to_u64)
#undef CASES_TRUNCATED
template <>
struct Truncated<bool> {
    template <typename FLOAT>
    __device__ __forceinline__ static bool of(FLOAT x) { return x != 0; }
};

// Types that are equal.
template <typename A, typename B>
struct Same {
    static constexpr bool VALUE = false;
};
template <typename A>
struct Same<A, A> {
    static constexpr bool VALUE = true;
};

// A value of another input.
template <typename T, typename FROM>
__device__ __forceinline__ T cast(FROM value) {
    if constexpr (Same<T, FROM>::VALUE) {
        return value;
    } else if constexpr (Type<FROM>::IS_FLOAT && Type<T>::IS_FLOAT) {
        return value == value ? (T)value : quiet_nan<T>();
    } else if constexpr (Type<FROM>::IS_FLOAT) {
        return Truncated<T>::of(value);
    } else {
        return (T)value;
    }
}

// The inputs of a case that are already drawn.
template <typename... TYPES>
struct Earlier;
template <>
struct Earlier<> {
    static constexpr u32 COUNT = 0;

    template <typename T>
    __device__ __forceinline__ T as(u32) const { return T(); }
};
template <typename FIRST, typename... REST>
struct Earlier<FIRST, REST...> {
    static constexpr u32 COUNT = 1 + sizeof...(REST);
    FIRST first;
    Earlier<REST...> rest;

    // The input at a position, converted.
    template <typename T>
    __device__ __forceinline__ T as(u32 position) const {
        return position == 0 ? cast<T>(first) : rest.template as<T>(position - 1);
    }
};

template <typename T>
struct Option {
    bool is_some;
    T value;
};

__device__ __forceinline__ double power_of_two(int exponent) {
    return __longlong_as_double((i64)((u64)(exponent + 1023) << 52));
}

// An input: the values whose ordinals are in a range, and NaN if it is allowed.
template <typename T>
struct Input {
    static constexpr bool IS_FLOAT = Type<T>::IS_FLOAT;
    i128 low;
    i128 high;
    // The bounds as finite numbers.
    double lowest;
    double highest;
    bool allows_nan;
    // Half of the width, and the sum of both ends: of floating-point numbers, and of integers.
    double half_width;
    i128 half_steps;
    double ends;
    i128 end_steps;
    // Bits of the special values. The first ones are the core.
    const u64* specials;
    u32 special_count;
    u32 core_count;
    u32 first_constant;
    u32 constant_count;

    __device__ __forceinline__ Option<T> checked(T value) const {
        const i128 place = ordinal(value);
        return {place == NO_ORDINAL ? allows_nan : low <= place && place <= high, value};
    }

    __device__ __forceinline__ Option<T> at(i128 place) const {
        return {low <= place && place <= high, from_ordinal<T>(place)};
    }

    __device__ __forceinline__ T clamped(i128 place) const {
        return from_ordinal<T>(place < low ? low : place > high ? high : place);
    }

    // Of a floating-point type.
    __device__ __forceinline__ Option<T> number(double value) const {
        return checked(value == value ? (T)value : quiet_nan<T>());
    }

    // An integer of less than 53 bits if T is a floating-point type.
    __device__ __forceinline__ Option<T> integer(i128 value) const {
        if constexpr (IS_FLOAT) {
            return number((double)(i64)value);
        } else {
            return at(value);
        }
    }

    __device__ __forceinline__ Option<T> neighbour(T value, int distance) const {
        const i128 place = ordinal(value);
        if (place == NO_ORDINAL) return {false, value};
        return at(place + distance);
    }

    __device__ __forceinline__ T special(Random& random) const {
        const u32 count = random.is_even() ? core_count : special_count;
        return from_bits<T>(specials[random.below(count)]);
    }

    __device__ __forceinline__ T constant(Random& random) const {
        return from_bits<T>(specials[first_constant + random.below(constant_count)]);
    }

    __device__ __forceinline__ T bits(Random& random) const {
        const u128 count = (u128)(high - low) + 1;
        return clamped(low + (i128)(((u128)random.bits() * count) >> 64));
    }

    __device__ __forceinline__ T uniform(Random& random) const {
        const double scale = SCALES[random.below(SCALE_COUNT)];
        if constexpr (IS_FLOAT) {
            double from = lowest, to = highest;
            if (scale > 0.0 && from <= scale && to >= -scale) {
                from = from < -scale ? -scale : from;
                to = to > scale ? scale : to;
            }
            const double share = random.unit();
            const i128 place = ordinal((T)(from * (1.0 - share) + to * share));
            return clamped(place == NO_ORDINAL ? 0 : place);
        } else {
            const i128 most = (i64)scale;
            const i128 from = low < -most ? -most : low, to = high > most ? most : high;
            if (most == 0 || from > to) return bits(random);
            return clamped(from + (i128)__umul64hi(random.bits(), (u64)(to - from) + 1));
        }
    }

    __device__ __forceinline__ Option<T> log_uniform(Random& random) const {
        if constexpr (IS_FLOAT) {
            const double mantissa = 1.0 + random.unit();
            const double value = mantissa * power_of_two(random.within(32));
            return number(random.with_any_sign(value));
        } else {
            const u32 length = (u32)random.below(65);
            const u64 drawn = random.bits();
            const i128 magnitude = length == 0 ? 0 : (i128)(drawn >> (64 - length));
            return integer(random.is_even() ? magnitude : -magnitude);
        }
    }

    __device__ __forceinline__ Option<T> small_integer(Random& random) const {
        const u32 nth = (u32)random.below(4);
        return integer(random.within(nth == 0 ? 3 : nth == 1 ? 10 : nth == 2 ? 100 : 1000));
    }

    __device__ __forceinline__ Option<T> near_power(Random& random) const {
        const int distance = random.within(2);
        if constexpr (IS_FLOAT) {
            const u32 most = random.is_even() ? 64 : 1022;
            const double power = power_of_two(random.within(most));
            const Option<T> near = number(random.with_any_sign(power));
            return near.is_some ? neighbour(near.value, distance) : near;
        } else {
            const i128 power = (i128)1 << (u32)random.below(65);
            return integer(random.is_even() ? power + distance : distance - power);
        }
    }

    __device__ __forceinline__ Option<T> near_bound(Random& random) const {
        const i128 distance = (i128)random.below(5);
        return at(random.is_even() ? low + distance : high - distance);
    }

    __device__ __forceinline__ Option<T> half(Random& random) const {
        const u64 drawn = random.bits() >> 43;
        const u64 whole = drawn >> (u32)random.below(21);
        if constexpr (IS_FLOAT) {
            return number(random.with_any_sign((double)whole + 0.5));
        } else {
            return integer(2 * (i128)whole + 1);
        }
    }

    __device__ __forceinline__ static int power_of_ten(Random& random) {
        const u32 nth = (u32)random.below(4);
        return nth == 0 ? 10 : nth == 1 ? 100 : nth == 2 ? 1000 : 10000;
    }

    __device__ __forceinline__ Option<T> decimal(Random& random) const {
        const int digits = random.within((u32)power_of_ten(random));
        const int power = power_of_ten(random);
        if constexpr (IS_FLOAT) {
            return number((double)digits / (double)power);
        } else {
            return integer((i128)digits * power);
        }
    }

    __device__ __forceinline__ Option<T> plus(T value, int distance) const {
        if constexpr (IS_FLOAT) {
            return number((double)value + (double)distance);
        } else {
            return neighbour(value, distance);
        }
    }

    __device__ __forceinline__ Option<T> sum(T one, T other) const {
        if constexpr (IS_FLOAT) {
            return number((double)one + (double)other);
        } else {
            return at(ordinal(one) + ordinal(other));
        }
    }

    __device__ __forceinline__ Option<T> negative(T value) const {
        if constexpr (IS_FLOAT) {
            return number(-(double)value);
        } else {
            return at(-ordinal(value));
        }
    }

    __device__ __forceinline__ Option<T> turned(T value, int parts) const {
        if constexpr (IS_FLOAT) {
            const double distance = half_width / parts;
            const Option<T> above = number((double)value + distance);
            return above.is_some ? above : number((double)value - distance);
        } else {
            const i128 distance = half_steps / parts;
            const Option<T> above = at(ordinal(value) + distance);
            return above.is_some ? above : at(ordinal(value) - distance);
        }
    }

    __device__ __forceinline__ Option<T> mirrored(T value) const {
        if constexpr (IS_FLOAT) {
            return number(ends - (double)value);
        } else {
            return at(end_steps - ordinal(value));
        }
    }

    // The value that goes with that of the input half of all inputs before this one.
    template <u32 INPUTS, typename EARLIER>
    __device__ __forceinline__ Option<T> paired(const EARLIER& earlier, Random& random) const {
        const u64 drawn = random.below(4);
        const Option<T> value = checked(earlier.template as<T>(EARLIER::COUNT - INPUTS / 2));
        if (!value.is_some) return value;
        switch (drawn) {
            case 0: return value;
            case 1: return negative(value.value);
            case 2: return turned(value.value, 1);
            default: return mirrored(value.value);
        }
    }

    template <typename EARLIER>
    __device__ __forceinline__ Option<T> repeat(const EARLIER& earlier, Random& random) const {
        // Of each input an element is drawn, too; a scalar has one.
        const u32 first = (u32)random.below(EARLIER::COUNT);
        random.bits();
        const u32 second = (u32)random.below(EARLIER::COUNT);
        random.bits();
        const Option<T> value = checked(earlier.template as<T>(first));
        const Option<T> other = checked(earlier.template as<T>(second));
        if (!value.is_some) return value;
        switch (random.below(15)) {
            case 0: return plus(value.value, 1);
            case 1: return plus(value.value, -1);
            case 2: return neighbour(value.value, 1);
            case 3: return neighbour(value.value, -1);
            case 4: return negative(value.value);
            case 5: return other.is_some ? sum(value.value, other.value) : other;
            case 6: {
                const Option<T> opposite = negative(value.value);
                return opposite.is_some ? sum(opposite.value, constant(random)) : opposite;
            }
            case 7: return turned(value.value, 1);
            case 8: return turned(value.value, 2);
            case 9: return mirrored(value.value);
            default: return value;
        }
    }

    template <typename EARLIER>
    __device__ __forceinline__ static Strategy strategy(const EARLIER& earlier, u32 relation, Random& random) {
        if (EARLIER::COUNT != 0 && relation < REPEATED && random.is_even()) return Strategy::Repeat;
        const Strategy drawn = (Strategy)MIX[random.below(MIX_COUNT)];
        return drawn == Strategy::Repeat && EARLIER::COUNT == 0 ? Strategy::Uniform : drawn;
    }

    // A value of the mix.
    template <u32 INPUTS, typename EARLIER>
    __device__ __forceinline__ T draw(const EARLIER& earlier, u32 relation, Random random) const {
        Option<T> drawn = {false, T()};
        if constexpr (INPUTS % 2 == 0 && EARLIER::COUNT >= INPUTS / 2) {
            if (REPEATED <= relation && relation < PAIRED) {
                const Option<T> pair = paired<INPUTS>(earlier, random);
                if (pair.is_some) return pair.value;
            }
        }
        switch (strategy(earlier, relation, random)) {
            case Strategy::Uniform: break;
            case Strategy::LogUniform: drawn = log_uniform(random); break;
            case Strategy::Bits: return bits(random);
            case Strategy::SmallInteger: drawn = small_integer(random); break;
            case Strategy::Special: return special(random);
            case Strategy::NearSpecial: {
                const T near = special(random);
                drawn = neighbour(near, random.within(4));
                break;
            }
            case Strategy::NearPower: drawn = near_power(random); break;
            case Strategy::NearBound: drawn = near_bound(random); break;
            case Strategy::Half: drawn = half(random); break;
            case Strategy::Decimal: drawn = decimal(random); break;
            case Strategy::Repeat:
                if constexpr (EARLIER::COUNT != 0) drawn = repeat(earlier, random);
                break;
        }
        return drawn.is_some ? drawn.value : uniform(random);
    }
};

}  // namespace cases
