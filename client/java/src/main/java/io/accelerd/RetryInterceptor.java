package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import java.util.concurrent.ScheduledExecutorService;

/**
 * Retries calls with one request, until their first response. Streams of requests pass, because their requests are not kept: those of
 * the client's own methods are resumed by {@link ResumedStream}.
 */
final class RetryInterceptor implements ClientInterceptor {
  private final RetryPolicy policy;
  private final ScheduledExecutorService scheduler;

  RetryInterceptor(RetryPolicy policy, ScheduledExecutorService scheduler) {
    this.policy = policy;
    this.scheduler = scheduler;
  }

  @Override
  public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
    if (!method.getType().clientSendsOneMessage()) {
      return next.newCall(method, options);
    }
    return new RetriedCall<>(method, options, next, policy, scheduler);
  }
}
