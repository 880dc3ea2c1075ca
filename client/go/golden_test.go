package accelerd_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	accelerd "github.com/accelerd/accelerd/client/go"
)

// variable returns a variable of the suite of all clients, which tests/golden sets.
func variable(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv("ACCELERD_GOLDEN_" + name)
	if value == "" {
		t.Skipf("ACCELERD_GOLDEN_%s is not set", name)
	}
	return value
}

// golden decodes a case of the suite.
func golden[T any](t *testing.T, name string) T {
	t.Helper()
	text, err := os.ReadFile(variable(t, "CASES"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var found T
	if err := json.Unmarshal(all[name], &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func goldenClient(t *testing.T) *accelerd.Client {
	t.Helper()
	return newClient(t, variable(t, "TARGET"))
}

func newClient(t *testing.T, target string, options ...accelerd.Option) *accelerd.Client {
	t.Helper()
	client, err := accelerd.New(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// must returns a value, or ends the test.
func must[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// failure returns the error of a call, which must be of the client's type.
func failure(t *testing.T, err error) *accelerd.Error {
	t.Helper()
	var found *accelerd.Error
	if !errors.As(err, &found) {
		t.Fatalf("expected an *accelerd.Error, got %v", err)
	}
	return found
}

func matrix(t *testing.T, rows [][]float32) accelerd.Tensor {
	t.Helper()
	return must[accelerd.Tensor](t)(accelerd.NewTensor([]int{len(rows), len(rows[0])}, slices.Concat(rows...)))
}

func isClose[T float32 | float64](a T, b, tolerance float64) bool {
	return math.Abs(float64(a)-b) <= tolerance
}

type embedCase struct {
	Texts           []string
	Dimensions      int
	FirstComponents [][]float64 `json:"first_components"`
	Tolerance       float64
}

func (c embedCase) check(t *testing.T, found *accelerd.Embeddings) {
	t.Helper()
	if !slices.Equal(found.Vectors.Shape, []int{len(c.Texts), c.Dimensions}) {
		t.Fatalf("shape %v", found.Vectors.Shape)
	}
	rows := must[[][]float32](t)(accelerd.Rows[float32](found.Vectors))
	for at, expected := range c.FirstComponents {
		for column, value := range expected {
			if !isClose(rows[at][column], value, c.Tolerance) {
				t.Errorf("vector %d: component %d is %v, expected %v", at, column, rows[at][column], value)
			}
		}
	}
}

func TestGoldenEmbed(t *testing.T) {
	test := golden[embedCase](t, "embed")
	client := goldenClient(t)
	test.check(t, must[*accelerd.Embeddings](t)(client.Embed(t.Context(), test.Texts, nil)))
	tokens := must[[][]uint32](t)(client.Tokenize(t.Context(), "", test.Texts))
	test.check(t, must[*accelerd.Embeddings](t)(client.EmbedTokens(t.Context(), tokens, nil)))
}

func TestGoldenSearch(t *testing.T) {
	type hit struct {
		ID    uint64
		Score float64
	}
	test := golden[struct {
		IDs             []uint64
		Vectors         [][]float32
		Payloads        []accelerd.Payload
		Query           []float32
		K               int
		Where           map[string]any
		Hits            []hit
		CountWhere      uint64 `json:"count_where"`
		Deleted         []uint64
		HitsAfterDelete []hit `json:"hits_after_delete"`
		Tolerance       float64
	}](t, "search")
	client := goldenClient(t)
	options := &accelerd.CollectionOptions{Dimensions: len(test.Query)}
	collection := must[*accelerd.Collection](t)(client.CreateCollection(t.Context(), "golden-go", options))
	defer func() {
		if err := collection.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	vectors := matrix(t, test.Vectors)
	points := accelerd.Points{IDs: accelerd.Numbers(test.IDs...), Vectors: &vectors, Payloads: test.Payloads}
	written := must[accelerd.Upserted](t)(collection.Upsert(t.Context(), points))
	if written != (accelerd.Upserted{Inserted: uint64(len(test.IDs))}) {
		t.Errorf("written: %+v", written)
	}
	filter := &accelerd.Filter{}
	for field, value := range test.Where {
		filter.Must = append(filter.Must, accelerd.Equal(field, value))
	}
	if count := must[uint64](t)(collection.Count(t.Context(), filter)); count != test.CountWhere {
		t.Errorf("count %d, expected %d", count, test.CountWhere)
	}
	query := matrix(t, [][]float32{test.Query})
	for _, expected := range [][]hit{test.Hits, test.HitsAfterDelete} {
		search := accelerd.Query{Vectors: &query, Limit: test.K, Filter: filter}
		hits := must[[][]accelerd.Hit](t)(collection.Search(t.Context(), search))[0]
		if len(hits) != len(expected) {
			t.Fatalf("hits: %v, expected %v", hits, expected)
		}
		for at, hit := range hits {
			if hit.ID.Number != expected[at].ID || !isClose(hit.Score, expected[at].Score, test.Tolerance) {
				t.Errorf("hit %v, expected %v", hit, expected[at])
			}
			if hit.Payload["language"] != test.Where["language"] {
				t.Errorf("payload %v", hit.Payload)
			}
		}
		deleted := accelerd.Numbers(test.Deleted...)
		must[uint64](t)(collection.DeletePoints(t.Context(), &accelerd.Filter{IDs: &deleted}))
	}
	var left []uint64
	for point, err := range collection.Scroll(t.Context(), &accelerd.ScrollOptions{PageSize: 2, WithVectors: true}) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, point.ID.Number)
		at := slices.Index(test.IDs, point.ID.Number)
		if !slices.Equal(point.Vector, test.Vectors[at]) {
			t.Errorf("vector of %v: %v, expected %v", point.ID, point.Vector, test.Vectors[at])
		}
	}
	kept := slices.DeleteFunc(slices.Clone(test.IDs), func(id uint64) bool { return slices.Contains(test.Deleted, id) })
	if !slices.Equal(left, kept) {
		t.Errorf("points %v, expected %v", left, kept)
	}
}

func TestGoldenParse(t *testing.T) {
	test := golden[struct {
		Source    string
		NodeCount int `json:"node_count"`
		Outline   []struct {
			QualifiedName string `json:"qualified_name"`
			Line          uint32
		}
		Broken     string
		Diagnostic struct {
			Message      string
			Line, Offset int32
		}
	}](t, "parse")
	client := goldenClient(t)
	sources := [][]byte{[]byte(test.Source), []byte(test.Broken)}
	options := &accelerd.ParseOptions{Outputs: []accelerd.ParseOutput{accelerd.OutputTree, accelerd.OutputOutline}}
	parsed := must[[]*accelerd.Parsed](t)(client.Parse(t.Context(), sources, options))
	if count := len(parsed[0].Nodes.Kinds); count != test.NodeCount {
		t.Errorf("%d nodes, expected %d", count, test.NodeCount)
	}
	for at, expected := range test.Outline {
		item := parsed[0].Outline[at]
		if name := parsed[0].QualifiedName(at); name != expected.QualifiedName || item.GetLine() != expected.Line {
			t.Errorf("item %s in line %d, expected %v", name, item.GetLine(), expected)
		}
	}
	var names []string
	for row := range parsed[0].Names.Starts {
		names = append(names, parsed[0].Name(row))
	}
	if !slices.Contains(names, "split") || !slices.Contains(names, "Parser") {
		t.Errorf("names %v", names)
	}
	diagnostic := parsed[1].Diagnostic
	expected := test.Diagnostic
	if diagnostic.GetMessage() != expected.Message || diagnostic.GetLineno() != expected.Line || diagnostic.GetOffset() != expected.Offset {
		t.Errorf("diagnostic %v, expected %v", diagnostic, expected)
	}
}

func TestGoldenTensor(t *testing.T) {
	test := golden[struct {
		A, B      [][]float32
		Expected  [][]float64 `json:"softmax_of_product"`
		Tolerance float64
	}](t, "tensor")
	client := goldenClient(t)
	resident := must[*accelerd.ResidentTensor](t)(client.Upload(t.Context(), matrix(t, test.B), nil))
	defer func() {
		if err := client.Free(context.Background(), resident); err != nil {
			t.Error(err)
		}
	}()
	var graph accelerd.Graph
	product := graph.Op("matmul", nil, graph.Input(matrix(t, test.A)), graph.Input(resident))
	softmax := graph.Op("softmax", accelerd.Attributes{"dim": -1}, product)
	outputs := must[[]accelerd.Tensor](t)(client.Execute(t.Context(), &graph, softmax))
	for at, row := range must[[][]float32](t)(accelerd.Rows[float32](outputs[0])) {
		for column, value := range row {
			if !isClose(value, test.Expected[at][column], test.Tolerance) {
				t.Errorf("element %d, %d is %v, expected %v", at, column, value, test.Expected[at][column])
			}
		}
	}
	kept := must[[]*accelerd.ResidentTensor](t)(client.Keep(t.Context(), &graph, nil, softmax))
	downloaded := must[accelerd.Tensor](t)(client.Download(t.Context(), kept[0]))
	if !slices.Equal(downloaded.Data, outputs[0].Data) {
		t.Errorf("the kept tensor differs from the returned one")
	}
	if err := client.Free(t.Context(), kept...); err != nil {
		t.Error(err)
	}
}

func TestGoldenKernel(t *testing.T) {
	test := golden[struct {
		Source, Name string
		Grid         []int
		A            float32
		X, Y         []float32
		WrittenY     []float32 `json:"written_y"`
		FaultingGrid []int     `json:"faulting_grid"`
		Fault        struct {
			Kind          string
			Thread        uint64
			Line          uint32
			Index, Extent int64
		}
	}](t, "kernel")
	client := goldenClient(t)
	program := accelerd.Program{Source: test.Source, Name: test.Name, Dialect: accelerd.DialectWarp}
	compiled := must[*accelerd.CompiledKernel](t)(client.Compile(t.Context(), program))
	arguments := map[string]accelerd.Operand{
		"a": accelerd.Scalar(test.A),
		"x": accelerd.Vector(test.X),
		"y": accelerd.Vector(test.Y),
	}
	for _, kernel := range []accelerd.Kernel{program, accelerd.KernelID(compiled.GetId())} {
		options := &accelerd.LaunchOptions{Grid: test.Grid}
		launched := must[*accelerd.Launched](t)(client.Launch(t.Context(), kernel, arguments, options))
		written := must[[]float32](t)(accelerd.Values[float32](launched.Outputs["y"]))
		if !slices.Equal(written, test.WrittenY) {
			t.Errorf("written %v, expected %v", written, test.WrittenY)
		}
	}
	_, err := client.Launch(t.Context(), program, arguments, &accelerd.LaunchOptions{Grid: test.FaultingGrid})
	var fault *accelerd.KernelFault
	if !errors.As(err, &fault) {
		t.Fatalf("expected a fault, got %v", err)
	}
	expected := test.Fault
	isEqual := fault.GetKind().String() == expected.Kind && fault.GetThread() == expected.Thread && fault.GetLine() == expected.Line
	if !isEqual || fault.GetIndex() != expected.Index || fault.GetExtent() != expected.Extent {
		t.Errorf("fault %v, expected %+v", fault, expected)
	}
}

func TestGoldenVerify(t *testing.T) {
	test := golden[struct {
		Actual, Expected []float32
		Atol, Rtol       float64
		Passed           bool
		FailedCount      uint64 `json:"failed_count"`
		Mismatch         struct {
			Index            uint64
			Actual, Expected float64
		}
		PassingRtol float64 `json:"passing_rtol"`
	}](t, "verify")
	client := goldenClient(t)
	actual := map[string]accelerd.Operand{"y": accelerd.Vector(test.Actual)}
	expected := map[string]accelerd.Operand{"y": accelerd.Vector(test.Expected)}
	policy := func(rtol float64) accelerd.CompareOptions {
		tolerances := []*accelerd.Tolerance{accelerd.Within(test.Atol, rtol)}
		return accelerd.CompareOptions{Policy: &accelerd.Policy{Tolerances: tolerances}}
	}
	strict := policy(test.Rtol)
	report := must[*accelerd.Comparison](t)(client.Compare(t.Context(), actual, expected, &strict))
	differences := report.GetOutputs()[0].GetDifferences()
	mismatch := differences.GetMismatches()[0]
	if report.GetPassed() != test.Passed || differences.GetFailedCount() != test.FailedCount {
		t.Errorf("report %v", report)
	}
	found := test.Mismatch
	found.Index, found.Actual, found.Expected = mismatch.GetIndex(), mismatch.GetActual(), mismatch.GetExpected()
	if found != test.Mismatch {
		t.Errorf("mismatch %v, expected %v", found, test.Mismatch)
	}
	loose := policy(test.PassingRtol)
	if !must[*accelerd.Comparison](t)(client.Compare(t.Context(), actual, expected, &loose)).GetPassed() {
		t.Errorf("expected the comparison to pass with rtol %v", test.PassingRtol)
	}
	// The same as cases of a verification: each element is one.
	cases := slices.Values([]accelerd.Cases{{Actual: actual, Expected: expected}, {Actual: expected, Expected: expected}})
	summary := must[*accelerd.VerifySummary](t)(
		client.Verify(t.Context(), &accelerd.Verification{Cases: cases, CompareOptions: strict}))
	if summary.GetCaseCount() != uint64(2*len(test.Actual)) || summary.GetFailedCount() != test.FailedCount {
		t.Errorf("summary %v", summary)
	}
}

func TestGoldenFunctions(t *testing.T) {
	client := goldenClient(t)
	double := func(body string) accelerd.Program {
		return accelerd.Program{Source: "def double(x: float) -> float:\n    return " + body + "\n"}
	}
	for body, passes := range map[string]bool{"x + x": true, "x * 2.5": false} {
		verification := &accelerd.Verification{Subject: double(body), Reference: double("x * 2.0"), Count: 1000}
		summary := must[*accelerd.VerifySummary](t)(client.Verify(t.Context(), verification))
		if summary.GetPassed() != passes || summary.GetCaseCount() != 1000 {
			t.Errorf("%s: %v", body, summary)
		}
	}
}

func TestGoldenErrors(t *testing.T) {
	client := goldenClient(t)
	for _, test := range golden[[]struct {
		Call       string
		K          int
		Rows       [][]float32
		Collection string
		Texts      []string
		Model      string

		Code, Message, Reason string
		Fields                []string
	}](t, "errors") {
		var err error
		switch test.Call {
		case "find_similar":
			rows := matrix(t, test.Rows)
			_, err = client.FindSimilar(t.Context(), rows, rows, test.K, nil)
		case "count":
			_, err = client.Collection(test.Collection).Count(t.Context(), nil)
		case "embed":
			_, err = client.Embed(t.Context(), test.Texts, &accelerd.EmbedOptions{Model: test.Model})
		default:
			t.Errorf("unknown call %q", test.Call)
			continue
		}
		found := failure(t, err)
		var fields []string
		for _, violation := range found.Violations {
			fields = append(fields, violation.Field)
		}
		isEqual := found.Code == code(t, test.Code) && found.Message == test.Message && found.Reason == test.Reason
		if !isEqual || !slices.Equal(fields, test.Fields) {
			t.Errorf("%s: got %+v, expected %+v", test.Call, found, test)
		}
		if found.Code == codes.NotFound && found.Resource == nil {
			t.Errorf("%s: no resource", test.Call)
		}
	}
}

// code returns the code of a name such as NOT_FOUND.
func code(t *testing.T, name string) codes.Code {
	t.Helper()
	var found codes.Code
	if err := found.UnmarshalJSON([]byte(strconv.Quote(name))); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestGoldenTLS(t *testing.T) {
	target, ca := variable(t, "TLS_TARGET"), variable(t, "CA")
	test := golden[embedCase](t, "embed")
	client := newClient(t, target, accelerd.WithCA(ca), accelerd.WithToken(variable(t, "TOKEN")))
	test.check(t, must[*accelerd.Embeddings](t)(client.Embed(t.Context(), test.Texts, nil)))

	expected := golden[struct{ Code, Reason string }](t, "without_token")
	_, err := newClient(t, target, accelerd.WithCA(ca)).Embed(t.Context(), test.Texts, nil)
	if found := failure(t, err); found.Code != code(t, expected.Code) || found.Reason != expected.Reason {
		t.Errorf("got %+v, expected %+v", found, expected)
	}

	_, err = newClient(t, target, accelerd.WithMaxAttempts(1)).Embed(t.Context(), test.Texts, nil)
	if found := failure(t, err); found.Code != codes.Unavailable {
		t.Errorf("a daemon of an unknown authority: %v", found)
	}
}

func TestGoldenProgramOfTheDocumentation(t *testing.T) {
	target, ca := variable(t, "TLS_TARGET"), variable(t, "CA")
	text := must[[]byte](t)(os.ReadFile("../../SECURITY.md"))
	programs := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(programs) != 1 {
		t.Fatalf("%d programs", len(programs))
	}
	program := strings.NewReplacer("https://accelerd.example.com:7433", target, "ca.pem", ca).Replace(string(programs[0][1]))
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("go", "run", file)
	run.Env = append(os.Environ(), "ACCELERD_TOKEN="+variable(t, "TOKEN"))
	if output, err := run.CombinedOutput(); err != nil || string(output) != "[1 256]\n" {
		t.Errorf("%v: %s", err, output)
	}
}

func TestGoldenDeadline(t *testing.T) {
	test := golden[struct {
		Source, Name, Code string
		Grid               []int
		Y                  []float32
		Deadline           time.Duration `json:"deadline_ms"`
	}](t, "slow_kernel")
	client := goldenClient(t)
	program := accelerd.Program{Source: test.Source, Name: test.Name, Dialect: accelerd.DialectWarp}
	must[*accelerd.CompiledKernel](t)(client.Compile(t.Context(), program))
	ctx, cancel := context.WithTimeout(t.Context(), test.Deadline*time.Millisecond)
	defer cancel()
	arguments := map[string]accelerd.Operand{"y": accelerd.Vector(test.Y)}
	_, err := client.Launch(ctx, program, arguments, &accelerd.LaunchOptions{Grid: test.Grid})
	if found := failure(t, err); found.Code != code(t, test.Code) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestGoldenCancellation(t *testing.T) {
	test := golden[embedCase](t, "embed")
	client := goldenClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches := func(yield func([]string) bool) {
		if yield(test.Texts) {
			<-ctx.Done()
		}
	}
	var last error
	for outcome, err := range client.EmbedStream(ctx, batches, nil) {
		if last = err; err != nil {
			break
		}
		if outcome.Err != nil {
			t.Fatal(outcome.Err)
		}
		test.check(t, outcome.Embeddings)
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the stream ended with %v", last)
	}
}

func TestGoldenRestart(t *testing.T) {
	test := golden[embedCase](t, "embed")
	restart := variable(t, "RESTART")
	client := goldenClient(t)
	test.check(t, must[*accelerd.Embeddings](t)(client.Embed(t.Context(), test.Texts, nil)))
	batches := func(yield func([]string) bool) {
		for at := range 3 {
			if at == 1 {
				if output, err := exec.Command("bash", "-c", restart).CombinedOutput(); err != nil {
					t.Errorf("restart: %v: %s", err, output)
				}
			}
			if !yield(test.Texts) {
				return
			}
		}
	}
	count := 0
	for outcome, err := range client.EmbedStream(t.Context(), batches, nil) {
		if err != nil {
			t.Fatal(err)
		}
		test.check(t, outcome.Embeddings)
		count++
	}
	if count != 3 {
		t.Errorf("%d batches", count)
	}
	if output, err := exec.Command("bash", "-c", restart).CombinedOutput(); err != nil {
		t.Fatalf("restart: %v: %s", err, output)
	}
	test.check(t, must[*accelerd.Embeddings](t)(client.Embed(t.Context(), test.Texts, nil)))
}
