package io.accelerd;

import io.github.accelerd.v1.EmbedRequest;
import io.github.accelerd.v1.EmbedServiceGrpc;
import io.github.accelerd.v1.EmbedStreamRequest;
import io.github.accelerd.v1.EmbedStreamResponse;
import io.github.accelerd.v1.ParseRequest;
import io.github.accelerd.v1.ParseServiceGrpc;
import io.github.accelerd.v1.ParseStreamRequest;
import io.github.accelerd.v1.ParseStreamResponse;
import io.grpc.Context;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** Streams of batches, whose results come in the order of completion. */
final class BatchStreams {
  private BatchStreams() {}

  static Stream<BatchResult<Embeddings>> embed(Caller caller, Iterator<EmbedRequest> batches) {
    Iterator<EmbedStreamRequest> requests = numbered(batches,
        (sequence, batch) -> EmbedStreamRequest.newBuilder().setSequence(sequence).setEmbed(batch).build());
    return stream(
        new ResumedStream<>(caller, EmbedServiceGrpc.getEmbedStreamMethod(), requests, EmbedStreamResponse::getSequence, false,
            Context.current().getDeadline()),
        response -> response.hasError()
            ? BatchResult.failed(response.getSequence(), AccelerdException.of(response.getError()))
            : BatchResult.of(response.getSequence(), Embeddings.of(response.getEmbed())));
  }

  static Stream<BatchResult<List<ParsedSource>>> parse(Caller caller, Iterator<ParseRequest> batches) {
    // A tree needs the text of its source.
    Map<Long, ParseRequest> sent = new ConcurrentHashMap<>();
    Iterator<ParseStreamRequest> requests = numbered(batches, (sequence, batch) -> {
      sent.put(sequence, batch);
      return ParseStreamRequest.newBuilder().setSequence(sequence).setParse(batch).build();
    });
    return stream(
        new ResumedStream<>(caller, ParseServiceGrpc.getParseStreamMethod(), requests, ParseStreamResponse::getSequence, false,
            Context.current().getDeadline()),
        response -> {
          ParseRequest batch = sent.remove(response.getSequence());
          return response.hasError()
              ? BatchResult.failed(response.getSequence(), AccelerdException.of(response.getError()))
              : BatchResult.of(response.getSequence(), ParsedSource.of(batch, response.getParse()));
        });
  }

  private interface Number<T, Q> {
    Q number(long sequence, T batch);
  }

  private static <T, Q> Iterator<Q> numbered(Iterator<T> batches, Number<T, Q> number) {
    return new Iterator<Q>() {
      private long sequence;

      @Override
      public boolean hasNext() {
        return batches.hasNext();
      }

      @Override
      public Q next() {
        return number.number(sequence++, batches.next());
      }
    };
  }

  private static <Q, R, T> Stream<T> stream(ResumedStream<Q, R> responses, Function<R, T> decode) {
    int characteristics = Spliterator.ORDERED | Spliterator.NONNULL;
    return StreamSupport.stream(Spliterators.spliteratorUnknownSize(responses, characteristics), false)
        .map(decode)
        .onClose(responses::close);
  }
}
