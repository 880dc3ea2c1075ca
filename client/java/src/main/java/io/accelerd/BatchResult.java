package io.accelerd;

/** The result of a batch of a stream. A batch that fails does not end the stream. */
public final class BatchResult<T> {
  private final long index;
  private final T value;
  private final AccelerdException problem;

  private BatchResult(long index, T value, AccelerdException problem) {
    this.index = index;
    this.value = value;
    this.problem = problem;
  }

  static <T> BatchResult<T> of(long index, T value) {
    return new BatchResult<>(index, value, null);
  }

  static <T> BatchResult<T> failed(long index, AccelerdException problem) {
    return new BatchResult<>(index, null, problem);
  }

  /** The index of the batch. */
  public long index() {
    return index;
  }

  /** Returns the result, or throws the batch's error. */
  public T get() {
    if (problem != null) {
      throw problem;
    }
    return value;
  }
}
