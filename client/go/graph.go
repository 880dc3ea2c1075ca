package accelerd

import (
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
