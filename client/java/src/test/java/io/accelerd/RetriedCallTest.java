package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.accelerd.v1.DeviceServiceGrpc;
import io.github.accelerd.v1.GetStatsRequest;
import io.github.accelerd.v1.GetStatsResponse;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A retried call whose attempts the tests begin and answer. */
class RetriedCallTest {
  private final List<Attempt> attempts = new ArrayList<>();
  private final List<String> events = new ArrayList<>();
  private Runnable next;
  /** Keeps the next attempt, for the test to begin it. */
  private final ScheduledThreadPoolExecutor scheduler = new ScheduledThreadPoolExecutor(1) {
    @Override
    public ScheduledFuture<?> schedule(Runnable attempt, long delay, TimeUnit unit) {
      next = attempt;
      return super.schedule(attempt, 1, TimeUnit.HOURS);
    }
  };
  private final RetriedCall<GetStatsRequest, GetStatsResponse> call = new RetriedCall<>(DeviceServiceGrpc.getGetStatsMethod(),
      CallOptions.DEFAULT, new Script(), new RetryPolicy(Integer.MAX_VALUE, () -> 0, () -> 0.5), scheduler);

  private final class Attempt extends ClientCall<GetStatsRequest, GetStatsResponse> {
    Listener<GetStatsResponse> listener;
    Metadata headers;
    int requested;
    GetStatsRequest request;
    boolean isCancelled;

    @Override
    public void start(Listener<GetStatsResponse> listener, Metadata headers) {
      this.listener = listener;
      this.headers = headers;
    }

    @Override
    public void request(int count) {
      requested += count;
    }

    @Override
    public void cancel(String message, Throwable cause) {
      isCancelled = true;
    }

    @Override
    public void halfClose() {}

    @Override
    public void sendMessage(GetStatsRequest message) {
      request = message;
    }
  }

  private final class Script extends Channel {
    @Override
    @SuppressWarnings("unchecked")
    public <Q, R> ClientCall<Q, R> newCall(MethodDescriptor<Q, R> method, CallOptions options) {
      attempts.add(new Attempt());
      return (ClientCall<Q, R>) attempts.get(attempts.size() - 1);
    }

    @Override
    public String authority() {
      return "script";
    }
  }

  private void start() {
    call.start(new ClientCall.Listener<GetStatsResponse>() {
      @Override
      public void onHeaders(Metadata headers) {
        events.add("headers");
      }

      @Override
      public void onMessage(GetStatsResponse message) {
        events.add(message.getVersion());
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        events.add(status.getCode().name());
      }
    }, new Metadata());
    call.request(2);
    call.sendMessage(GetStatsRequest.getDefaultInstance());
    call.halfClose();
  }

  @AfterEach
  void close() {
    scheduler.shutdownNow();
  }

  @Test
  void anAttemptHasTheRequestAndItsOwnCopyOfTheHeaders() {
    start();
    Attempt first = attempts.get(0);
    first.listener.onHeaders(new Metadata());
    call.request(3);
    first.listener.onClose(Status.UNAVAILABLE, new Metadata());
    assertEquals(List.of(), events);
    next.run();
    Attempt second = attempts.get(1);
    assertEquals(5, second.requested);
    assertEquals(GetStatsRequest.getDefaultInstance(), second.request);
    assertNotSame(first.headers, second.headers);
    second.listener.onHeaders(new Metadata());
    second.listener.onMessage(GetStatsResponse.newBuilder().setVersion("v").build());
    second.listener.onClose(Status.UNAVAILABLE, new Metadata());
    assertEquals(List.of("headers", "v", "UNAVAILABLE"), events);
  }

  @Test
  void cancellingEndsTheWaitForTheNextAttempt() {
    start();
    attempts.get(0).listener.onClose(Status.UNAVAILABLE, new Metadata());
    call.cancel("enough", null);
    assertEquals(List.of("CANCELLED"), events);
    call.cancel("again", null);
    next.run();
    assertEquals(1, attempts.size());
    assertEquals(List.of("CANCELLED"), events);
  }

  @Test
  void aCancelledAttemptIsNotRepeated() {
    start();
    call.cancel("enough", null);
    assertTrue(attempts.get(0).isCancelled);
    attempts.get(0).listener.onClose(Status.UNAVAILABLE, new Metadata());
    assertEquals(List.of("UNAVAILABLE"), events);
  }

  @Test
  void aFinalErrorIsPassedOn() {
    start();
    attempts.get(0).listener.onClose(Status.INVALID_ARGUMENT, new Metadata());
    assertEquals(List.of("INVALID_ARGUMENT"), events);
    assertEquals(1, attempts.size());
  }

  @Test
  void aClosedClientEndsACall() {
    start();
    scheduler.shutdownNow();
    attempts.get(0).listener.onClose(Status.UNAVAILABLE, new Metadata());
    assertEquals(List.of("UNAVAILABLE"), events);
  }
}
