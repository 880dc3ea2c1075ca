package accelerd

import (
	"context"
	"fmt"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Attributes are those of an operation, by the names of PyTorch's arguments: bool, int, int64, float64, string, []int or []int64.
type Attributes map[string]any

// Graph is a graph of tensor operations, which [Client.Execute] runs in one call. The zero value is an empty graph.
type Graph struct {
	// Device is where it runs, such as "cuda:0". Empty means where its resident inputs are, or any.
	Device string

	inputs []*pb.TensorInput
	nodes  []*pb.TensorNode
	// err is the first error of an argument, which Execute returns.
	err error
}

// Value is a value of the graph that returned it: an input, or the first result of an operation.
type Value struct {
	name string
}

// Input adds a tensor that operations read.
func (g *Graph) Input(operand Operand) Value {
	name := fmt.Sprintf("input_%d", len(g.inputs))
	input, err := operand.input(name)
	g.fail(err)
	g.inputs = append(g.inputs, input)
	return Value{name}
}

// Op adds an operation, such as "softmax", of operands. Operations have the names, attributes and results of PyTorch.
func (g *Graph) Op(op string, attributes Attributes, operands ...Value) Value {
	node := &pb.TensorNode{
		Name:       fmt.Sprintf("%s_%d", op, len(g.nodes)),
		Op:         op,
		Attributes: make(map[string]*pb.TensorAttribute, len(attributes)),
	}
	for _, operand := range operands {
		node.Inputs = append(node.Inputs, operand.name)
	}
	for name, value := range attributes {
		attribute, err := newAttribute(value)
		if err != nil {
			g.fail(invalid(op+"."+name, "%v", err))
		}
		node.Attributes[name] = attribute
	}
	g.nodes = append(g.nodes, node)
	return Value{node.Name}
}

// Result returns a further result of the same operation, such as 1 for the indices of topk.
func (v Value) Result(at int) Value {
	if at == 0 {
		return v
	}
	return Value{fmt.Sprintf("%s:%d", v.name, at)}
}

func (g *Graph) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

func newAttribute(value any) (*pb.TensorAttribute, error) {
	switch value := value.(type) {
	case bool:
		return &pb.TensorAttribute{Value: &pb.TensorAttribute_Boolean{Boolean: value}}, nil
	case int:
		return &pb.TensorAttribute{Value: &pb.TensorAttribute_Integer{Integer: int64(value)}}, nil
	case int64:
		return &pb.TensorAttribute{Value: &pb.TensorAttribute_Integer{Integer: value}}, nil
	case float64:
		return &pb.TensorAttribute{Value: &pb.TensorAttribute_Number{Number: value}}, nil
	case string:
		return &pb.TensorAttribute{Value: &pb.TensorAttribute_Text{Text: value}}, nil
	case []int:
		return newAttribute(extents(value))
	case []int64:
		return &pb.TensorAttribute{Value: &pb.TensorAttribute_Integers{Integers: &pb.TensorIntegers{Values: value}}}, nil
	default:
		return nil, fmt.Errorf("expected bool, int, int64, float64, string, []int or []int64, got %T", value)
	}
}

func (g *Graph) request(outputs []Value, isKept bool, options ResidentOptions) (*pb.ExecuteRequest, error) {
	request := &pb.ExecuteRequest{Inputs: g.inputs, Nodes: g.nodes, Device: g.Device, KeepTtl: options.ttl()}
	if options.Device != "" {
		request.Device = options.Device
	}
	for _, output := range outputs {
		request.Outputs = append(request.Outputs, &pb.TensorOutput{Name: output.name, Keep: isKept})
	}
	return request, g.err
}

// Execute runs a graph and returns the given values of it. Inputs and outputs must fit into messages; larger ones can be uploaded by
// [Client.Upload], kept by [Client.Keep] and downloaded by [Client.Download].
func (c *Client) Execute(ctx context.Context, graph *Graph, outputs ...Value) ([]Tensor, error) {
	request, err := graph.request(outputs, false, ResidentOptions{})
	if err != nil {
		return nil, err
	}
	response, err := c.tensors.Execute(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(response.GetOutputs()) != len(outputs) {
		return nil, malformed("%d outputs, expected %d", len(response.GetOutputs()), len(outputs))
	}
	found := make([]Tensor, len(outputs))
	for at, output := range response.GetOutputs() {
		if found[at], err = received("output", output); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Keep runs a graph and keeps the given values of it on the device.
func (c *Client) Keep(ctx context.Context, graph *Graph, options *ResidentOptions, outputs ...Value) ([]*ResidentTensor, error) {
	request, err := graph.request(outputs, true, options.orDefault())
	if err != nil {
		return nil, err
	}
	response, err := c.tensors.Execute(ctx, request)
	if err != nil {
		return nil, err
	}
	if len(response.GetKept()) != len(outputs) {
		return nil, malformed("%d outputs kept, expected %d", len(response.GetKept()), len(outputs))
	}
	return residents(response.GetKept()), nil
}
