package io.accelerd;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.github.accelerd.v1.Dtype;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.Objects;

/**
 * A dense array in row-major order: its element type, its shape and its elements as little-endian bytes. It does not change.
 *
 * <p>The factories for arrays copy their elements once. {@link #of(Dtype, ByteBuffer, long...)}, {@link #buffer()},
 * {@link #floatBuffer()}, {@link #reshape(long...)} and {@link #rows(int, int)} copy nothing.
 */
public final class Tensor {
  private final Dtype dtype;
  private final long[] shape;
  private final ByteString data;

  private Tensor(Dtype dtype, long[] shape, ByteString data) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
    long expected = Math.multiplyExact(count(shape), Dtypes.sizeOf(dtype));
    if (data.size() != expected) {
      throw new IllegalArgumentException(
          "data: expected " + expected + " bytes, for " + Dtypes.name(dtype) + Arrays.toString(shape) + ", got " + data.size());
    }
  }

  /** Returns a tensor of f32. Without a shape it has one dimension. */
  public static Tensor of(float[] elements, long... shape) {
    ByteBuffer bytes = allocate(elements.length, Float.BYTES);
    bytes.asFloatBuffer().put(elements);
    return wrap(Dtype.DTYPE_F32, bytes, elements.length, shape);
  }

  /** Returns a tensor of f64. Without a shape it has one dimension. */
  public static Tensor of(double[] elements, long... shape) {
    ByteBuffer bytes = allocate(elements.length, Double.BYTES);
    bytes.asDoubleBuffer().put(elements);
    return wrap(Dtype.DTYPE_F64, bytes, elements.length, shape);
  }

  /** Returns a tensor of i64. Without a shape it has one dimension. */
  public static Tensor of(long[] elements, long... shape) {
    ByteBuffer bytes = allocate(elements.length, Long.BYTES);
    bytes.asLongBuffer().put(elements);
    return wrap(Dtype.DTYPE_I64, bytes, elements.length, shape);
  }

  /** Returns a tensor of i32. Without a shape it has one dimension. */
  public static Tensor of(int[] elements, long... shape) {
    ByteBuffer bytes = allocate(elements.length, Integer.BYTES);
    bytes.asIntBuffer().put(elements);
    return wrap(Dtype.DTYPE_I32, bytes, elements.length, shape);
  }

  /** Returns a tensor of i16. Without a shape it has one dimension. */
  public static Tensor of(short[] elements, long... shape) {
    ByteBuffer bytes = allocate(elements.length, Short.BYTES);
    bytes.asShortBuffer().put(elements);
    return wrap(Dtype.DTYPE_I16, bytes, elements.length, shape);
  }

  /** Returns a tensor of i8. Without a shape it has one dimension. */
  public static Tensor of(byte[] elements, long... shape) {
    return wrap(Dtype.DTYPE_I8, ByteBuffer.wrap(elements.clone()), elements.length, shape);
  }

  /** Returns a tensor of truth values. Without a shape it has one dimension. */
  public static Tensor of(boolean[] elements, long... shape) {
    ByteBuffer bytes = allocate(elements.length, 1);
    for (int index = 0; index < elements.length; index++) {
      bytes.put(index, (byte) (elements[index] ? 1 : 0));
    }
    return wrap(Dtype.DTYPE_BOOL, bytes, elements.length, shape);
  }

  /** Returns a tensor of f32 with two dimensions. */
  public static Tensor of(float[][] rows) {
    int width = rows.length == 0 ? 0 : rows[0].length;
    ByteBuffer bytes = allocate((long) rows.length * width, Float.BYTES);
    FloatBuffer floats = bytes.asFloatBuffer();
    for (int row = 0; row < rows.length; row++) {
      if (rows[row].length != width) {
        throw new IllegalArgumentException("rows[" + row + "]: expected " + width + " elements, got " + rows[row].length);
      }
      floats.put(rows[row]);
    }
    return wrap(Dtype.DTYPE_F32, bytes, rows.length, new long[] {rows.length, width});
  }

  /**
   * Returns a tensor of the bytes of a buffer from its position to its limit, which are little-endian and are not copied: they must not
   * change while the tensor is in use. Without a shape it has one dimension.
   */
  public static Tensor of(Dtype dtype, ByteBuffer bytes, long... shape) {
    return wrap(dtype, bytes.slice(), bytes.remaining() / Dtypes.sizeOf(dtype), shape);
  }

  /** Returns a tensor of f32 without dimensions. */
  public static Tensor scalar(float value) {
    return of(new float[] {value}).reshape();
  }

  /** Returns a tensor of f64 without dimensions. */
  public static Tensor scalar(double value) {
    return of(new double[] {value}).reshape();
  }

  /** Returns a tensor of i32 without dimensions. */
  public static Tensor scalar(int value) {
    return of(new int[] {value}).reshape();
  }

  /** Returns a tensor of i64 without dimensions. */
  public static Tensor scalar(long value) {
    return of(new long[] {value}).reshape();
  }

  /** Returns the tensor of a message, whose bytes are not copied. */
  public static Tensor of(io.github.accelerd.v1.Tensor message) {
    long[] shape = message.getShapeList().stream().mapToLong(Long::longValue).toArray();
    try {
      return new Tensor(message.getDtype(), shape, message.getData());
    } catch (IllegalArgumentException | ArithmeticException malformed) {
      throw AccelerdException.malformed(malformed.getMessage());
    }
  }

  /** Returns the tensor as a message, without a copy of its bytes. */
  public io.github.accelerd.v1.Tensor toMessage() {
    io.github.accelerd.v1.Tensor.Builder message = io.github.accelerd.v1.Tensor.newBuilder().setDtype(dtype).setData(data);
    for (long extent : shape) {
      message.addShape(extent);
    }
    return message.build();
  }

  /** The element type. */
  public Dtype dtype() {
    return dtype;
  }

  /** The extent of each dimension, outermost first. */
  public long[] shape() {
    return shape.clone();
  }

  /** The number of elements. */
  public int elementCount() {
    return data.size() / Dtypes.sizeOf(dtype);
  }

  /** The elements as little-endian bytes; a view that cannot be written. */
  public ByteBuffer buffer() {
    return data.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** The elements of a tensor of f32; a view that cannot be written. */
  public FloatBuffer floatBuffer() {
    require(Dtype.DTYPE_F32);
    return buffer().asFloatBuffer();
  }

  /** Copies the elements of a tensor of f32, f16 or bf16. */
  public float[] toFloats() {
    float[] elements = new float[elementCount()];
    if (dtype == Dtype.DTYPE_F32) {
      floatBuffer().get(elements);
      return elements;
    }
    require(Dtype.DTYPE_F16, Dtype.DTYPE_BF16);
    ByteBuffer bytes = buffer();
    for (int index = 0; index < elements.length; index++) {
      elements[index] = Dtypes.half(dtype, bytes.getShort(2 * index));
    }
    return elements;
  }

  /** Copies the elements of a tensor of f64, or converts those of another type. Integers beyond 2^53 are rounded. */
  public double[] toDoubles() {
    double[] elements = new double[elementCount()];
    ByteBuffer bytes = buffer();
    for (int index = 0; index < elements.length; index++) {
      elements[index] = Dtypes.number(dtype, bytes, index);
    }
    return elements;
  }

  /** Copies the elements of a tensor of integers. Those of u64 keep their bits. */
  public long[] toLongs() {
    long[] elements = new long[elementCount()];
    ByteBuffer bytes = buffer();
    for (int index = 0; index < elements.length; index++) {
      elements[index] = Dtypes.integer(dtype, bytes, index);
    }
    return elements;
  }

  /** Copies the elements of a tensor of integers of at most 32 bits. Those of u32 keep their bits. */
  public int[] toInts() {
    require(Dtype.DTYPE_I8, Dtype.DTYPE_U8, Dtype.DTYPE_I16, Dtype.DTYPE_U16, Dtype.DTYPE_I32, Dtype.DTYPE_U32);
    int[] elements = new int[elementCount()];
    ByteBuffer bytes = buffer();
    for (int index = 0; index < elements.length; index++) {
      elements[index] = (int) Dtypes.integer(dtype, bytes, index);
    }
    return elements;
  }

  /** Copies the elements of a tensor of truth values. */
  public boolean[] toBooleans() {
    require(Dtype.DTYPE_BOOL);
    boolean[] elements = new boolean[elementCount()];
    for (int index = 0; index < elements.length; index++) {
      elements[index] = data.byteAt(index) != 0;
    }
    return elements;
  }

  /** Returns the same elements in another shape; without extents, a single element without dimensions. */
  public Tensor reshape(long... shape) {
    return new Tensor(dtype, shape.clone(), data);
  }

  /** Returns some rows, along the first dimension. */
  public Tensor rows(int from, int to) {
    if (shape.length == 0) {
      throw new IllegalArgumentException("expected a tensor with a dimension, got one without");
    }
    Objects.checkFromToIndex(from, to, Math.toIntExact(shape[0]));
    long[] part = shape.clone();
    part[0] = to - from;
    int rowBytes = shape[0] == 0 ? 0 : Math.toIntExact(data.size() / shape[0]);
    return new Tensor(dtype, part, data.substring(from * rowBytes, to * rowBytes));
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof Tensor)) {
      return false;
    }
    Tensor tensor = (Tensor) other;
    return dtype == tensor.dtype && Arrays.equals(shape, tensor.shape) && data.equals(tensor.data);
  }

  @Override
  public int hashCode() {
    return Objects.hash(dtype, Arrays.hashCode(shape), data);
  }

  @Override
  public String toString() {
    return Dtypes.name(dtype) + Arrays.toString(shape);
  }

  private void require(Dtype... expected) {
    if (!Arrays.asList(expected).contains(dtype)) {
      throw new IllegalStateException("expected a tensor of " + Dtypes.names(expected) + ", got " + this);
    }
  }

  private static Tensor wrap(Dtype dtype, ByteBuffer bytes, long elements, long[] shape) {
    long[] extents = shape.length == 0 ? new long[] {elements} : shape.clone();
    return new Tensor(dtype, extents, UnsafeByteOperations.unsafeWrap(bytes));
  }

  private static ByteBuffer allocate(long elements, int size) {
    return ByteBuffer.allocate(Math.toIntExact(elements * size)).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static long count(long[] shape) {
    long count = 1;
    for (long extent : shape) {
      if (extent < 0) {
        throw new IllegalArgumentException("shape: expected extents of at least 0, got " + Arrays.toString(shape));
      }
      count = Math.multiplyExact(count, extent);
    }
    return count;
  }
}
