package io.accelerd;

import io.grpc.MethodDescriptor;
import java.util.function.Function;

/** A call: its request, and the decoder of its response. */
final class Operation<Q, R, T> {
  final MethodDescriptor<Q, R> method;
  final Q request;
  final Function<R, T> decode;
  final boolean isIdempotent;

  Operation(MethodDescriptor<Q, R> method, Q request, Function<R, T> decode) {
    this(method, request, decode, RetryPolicy.isIdempotent(method));
  }

  Operation(MethodDescriptor<Q, R> method, Q request, Function<R, T> decode, boolean isIdempotent) {
    this.method = method;
    this.request = request;
    this.decode = decode;
    this.isIdempotent = isIdempotent;
  }
}
