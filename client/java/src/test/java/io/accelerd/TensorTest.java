package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.github.accelerd.v1.Dtype;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.ReadOnlyBufferException;
import org.junit.jupiter.api.Test;

class TensorTest {
  @Test
  void elementsAreLittleEndianBytes() {
    Tensor tensor = Tensor.of(new float[] {1f, -2f});
    assertEquals(ByteString.copyFrom(new byte[] {0, 0, (byte) 0x80, 0x3f, 0, 0, 0, (byte) 0xc0}), tensor.toMessage().getData());
    assertEquals(Dtype.DTYPE_F32, tensor.dtype());
    assertArrayEquals(new long[] {2}, tensor.shape());
    assertEquals(0x0201, Tensor.of(Dtype.DTYPE_U16, ByteBuffer.wrap(new byte[] {1, 2})).toInts()[0]);
  }

  @Test
  void arraysRoundTripThroughMessages() {
    float[] floats = {0f, -0f, Float.NaN, Float.MIN_VALUE, Float.POSITIVE_INFINITY};
    assertArrayEquals(floats, through(Tensor.of(floats)).toFloats());
    double[] doubles = {0.1, -1e300, Double.MIN_VALUE};
    assertArrayEquals(doubles, through(Tensor.of(doubles)).toDoubles());
    long[] longs = {Long.MIN_VALUE, -1, Long.MAX_VALUE};
    assertArrayEquals(longs, through(Tensor.of(longs)).toLongs());
    int[] ints = {Integer.MIN_VALUE, -1, Integer.MAX_VALUE};
    assertArrayEquals(ints, through(Tensor.of(ints)).toInts());
    assertArrayEquals(new int[] {-32768, 7}, through(Tensor.of(new short[] {-32768, 7})).toInts());
    assertArrayEquals(new int[] {-128, 7}, through(Tensor.of(new byte[] {-128, 7})).toInts());
    boolean[] booleans = {true, false, true};
    assertArrayEquals(booleans, through(Tensor.of(booleans)).toBooleans());
  }

  @Test
  void numbersOfSixteenBitsConvertExactly() {
    short[] f16 = {0x3c00, (short) 0xc000, 0x7bff, 0x0001, (short) 0x8000, 0x7c00, (short) 0xfc00, 0x7e00, 0x0400};
    float[] expected =
        {1f, -2f, 65504f, 0x1p-24f, -0f, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.NaN, 0x1p-14f};
    assertArrayEquals(expected, halves(Dtype.DTYPE_F16, f16).toFloats());
    assertArrayEquals(new float[] {1f, -2f}, halves(Dtype.DTYPE_BF16, new short[] {0x3f80, (short) 0xc000}).toFloats());
  }

  @Test
  void unsignedIntegersAreNotNegative() {
    ByteBuffer ones = ByteBuffer.allocate(8).putLong(-1).flip();
    assertArrayEquals(new int[] {255, 255, 255, 255, 255, 255, 255, 255}, Tensor.of(Dtype.DTYPE_U8, ones).toInts());
    assertArrayEquals(new long[] {0xffffffffL, 0xffffffffL}, Tensor.of(Dtype.DTYPE_U32, ones).toLongs());
    assertArrayEquals(new double[] {0x1p64}, Tensor.of(Dtype.DTYPE_U64, ones).toDoubles());
    assertArrayEquals(new double[] {0x1p63 + 0x1p11}, u64(0x8000000000000401L + 0x200));
    assertArrayEquals(new double[] {0x1p63}, u64(0x8000000000000400L));
  }

  @Test
  void viewsCopyNothingAndCannotBeWritten() {
    byte[] bytes = new byte[8];
    Tensor tensor = Tensor.of(Dtype.DTYPE_F32, ByteBuffer.wrap(bytes));
    bytes[3] = 0x40;
    assertEquals(2f, tensor.floatBuffer().get(0));
    assertThrows(ReadOnlyBufferException.class, () -> tensor.buffer().put(0, (byte) 1));
    assertThrows(ReadOnlyBufferException.class, () -> tensor.floatBuffer().put(0, 1f));
    ByteString data = tensor.toMessage().getData();
    assertSame(data, Tensor.of(tensor.toMessage()).toMessage().getData());
  }

  @Test
  void shapesAreChecked() {
    assertArrayEquals(new long[] {}, Tensor.scalar(3).shape());
    assertArrayEquals(new long[] {2, 3}, Tensor.of(new int[6], 2, 3).shape());
    assertArrayEquals(new long[] {0, 3}, Tensor.of(new int[0], 0, 3).shape());
    assertMessage("data: expected 20 bytes, for f32[5], got 16", () -> Tensor.of(new float[4], 5));
    assertMessage("shape: expected extents of at least 0, got [-1]", () -> Tensor.of(new float[4], -1));
    assertMessage("rows[1]: expected 2 elements, got 1", () -> Tensor.of(new float[][] {{1, 2}, {3}}));
    assertThrows(ArithmeticException.class, () -> Tensor.of(new float[4], Long.MAX_VALUE, 2));
  }

  @Test
  void aTensorOfAnotherTypeIsNamed() {
    IllegalStateException wrong = assertThrows(IllegalStateException.class, () -> Tensor.of(new long[2]).floatBuffer());
    assertEquals("expected a tensor of f32, got i64[2]", wrong.getMessage());
    assertThrows(IllegalStateException.class, () -> Tensor.of(new float[2]).toLongs());
  }

  @Test
  void rowsAreTakenAlongTheFirstDimension() {
    Tensor tensor = Tensor.of(new float[][] {{1, 2}, {3, 4}, {5, 6}});
    assertEquals(Tensor.of(new float[][] {{3, 4}, {5, 6}}), tensor.rows(1, 3));
    assertArrayEquals(new long[] {0, 2}, tensor.rows(2, 2).shape());
    assertThrows(IndexOutOfBoundsException.class, () -> tensor.rows(2, 4));
  }

  @Test
  void aResponseWithTheWrongNumberOfBytesIsMalformed() {
    io.github.accelerd.v1.Tensor message =
        io.github.accelerd.v1.Tensor.newBuilder().setDtype(Dtype.DTYPE_F32).addShape(2).setData(ByteString.copyFromUtf8("abc")).build();
    AccelerdException malformed = assertThrows(AccelerdException.class, () -> Tensor.of(message));
    assertTrue(malformed.getMessage().contains("expected 8 bytes, for f32[2], got 3"), malformed::getMessage);
  }

  private static Tensor through(Tensor tensor) {
    return Tensor.of(tensor.toMessage());
  }

  private static double[] u64(long bits) {
    return Tensor.of(Dtype.DTYPE_U64, ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(bits).flip()).toDoubles();
  }

  private static Tensor halves(Dtype dtype, short[] bits) {
    ByteBuffer bytes = ByteBuffer.allocate(2 * bits.length).order(ByteOrder.LITTLE_ENDIAN);
    bytes.asShortBuffer().put(bits);
    return Tensor.of(dtype, bytes);
  }

  private static void assertMessage(String expected, Runnable call) {
    assertEquals(expected, assertThrows(IllegalArgumentException.class, call::run).getMessage());
  }
}
