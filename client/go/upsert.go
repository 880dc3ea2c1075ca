package accelerd

import (
	"context"
	"fmt"
	"iter"
	"sync"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

const (
	// bulkBytes is the size of the messages of a bulk write. Larger ones are slower: the daemon processes a message once it is complete.
	bulkBytes = 2 << 20
	// maxTexts is the most texts of a message.
	maxTexts = 16_384
	// pointBytes and fieldBytes are the most that a point and a field of its payload take besides their data.
	pointBytes = 48
	fieldBytes = 24
)

// Points are points to write. They have Texts or Vectors, one for each id.
type Points struct {
	IDs IDs
	// Texts are embedded by the collection's model.
	Texts []string
	// Vectors is a tensor of float32 of shape [points, dimensions].
	Vectors *Tensor
	// Payloads are none, or one for each point.
	Payloads []Payload
	// PromptName and Prompt replace the collection's prompt for documents.
	PromptName string
	Prompt     *string
}

// Upserted are the numbers of points that a write inserted and replaced.
type Upserted struct {
	Inserted uint64
	Updated  uint64
}

func (p *Points) check() error {
	count := p.IDs.Len()
	switch {
	case len(p.IDs.Numbers) > 0 && len(p.IDs.UUIDs) > 0:
		return invalid("ids", "expected numbers or UUIDs, got both")
	case (p.Texts == nil) == (p.Vectors == nil):
		return invalid("points", "expected either texts or vectors")
	case p.Texts != nil && len(p.Texts) != count:
		return invalid("texts", "expected %d, one for each id, got %d", count, len(p.Texts))
	case p.Payloads != nil && len(p.Payloads) != count:
		return invalid("payloads", "expected %d, one for each id, got %d", count, len(p.Payloads))
	case p.Vectors == nil:
		return nil
	}
	if err := p.Vectors.check(); err != nil {
		return err
	}
	if len(p.Vectors.Shape) != 2 || p.Vectors.Shape[0] != count {
		return invalid("vectors", "expected the shape [%d, dimensions], one row for each id, got %v", count, p.Vectors.Shape)
	}
	return nil
}

// request returns the points from start to stop.
func (p *Points) request(collection string, start, stop int) (*pb.UpsertRequest, error) {
	request := &pb.UpsertRequest{
		Collection: collection,
		Ids:        p.IDs.part(start, stop).message(),
		PromptName: p.PromptName,
		Prompt:     p.Prompt,
	}
	if p.Vectors != nil {
		request.Points = &pb.UpsertRequest_Vectors{Vectors: p.Vectors.rows(start, stop).message()}
	} else {
		request.Points = &pb.UpsertRequest_Texts{Texts: &pb.TextInput{Values: p.Texts[start:stop]}}
	}
	if p.Payloads == nil {
		return request, nil
	}
	for at, payload := range p.Payloads[start:stop] {
		message, err := payload.message()
		if err != nil {
			return nil, invalid(fmt.Sprintf("payloads[%d]", start+at), "%v", err)
		}
		request.Payloads = append(request.Payloads, message)
	}
	return request, nil
}

// size returns about the bytes of a point in a message.
func (p *Points) size(at int) int {
	size := pointBytes
	if p.Vectors != nil {
		size += len(p.Vectors.Data) / p.Vectors.Shape[0]
	} else {
		size += len(p.Texts[at])
	}
	if p.Payloads == nil {
		return size
	}
	for name, value := range p.Payloads[at] {
		size += len(name) + fieldBytes
		if text, ok := value.(string); ok {
			size += len(text)
		}
	}
	return size
}

// parts returns where the messages of a write end.
func (p *Points) parts(limit int) []int {
	var ends []int
	start, held := 0, 0
	for at := range p.IDs.Len() {
		size := p.size(at)
		if at > start && (held+size > limit || (p.Texts != nil && at-start == maxTexts)) {
			ends = append(ends, at)
			start, held = at, 0
		}
		held += size
	}
	return append(ends, p.IDs.Len())
}

// Upsert inserts points, and replaces those whose ids exist. It is atomic if they fit into one message. More are written in parts, in
// order; parts that were written before a failure remain.
func (c *Collection) Upsert(ctx context.Context, points Points) (Upserted, error) {
	if err := points.check(); err != nil {
		return Upserted{}, err
	}
	if ends := points.parts(c.client.maxMessageBytes); len(ends) > 1 {
		return c.upsertParts(ctx, points)
	}
	request, err := points.request(c.name, 0, points.IDs.Len())
	if err != nil {
		return Upserted{}, err
	}
	response, err := c.client.similarity.Upsert(ctx, request)
	return Upserted{response.GetInsertedCount(), response.GetUpdatedCount()}, err
}

func (c *Collection) upsertParts(ctx context.Context, points Points) (Upserted, error) {
	ctx, cancel := c.client.conn.withDeadline(ctx)
	defer cancel()
	one := func(yield func(Points) bool) { yield(points) }
	var total Upserted
	for written, err := range c.UpsertMany(ctx, one) {
		if err != nil {
			return total, err
		}
		total.Inserted += written.Inserted
		total.Updated += written.Updated
	}
	return total, nil
}

// UpsertMany writes batches of points of any size over a stream, several at once. It returns the result of each batch, in order, and ends
// at the first error. If the daemon ends, batches without a result are sent to the next one.
//
// Batches are read in a goroutine, which may still read one when the stream ends. Their memory is shared until they have a result.
func (c *Collection) UpsertMany(ctx context.Context, batches iter.Seq[Points]) iter.Seq2[Upserted, error] {
	return func(yield func(Upserted, error) bool) {
		bulk := &bulkWrite{collection: c.name, limit: min(bulkBytes, c.client.maxMessageBytes)}
		open := pb.NewSimilarityServiceClient(c.client.connections).UpsertStream
		method := pb.SimilarityService_UpsertStream_FullMethodName
		for response, err := range resume(ctx, c.client, method, inSequence, open, bulk.messages(batches)) {
			if err == nil && response.GetError() != nil {
				err = fromItem(response.GetError())
			}
			if err != nil {
				yield(Upserted{}, err)
				return
			}
			for _, written := range bulk.onResponse(response) {
				if !yield(written, nil) {
					return
				}
			}
		}
		for _, written := range bulk.completed() {
			if !yield(written, nil) {
				return
			}
		}
	}
}

// batchWrite is a batch of a bulk write, which has one or more messages.
type batchWrite struct {
	written  Upserted
	sent     int
	isSent   bool
	answered int
}

// bulkWrite makes the messages of batches, and the results of batches from responses.
type bulkWrite struct {
	collection string
	limit      int

	mutex sync.Mutex
	next  uint64
	// batchOf has the batch of each message without a response.
	batchOf map[uint64]*batchWrite
	// batches are those without a result, in order.
	batches []*batchWrite
}

func (b *bulkWrite) messages(batches iter.Seq[Points]) iter.Seq[message[pb.UpsertStreamRequest]] {
	return func(yield func(message[pb.UpsertStreamRequest]) bool) {
		for points := range batches {
			if !b.send(&points, yield) {
				return
			}
		}
	}
}

// send makes the messages of a batch. It returns false at the end of the stream.
func (b *bulkWrite) send(points *Points, yield func(message[pb.UpsertStreamRequest]) bool) bool {
	err := points.check()
	if err == nil {
		err = points.IDs.duplicate()
	}
	if err != nil {
		yield(message[pb.UpsertStreamRequest]{err: err})
		return false
	}
	batch := b.begin(points.IDs.Len() == 0)
	if points.IDs.Len() == 0 {
		return true
	}
	start := 0
	ends := points.parts(b.limit)
	for at, stop := range ends {
		upsert, err := points.request(b.collection, start, stop)
		sequence := b.add(batch, at == len(ends)-1)
		next := message[pb.UpsertStreamRequest]{sequence: sequence, err: err}
		next.request = &pb.UpsertStreamRequest{Sequence: sequence, Upsert: upsert}
		if !yield(next) {
			return false
		}
		start = stop
	}
	return true
}

func (b *bulkWrite) begin(isEmpty bool) *batchWrite {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	batch := &batchWrite{isSent: isEmpty}
	b.batches = append(b.batches, batch)
	return batch
}

// add numbers a message of a batch.
func (b *bulkWrite) add(batch *batchWrite, isLast bool) uint64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	sequence := b.next
	b.next++
	if b.batchOf == nil {
		b.batchOf = map[uint64]*batchWrite{}
	}
	b.batchOf[sequence] = batch
	batch.sent++
	batch.isSent = isLast
	return sequence
}

// onResponse processes a response. It returns the results of the batches that are complete.
func (b *bulkWrite) onResponse(response *pb.UpsertStreamResponse) []Upserted {
	b.mutex.Lock()
	batch := b.batchOf[response.GetSequence()]
	delete(b.batchOf, response.GetSequence())
	batch.answered++
	batch.written.Inserted += response.GetUpsert().GetInsertedCount()
	batch.written.Updated += response.GetUpsert().GetUpdatedCount()
	b.mutex.Unlock()
	return b.completed()
}

// completed returns the results of the next batches that are complete.
func (b *bulkWrite) completed() []Upserted {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	var written []Upserted
	for len(b.batches) > 0 && b.batches[0].isSent && b.batches[0].answered == b.batches[0].sent {
		written = append(written, b.batches[0].written)
		b.batches = b.batches[1:]
	}
	return written
}
