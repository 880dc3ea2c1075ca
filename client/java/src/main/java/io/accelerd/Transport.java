package io.accelerd;

import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptors;
import io.grpc.Codec;
import io.grpc.DecompressorRegistry;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.ManagedChannelProvider.ProviderNotFoundException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** The connections of a client with its retries and token, which clients with other timeouts share. */
final class Transport implements AutoCloseable {
  private static final long KEEPALIVE_SECONDS = 20;
  private static final long KEEPALIVE_TIMEOUT_SECONDS = 10;

  final RetryPolicy retries;
  private final ScheduledExecutorService scheduler;
  private final BalancedChannel connections;
  private final Channel retried;
  private final String token;
  private final int maxMessageBytes;

  Transport(List<Target> targets, int connections, Tls tls, String token, int maxMessageBytes, int maxAttempts) {
    this.token = token;
    this.maxMessageBytes = maxMessageBytes;
    List<ManagedChannel> channels = new ArrayList<>();
    for (int turn = 0; turn < connections; turn++) {
      targets.forEach(target -> channels.add(open(target, tls)));
    }
    retries = new RetryPolicy(maxAttempts);
    scheduler = Executors.newSingleThreadScheduledExecutor(task -> {
      Thread thread = new Thread(task, "accelerd-retries");
      thread.setDaemon(true);
      return thread;
    });
    this.connections = new BalancedChannel(channels, retries.nanoTime);
    retried = ClientInterceptors.intercept(this.connections, new RetryInterceptor(retries, scheduler));
  }

  /** Returns a channel whose calls have this default timeout. */
  Channel channel(Duration timeout) {
    return ClientInterceptors.intercept(retried, new CallDefaults(timeout, token, maxMessageBytes));
  }

  int maxMessageBytes() {
    return maxMessageBytes;
  }

  @Override
  public void close() {
    retries.close();
    connections.shutdownNow();
    scheduler.shutdown();
  }

  private static ManagedChannel open(Target target, Tls tls) {
    ChannelCredentials credentials = tls == null ? InsecureChannelCredentials.create() : tls.credentials();
    ManagedChannelBuilder<?> builder = builder(target, credentials)
        // The daemon limits its responses.
        .maxInboundMessageSize(Integer.MAX_VALUE)
        // Bulk numbers compress slowly and hardly at all.
        .decompressorRegistry(DecompressorRegistry.emptyInstance().with(Codec.Identity.NONE, false))
        .keepAliveTime(KEEPALIVE_SECONDS, TimeUnit.SECONDS)
        .keepAliveTimeout(KEEPALIVE_TIMEOUT_SECONDS, TimeUnit.SECONDS)
        .disableServiceConfigLookUp()
        .disableRetry();
    if (target.isLocal) {
      // A proxy of the JVM's settings cannot reach this machine.
      builder.proxyDetector(address -> null);
    }
    if (target.isUnix) {
      // gRPC's default, the path of the socket, is no valid authority.
      builder.overrideAuthority("localhost");
    } else if (tls != null && tls.serverName() != null) {
      builder.overrideAuthority(tls.serverName());
    }
    return builder.build();
  }

  private static ManagedChannelBuilder<?> builder(Target target, ChannelCredentials credentials) {
    try {
      return Grpc.newChannelBuilder(target.address, credentials);
    } catch (ProviderNotFoundException missing) {
      String what = target.isUnix ? "Unix sockets need epoll, which grpc-netty-shaded has for Linux on x86_64 and aarch64" : "no transport";
      throw new IllegalArgumentException("target: " + target.address + ": " + what, missing);
    }
  }
}
