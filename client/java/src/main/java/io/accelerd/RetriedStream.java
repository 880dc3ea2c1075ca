package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import java.util.Iterator;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A stream of requests that is sent again, from the first on, until a response arrives. */
final class RetriedStream {
  private RetriedStream() {}

  /** Sends all requests. Passes each response on, and returns the last one. A deadline of null means none. */
  static <Q, R> R last(
      Caller caller, MethodDescriptor<Q, R> method, Iterable<Q> requests, Consumer<R> onResponse, Deadline deadline) {
    CallOptions options = CallOptions.DEFAULT.withDeadline(deadline);
    Attempts attempts = caller.transport.retries.attempts(method, options, deadline);
    while (true) {
      StreamCall<Q, R> call = new StreamCall<>(caller, method, options);
      R last = attempt(call, requests.iterator(), onResponse);
      AccelerdException problem = call.problem();
      if (problem == null && last != null) {
        return last;
      }
      if (problem == null) {
        throw AccelerdException.malformed("the stream ended without a response");
      }
      OptionalLong delay = last == null ? attempts.delay(problem, call.isSent()) : OptionalLong.empty();
      if (delay.isEmpty()) {
        throw problem;
      }
      sleep(delay.getAsLong());
    }
  }

  static void sleep(long nanos) {
    try {
      TimeUnit.NANOSECONDS.sleep(nanos);
    } catch (InterruptedException interrupted) {
      throw AccelerdException.interrupted(interrupted);
    }
  }

  /** Makes an attempt until its end. Returns its last response; null if there was none. */
  private static <Q, R> R attempt(StreamCall<Q, R> call, Iterator<Q> requests, Consumer<R> onResponse) {
    R last = null;
    call.start();
    try {
      while (true) {
        while (call.canSend() && requests.hasNext()) {
          call.send(requests.next());
        }
        if (!requests.hasNext()) {
          call.halfClose();
        }
        R response = call.poll();
        if (response != null) {
          last = response;
          onResponse.accept(response);
        } else if (call.hasEnded()) {
          return last;
        } else {
          call.await(requests.hasNext());
        }
      }
    } catch (RuntimeException failed) {
      call.cancel();
      throw failed;
    }
  }
}
