package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.OptionalLong;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** A call with one request, which is kept for further attempts until the first response. */
final class RetriedCall<Q, R> extends ClientCall<Q, R> {
  private final MethodDescriptor<Q, R> method;
  private final CallOptions options;
  private final Channel next;
  private final RetryPolicy policy;
  private final ScheduledExecutorService scheduler;
  private final Context context = Context.current();

  private Listener<R> listener;
  private Metadata headers;
  private Attempts attempts;
  private Q request;
  /** Responses that the caller requested before the first one. */
  private int requested;
  /** The attempt in progress. */
  private ClientCall<Q, R> attempt;
  private ScheduledFuture<?> nextAttempt;
  private boolean isCancelled;

  RetriedCall(
      MethodDescriptor<Q, R> method, CallOptions options, Channel next, RetryPolicy policy, ScheduledExecutorService scheduler) {
    this.method = method;
    this.options = options;
    this.next = next;
    this.policy = policy;
    this.scheduler = scheduler;
  }

  @Override
  public void start(Listener<R> listener, Metadata headers) {
    this.listener = listener;
    this.headers = headers;
    attempts = policy.attempts(method, options, deadline());
  }

  @Override
  public synchronized void request(int count) {
    requested = (int) Math.min((long) requested + count, Integer.MAX_VALUE);
    if (attempt != null) {
      attempt.request(count);
    }
  }

  @Override
  public void sendMessage(Q message) {
    request = message;
  }

  @Override
  public void halfClose() {
    begin();
  }

  @Override
  public synchronized void cancel(String message, Throwable cause) {
    if (isCancelled) {
      return;
    }
    isCancelled = true;
    if (attempt != null) {
      attempt.cancel(message, cause);
      return;
    }
    if (nextAttempt != null) {
      nextAttempt.cancel(false);
    }
    if (listener != null) {
      close(Status.CANCELLED.withDescription(message).withCause(cause), new Metadata());
    }
  }

  @Override
  public synchronized boolean isReady() {
    return attempt == null || attempt.isReady();
  }

  /** The earlier deadline of the call and of its context; null if there is none. */
  private Deadline deadline() {
    Deadline own = options.getDeadline();
    Deadline outer = context.getDeadline();
    if (own == null || outer == null) {
      return own == null ? outer : own;
    }
    return own.minimum(outer);
  }

  private synchronized void begin() {
    if (isCancelled) {
      return;
    }
    Transmission transmission = new Transmission();
    attempt = next.newCall(method, options.withOption(Transmission.KEY, transmission));
    Metadata copy = new Metadata();
    copy.merge(headers);
    attempt.start(new AttemptListener(transmission), copy);
    attempt.request(requested);
    attempt.sendMessage(request);
    attempt.halfClose();
  }

  /** Schedules the next attempt. Returns whether there is one. */
  private synchronized boolean retry(AccelerdException problem, boolean isSent) {
    OptionalLong delay = isCancelled ? OptionalLong.empty() : attempts.delay(problem, isSent);
    if (delay.isEmpty()) {
      return false;
    }
    try {
      nextAttempt = scheduler.schedule(context.wrap(this::begin), delay.getAsLong(), TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException closed) {
      return false;
    }
    attempt = null;
    return true;
  }

  private void close(Status status, Metadata trailers) {
    Executor executor = options.getExecutor() == null ? Runnable::run : options.getExecutor();
    executor.execute(() -> listener.onClose(status, trailers));
  }

  /** Passes an attempt's events on from the first response, or from its final failure, on. */
  private final class AttemptListener extends Listener<R> {
    private final Transmission transmission;
    private Metadata initial;
    private boolean isCommitted;

    AttemptListener(Transmission transmission) {
      this.transmission = transmission;
    }

    @Override
    public void onHeaders(Metadata headers) {
      initial = headers;
    }

    @Override
    public void onMessage(R message) {
      commit();
      listener.onMessage(message);
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      boolean isFinal = status.isOk() || isCommitted;
      if (!isFinal && retry(AccelerdException.of(status, trailers), transmission.isSent())) {
        return;
      }
      commit();
      listener.onClose(status, trailers);
    }

    @Override
    public void onReady() {
      listener.onReady();
    }

    private void commit() {
      if (!isCommitted && initial != null) {
        listener.onHeaders(initial);
      }
      isCommitted = true;
    }
  }
}
