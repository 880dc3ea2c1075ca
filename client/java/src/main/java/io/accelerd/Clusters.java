package io.accelerd;

import io.github.accelerd.v1.ClusterRequest;
import io.github.accelerd.v1.ClusterResponse;
import io.github.accelerd.v1.SimilarityServiceGrpc;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** The result of k-means. */
public final class Clusters {
  private final ClusterResponse response;
  private final Tensor centers;
  private final Tensor assignments;

  private Clusters(ClusterResponse response) {
    this.response = response;
    centers = Tensor.of(response.getCenters());
    assignments = Tensor.of(response.getAssignments());
  }

  static Operation<ClusterRequest, ClusterResponse, Clusters> operation(
      ClusterRequest.Builder rows, int count, Consumer<ClusterRequest.Builder> options) {
    rows.setClusterCount(count);
    options.accept(rows);
    return new Operation<>(SimilarityServiceGrpc.getClusterMethod(), rows.build(), Clusters::new);
  }

  /** f32 [clusters, dimensions]. */
  public Tensor centers() {
    return centers;
  }

  /** Copies the cluster of each row. */
  public int[] assignments() {
    return assignments.toInts();
  }

  /** The ids of the rows, if they are those of a collection: {@code Long} or {@code UUID}. */
  public List<Object> ids() {
    return new ArrayList<>(Ids.decode(response.getIds()));
  }

  /** The sum of squared distances of the rows to their centers. */
  public double inertia() {
    return response.getInertia();
  }

  /** The iterations of the best initialisation. */
  public int iterationCount() {
    return response.getIterationCount();
  }

  /** Whether the tolerance was reached. */
  public boolean converged() {
    return response.getConverged();
  }
}
