package accelerd_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	accelerd "github.com/accelerd/accelerd/client/go"
	accelerdv1 "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

func Example() {
	ctx := context.Background()
	client, err := accelerd.New("localhost:7433")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	embedded, err := client.Embed(ctx, []string{"parse a date", "def parse_date(s): ..."}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(embedded.Vectors.Shape)
}

func ExampleCollection_Search() {
	ctx := context.Background()
	client, err := accelerd.New("")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	code, err := client.CreateCollection(ctx, "code", &accelerd.CollectionOptions{Model: "builtin"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = code.Upsert(ctx, accelerd.Points{
		IDs:      accelerd.Numbers(1, 2),
		Texts:    []string{"open a socket", "compress a file"},
		Payloads: []accelerd.Payload{{"path": "net.py", "line": 7}, {"path": "pack.py", "line": 3}},
	})
	if err != nil {
		log.Fatal(err)
	}
	filter := &accelerd.Filter{Must: []accelerd.Condition{accelerd.InRange("line", accelerd.Range{LT: 10})}}
	hits, err := code.Search(ctx, accelerd.Query{Texts: []string{"tcp"}, Limit: 1, Filter: filter})
	if err != nil {
		log.Fatal(err)
	}
	for _, hit := range hits[0] {
		fmt.Println(hit.ID, hit.Score, hit.Payload["path"])
	}
}

func ExampleClient_EmbedStream() {
	client, err := accelerd.New("")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	batches := slices.Values([][]string{{"open a socket"}, {"compress a file", "parse a date"}})
	for outcome, err := range client.EmbedStream(context.Background(), batches, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(outcome.Sequence, outcome.Embeddings, outcome.Err)
	}
}

func ExampleClient_Execute() {
	client, err := accelerd.New("")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	rows, err := accelerd.NewTensor([]int{2, 3}, []float32{1, 2, 3, 4, 5, 6})
	if err != nil {
		log.Fatal(err)
	}
	var graph accelerd.Graph
	softmax := graph.Op("softmax", accelerd.Attributes{"dim": -1}, graph.Input(rows))
	outputs, err := client.Execute(context.Background(), &graph, softmax)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(accelerd.Values[float32](outputs[0]))
}

func ExampleClient_Launch() {
	client, err := accelerd.New("")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	program := accelerd.Program{Source: "def hypotenuse(a: float, b: float) -> float:\n    return (a * a + b * b) ** 0.5\n"}
	arguments := map[string]accelerd.Operand{
		"a": accelerd.Vector([]float64{3, 5}),
		"b": accelerd.Vector([]float64{4, 12}),
	}
	launched, err := client.Launch(context.Background(), program, arguments, nil)
	var fault *accelerd.KernelFault
	if errors.As(err, &fault) {
		log.Fatalf("thread %d, line %d", fault.GetThread(), fault.GetLine())
	}
	if err != nil {
		log.Fatal(err)
	}
	for name, output := range launched.Outputs {
		fmt.Println(name, output.Shape)
	}
}

func ExampleClient_Conn() {
	client, err := accelerd.New("")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	request := &accelerdv1.TranslateRequest{Source: "def double(x: float) -> float:\n    return x + x\n"}
	translated, err := accelerdv1.NewKernelServiceClient(client.Conn()).Translate(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(translated.GetKernels()[0].GetName())
}

func ExampleNewTensor() {
	tensor, err := accelerd.NewTensor([]int{2, 2}, []float32{1, 2, 3, 4})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := accelerd.Rows[float32](tensor)
	fmt.Println(tensor.Dtype, tensor.Shape, rows[1], err)
	// Output: DTYPE_F32 [2 2] [3 4] <nil>
}

func ExampleError() {
	client, err := accelerd.New("localhost:7433")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.Collection("code").Search(context.Background(), accelerd.Query{Limit: 1})
	var failed *accelerd.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Code, failed.Field())
	}
	// Output: InvalidArgument query
}
