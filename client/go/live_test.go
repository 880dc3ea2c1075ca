package accelerd_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	accelerd "github.com/accelerd/accelerd/client/go"
	accelerdv1 "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// newCollection creates a collection that the end of the test deletes.
func newCollection(t *testing.T, client *accelerd.Client, options *accelerd.CollectionOptions) *accelerd.Collection {
	t.Helper()
	name := strings.ToLower(t.Name())
	collection := must[*accelerd.Collection](t)(client.CreateCollection(t.Context(), name, options))
	t.Cleanup(func() {
		if err := collection.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return collection
}

func TestDevicesModelsAndStatistics(t *testing.T) {
	client := goldenClient(t)
	devices := must[[]*accelerd.Device](t)(client.Devices(t.Context()))
	if last := devices[len(devices)-1]; last.GetName() != "cpu" {
		t.Errorf("devices %v", devices)
	}
	models := must[[]*accelerd.Model](t)(client.Models(t.Context()))
	if models[0].GetName() != "builtin" {
		t.Errorf("models %v", models)
	}
	version := must[*accelerd.Stats](t)(client.Stats(t.Context())).GetVersion()
	for stats, err := range client.Watch(t.Context(), 100*time.Millisecond) {
		if err != nil || stats.GetVersion() != version {
			t.Errorf("%v, %v", stats, err)
		}
		break
	}
	for _, err := range client.Watch(t.Context(), time.Millisecond) {
		if failure(t, err).Code != codes.InvalidArgument {
			t.Error(err)
		}
	}
}

func TestADrainByACallIsNotAllowedByDefault(t *testing.T) {
	client := goldenClient(t)
	_, err := client.Drain(t.Context(), time.Second)
	if found := failure(t, err); found.Code != codes.PermissionDenied || found.Reason != "NOT_ALLOWED" {
		t.Error(err)
	}
	_, err = client.Resume(t.Context())
	if found := failure(t, err); found.Code != codes.PermissionDenied {
		t.Error(err)
	}
}

func TestPointsWithUUIDsTextsAndPayloads(t *testing.T) {
	client := goldenClient(t)
	options := &accelerd.CollectionOptions{Model: "builtin", TextField: "text", Durability: accelerd.DurabilityMemory}
	collection := newCollection(t, client, options)
	uuids := []string{"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"}
	points := accelerd.Points{
		IDs:   accelerd.UUIDs(uuids...),
		Texts: []string{"open a socket", "compress a file"},
		Payloads: []accelerd.Payload{
			{"text": "open a socket", "line": 7, "weight": 0.5, "is_public": true},
			{"text": "compress a file", "line": uint8(3), "weight": float32(2), "is_public": false},
		},
	}
	must[accelerd.Upserted](t)(collection.Upsert(t.Context(), points))
	if written := must[accelerd.Upserted](t)(collection.Upsert(t.Context(), points)); written.Updated != 2 || written.Inserted != 0 {
		t.Errorf("written %+v", written)
	}
	found := must[[]accelerd.Point](t)(collection.Get(t.Context(), accelerd.UUIDs(uuids[1]), true))
	if len(found) != 1 || found[0].ID.String() != uuids[1] || len(found[0].Vector) != 256 {
		t.Errorf("points %+v", found)
	}
	expected := accelerd.Payload{"text": "compress a file", "line": int64(3), "weight": 2.0, "is_public": false}
	for field, value := range expected {
		if found[0].Payload[field] != value {
			t.Errorf("%s is %v, expected %v", field, found[0].Payload[field], value)
		}
	}
	for name, condition := range map[string]accelerd.Condition{
		"range":   accelerd.InRange("line", accelerd.Range{GTE: 3, LT: 7}),
		"any of":  accelerd.AnyOf("text", "compress a file", "absent"),
		"boolean": accelerd.Equal("is_public", false),
	} {
		query := accelerd.Query{Texts: []string{"archive"}, Filter: &accelerd.Filter{Must: []accelerd.Condition{condition}}}
		hits := must[[][]accelerd.Hit](t)(collection.Search(t.Context(), query))[0]
		if len(hits) != 1 || hits[0].ID.UUID != uuids[1] {
			t.Errorf("%s: hits %v", name, hits)
		}
		not := &accelerd.Filter{MustNot: []accelerd.Condition{condition}}
		if count := must[uint64](t)(collection.Count(t.Context(), not)); count != 1 {
			t.Errorf("not %s: %d points", name, count)
		}
	}
	hybrid := accelerd.Query{Texts: []string{"socket"}, Hybrid: true, Fusion: accelerd.ReciprocalRank, Limit: 1, WithoutPayload: true}
	hits := must[[][]accelerd.Hit](t)(collection.Search(t.Context(), hybrid))[0]
	if hits[0].ID.UUID != uuids[0] || len(hits[0].Payload) != 0 {
		t.Errorf("hybrid: %v", hits)
	}
	bad := &accelerd.Filter{Must: []accelerd.Condition{accelerd.Equal("line", nil)}}
	if _, err := collection.Count(t.Context(), bad); failure(t, err).Field() != "filter.must[0]" {
		t.Error(err)
	}
	if _, err := collection.DeletePoints(t.Context(), nil); failure(t, err).Field() != "filter" {
		t.Errorf("all points: %v", err)
	}
	info := must[*accelerd.CollectionInfo](t)(collection.Describe(t.Context()))
	listed := must[[]*accelerd.CollectionInfo](t)(client.Collections(t.Context()))
	isListed := slices.ContainsFunc(listed, func(one *accelerd.CollectionInfo) bool { return one.GetName() == info.GetName() })
	if info.GetPointCount() != 2 || !isListed {
		t.Errorf("collection %v", info)
	}
}

func TestVectorsAreComparedAndClustered(t *testing.T) {
	client := goldenClient(t)
	rows := matrix(t, [][]float32{{1, 0}, {0.9, 0.1}, {0, 1}})
	similar := must[*accelerd.Similar](t)(client.FindSimilar(t.Context(), rows, rows, 2, nil))
	if !slices.Equal(similar.Indices[0], []int32{0, 1}) || similar.Scores[0][0] != 1 {
		t.Errorf("%+v", similar)
	}
	clusters := must[*accelerd.Clusters](t)(client.Cluster(t.Context(), rows, 2, nil))
	if of := clusters.Assignments; of[0] != of[1] || of[0] == of[2] || !slices.Equal(clusters.Centers.Shape, []int{2, 2}) {
		t.Errorf("%+v", clusters)
	}
	collection := newCollection(t, client, &accelerd.CollectionOptions{Dimensions: 2})
	must[accelerd.Upserted](t)(collection.Upsert(t.Context(), accelerd.Points{IDs: accelerd.Numbers(7, 8, 9), Vectors: &rows}))
	clusters = must[*accelerd.Clusters](t)(collection.Cluster(t.Context(), 2, &accelerd.ClusterOptions{Seed: 1}))
	if len(clusters.IDs) != 3 || clusters.IDs[0].Number != 7 {
		t.Errorf("%+v", clusters)
	}
}

func TestBatchesOfSourcesAreParsed(t *testing.T) {
	client := goldenClient(t)
	batches := slices.Values([][][]byte{{[]byte("x = 'a\\n'"), []byte("# coding: latin-1\ny = '\xe9'")}, {}, {[]byte("f(1")}})
	options := &accelerd.ParseOptions{Outputs: []accelerd.ParseOutput{accelerd.OutputTree, accelerd.OutputTokens}}
	outcomes := map[int]accelerd.ParseOutcome{}
	for outcome, err := range client.ParseStream(t.Context(), batches, options) {
		if err != nil {
			t.Fatal(err)
		}
		outcomes[outcome.Sequence] = outcome
	}
	if len(outcomes) != 3 || status.Code(outcomes[1].Err) != codes.InvalidArgument {
		t.Fatalf("%+v", outcomes)
	}
	first, second := outcomes[0].Parsed[0], outcomes[0].Parsed[1]
	if first.Constant(0) != "a\n" || first.Name(0) != "x" || len(first.Tokens.Kinds) == 0 {
		t.Errorf("%+v", first)
	}
	if second.Constant(0) != "é" || !strings.Contains(string(second.Text), "é") {
		t.Errorf("%+v", second)
	}
	if outcomes[2].Parsed[0].Diagnostic.GetMessage() != "'(' was never closed" {
		t.Errorf("%v", outcomes[2].Parsed[0].Diagnostic)
	}
}

func TestOperationsOfOneGraph(t *testing.T) {
	client := goldenClient(t)
	var graph accelerd.Graph
	x := graph.Input(accelerd.Vector([]int64{3, 1, 2}))
	top := graph.Op("topk", accelerd.Attributes{"k": 2}, x)
	outputs := must[[]accelerd.Tensor](t)(client.Execute(t.Context(), &graph, top, top.Result(1)))
	for at, expected := range [][]int64{{3, 2}, {0, 2}} {
		if values := must[[]int64](t)(accelerd.Values[int64](outputs[at])); !slices.Equal(values, expected) {
			t.Errorf("output %d: %v", at, values)
		}
	}
	graph.Op("sum", accelerd.Attributes{"dim": struct{}{}}, x)
	if _, err := client.Execute(t.Context(), &graph, x); failure(t, err).Field() != "sum.dim" {
		t.Errorf("an attribute of an unknown type: %v", err)
	}
}

func TestTensorsThatExceedAMessage(t *testing.T) {
	client := newClient(t, variable(t, "TARGET"), accelerd.WithMaxMessageBytes(2<<20))
	values := make([]float32, 1<<20)
	values[7] = 2
	var graph accelerd.Graph
	sum := graph.Op("add", nil, graph.Input(accelerd.Vector(values)), graph.Input(accelerd.Scalar[float32](1)))
	wide := graph.Op("expand", accelerd.Attributes{"shape": []int{20, 1 << 20}}, sum)
	outputs := must[[]accelerd.Tensor](t)(client.Execute(t.Context(), &graph, sum, wide))
	for at, rows := range []int{1, 20} {
		found := must[[]float32](t)(accelerd.Values[float32](outputs[at]))
		if len(found) != rows<<20 || found[0] != 1 || found[len(found)-len(values)+7] != 3 {
			t.Errorf("output %d has %d elements", at, len(found))
		}
	}
	if left := must[[]*accelerd.ResidentTensor](t)(client.ListTensors(t.Context())); len(left) != 0 {
		t.Errorf("%d tensors are left", len(left))
	}
}

func TestAKernelOfTheDialectPython(t *testing.T) {
	client := goldenClient(t)
	source := "def scaled(x: float) -> float:\n    return x * FACTOR\n"
	program := accelerd.Program{Source: source, Constants: map[string]any{"FACTOR": 2.5}}
	arguments := map[string]accelerd.Operand{"x": accelerd.Vector([]float64{2, 4})}
	launched := must[*accelerd.Launched](t)(client.Launch(t.Context(), program, arguments, nil))
	if len(launched.Outputs) != 1 {
		t.Fatalf("%+v", launched)
	}
	for _, output := range launched.Outputs {
		if values := must[[]float64](t)(accelerd.Values[float64](output)); !slices.Equal(values, []float64{5, 10}) {
			t.Errorf("%v", values)
		}
	}
	compiled := must[*accelerd.CompiledKernel](t)(client.Compile(t.Context(), program))
	hasID := func(one *accelerd.CompiledKernel) bool { return one.GetId() == compiled.GetId() }
	if listed := must[[]*accelerd.CompiledKernel](t)(client.ListKernels(t.Context())); !slices.ContainsFunc(listed, hasID) {
		t.Errorf("%v", listed)
	}
	if err := client.EvictKernel(t.Context(), accelerd.KernelID(compiled.GetId())); err != nil {
		t.Error(err)
	}
}

func TestAFailingVerificationHasACounterexample(t *testing.T) {
	client := goldenClient(t)
	half := func(operator string) accelerd.Program {
		return accelerd.Program{Source: "def half(x: int) -> int:\n    return x " + operator + " 2\n"}
	}
	domain := &accelerdv1.InputDomain{
		Lower: &accelerdv1.InputDomain_MinInteger{MinInteger: 1},
		Upper: &accelerdv1.InputDomain_MaxInteger{MaxInteger: 99},
	}
	summary := must[*accelerd.VerifySummary](t)(client.Verify(t.Context(), &accelerd.Verification{
		Subject:   half("- x //"),
		Reference: half("//"),
		Count:     500,
		Domains:   map[string]*accelerdv1.InputDomain{"x": domain},
		Options:   &accelerdv1.VerifyHeader{SkipShrinking: true},
	}))
	counterexamples := summary.GetFunctions().GetCounterexamples()
	if summary.GetPassed() || len(counterexamples) == 0 || counterexamples[0].GetShrunk() != nil {
		t.Errorf("%v", summary)
	}
}

func TestAnErrorOfTheInputEndsAVerification(t *testing.T) {
	client := goldenClient(t)
	cases := slices.Values([]accelerd.Cases{{Actual: map[string]accelerd.Operand{"y": nil}}})
	if _, err := client.Verify(t.Context(), &accelerd.Verification{Cases: cases}); failure(t, err).Field() != "y" {
		t.Error(err)
	}
}

func TestABulkWriteOfManyBatches(t *testing.T) {
	client := goldenClient(t)
	collection := newCollection(t, client, &accelerd.CollectionOptions{Dimensions: 64})
	batches := func(yield func(accelerd.Points) bool) {
		for first := uint64(0); first < 20_000; first += 500 {
			points := accelerd.Points{Vectors: &accelerd.Tensor{}}
			*points.Vectors = must[accelerd.Tensor](t)(accelerd.NewTensor([]int{500, 64}, make([]float32, 500*64)))
			for row := range uint64(500) {
				points.IDs.Numbers = append(points.IDs.Numbers, first+row)
			}
			if !yield(points) {
				return
			}
		}
	}
	inserted := uint64(0)
	for written, err := range collection.UpsertMany(t.Context(), batches) {
		if err != nil {
			t.Fatal(err)
		}
		inserted += written.Inserted
	}
	if count := must[uint64](t)(collection.Count(t.Context(), nil)); count != 20_000 || inserted != count {
		t.Errorf("%d points, %d inserted", count, inserted)
	}
}

func TestARankingNeedsACrossEncoder(t *testing.T) {
	_, err := goldenClient(t).Rerank(t.Context(), "builtin", "a query", []string{"a document"}, &accelerd.RerankOptions{TopN: 1})
	if failure(t, err).Code != codes.InvalidArgument {
		t.Error(err)
	}
}

func TestAnAbsentSnapshotIsNotRestored(t *testing.T) {
	client := goldenClient(t)
	_, err := client.RestoreCollection(t.Context(), "absent://snapshots", "")
	if failure(t, err).Code != codes.InvalidArgument {
		t.Error(err)
	}
	if _, err := client.Collection("absent").Snapshot(t.Context(), ""); failure(t, err).Code != codes.NotFound {
		t.Error(err)
	}
	if err := client.UnloadModel(t.Context(), "absent"); failure(t, err).Resource == nil {
		t.Error(err)
	}
	if _, err := client.LoadModel(t.Context(), "absent", "/absent"); errors.Is(err, context.Canceled) || err == nil {
		t.Error(err)
	}
}
