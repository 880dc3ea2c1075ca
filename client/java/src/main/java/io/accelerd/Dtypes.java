package io.accelerd;

import io.github.accelerd.v1.Dtype;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** Sizes, names and elements of element types. */
final class Dtypes {
  private static final int F16_EXPONENT_BITS = 0x7c00;
  private static final int F16_MANTISSA_BITS = 0x03ff;
  private static final int F16_SUBNORMAL_SCALE = -24;
  private static final int F16_TO_F32_SHIFT = 13;
  private static final int F16_TO_F32_EXPONENT = (127 - 15) << 23;

  private Dtypes() {}

  static int sizeOf(Dtype dtype) {
    switch (dtype) {
      case DTYPE_I8:
      case DTYPE_U8:
      case DTYPE_BOOL:
        return 1;
      case DTYPE_F16:
      case DTYPE_BF16:
      case DTYPE_I16:
      case DTYPE_U16:
        return 2;
      case DTYPE_F32:
      case DTYPE_I32:
      case DTYPE_U32:
        return 4;
      case DTYPE_F64:
      case DTYPE_I64:
      case DTYPE_U64:
        return 8;
      default:
        throw new IllegalArgumentException("dtype: expected an element type, got " + dtype);
    }
  }

  /** Returns the name, such as {@code f32}. */
  static String name(Dtype dtype) {
    return dtype.name().substring("DTYPE_".length()).toLowerCase(Locale.ROOT);
  }

  static String names(Dtype[] dtypes) {
    return Arrays.stream(dtypes).map(Dtypes::name).collect(Collectors.joining(" or "));
  }

  static double number(Dtype dtype, ByteBuffer bytes, int index) {
    switch (dtype) {
      case DTYPE_F64:
        return bytes.getDouble(8 * index);
      case DTYPE_F32:
        return bytes.getFloat(4 * index);
      case DTYPE_F16:
      case DTYPE_BF16:
        return half(dtype, bytes.getShort(2 * index));
      case DTYPE_U64:
        long bits = bytes.getLong(8 * index);
        // Twice the half with its lowest bit kept, so that it is rounded once.
        return bits >= 0 ? bits : 2.0 * (bits >>> 1 | bits & 1);
      default:
        return integer(dtype, bytes, index);
    }
  }

  static long integer(Dtype dtype, ByteBuffer bytes, int index) {
    switch (dtype) {
      case DTYPE_I8:
        return bytes.get(index);
      case DTYPE_U8:
        return Byte.toUnsignedLong(bytes.get(index));
      case DTYPE_BOOL:
        return bytes.get(index) == 0 ? 0 : 1;
      case DTYPE_I16:
        return bytes.getShort(2 * index);
      case DTYPE_U16:
        return Short.toUnsignedLong(bytes.getShort(2 * index));
      case DTYPE_I32:
        return bytes.getInt(4 * index);
      case DTYPE_U32:
        return Integer.toUnsignedLong(bytes.getInt(4 * index));
      case DTYPE_I64:
      case DTYPE_U64:
        return bytes.getLong(8 * index);
      default:
        throw new IllegalStateException("expected a tensor of integers, got " + name(dtype));
    }
  }

  /** Converts a number of 16 bits, exactly. */
  static float half(Dtype dtype, short half) {
    int bits = Short.toUnsignedInt(half);
    if (dtype == Dtype.DTYPE_BF16) {
      return Float.intBitsToFloat(bits << 16);
    }
    int sign = (bits & 0x8000) << 16;
    int exponent = bits & F16_EXPONENT_BITS;
    int mantissa = bits & F16_MANTISSA_BITS;
    if (exponent == 0) {
      return Math.copySign(Math.scalb((float) mantissa, F16_SUBNORMAL_SCALE), Float.intBitsToFloat(sign));
    }
    if (exponent == F16_EXPONENT_BITS) {
      return Float.intBitsToFloat(sign | 0x7f800000 | mantissa << F16_TO_F32_SHIFT);
    }
    return Float.intBitsToFloat(sign | ((exponent | mantissa) << F16_TO_F32_SHIFT) + F16_TO_F32_EXPONENT);
  }
}
