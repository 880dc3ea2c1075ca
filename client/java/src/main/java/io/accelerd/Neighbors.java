package io.accelerd;

import io.github.accelerd.v1.FindSimilarRequest;
import io.github.accelerd.v1.FindSimilarResponse;
import io.github.accelerd.v1.SimilarityServiceGrpc;
import java.util.function.Consumer;

/** The nearest rows of a corpus for each query, best first. */
public final class Neighbors {
  private final Tensor indices;
  private final Tensor scores;

  private Neighbors(FindSimilarResponse response) {
    indices = Tensor.of(response.getIndices());
    scores = Tensor.of(response.getScores());
  }

  static Operation<FindSimilarRequest, FindSimilarResponse, Neighbors> operation(
      Tensor queries, Tensor corpus, int k, Consumer<FindSimilarRequest.Builder> options) {
    FindSimilarRequest.Builder request =
        FindSimilarRequest.newBuilder().setQueries(queries.toMessage()).setCorpus(corpus.toMessage()).setK(k);
    options.accept(request);
    return new Operation<>(SimilarityServiceGrpc.getFindSimilarMethod(), request.build(), Neighbors::new);
  }

  /** i32 [queries, k], rows of the corpus; -1 where fewer than k rows pass the threshold. */
  public Tensor indices() {
    return indices;
  }

  /** f32 [queries, k]; NaN where the index is -1. */
  public Tensor scores() {
    return scores;
  }

  /** Copies the rows of a query. */
  public int[] indices(int query) {
    return indices.rows(query, query + 1).toInts();
  }

  /** Copies the scores of a query. */
  public float[] scores(int query) {
    return scores.rows(query, query + 1).toFloats();
  }
}
