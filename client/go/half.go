package accelerd

import "math"

// Float16 has the bits of a number of IEEE 754 binary16.
type Float16 uint16

// BFloat16 has the bits of a bfloat16 number, which are the upper half of those of a float32.
type BFloat16 uint16

// NewBFloat16 rounds to the nearest number, ties to even.
func NewBFloat16(value float32) BFloat16 {
	bits := math.Float32bits(value)
	if value != value {
		// Rounding could turn a NaN into an infinity.
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 returns the same number.
func (b BFloat16) Float32() float32 {
	return math.Float32frombits(uint32(b) << 16)
}

// NewFloat16 rounds to the nearest number, ties to even.
func NewFloat16(value float32) Float16 {
	bits := math.Float32bits(value)
	sign := Float16(bits >> 16 & 0x8000)
	magnitude := math.Float32frombits(bits & 0x7fffffff)
	switch {
	case value != value:
		return sign | 0x7e00 | Float16(bits>>13&0x3ff)
	case magnitude >= 65520:
		return sign | 0x7c00
	case magnitude < 0x1p-14:
		// The units of subnormal numbers are 2^-24. Adding 2^23 rounds to a whole number of them.
		units := magnitude*0x1p24 + 0x1p23
		return sign | Float16(math.Float32bits(units)&0x7ff)
	default:
		bits &= 0x7fffffff
		// The exponent's bias becomes 15, and 13 bits of the fraction are rounded away.
		bits -= (127 - 15) << 23
		return sign | Float16((bits+0xfff+bits>>13&1)>>13)
	}
}

// Float32 returns the same number.
func (f Float16) Float32() float32 {
	sign := uint32(f&0x8000) << 16
	exponent := uint32(f >> 10 & 0x1f)
	fraction := uint32(f & 0x3ff)
	switch exponent {
	case 0:
		magnitude := float32(fraction) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(magnitude))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	default:
		return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
	}
}
