package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** Gives each call the token and the limit of its message, and calls with one request and one response a deadline. */
final class CallDefaults implements ClientInterceptor {
  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Duration timeout;
  /** Null for none. */
  private final String token;
  private final int maxMessageBytes;

  CallDefaults(Duration timeout, String token, int maxMessageBytes) {
    this.timeout = timeout;
    this.token = token;
    this.maxMessageBytes = maxMessageBytes;
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions given, Channel next) {
    CallOptions options = given;
    if (options.getMaxOutboundMessageSize() == null) {
      options = options.withMaxOutboundMessageSize(maxMessageBytes);
    }
    if (options.getDeadline() == null && method.getType() == MethodDescriptor.MethodType.UNARY && !Durations.isForever(timeout)) {
      options = options.withDeadlineAfter(Durations.nanos(timeout), TimeUnit.NANOSECONDS);
    }
    return new SimpleForwardingClientCall<Q, R>(next.newCall(method, options)) {
      @Override
      public void start(Listener<R> listener, Metadata headers) {
        if (token != null) {
          headers.put(AUTHORIZATION, "Bearer " + token);
        }
        super.start(listener, headers);
      }
    };
  }
}
