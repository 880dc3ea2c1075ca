package io.accelerd;

import com.google.protobuf.DescriptorProtos.MethodOptions.IdempotencyLevel;
import io.grpc.CallOptions;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import io.grpc.protobuf.ProtoMethodDescriptorSupplier;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;

/** The retries of a client: its budget, its clock, and the most attempts of a call. */
final class RetryPolicy {
  /** Whether a call may be repeated, where that depends on the request. By default the method's option decides. */
  static final CallOptions.Key<Boolean> IS_IDEMPOTENT = CallOptions.Key.create("io.accelerd.is_idempotent");

  final RetryBudget budget;
  final LongSupplier nanoTime;
  /** Returns numbers in [0, 1). */
  final DoubleSupplier random;
  final int maxAttempts;
  private volatile boolean isClosed;

  RetryPolicy(int maxAttempts) {
    this(maxAttempts, System::nanoTime, () -> ThreadLocalRandom.current().nextDouble());
  }

  RetryPolicy(int maxAttempts, LongSupplier nanoTime, DoubleSupplier random) {
    this.budget = new RetryBudget(nanoTime.getAsLong());
    this.nanoTime = nanoTime;
    this.random = random;
    this.maxAttempts = maxAttempts;
  }

  /** Ends all retries, as the client is closed. */
  void close() {
    isClosed = true;
  }

  boolean isClosed() {
    return isClosed;
  }

  /** Begins the attempts of a call; a deadline of null means none. */
  Attempts attempts(MethodDescriptor<?, ?> method, CallOptions options, Deadline deadline) {
    Boolean isIdempotent = options.getOption(IS_IDEMPOTENT);
    long left = deadline == null ? Long.MAX_VALUE : deadline.timeRemaining(TimeUnit.NANOSECONDS);
    return new Attempts(this, left, isIdempotent == null ? isIdempotent(method) : isIdempotent);
  }

  static boolean isIdempotent(MethodDescriptor<?, ?> method) {
    Object schema = method.getSchemaDescriptor();
    return schema instanceof ProtoMethodDescriptorSupplier
        && ((ProtoMethodDescriptorSupplier) schema).getMethodDescriptor().getOptions().getIdempotencyLevel()
            != IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
  }
}
