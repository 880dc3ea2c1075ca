package io.accelerd;

import io.github.accelerd.v1.SimilarityServiceGrpc;
import io.github.accelerd.v1.UpsertStreamRequest;
import io.github.accelerd.v1.UpsertStreamResponse;
import io.grpc.Deadline;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Consumer;

/** Splits batches of points into the messages of a stream, and adds up what they wrote. */
final class BulkUpsert {
  /** Larger messages are slower: a message is copied before it is sent, and the daemon processes it only when it is complete. */
  private static final int MESSAGE_BYTES = 2 << 20;
  /** The daemon's default limit of texts in a request. */
  private static final int MAX_POINTS = 16_384;

  private BulkUpsert() {}

  static UpsertResult run(
      Caller caller, String collection, Iterator<Points> batches, Consumer<UpsertResult> progress, Deadline deadline) {
    UpsertResult result = new UpsertResult(0, 0);
    try (ResumedStream<UpsertStreamRequest, UpsertStreamResponse> responses = new ResumedStream<>(
        caller, SimilarityServiceGrpc.getUpsertStreamMethod(), new Messages(caller, collection, batches),
        UpsertStreamResponse::getSequence, true, deadline)) {
      while (responses.hasNext()) {
        UpsertStreamResponse response = responses.next();
        if (response.hasError()) {
          throw AccelerdException.of(response.getError());
        }
        result = result.plus(response.getUpsert().getInsertedCount(), response.getUpsert().getUpdatedCount());
        progress.accept(result);
      }
    }
    return result;
  }

  private static final class Messages implements Iterator<UpsertStreamRequest> {
    private final int maxBytes;
    private final String collection;
    private final Iterator<Points> batches;
    private Points batch;
    private int next;
    private long sequence;

    Messages(Caller caller, String collection, Iterator<Points> batches) {
      maxBytes = caller.transport.maxMessageBytes();
      this.collection = collection;
      this.batches = batches;
    }

    @Override
    public boolean hasNext() {
      while ((batch == null || next == batch.size()) && batches.hasNext()) {
        batch = batches.next();
        next = 0;
      }
      return batch != null && next < batch.size();
    }

    @Override
    public UpsertStreamRequest next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      int end = batch.end(next, Math.min(MESSAGE_BYTES, maxBytes), MAX_POINTS);
      UpsertStreamRequest message = message(end);
      // Payloads may be larger than vectors and texts.
      while (message.getSerializedSize() > maxBytes && end - next > 1) {
        end = next + (end - next) / 2;
        message = message(end);
      }
      next = end;
      sequence++;
      return message;
    }

    private UpsertStreamRequest message(int end) {
      return UpsertStreamRequest.newBuilder().setSequence(sequence).setUpsert(batch.request(collection, next, end)).build();
    }
  }
}
