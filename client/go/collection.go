package accelerd

import (
	"context"
	"iter"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Collection is a named collection of points.
type Collection struct {
	client *Client
	name   string
}

// CollectionOptions are those of a new collection.
type CollectionOptions struct {
	// Dimensions are those of its vectors. 0 means the model's.
	Dimensions int
	Metric     Metric
	// Storage is the element type of the copy that a GPU scans: F32, F16, BF16 or I8.
	Storage Dtype
	// Model embeds its texts. Empty for vectors only.
	Model string
	// TextField is the payload field to index for full-text search. Empty for none.
	TextField  string
	Durability Durability
	// The prompts for the texts of points and of queries are texts, or names of prompts of the model.
	DocumentPromptName string
	DocumentPrompt     *string
	QueryPromptName    string
	QueryPrompt        *string
}

// Collection returns the collection of a name, whether it exists or not.
func (c *Client) Collection(name string) *Collection {
	return &Collection{client: c, name: name}
}

// CreateCollection creates an empty collection.
func (c *Client) CreateCollection(ctx context.Context, name string, options *CollectionOptions) (*Collection, error) {
	request := &pb.CreateCollectionRequest{Name: name}
	if options != nil {
		request.Dimensions = uint32(options.Dimensions)
		request.Metric = options.Metric
		request.Storage = options.Storage
		request.Model = options.Model
		request.TextField = options.TextField
		request.Durability = options.Durability
		// Daemons of earlier versions know only this field.
		request.Durable = options.Durability == DurabilityLog
		request.DocumentPromptName = options.DocumentPromptName
		request.DocumentPrompt = options.DocumentPrompt
		request.QueryPromptName = options.QueryPromptName
		request.QueryPrompt = options.QueryPrompt
	}
	if _, err := c.similarity.CreateCollection(ctx, request); err != nil {
		return nil, err
	}
	return c.Collection(name), nil
}

// Collections describes all collections.
func (c *Client) Collections(ctx context.Context) ([]*CollectionInfo, error) {
	response, err := c.similarity.ListCollections(ctx, &pb.ListCollectionsRequest{})
	return response.GetCollections(), err
}

// RestoreCollection creates a collection from a snapshot. An empty name means that of the snapshot's collection.
func (c *Client) RestoreCollection(ctx context.Context, url, name string) (*Collection, error) {
	response, err := c.similarity.RestoreCollection(ctx, &pb.RestoreCollectionRequest{Url: url, Name: name})
	if err != nil {
		return nil, err
	}
	return c.Collection(response.GetCollection().GetName()), nil
}

// Name returns the name of the collection.
func (c *Collection) Name() string {
	return c.name
}

// Describe describes the collection.
func (c *Collection) Describe(ctx context.Context) (*CollectionInfo, error) {
	response, err := c.client.similarity.GetCollection(ctx, &pb.GetCollectionRequest{Name: c.name})
	return response.GetCollection(), err
}

// Delete deletes the collection, its log and its local snapshots.
func (c *Collection) Delete(ctx context.Context) error {
	_, err := c.client.similarity.DeleteCollection(ctx, &pb.DeleteCollectionRequest{Name: c.name})
	return err
}

// Count returns the number of points that match a filter. Nil means all.
func (c *Collection) Count(ctx context.Context, filter *Filter) (uint64, error) {
	selected, err := filter.message()
	if err != nil {
		return 0, err
	}
	response, err := c.client.similarity.CountPoints(ctx, &pb.CountPointsRequest{Collection: c.name, Filter: selected})
	return response.GetPointCount(), err
}

// DeletePoints deletes the points that match a filter, which may not be empty. It returns their number.
func (c *Collection) DeletePoints(ctx context.Context, filter *Filter) (uint64, error) {
	selected, err := filter.message()
	if err != nil {
		return 0, err
	}
	if selected == nil {
		return 0, invalid("filter", "expected ids or conditions, got none")
	}
	response, err := c.client.similarity.DeletePoints(ctx, &pb.DeletePointsRequest{Collection: c.name, Filter: selected})
	return response.GetDeletedCount(), err
}

// Snapshot writes a snapshot. An empty URL means the daemon's data folder.
func (c *Collection) Snapshot(ctx context.Context, url string) (*Snapshot, error) {
	response, err := c.client.similarity.CreateSnapshot(ctx, &pb.CreateSnapshotRequest{Collection: c.name, Url: url})
	return response.GetSnapshot(), err
}

// Point is a stored point.
type Point struct {
	ID      ID
	Payload Payload
	// Vector is nil unless vectors were requested.
	Vector []float32
}

// Get returns points by id, and their vectors if requested. Unknown ids are left out.
func (c *Collection) Get(ctx context.Context, ids IDs, withVectors bool) ([]Point, error) {
	request := &pb.GetPointsRequest{Collection: c.name, Ids: ids.message(), IncludeVectors: withVectors}
	response, err := c.client.similarity.GetPoints(ctx, request)
	if err != nil {
		return nil, err
	}
	return points(response.GetIds(), response.GetPayloads(), response.GetVectors())
}

// ScrollOptions are those of a scroll.
type ScrollOptions struct {
	// Filter selects points. Nil means all.
	Filter *Filter
	// PageSize is the number of points of a call, at most 16,384. 0 means 1,000.
	PageSize int
	// WithVectors asks for vectors, and WithoutPayload for no payloads.
	WithVectors    bool
	WithoutPayload bool
}

// Scroll returns all points in ascending order of their ids. It makes a call for each page.
func (c *Collection) Scroll(ctx context.Context, options *ScrollOptions) iter.Seq2[Point, error] {
	return func(yield func(Point, error) bool) {
		if options == nil {
			options = &ScrollOptions{}
		}
		selected, err := options.Filter.message()
		request := &pb.ScrollPointsRequest{
			Collection:     c.name,
			Filter:         selected,
			Limit:          uint32(options.PageSize),
			IncludePayload: !options.WithoutPayload,
			IncludeVectors: options.WithVectors,
		}
		for isFirst := true; err == nil && (isFirst || len(request.Cursor) > 0); isFirst = false {
			var page []Point
			page, request.Cursor, err = c.page(ctx, request)
			for _, point := range page {
				if !yield(point, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Point{}, err)
		}
	}
}

// page returns the points of a page, and the cursor of the next one.
func (c *Collection) page(ctx context.Context, request *pb.ScrollPointsRequest) ([]Point, []byte, error) {
	response, err := c.client.similarity.ScrollPoints(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	page, err := points(response.GetIds(), response.GetPayloads(), response.GetVectors())
	return page, response.GetNextCursor(), err
}

func points(ids *pb.PointIds, payloads []*pb.Payload, vectors *pb.Tensor) ([]Point, error) {
	var rows [][]float32
	if vectors != nil {
		tensor, err := received("vectors", vectors)
		if err != nil {
			return nil, err
		}
		if rows, err = Rows[float32](tensor); err != nil {
			return nil, malformed("vectors: %v", err)
		}
	}
	listed := receivedIDs(ids)
	if (payloads != nil && len(payloads) != len(listed)) || (vectors != nil && len(rows) != len(listed)) {
		return nil, malformed("%d ids, %d payloads and %d vectors", len(listed), len(payloads), len(rows))
	}
	found := make([]Point, len(listed))
	for at, id := range listed {
		found[at].ID = id
		if payloads != nil {
			found[at].Payload = receivedPayload(payloads[at])
		}
		if rows != nil {
			found[at].Vector = rows[at]
		}
	}
	return found, nil
}
