package accelerd

import (
	"context"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// SimilarOptions are those of a comparison of vectors. Nil and zero values mean the defaults.
type SimilarOptions struct {
	Metric Metric
	// Threshold leaves out rows that score worse.
	Threshold *float32
}

// Similar are the nearest rows of a corpus.
type Similar struct {
	// Indices has the k rows of each query, best first; -1 where fewer pass the threshold.
	Indices [][]int32
	// Scores are theirs; NaN where the index is -1.
	Scores [][]float32
}

// FindSimilar returns the k nearest rows of a corpus for each query. Both are tensors of float32 of two dimensions.
func (c *Client) FindSimilar(ctx context.Context, queries, corpus Tensor, k int, options *SimilarOptions) (*Similar, error) {
	if k < 0 {
		return nil, invalid("k", "expected at least 1, got %d", k)
	}
	request := &pb.FindSimilarRequest{Queries: queries.message(), Corpus: corpus.message(), K: uint32(k)}
	if options != nil {
		request.Metric = options.Metric
		request.ScoreThreshold = options.Threshold
	}
	response, err := c.similarity.FindSimilar(ctx, request)
	if err != nil {
		return nil, err
	}
	indices, err := receivedRows[int32]("indices", response.GetIndices())
	if err != nil {
		return nil, err
	}
	scores, err := receivedRows[float32]("scores", response.GetScores())
	return &Similar{indices, scores}, err
}

func receivedRows[T Element](what string, message *pb.Tensor) ([][]T, error) {
	tensor, err := received(what, message)
	if err != nil {
		return nil, err
	}
	rows, err := Rows[T](tensor)
	if err != nil {
		return nil, malformed("%s: %v", what, err)
	}
	return rows, nil
}

// ClusterOptions are those of k-means. Nil and zero values mean the defaults.
type ClusterOptions struct {
	MaxIterations int
	Tolerance     *float64
	// InitCount is the number of initialisations, of which the best result is returned.
	InitCount int
	// Spherical normalises rows and centers.
	Spherical bool
	Seed      uint64
}

// Clusters is the result of k-means.
type Clusters struct {
	// Centers has the shape [clusters, dimensions].
	Centers Tensor
	// Assignments has the cluster of each row.
	Assignments []int32
	// IDs has the id of each row, if the rows are those of a collection.
	IDs        []ID
	Inertia    float64
	Iterations int
	Converged  bool
}

func (o *ClusterOptions) request(count int) *pb.ClusterRequest {
	request := &pb.ClusterRequest{ClusterCount: uint32(count)}
	if o != nil {
		request.MaxIterations = uint32(o.MaxIterations)
		request.Tolerance = o.Tolerance
		request.InitCount = uint32(o.InitCount)
		request.Spherical = o.Spherical
		request.Seed = o.Seed
	}
	return request
}

// Cluster clusters the rows of a tensor of float32 by k-means.
func (c *Client) Cluster(ctx context.Context, vectors Tensor, count int, options *ClusterOptions) (*Clusters, error) {
	request := options.request(count)
	request.Input = &pb.ClusterRequest_Vectors{Vectors: vectors.message()}
	return c.clusters(ctx, request)
}

// Cluster clusters the points of the collection by k-means.
func (c *Collection) Cluster(ctx context.Context, count int, options *ClusterOptions) (*Clusters, error) {
	request := options.request(count)
	request.Input = &pb.ClusterRequest_Collection{Collection: c.name}
	return c.client.clusters(ctx, request)
}

func (c *Client) clusters(ctx context.Context, request *pb.ClusterRequest) (*Clusters, error) {
	response, err := c.similarity.Cluster(ctx, request)
	if err != nil {
		return nil, err
	}
	centers, err := received("centers", response.GetCenters())
	if err != nil {
		return nil, err
	}
	assignments, err := receivedValues[int32]("assignments", response.GetAssignments())
	if err != nil {
		return nil, err
	}
	return &Clusters{
		Centers:     centers,
		Assignments: assignments,
		IDs:         receivedIDs(response.GetIds()),
		Inertia:     response.GetInertia(),
		Iterations:  int(response.GetIterationCount()),
		Converged:   response.GetConverged(),
	}, nil
}
