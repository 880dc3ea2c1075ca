package accelerd

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// fakeDaemon answers calls, after those that it fails.
type fakeDaemon struct {
	pb.UnimplementedEmbedServiceServer
	pb.UnimplementedSimilarityServiceServer
	pb.UnimplementedTensorServiceServer

	mutex sync.Mutex
	// failures are those of the next calls; nil is an answer.
	failures []error
	calls    []string
	metadata metadata.MD
	deadline time.Duration
	// received are the sequences of the messages of each stream.
	received [][]uint64
	// answers is the number of messages that each stream answers before it fails; all without an entry.
	answers []int
	// isReversed has streams answer the last message first.
	isReversed bool
}

// begin counts a call. It returns the failure of the call.
func (d *fakeDaemon) begin(ctx context.Context, call string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.calls = append(d.calls, call)
	d.metadata, _ = metadata.FromIncomingContext(ctx)
	if deadline, has := ctx.Deadline(); has {
		d.deadline = time.Until(deadline)
	}
	if len(d.failures) == 0 {
		return nil
	}
	failure := d.failures[0]
	d.failures = d.failures[1:]
	return failure
}

func (d *fakeDaemon) ListModels(ctx context.Context, _ *pb.ListModelsRequest) (*pb.ListModelsResponse, error) {
	return &pb.ListModelsResponse{Models: []*pb.Model{{Name: "builtin"}}}, d.begin(ctx, "ListModels")
}

func (d *fakeDaemon) DeleteCollection(ctx context.Context, _ *pb.DeleteCollectionRequest) (*pb.DeleteCollectionResponse, error) {
	return &pb.DeleteCollectionResponse{}, d.begin(ctx, "DeleteCollection")
}

func (d *fakeDaemon) UploadTensor(stream grpc.ClientStreamingServer[pb.UploadTensorRequest, pb.UploadTensorResponse]) error {
	size := 0
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		size += len(request.GetData())
	}
	if err := d.begin(stream.Context(), "UploadTensor"); err != nil {
		return err
	}
	return stream.SendAndClose(&pb.UploadTensorResponse{Tensor: &pb.ResidentTensor{SizeBytes: uint64(size)}})
}

func (d *fakeDaemon) UpsertStream(stream grpc.BidiStreamingServer[pb.UpsertStreamRequest, pb.UpsertStreamResponse]) error {
	return serveStream(d, stream, func(request *pb.UpsertStreamRequest) *pb.UpsertStreamResponse {
		written := &pb.UpsertResponse{InsertedCount: uint64(len(request.GetUpsert().GetIds().GetPackedNumbers()) / 8)}
		return &pb.UpsertStreamResponse{Sequence: request.GetSequence(), Result: &pb.UpsertStreamResponse_Upsert{Upsert: written}}
	})
}

func (d *fakeDaemon) EmbedStream(stream grpc.BidiStreamingServer[pb.EmbedStreamRequest, pb.EmbedStreamResponse]) error {
	return serveStream(d, stream, func(request *pb.EmbedStreamRequest) *pb.EmbedStreamResponse {
		if request.GetEmbed().GetTexts().GetValues()[0] == "fail" {
			failed := &pb.ItemError{Code: int32(codes.NotFound), Message: "absent"}
			return &pb.EmbedStreamResponse{Sequence: request.GetSequence(), Result: &pb.EmbedStreamResponse_Error{Error: failed}}
		}
		vectors := &pb.EmbedResponse{Embeddings: Vector([]float32{1}).message()}
		return &pb.EmbedStreamResponse{Sequence: request.GetSequence(), Result: &pb.EmbedStreamResponse_Embed{Embed: vectors}}
	})
}

// serveStream answers as many messages as the daemon is told, and then fails.
func serveStream[Req interface{ GetSequence() uint64 }, Res any, Stream interface {
	Recv() (Req, error)
	Send(*Res) error
	Context() context.Context
}](d *fakeDaemon, stream Stream, answer func(Req) *Res) error {
	if err := d.begin(stream.Context(), "stream"); err != nil {
		return err
	}
	d.mutex.Lock()
	number := len(d.received)
	d.received = append(d.received, nil)
	limit := -1
	if number < len(d.answers) {
		limit = d.answers[number]
	}
	d.mutex.Unlock()
	var requests []Req
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		d.mutex.Lock()
		d.received[number] = append(d.received[number], request.GetSequence())
		d.mutex.Unlock()
		requests = append(requests, request)
	}
	if d.isReversed {
		slices.Reverse(requests)
	}
	for at, request := range requests {
		if at == limit {
			return status.Error(codes.Unavailable, "draining")
		}
		if err := stream.Send(answer(request)); err != nil {
			return err
		}
	}
	return nil
}

// serve starts a daemon, and returns a client whose backoffs take no time.
func serve(t *testing.T, daemon *fakeDaemon, options ...Option) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen(t, listener, daemon)
	client, err := New(listener.Addr().String(), options...)
	if err != nil {
		t.Fatal(err)
	}
	client.conn.policy.random = func() float64 { return 0 }
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

var errUnavailable = status.Error(codes.Unavailable, "no healthy upstream")

func TestACallIsRetriedUntilItSucceeds(t *testing.T) {
	busy := statusError(t, codes.ResourceExhausted, "full", &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	daemon := &fakeDaemon{failures: []error{errUnavailable, busy, errUnavailable}}
	models, err := serve(t, daemon).Models(t.Context())
	if err != nil || len(models) != 1 || len(daemon.calls) != 4 {
		t.Errorf("%v, %v, calls %v", models, err, daemon.calls)
	}
}

func TestACallThatIsNotIdempotentIsMadeOnce(t *testing.T) {
	daemon := &fakeDaemon{failures: []error{errUnavailable}}
	err := serve(t, daemon).Collection("code").Delete(t.Context())
	if status.Code(err) != codes.Unavailable || len(daemon.calls) != 1 {
		t.Errorf("%v, calls %v", err, daemon.calls)
	}
	var found *Error
	if !errors.As(err, &found) || found.isUnsent {
		t.Errorf("%+v", found)
	}
}

func TestACallThatWasNotSentIsRepeated(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := New(address, WithMaxAttempts(3))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	retries := 0
	client.conn.policy.random = func() float64 {
		retries++
		return 0
	}
	err = client.Collection("code").Delete(t.Context())
	var found *Error
	if !errors.As(err, &found) || found.Code != codes.Unavailable || !found.isUnsent || retries != 2 {
		t.Errorf("%v after %d retries", err, retries)
	}
	if !strings.HasSuffix(err.Error(), "; is the daemon running at "+address+"? `accelerd serve` starts it") {
		t.Errorf("no hint: %v", err)
	}
}

func TestStubsOfTheConnectionHaveTokenDeadlineAndRetries(t *testing.T) {
	daemon := &fakeDaemon{failures: []error{errUnavailable}}
	client := serve(t, daemon, WithToken("secret"), WithTimeout(30*time.Second))
	stub := pb.NewEmbedServiceClient(client.Conn())
	if _, err := stub.ListModels(t.Context(), &pb.ListModelsRequest{}); err != nil {
		t.Fatal(err)
	}
	if token := daemon.metadata.Get("authorization"); !slices.Equal(token, []string{"Bearer secret"}) {
		t.Errorf("token %v", token)
	}
	if daemon.deadline <= 0 || daemon.deadline > 30*time.Second {
		t.Errorf("deadline in %v", daemon.deadline)
	}
	if encoding := daemon.metadata.Get("grpc-accept-encoding"); len(encoding) > 0 {
		t.Errorf("compressed responses are accepted: %v", encoding)
	}
	if len(daemon.calls) != 2 {
		t.Errorf("calls %v", daemon.calls)
	}
}

func TestACallWithoutTimeIsNotMade(t *testing.T) {
	daemon := &fakeDaemon{}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	client := serve(t, daemon)
	if _, err := client.Models(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := client.Upload(ctx, Scalar(1.0), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream: %v", err)
	}
	if len(daemon.calls) != 0 {
		t.Errorf("calls %v", daemon.calls)
	}
}

func TestAStreamIsRepeatedUntilItsFirstResponse(t *testing.T) {
	hint := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)}
	daemon := &fakeDaemon{failures: []error{statusError(t, codes.Unavailable, "draining", hint)}}
	values := make([]float32, 1<<20)
	tensor, err := serve(t, daemon).Upload(t.Context(), Vector(values), nil)
	if err != nil || tensor.GetSizeBytes() != 4<<20 || len(daemon.calls) != 2 {
		t.Errorf("%v, %v, calls %v", tensor, err, daemon.calls)
	}
}

// batches are points with these numbers of ids.
func batches(counts ...int) func(func(Points) bool) {
	return func(yield func(Points) bool) {
		first := uint64(0)
		for _, count := range counts {
			points := Points{Texts: make([]string, count)}
			for range count {
				points.IDs.Numbers = append(points.IDs.Numbers, first)
				first++
			}
			if !yield(points) {
				return
			}
		}
	}
}

func TestABulkWriteGoesOnWithTheFirstMessageWithoutAnAnswer(t *testing.T) {
	daemon := &fakeDaemon{answers: []int{2, 0, 1}}
	var inserted []uint64
	for written, err := range serve(t, daemon).Collection("code").UpsertMany(t.Context(), batches(3, 0, 5, 1, 2)) {
		if err != nil {
			t.Fatal(err)
		}
		inserted = append(inserted, written.Inserted)
	}
	if !slices.Equal(inserted, []uint64{3, 0, 5, 1, 2}) {
		t.Errorf("inserted %v", inserted)
	}
	expected := [][]uint64{{0, 1, 2, 3}, {2, 3}, {2, 3}, {3}}
	if !slices.EqualFunc(daemon.received, expected, slices.Equal) {
		t.Errorf("received %v", daemon.received)
	}
}

func TestOrderedMessagesAreSentAgainFromTheFirstWithoutAnAnswer(t *testing.T) {
	daemon := &fakeDaemon{answers: []int{2}, isReversed: true}
	total := uint64(0)
	for written, err := range serve(t, daemon).Collection("code").UpsertMany(t.Context(), batches(1, 1, 1)) {
		if err != nil {
			t.Fatal(err)
		}
		total += written.Inserted
	}
	if total != 3 || !slices.EqualFunc(daemon.received, [][]uint64{{0, 1, 2}, {0, 1, 2}}, slices.Equal) {
		t.Errorf("inserted %d, received %v", total, daemon.received)
	}
}

func TestUnorderedMessagesWithoutAnAnswerAreSentAgain(t *testing.T) {
	daemon := &fakeDaemon{answers: []int{2}, isReversed: true}
	var sequences []int
	texts := slices.Values([][]string{{"a"}, {"fail"}, {"b"}})
	for outcome, err := range serve(t, daemon).EmbedStream(t.Context(), texts, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if isFailed := outcome.Err != nil; isFailed != (outcome.Sequence == 1) || isFailed == (outcome.Embeddings != nil) {
			t.Errorf("%+v", outcome)
		}
		sequences = append(sequences, outcome.Sequence)
	}
	if !slices.Equal(sequences, []int{2, 1, 0}) || !slices.EqualFunc(daemon.received, [][]uint64{{0, 1, 2}, {0}}, slices.Equal) {
		t.Errorf("outcomes %v, received %v", sequences, daemon.received)
	}
}

func TestAStreamEndsWithItsConsumer(t *testing.T) {
	client := serve(t, &fakeDaemon{})
	for range client.EmbedStream(t.Context(), slices.Values([][]string{{"a"}, {"b"}}), nil) {
		break
	}
}

func TestBatchesThatCannotBeEndTheStream(t *testing.T) {
	client := serve(t, &fakeDaemon{})
	vectors, scalar := Vector([]float32{1}), Scalar[float32](1)
	for name, points := range map[string]Points{
		"no points":     {IDs: Numbers(1)},
		"both":          {IDs: Numbers(1), Texts: []string{""}, Vectors: &vectors},
		"too few":       {IDs: Numbers(1, 2), Texts: []string{""}},
		"a duplicate":   {IDs: Numbers(1, 1), Texts: []string{"", ""}},
		"a vector":      {IDs: Numbers(1), Vectors: &vectors},
		"a scalar":      {IDs: Numbers(1), Vectors: &scalar},
		"both ids":      {IDs: IDs{Numbers: []uint64{1}, UUIDs: []string{"a"}}, Texts: []string{"", ""}},
		"payloads":      {IDs: Numbers(1), Texts: []string{""}, Payloads: []Payload{}},
		"a payload nil": {IDs: Numbers(1), Texts: []string{""}, Payloads: []Payload{{"x": nil}}},
	} {
		var last error
		for _, err := range client.Collection("code").UpsertMany(t.Context(), slices.Values([]Points{points})) {
			last = err
		}
		if status.Code(last) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, last)
		}
	}
}

func TestMorePointsThanAMessageAreWrittenInParts(t *testing.T) {
	daemon := &fakeDaemon{}
	client := serve(t, daemon, WithMaxMessageBytes(10_000))
	tensor, err := NewTensor([]int{100, 64}, make([]float32, 6400))
	if err != nil {
		t.Fatal(err)
	}
	points := Points{Vectors: &tensor}
	for id := range uint64(100) {
		points.IDs.Numbers = append(points.IDs.Numbers, id)
	}
	written, err := client.Collection("code").Upsert(t.Context(), points)
	if err != nil || written.Inserted != 100 || len(daemon.received[0]) != 4 {
		t.Errorf("%+v, %v, received %v", written, err, daemon.received)
	}
}

func TestCallsTakeTurnsBetweenDaemonsAndSkipOneThatIsAway(t *testing.T) {
	first, second := &fakeDaemon{}, &fakeDaemon{}
	one := serve(t, first).connections.all[0].Target()
	two := serve(t, second).connections.all[0].Target()
	client, err := New(one + "," + two + ",127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 12 {
		if _, err := client.Models(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(first.calls) < 4 || len(second.calls) < 4 {
		t.Errorf("%d and %d calls", len(first.calls), len(second.calls))
	}
}
