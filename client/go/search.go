package accelerd

import (
	"context"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Query is a search. It has one of Texts, Vectors and IDs.
type Query struct {
	// Texts are embedded by the collection's model.
	Texts []string
	// Vectors is a tensor of float32 of shape [queries, dimensions].
	Vectors *Tensor
	// IDs are points of the collection.
	IDs *IDs

	// Limit is the maximum number of hits of each query; 0 means 10. Offset is the number of hits to skip.
	Limit  int
	Offset int
	// Threshold leaves out hits that score worse.
	Threshold *float32
	// Filter selects the points to search. Nil means all.
	Filter *Filter
	// WithoutPayload asks for no payloads.
	WithoutPayload bool

	// Hybrid combines full-text search with vector search, by a fusion that weighs words with TextWeight.
	Hybrid     bool
	Fusion     Fusion
	TextWeight *float32
	// PromptName and Prompt replace the collection's prompt for queries.
	PromptName string
	Prompt     *string
}

// Hit is a point that a search found.
type Hit struct {
	ID      ID
	Score   float32
	Payload Payload
}

func (q *Query) request(collection string) (*pb.SearchRequest, error) {
	request := &pb.SearchRequest{
		Collection:     collection,
		Limit:          uint32(q.Limit),
		Offset:         uint32(q.Offset),
		ScoreThreshold: q.Threshold,
		IncludePayload: !q.WithoutPayload,
		Hybrid:         q.Hybrid,
		Fusion:         q.Fusion,
		TextWeight:     q.TextWeight,
		PromptName:     q.PromptName,
		Prompt:         q.Prompt,
	}
	if q.Limit == 0 {
		request.Limit = 10
	}
	given := 0
	if q.Texts != nil {
		request.Query = &pb.SearchRequest_Texts{Texts: &pb.TextInput{Values: q.Texts}}
		given++
	}
	if q.Vectors != nil {
		request.Query = &pb.SearchRequest_Vectors{Vectors: q.Vectors.message()}
		given++
	}
	if q.IDs != nil {
		request.Query = &pb.SearchRequest_Ids{Ids: q.IDs.message()}
		given++
	}
	if given != 1 {
		return nil, invalid("query", "expected one of Texts, Vectors and IDs, got %d", given)
	}
	var err error
	request.Filter, err = q.Filter.message()
	return request, err
}

// Search returns the nearest points of each query, best first.
func (c *Collection) Search(ctx context.Context, query Query) ([][]Hit, error) {
	request, err := query.request(c.name)
	if err != nil {
		return nil, err
	}
	response, err := c.client.similarity.Search(ctx, request)
	if err != nil {
		return nil, err
	}
	found := make([][]Hit, len(response.GetResults()))
	for at, result := range response.GetResults() {
		for _, hit := range result.GetHits() {
			id := ID{Number: hit.GetNumber(), UUID: hit.GetUuid()}
			found[at] = append(found[at], Hit{ID: id, Score: hit.GetScore(), Payload: receivedPayload(hit.GetPayload())})
		}
	}
	return found, nil
}
