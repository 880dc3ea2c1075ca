package io.accelerd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.accelerd.v1.Dtype;
import io.github.accelerd.v1.EmbedResponse;
import io.github.accelerd.v1.EmbedServiceGrpc;
import io.github.accelerd.v1.EmbedStreamRequest;
import io.github.accelerd.v1.EmbedStreamResponse;
import io.github.accelerd.v1.ItemError;
import io.github.accelerd.v1.ResidentTensor;
import io.github.accelerd.v1.SimilarityServiceGrpc;
import io.github.accelerd.v1.TensorServiceGrpc;
import io.github.accelerd.v1.UploadTensorRequest;
import io.github.accelerd.v1.UploadTensorResponse;
import io.github.accelerd.v1.UpsertResponse;
import io.github.accelerd.v1.UpsertStreamRequest;
import io.github.accelerd.v1.UpsertStreamResponse;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Streams of requests, against scripted daemons. */
@Timeout(60)
class StreamsTest {
  private static final StreamObserver<UploadTensorRequest> IGNORING = observer(request -> { }, () -> { });

  /** Writes batches, and breaks each of the first streams after some answers. */
  private static final class Writer extends SimilarityServiceGrpc.SimilarityServiceImplBase {
    final Map<Long, Long> points = new ConcurrentHashMap<>();
    final List<Long> sequences = new CopyOnWriteArrayList<>();
    final AtomicInteger streams = new AtomicInteger();
    final int breaks;

    Writer(int breaks) {
      this.breaks = breaks;
    }

    @Override
    public StreamObserver<UpsertStreamRequest> upsertStream(StreamObserver<UpsertStreamResponse> responses) {
      boolean isBroken = streams.getAndIncrement() < breaks;
      AtomicInteger answers = new AtomicInteger();
      return observer(request -> {
        if (isBroken && answers.get() == 2) {
          if (answers.incrementAndGet() == 3) {
            responses.onError(Daemon.failure(Status.Code.UNAVAILABLE, null, "DRAINING"));
          }
          return;
        }
        if (answers.get() > 2 && isBroken) {
          return;
        }
        answers.incrementAndGet();
        sequences.add(request.getSequence());
        List<Object> ids = Ids.decode(request.getUpsert().getIds());
        long inserted = ids.stream().filter(id -> points.put((Long) id, request.getSequence()) == null).count();
        UpsertResponse result = UpsertResponse.newBuilder().setInsertedCount(inserted).setUpdatedCount(ids.size() - inserted).build();
        responses.onNext(UpsertStreamResponse.newBuilder().setSequence(request.getSequence()).setUpsert(result).build());
      }, responses::onCompleted);
    }
  }

  @Test
  void aBulkWriteGoesOnAfterStreamsThatBreak() throws IOException {
    Writer writer = new Writer(3);
    try (Daemon daemon = new Daemon(writer); AccelerdClient client = daemon.client().build()) {
      List<Long> progress = new ArrayList<>();
      UpsertResult result = client.collection("c").upsertAll(
          batches(40, 3).iterator(), written -> progress.add(written.insertedCount() + written.updatedCount()));
      assertEquals(LongStream.rangeClosed(1, 40).mapToObj(batch -> 3 * batch).collect(Collectors.toList()), progress);
      assertEquals(120, result.insertedCount() + result.updatedCount());
      assertEquals(120, writer.points.size());
      assertEquals(4, writer.streams.get());
      assertEquals(IntStream.range(0, 40).mapToObj(Long::valueOf).collect(Collectors.toList()), writer.sequences);
    }
  }

  @Test
  void batchesAreSplitIntoMessagesInOrder() throws IOException {
    Writer writer = new Writer(0);
    try (Daemon daemon = new Daemon(writer); AccelerdClient client = daemon.client().maxMessageBytes(2000).build()) {
      assertEquals(1000, client.collection("c").upsertAll(List.of(points(0, 999), points(999, 0), points(999, 1))).insertedCount());
      // The vectors of 166 points fit into a message, but not with their ids: 11 messages have half of them, and one the other 86 points.
      assertEquals(13, writer.sequences.size());
      assertEquals(Long.valueOf(12), writer.points.get(999L));
    }
  }

  @Test
  void severalMessagesAreInFlight() throws IOException {
    CountDownLatch received = new CountDownLatch(8);
    SimilarityServiceGrpc.SimilarityServiceImplBase service = new SimilarityServiceGrpc.SimilarityServiceImplBase() {
      @Override
      public StreamObserver<UpsertStreamRequest> upsertStream(StreamObserver<UpsertStreamResponse> responses) {
        List<Long> sequences = new ArrayList<>();
        return observer(request -> {
          sequences.add(request.getSequence());
          received.countDown();
        }, () -> {
          sequences.forEach(sequence -> responses.onNext(answer(sequence)));
          responses.onCompleted();
        });
      }
    };
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      client.collection("c").upsertAll(batches(8, 1));
      assertEquals(0, received.getCount());
    }
  }

  @Test
  void theErrorOfABatchEndsABulkWrite() throws IOException {
    SimilarityServiceGrpc.SimilarityServiceImplBase service = new SimilarityServiceGrpc.SimilarityServiceImplBase() {
      @Override
      public StreamObserver<UpsertStreamRequest> upsertStream(StreamObserver<UpsertStreamResponse> responses) {
        return observer(request -> responses.onNext(UpsertStreamResponse.newBuilder().setSequence(request.getSequence())
            .setError(ItemError.newBuilder().setCode(3).setMessage("duplicate id 1")).build()), responses::onCompleted);
      }
    };
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      AccelerdException failed =
          assertThrows(AccelerdException.class, () -> client.collection("c").upsertAll(batches(5, 1)));
      assertEquals("INVALID_ARGUMENT: duplicate id 1", failed.getMessage());
    }
  }

  @Test
  void anErrorOfTheInputEndsTheCall() throws IOException, InterruptedException {
    CountDownLatch ended = new CountDownLatch(1);
    SimilarityServiceGrpc.SimilarityServiceImplBase service = new SimilarityServiceGrpc.SimilarityServiceImplBase() {
      @Override
      public StreamObserver<UpsertStreamRequest> upsertStream(StreamObserver<UpsertStreamResponse> responses) {
        return observer(request -> { }, ended::countDown, ended::countDown);
      }
    };
    Iterator<Points> broken = Stream.of(1, 0).map(divisor -> points(0, 1 / divisor)).iterator();
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      assertThrows(ArithmeticException.class, () -> client.collection("c").upsertAll(broken, progress -> { }));
      assertTrue(ended.await(30, TimeUnit.SECONDS));
    }
  }

  @Test
  void aStreamWithoutItsAnswersIsMalformed() throws IOException {
    SimilarityServiceGrpc.SimilarityServiceImplBase service = new SimilarityServiceGrpc.SimilarityServiceImplBase() {
      @Override
      public StreamObserver<UpsertStreamRequest> upsertStream(StreamObserver<UpsertStreamResponse> responses) {
        return observer(request -> { }, responses::onCompleted);
      }
    };
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      AccelerdException failed =
          assertThrows(AccelerdException.class, () -> client.collection("c").upsertAll(batches(1, 1)));
      assertTrue(failed.getMessage().contains("ended before its last request was answered"), failed::getMessage);
    }
  }

  @Test
  void batchesWithoutAResultAreSentAgainInAnyOrder() throws IOException {
    AtomicInteger streams = new AtomicInteger();
    List<Long> received = new CopyOnWriteArrayList<>();
    EmbedServiceGrpc.EmbedServiceImplBase service = new EmbedServiceGrpc.EmbedServiceImplBase() {
      @Override
      public StreamObserver<EmbedStreamRequest> embedStream(StreamObserver<EmbedStreamResponse> responses) {
        boolean isFirst = streams.getAndIncrement() == 0;
        List<EmbedStreamRequest> requests = new ArrayList<>();
        return observer(request -> {
          received.add(request.getSequence());
          requests.add(request);
          if (isFirst && requests.size() == 4) {
            responses.onNext(embedded(requests.get(3)));
            responses.onNext(embedded(requests.get(1)));
            responses.onError(Status.UNAVAILABLE.asRuntimeException());
          }
        }, () -> {
          if (!isFirst) {
            Collections.reverse(requests);
            requests.forEach(request -> responses.onNext(embedded(request)));
            responses.onCompleted();
          }
        });
      }
    };
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build();
        Stream<BatchResult<Embeddings>> results =
            client.embedStream(Stream.of("a", "b", "c", "d").map(List::of), options -> options.setModel("m"))) {
      Map<Long, String> models = new TreeMap<>();
      results.forEach(result -> assertEquals(null, models.put(result.index(), result.get().model())));
      assertEquals(Map.of(0L, "m:a", 1L, "m:b", 2L, "m:c", 3L, "m:d"), models);
      assertEquals(List.of(0L, 1L, 2L, 3L, 0L, 2L), received);
    }
  }

  @Test
  void resultsDoNotWaitForTheNextBatch() throws IOException, InterruptedException {
    EmbedServiceGrpc.EmbedServiceImplBase service = new EmbedServiceGrpc.EmbedServiceImplBase() {
      @Override
      public StreamObserver<EmbedStreamRequest> embedStream(StreamObserver<EmbedStreamResponse> responses) {
        return observer(request -> responses.onNext(embedded(request)), responses::onCompleted);
      }
    };
    BlockingQueue<List<String>> batches = new LinkedBlockingQueue<>();
    CountDownLatch interrupted = new CountDownLatch(1);
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      try (Stream<BatchResult<Embeddings>> results =
          client.embedStream(Stream.generate(() -> take(batches, interrupted)), options -> options.setModel("m"))) {
        Iterator<BatchResult<Embeddings>> iterator = results.iterator();
        for (String text : List.of("a", "b", "c")) {
          batches.put(List.of(text));
          assertEquals("m:" + text, iterator.next().get().model());
        }
      }
      assertTrue(interrupted.await(30, TimeUnit.SECONDS));
    }
  }

  @Test
  void closingAStreamEndsTheCall() throws IOException, InterruptedException {
    CountDownLatch cancelled = new CountDownLatch(1);
    EmbedServiceGrpc.EmbedServiceImplBase service = new EmbedServiceGrpc.EmbedServiceImplBase() {
      @Override
      public StreamObserver<EmbedStreamRequest> embedStream(StreamObserver<EmbedStreamResponse> responses) {
        return observer(request -> responses.onNext(embedded(request)), () -> { }, cancelled::countDown);
      }
    };
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      try (Stream<BatchResult<Embeddings>> results =
          client.embedStream(Stream.generate(() -> List.of("a")), options -> options.setModel("m"))) {
        assertEquals("m:a", results.iterator().next().get().model());
      }
      assertTrue(cancelled.await(30, TimeUnit.SECONDS));
    }
  }

  @Test
  void anUploadIsSentAgainFromTheFirstChunk() throws IOException {
    AtomicInteger attempts = new AtomicInteger();
    List<Integer> sizes = new CopyOnWriteArrayList<>();
    TensorServiceGrpc.TensorServiceImplBase service = new TensorServiceGrpc.TensorServiceImplBase() {
      @Override
      public StreamObserver<UploadTensorRequest> uploadTensor(StreamObserver<UploadTensorResponse> responses) {
        if (attempts.getAndIncrement() == 0) {
          responses.onError(Daemon.failure(Status.Code.UNAVAILABLE, Duration.ofMillis(1), ""));
          return IGNORING;
        }
        return observer(request -> {
          assertEquals(sizes.isEmpty(), request.hasHeader());
          sizes.add(request.getData().size());
        }, () -> {
          ResidentTensor tensor = ResidentTensor.newBuilder().setHandle("h").setDtype(Dtype.DTYPE_F32).build();
          responses.onNext(UploadTensorResponse.newBuilder().setTensor(tensor).build());
          responses.onCompleted();
        });
      }
    };
    try (Daemon daemon = new Daemon(service); AccelerdClient client = daemon.client().build()) {
      assertEquals("h", client.upload(Tensor.of(new float[(1 << 18) + 1]), options -> { }).getHandle());
      assertEquals(List.of(1 << 20, 4), sizes);
      assertEquals(2, attempts.get());
    }
  }

  @Test
  void aTargetThatCannotBeReachedEndsAStreamAtTheLimit() throws IOException {
    int port = Daemon.unusedPort();
    try (AccelerdClient client = AccelerdClient.builder("127.0.0.1:" + port).maxAttempts(2).build()) {
      AccelerdException failed =
          assertThrows(AccelerdException.class, () -> client.collection("c").upsertAll(batches(1, 1)));
      assertEquals(Status.Code.UNAVAILABLE, failed.code());
      assertFalse(failed.getMessage().isEmpty());
    }
  }

  private static List<String> take(BlockingQueue<List<String>> batches, CountDownLatch interrupted) {
    try {
      return batches.take();
    } catch (InterruptedException closed) {
      interrupted.countDown();
      throw new IllegalStateException(closed);
    }
  }

  private static List<Points> batches(int count, int size) {
    return IntStream.range(0, count).mapToObj(batch -> points(batch * size, size)).collect(Collectors.toList());
  }

  private static Points points(int first, int count) {
    long[] ids = IntStream.range(first, first + count).asLongStream().toArray();
    return Points.builder().ids(ids).vectors(Tensor.of(new float[3 * count], count, 3)).build();
  }

  private static UpsertStreamResponse answer(long sequence) {
    return UpsertStreamResponse.newBuilder().setSequence(sequence).setUpsert(UpsertResponse.getDefaultInstance()).build();
  }

  private static EmbedStreamResponse embedded(EmbedStreamRequest request) {
    io.github.accelerd.v1.Tensor vectors = Tensor.of(new float[1][2]).toMessage();
    String model = request.getEmbed().getModel() + ":" + request.getEmbed().getTexts().getValues(0);
    return EmbedStreamResponse.newBuilder().setSequence(request.getSequence())
        .setEmbed(EmbedResponse.newBuilder().setEmbeddings(vectors).setModel(model)).build();
  }

  private static <T> StreamObserver<T> observer(Consumer<T> onNext, Runnable onCompleted) {
    return observer(onNext, onCompleted, () -> { });
  }

  private static <T> StreamObserver<T> observer(Consumer<T> onNext, Runnable onCompleted, Runnable onError) {
    return new StreamObserver<T>() {
      @Override
      public void onNext(T request) {
        onNext.accept(request);
      }

      @Override
      public void onError(Throwable cancelled) {
        onError.run();
      }

      @Override
      public void onCompleted() {
        onCompleted.run();
      }
    };
  }
}
