package io.accelerd;

import io.github.accelerd.v1.ClusterRequest;
import io.github.accelerd.v1.Collection;
import io.github.accelerd.v1.CountPointsRequest;
import io.github.accelerd.v1.CountPointsResponse;
import io.github.accelerd.v1.DeleteCollectionRequest;
import io.github.accelerd.v1.DeletePointsRequest;
import io.github.accelerd.v1.DeletePointsResponse;
import io.github.accelerd.v1.Filter;
import io.github.accelerd.v1.GetCollectionRequest;
import io.github.accelerd.v1.GetCollectionResponse;
import io.github.accelerd.v1.GetPointsRequest;
import io.github.accelerd.v1.Payload;
import io.github.accelerd.v1.PointIds;
import io.github.accelerd.v1.ScrollPointsRequest;
import io.github.accelerd.v1.ScrollPointsResponse;
import io.github.accelerd.v1.SearchRequest;
import io.github.accelerd.v1.SearchResponse;
import io.github.accelerd.v1.SimilarityServiceGrpc;
import io.github.accelerd.v1.UpsertRequest;
import io.github.accelerd.v1.UpsertResponse;
import io.grpc.Context;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A collection, which need not exist: calls fail with NOT_FOUND if it does not. */
public final class CollectionClient {
  private final Caller caller;
  private final String name;

  CollectionClient(Caller caller, String name) {
    this.caller = caller;
    this.name = name;
  }

  /** The name of the collection. */
  public String name() {
    return name;
  }

  /** Returns the collection's configuration and size. */
  public Collection describe() {
    GetCollectionRequest request = GetCollectionRequest.newBuilder().setName(name).build();
    return caller.run(new Operation<>(SimilarityServiceGrpc.getGetCollectionMethod(), request, GetCollectionResponse::getCollection));
  }

  /** Deletes the collection, its log and its local snapshots. */
  public void delete() {
    DeleteCollectionRequest request = DeleteCollectionRequest.newBuilder().setName(name).build();
    caller.run(new Operation<>(SimilarityServiceGrpc.getDeleteCollectionMethod(), request, response -> response));
  }

  /** Inserts points, and replaces those whose ids exist, atomically. */
  public UpsertResult upsert(Points points) {
    return caller.run(upsertOperation(points));
  }

  /** As {@link #upsert(Points)}. */
  public CompletableFuture<UpsertResult> upsertAsync(Points points) {
    return caller.start(upsertOperation(points));
  }

  /**
   * Writes batches of points of any size over one stream, with several messages in flight. Each batch is split into messages of a few
   * MiB, each of which is atomic. The batches are read on a thread of their own, as the daemon takes them.
   *
   * <p>After a lost connection, or the drain of a daemon, messages are sent again from the first without a response on. There is no
   * deadline, except that of the current {@code io.grpc.Context}. What was written before a failure remains: {@code progress} gets
   * the total after each message.
   */
  public UpsertResult upsertAll(Iterator<Points> batches, Consumer<UpsertResult> progress) {
    return BulkUpsert.run(caller, name, batches, progress, Context.current().getDeadline());
  }

  /** As {@link #upsertAll(Iterator, Consumer)}. */
  public UpsertResult upsertAll(Iterable<Points> batches) {
    return upsertAll(batches.iterator(), progress -> { });
  }

  /** Returns the points nearest to each text, best first, with their payloads. */
  public List<List<SearchHit>> search(List<String> texts, int limit) {
    return search(texts, limit, options -> { });
  }

  /** As {@link #search(List, int)}, with a filter and other fields of the request. */
  public List<List<SearchHit>> search(List<String> texts, int limit, Consumer<SearchRequest.Builder> options) {
    return caller.run(searchOperation(textQueries(texts), limit, options));
  }

  /** As {@link #search(List, int, Consumer)}. */
  public CompletableFuture<List<List<SearchHit>>> searchAsync(List<String> texts, int limit, Consumer<SearchRequest.Builder> options) {
    return caller.start(searchOperation(textQueries(texts), limit, options));
  }

  /** Returns the points nearest to each vector of f32 [queries, dimensions], best first, with their payloads. */
  public List<List<SearchHit>> search(Tensor vectors, int limit) {
    return search(vectors, limit, options -> { });
  }

  /** As {@link #search(Tensor, int)}, with a filter and other fields of the request. */
  public List<List<SearchHit>> search(Tensor vectors, int limit, Consumer<SearchRequest.Builder> options) {
    return caller.run(searchOperation(SearchRequest.newBuilder().setVectors(vectors.toMessage()), limit, options));
  }

  /** As {@link #search(Tensor, int, Consumer)}. */
  public CompletableFuture<List<List<SearchHit>>> searchAsync(Tensor vectors, int limit, Consumer<SearchRequest.Builder> options) {
    return caller.start(searchOperation(SearchRequest.newBuilder().setVectors(vectors.toMessage()), limit, options));
  }

  /** Returns the points nearest to stored points, each of which is among its own results. */
  public List<List<SearchHit>> searchByIds(long[] ids, int limit, Consumer<SearchRequest.Builder> options) {
    return caller.run(searchOperation(SearchRequest.newBuilder().setIds(Ids.numbers(ids, 0, ids.length)), limit, options));
  }

  /** Returns the points that exist of these ids. */
  public List<StoredPoint> get(long[] ids, Consumer<GetPointsRequest.Builder> options) {
    GetPointsRequest.Builder request = GetPointsRequest.newBuilder().setCollection(name).setIds(Ids.numbers(ids, 0, ids.length));
    options.accept(request);
    return caller.run(new Operation<>(SimilarityServiceGrpc.getGetPointsMethod(), request.build(),
        response -> points(response.getIds(), response.getPayloadsList(), response.getVectors())));
  }

  /** Returns all points, or those that match the request's filter, in ascending order of id, page by page as they are read. */
  public Stream<StoredPoint> scroll(Consumer<ScrollPointsRequest.Builder> options) {
    ScrollPointsRequest.Builder request = ScrollPointsRequest.newBuilder().setCollection(name).setIncludePayload(true);
    options.accept(request);
    return Stream.iterate(page(request), page -> page != null, page ->
            page.getNextCursor().isEmpty() ? null : page(request.setCursor(page.getNextCursor())))
        .flatMap(page -> points(page.getIds(), page.getPayloadsList(), page.getVectors()).stream());
  }

  /** Counts all points. */
  public long count() {
    return count(Filter.getDefaultInstance());
  }

  /** Counts the points that match a filter. */
  public long count(Filter filter) {
    return caller.run(countOperation(filter));
  }

  /** As {@link #count(Filter)}. */
  public CompletableFuture<Long> countAsync(Filter filter) {
    return caller.start(countOperation(filter));
  }

  /** Deletes the points that match a filter. Returns how many. */
  public long deletePoints(Filter filter) {
    DeletePointsRequest request = DeletePointsRequest.newBuilder().setCollection(name).setFilter(filter).build();
    return caller.run(
        new Operation<>(SimilarityServiceGrpc.getDeletePointsMethod(), request, DeletePointsResponse::getDeletedCount));
  }

  /** Clusters all points by k-means. */
  public Clusters cluster(int count, Consumer<ClusterRequest.Builder> options) {
    return caller.run(Clusters.operation(ClusterRequest.newBuilder().setCollection(name), count, options));
  }

  @Override
  public String toString() {
    return "CollectionClient(" + name + ")";
  }

  private Operation<UpsertRequest, UpsertResponse, UpsertResult> upsertOperation(Points points) {
    return new Operation<>(SimilarityServiceGrpc.getUpsertMethod(), points.request(name, 0, points.size()),
        response -> new UpsertResult(response.getInsertedCount(), response.getUpdatedCount()));
  }

  private static SearchRequest.Builder textQueries(List<String> texts) {
    return SearchRequest.newBuilder().setTexts(Texts.input("texts", texts));
  }

  private Operation<SearchRequest, SearchResponse, List<List<SearchHit>>> searchOperation(
      SearchRequest.Builder queries, int limit, Consumer<SearchRequest.Builder> options) {
    queries.setCollection(name).setLimit(limit).setIncludePayload(true);
    options.accept(queries);
    return new Operation<>(SimilarityServiceGrpc.getSearchMethod(), queries.build(), CollectionClient::hits);
  }

  private Operation<CountPointsRequest, CountPointsResponse, Long> countOperation(Filter filter) {
    CountPointsRequest request = CountPointsRequest.newBuilder().setCollection(name).setFilter(filter).build();
    return new Operation<>(SimilarityServiceGrpc.getCountPointsMethod(), request, CountPointsResponse::getPointCount);
  }

  private ScrollPointsResponse page(ScrollPointsRequest.Builder request) {
    return caller.run(new Operation<>(SimilarityServiceGrpc.getScrollPointsMethod(), request.build(), response -> response));
  }

  private static List<List<SearchHit>> hits(SearchResponse response) {
    return response.getResultsList().stream()
        .map(result -> result.getHitsList().stream().map(SearchHit::new).collect(Collectors.toUnmodifiableList()))
        .collect(Collectors.toUnmodifiableList());
  }

  private static List<StoredPoint> points(PointIds ids, List<Payload> payloads, io.github.accelerd.v1.Tensor vectors) {
    List<Object> decoded = Ids.decode(ids);
    Tensor rows = vectors.getShapeCount() == 0 ? null : Tensor.of(vectors);
    List<StoredPoint> points = new ArrayList<>(decoded.size());
    for (int index = 0; index < decoded.size(); index++) {
      Map<String, Object> payload = payloads.isEmpty() ? Map.of() : Values.decode(payloads.get(index));
      points.add(new StoredPoint(decoded.get(index), payload, rows == null ? null : rows.rows(index, index + 1).toFloats()));
    }
    return points;
  }
}
