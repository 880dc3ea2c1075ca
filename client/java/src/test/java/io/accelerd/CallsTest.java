package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.accelerd.v1.CreateCollectionRequest;
import io.github.accelerd.v1.CreateCollectionResponse;
import io.github.accelerd.v1.DeviceServiceGrpc;
import io.github.accelerd.v1.EmbedRequest;
import io.github.accelerd.v1.EmbedResponse;
import io.github.accelerd.v1.EmbedServiceGrpc;
import io.github.accelerd.v1.GetStatsRequest;
import io.github.accelerd.v1.GetStatsResponse;
import io.github.accelerd.v1.ListModelsRequest;
import io.github.accelerd.v1.ListModelsResponse;
import io.github.accelerd.v1.SimilarityServiceGrpc;
import io.github.accelerd.v1.WatchRequest;
import io.github.accelerd.v1.WatchResponse;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Calls with one request, against scripted daemons. */
@Timeout(60)
class CallsTest {
  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<String> TIMEOUT = Metadata.Key.of("grpc-timeout", Metadata.ASCII_STRING_MARSHALLER);

  /** Fails the first attempts with an error. */
  private static final class Failing extends SimilarityServiceGrpc.SimilarityServiceImplBase {
    private final AtomicInteger attempts = new AtomicInteger();
    private final int failures;
    private final RuntimeException problem;

    Failing(int failures, RuntimeException problem) {
      this.failures = failures;
      this.problem = problem;
    }

    @Override
    public void createCollection(CreateCollectionRequest request, StreamObserver<CreateCollectionResponse> responses) {
      if (attempts.getAndIncrement() < failures) {
        responses.onError(problem);
        return;
      }
      responses.onNext(CreateCollectionResponse.getDefaultInstance());
      responses.onCompleted();
    }
  }

  private static final class Models extends EmbedServiceGrpc.EmbedServiceImplBase {
    final AtomicInteger attempts = new AtomicInteger();
    final int failures;

    Models(int failures) {
      this.failures = failures;
    }

    @Override
    public void listModels(ListModelsRequest request, StreamObserver<ListModelsResponse> responses) {
      if (attempts.getAndIncrement() < failures) {
        responses.onError(Status.UNAVAILABLE.asRuntimeException());
        return;
      }
      responses.onNext(ListModelsResponse.getDefaultInstance());
      responses.onCompleted();
    }
  }

  /** Never answers. */
  private static final class Silent extends EmbedServiceGrpc.EmbedServiceImplBase {
    final CountDownLatch called = new CountDownLatch(1);
    final CountDownLatch cancelled = new CountDownLatch(1);

    @Override
    public void embed(EmbedRequest request, StreamObserver<EmbedResponse> responses) {
      ((ServerCallStreamObserver<EmbedResponse>) responses).setOnCancelHandler(cancelled::countDown);
      called.countDown();
    }
  }

  @Test
  void anIdempotentCallIsRetriedWithTheTokenAndTheSameDeadline() throws IOException {
    Models models = new Models(3);
    try (Daemon daemon = new Daemon(models); AccelerdClient client = daemon.client().token("secret").build()) {
      assertEquals(List.of(), client.models());
      assertEquals(4, models.attempts.get());
      for (Metadata call : daemon.calls) {
        assertEquals(List.of("Bearer secret"), list(call));
        assertNotNull(call.get(TIMEOUT));
      }
    }
  }

  @Test
  void generatedStubsHaveTokenDeadlineAndRetries() throws IOException {
    Models models = new Models(2);
    try (Daemon daemon = new Daemon(models); AccelerdClient client = daemon.client().token("secret").build()) {
      EmbedServiceGrpc.newBlockingStub(client.channel()).listModels(ListModelsRequest.getDefaultInstance());
      assertEquals(3, models.attempts.get());
      assertEquals("Bearer secret", daemon.calls.get(2).get(AUTHORIZATION));
      assertNotNull(daemon.calls.get(2).get(TIMEOUT));
    }
  }

  @Test
  void aCallThatIsNotIdempotentIsNotRepeatedOnceItWasSent() throws IOException {
    Failing service = new Failing(1, Status.UNAVAILABLE.asRuntimeException());
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      AccelerdException failed = assertThrows(AccelerdException.class, () -> client.createCollection("c", options -> { }));
      assertEquals(Status.Code.UNAVAILABLE, failed.code());
      assertEquals(1, service.attempts.get());
    }
  }

  @Test
  void aCallThatIsNotIdempotentIsRepeatedIfTheDaemonSaysWhen() throws IOException {
    Failing service = new Failing(1, Daemon.failure(Status.Code.UNAVAILABLE, Duration.ofMillis(1), "DRAINING"));
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      client.createCollection("c", options -> { });
      assertEquals(2, service.attempts.get());
    }
  }

  @Test
  void aCallThatWasNotSentIsRepeatedUntilTheDaemonIsThere() throws Exception {
    int port = Daemon.unusedPort();
    Failing service = new Failing(0, null);
    try (AccelerdClient client = AccelerdClient.builder("127.0.0.1:" + port).build()) {
      CompletableFuture<CollectionClient> created =
          CompletableFuture.supplyAsync(() -> client.createCollection("c", options -> { }));
      assertThrows(AccelerdException.class, () -> client.withTimeout(Duration.ofMillis(300)).models());
      assertFalse(created.isDone());
      try (Daemon daemon = new Daemon(port, service)) {
        created.get(30, TimeUnit.SECONDS);
        assertEquals(1, daemon.calls.size());
      }
    }
  }

  @Test
  void otherDaemonsTakeTheCallsOfOneThatCannotBeReached() throws IOException {
    int port = Daemon.unusedPort();
    Models models = new Models(0);
    try (Daemon daemon = new Daemon(models);
        AccelerdClient client = AccelerdClient.builder("127.0.0.1:" + port + ", 127.0.0.1:" + daemon.port()).build()) {
      for (int call = 0; call < 20; call++) {
        client.models();
      }
      assertEquals(20, models.attempts.get());
    }
  }

  @Test
  void theErrorOfADaemonThatCannotBeReachedSaysWhy() throws IOException {
    int port = Daemon.unusedPort();
    try (AccelerdClient client = AccelerdClient.builder("127.0.0.1:" + port).maxAttempts(1).build()) {
      AccelerdException failed = assertThrows(AccelerdException.class, client::models);
      assertEquals(Status.Code.UNAVAILABLE, failed.code());
      assertTrue(failed.getMessage().contains("Connection refused"), failed::getMessage);
    }
  }

  @Test
  void aDeadlineEndsACallAndItsRetries() throws IOException {
    try (Daemon daemon = new Daemon(new Silent(), new Failing(Integer.MAX_VALUE, null));
        AccelerdClient client = daemon.client().timeout(Duration.ofMillis(200)).build()) {
      AccelerdException failed = assertThrows(AccelerdException.class, () -> client.embed(List.of("x")));
      assertEquals(Status.Code.DEADLINE_EXCEEDED, failed.code());
    }
    Models models = new Models(Integer.MAX_VALUE);
    try (Daemon daemon = new Daemon(models); AccelerdClient client = daemon.client().build()) {
      AccelerdException failed =
          assertThrows(AccelerdException.class, () -> client.withTimeout(Duration.ofMillis(200)).models());
      assertTrue(failed.code() == Status.Code.UNAVAILABLE || failed.code() == Status.Code.DEADLINE_EXCEEDED, failed::getMessage);
    }
  }

  @Test
  void aClientWithoutTimeoutSendsNoDeadline() throws IOException {
    try (Daemon daemon = new Daemon(new Models(0)); AccelerdClient client = daemon.client().build()) {
      client.withTimeout(AccelerdClient.NO_TIMEOUT).models();
      assertNull(daemon.calls.get(0).get(TIMEOUT));
    }
  }

  @Test
  void cancellingAFutureCancelsTheCall() throws Exception {
    Silent silent = new Silent();
    try (Daemon daemon = new Daemon(silent); AccelerdClient client = daemon.client().build()) {
      CompletableFuture<Embeddings> future = client.embedAsync(List.of("x"), options -> { });
      silent.called.await();
      future.cancel(true);
      assertTrue(silent.cancelled.await(30, TimeUnit.SECONDS));
    }
  }

  @Test
  void closingTheClientEndsItsCalls() throws Exception {
    Silent silent = new Silent();
    try (Daemon daemon = new Daemon(silent)) {
      AccelerdClient client = daemon.client().build();
      CompletableFuture<Embeddings> future = client.embedAsync(List.of("x"), options -> { });
      silent.called.await();
      client.close();
      CompletionException failed = assertThrows(CompletionException.class, future::join);
      assertEquals(Status.Code.UNAVAILABLE, AccelerdException.of(failed).code());
      assertThrows(AccelerdException.class, client::models);
    }
  }

  @Test
  void anOverlongRequestIsRefusedWithItsSize() throws IOException {
    try (Daemon daemon = new Daemon(new Silent()); AccelerdClient client = daemon.client().maxMessageBytes(100).build()) {
      AccelerdException failed = assertThrows(AccelerdException.class, () -> client.embed(List.of("x".repeat(200))));
      assertEquals("RESOURCE_EXHAUSTED: the request has 206 bytes, expected at most 100", failed.getMessage());
    }
  }

  @Test
  void aTextWithoutEncodingIsRefused() throws IOException {
    try (Daemon daemon = new Daemon(); AccelerdClient client = daemon.client().build()) {
      IllegalArgumentException wrong =
          assertThrows(IllegalArgumentException.class, () -> client.embed(List.of("a", "\ud800")));
      assertEquals("texts[1]: a lone surrogate has no encoding", wrong.getMessage());
    }
  }

  @Test
  void aStreamOfResponsesIsRetriedUntilItsFirst() throws IOException {
    AtomicInteger attempts = new AtomicInteger();
    DeviceServiceGrpc.DeviceServiceImplBase service = new DeviceServiceGrpc.DeviceServiceImplBase() {
      @Override
      public void watch(WatchRequest request, StreamObserver<WatchResponse> responses) {
        if (attempts.getAndIncrement() > 0) {
          GetStatsResponse stats = GetStatsResponse.newBuilder().setVersion("v" + request.getInterval().getSeconds()).build();
          responses.onNext(WatchResponse.newBuilder().setStats(stats).build());
        }
        responses.onError(Status.UNAVAILABLE.asRuntimeException());
      }

      @Override
      public void getStats(GetStatsRequest request, StreamObserver<GetStatsResponse> responses) {
        responses.onError(Daemon.invalid("limit", ""));
      }
    };
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build();
        Stream<GetStatsResponse> responses = client.watch(Duration.ofSeconds(3))) {
      Iterator<GetStatsResponse> iterator = responses.iterator();
      assertEquals("v3", iterator.next().getVersion());
      assertThrows(AccelerdException.class, iterator::hasNext);
      assertEquals(2, attempts.get());
      assertNull(daemon.calls.get(0).get(TIMEOUT));
      assertEquals("limit", assertThrows(AccelerdException.class, client::stats).field());
    }
  }

  @Test
  void aUnixSocketIsATarget(@TempDir Path folder) throws IOException {
    EpollEventLoopGroup group = new EpollEventLoopGroup(1);
    Path socket = folder.resolve("socket");
    Server server = NettyServerBuilder.forAddress(new DomainSocketAddress(socket.toFile()))
        .channelType(EpollServerDomainSocketChannel.class)
        .bossEventLoopGroup(group)
        .workerEventLoopGroup(group)
        .addService(new Models(0))
        .build()
        .start();
    try {
      for (String target : List.of("unix:" + socket, "unix://" + socket)) {
        try (AccelerdClient client = AccelerdClient.builder(target).token("secret").build()) {
          assertEquals(List.of(), client.models());
          assertEquals("localhost", client.channel().authority());
        }
      }
    } finally {
      server.shutdownNow();
      group.shutdownGracefully(0, 0, TimeUnit.SECONDS);
    }
  }

  private static List<String> list(Metadata call) {
    Iterable<String> values = call.getAll(AUTHORIZATION);
    return StreamSupport.stream(values.spliterator(), false).collect(Collectors.toList());
  }
}
