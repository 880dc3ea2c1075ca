package io.accelerd;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.LongSupplier;

/** Takes turns between connections, and skips for two seconds one that cannot be made, if there are others. */
final class BalancedChannel extends Channel {
  private static final long REST = 2_000_000_000L;
  /** gRPC for Java waits for 1 s after the first failure to connect, and for up to 2 min; a daemon that restarts is back earlier. */
  private static final long MIN_RECONNECT_INTERVAL = 200_000_000L;

  private final List<ManagedChannel> channels;
  private final LongSupplier nanoTime;
  private final AtomicInteger turns = new AtomicInteger();
  private final AtomicLongArray restsUntil;
  private final AtomicLongArray reconnectedAt;

  BalancedChannel(List<ManagedChannel> channels, LongSupplier nanoTime) {
    this.channels = List.copyOf(channels);
    this.nanoTime = nanoTime;
    restsUntil = new AtomicLongArray(channels.size());
    reconnectedAt = new AtomicLongArray(channels.size());
    long now = nanoTime.getAsLong();
    for (int turn = 0; turn < channels.size(); turn++) {
      restsUntil.set(turn, now);
      reconnectedAt.set(turn, now - MIN_RECONNECT_INTERVAL);
    }
  }

  @Override
  public <Q, R> ClientCall<Q, R> newCall(MethodDescriptor<Q, R> method, CallOptions options) {
    int turn = nextTurn();
    Transmission given = options.getOption(Transmission.KEY);
    Transmission transmission = given == null ? new Transmission() : given;
    ClientCall<Q, R> call = channels.get(turn).newCall(method, options.withStreamTracerFactory(transmission));
    return new SimpleForwardingClientCall<Q, R>(call) {
      @Override
      public void start(Listener<R> listener, Metadata headers) {
        super.start(new SimpleForwardingClientCallListener<R>(listener) {
          @Override
          public void onClose(Status status, Metadata trailers) {
            if (status.getCode() == Status.Code.UNAVAILABLE && !transmission.isSent()) {
              couldNotConnect(turn);
            }
            super.onClose(status, trailers);
          }
        }, headers);
      }
    };
  }

  @Override
  public String authority() {
    return channels.get(0).authority();
  }

  void shutdownNow() {
    channels.forEach(ManagedChannel::shutdownNow);
  }

  private int nextTurn() {
    long now = nanoTime.getAsLong();
    int turn = 0;
    for (int tried = 0; tried < channels.size(); tried++) {
      turn = Math.floorMod(turns.getAndIncrement(), channels.size());
      if (now - restsUntil.get(turn) >= 0) {
        break;
      }
    }
    return turn;
  }

  private void couldNotConnect(int turn) {
    long now = nanoTime.getAsLong();
    restsUntil.set(turn, now + REST);
    long last = reconnectedAt.get(turn);
    if (now - last >= MIN_RECONNECT_INTERVAL && reconnectedAt.compareAndSet(turn, last, now)) {
      channels.get(turn).resetConnectBackoff();
    }
  }
}
