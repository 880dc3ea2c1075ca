package accelerd

import (
	"context"
	"fmt"
	"strings"
	"time"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Program is a kernel in Python.
type Program struct {
	// Source is a module.
	Source string
	// Name is that of the kernel. It may be empty if the module has only one.
	Name    string
	Dialect Dialect
	// Constants are names that the module uses and does not define: integers, float64 or bool.
	Constants map[string]any
}

// Kernel is what a launch runs: a [Program], which is compiled on first use, or a [KernelID].
type Kernel interface {
	in(request *pb.LaunchRequest) error
	name() string
}

// KernelID is the id of a compiled kernel.
type KernelID string

func (id KernelID) in(request *pb.LaunchRequest) error {
	request.Kernel = &pb.LaunchRequest_KernelId{KernelId: string(id)}
	return nil
}

func (id KernelID) name() string {
	return "kernel " + string(id)
}

func (p Program) in(request *pb.LaunchRequest) error {
	program, err := p.message()
	request.Kernel = &pb.LaunchRequest_Program{Program: program}
	return err
}

func (p Program) name() string {
	if p.Name == "" {
		return "kernel"
	}
	return p.Name
}

func (p Program) message() (*pb.KernelProgram, error) {
	program := &pb.KernelProgram{Source: p.Source, Name: p.Name, Dialect: p.Dialect}
	for name, value := range p.Constants {
		constant, err := newConstant(value)
		if err != nil {
			return nil, invalid("constants."+name, "%v", err)
		}
		if program.Constants == nil {
			program.Constants = map[string]*pb.KernelConstant{}
		}
		program.Constants[name] = constant
	}
	return program, nil
}

func newConstant(value any) (*pb.KernelConstant, error) {
	switch value := value.(type) {
	case bool:
		return &pb.KernelConstant{Value: &pb.KernelConstant_Boolean{Boolean: value}}, nil
	case float64:
		return &pb.KernelConstant{Value: &pb.KernelConstant_Number{Number: value}}, nil
	default:
		integer, err := newInteger(value)
		if err != nil {
			return nil, fmt.Errorf("expected bool, an integer or float64, got %T", value)
		}
		return &pb.KernelConstant{Value: &pb.KernelConstant_Integer{Integer: integer}}, nil
	}
}

// Compile compiles a kernel, whose id launches take.
func (c *Client) Compile(ctx context.Context, program Program) (*CompiledKernel, error) {
	message, err := program.message()
	if err != nil {
		return nil, err
	}
	response, err := c.kernels.Compile(ctx, &pb.CompileRequest{Program: message})
	return response.GetKernel(), err
}

// LaunchOptions are those of a launch. Nil and zero values mean the defaults.
type LaunchOptions struct {
	// Grid is the extents of the grid of threads. In the dialect Python it may be empty: each element of the arguments has a thread.
	Grid []int
	// Outputs are the arrays to return. None means all that the kernel writes.
	Outputs []KernelOutput
	// LoopBudget is the maximum number of iterations of all loops of a thread.
	LoopBudget *uint64
	Device     KernelDevice
}

// KernelOutput is an array to return.
type KernelOutput struct {
	Name string
	// Shape is that of an array which is not an argument.
	Shape []int
}

// Launched is what a kernel computed.
type Launched struct {
	Outputs map[string]Tensor
	// ExecutionTime is how long the threads ran.
	ExecutionTime time.Duration
	Device        KernelDevice
}

// Launch runs a kernel with arguments by name. If the kernel ends early, the error is a [*KernelFault].
func (c *Client) Launch(ctx context.Context, kernel Kernel, arguments map[string]Operand, options *LaunchOptions) (*Launched, error) {
	request := &pb.LaunchRequest{}
	if err := kernel.in(request); err != nil {
		return nil, err
	}
	var err error
	if request.Arguments, err = operands(arguments); err != nil {
		return nil, err
	}
	if options != nil {
		request.Grid = extents(options.Grid)
		request.LoopBudget = options.LoopBudget
		request.Device = options.Device
		for _, output := range options.Outputs {
			request.Outputs = append(request.Outputs, &pb.KernelOutput{Name: output.Name, Shape: extents(output.Shape)})
		}
	}
	response, err := c.kernels.Launch(ctx, request)
	if err != nil {
		return nil, err
	}
	if fault := response.GetFault(); fault != nil {
		return nil, &KernelFault{KernelFault: fault, Kernel: kernel.name()}
	}
	launched := &Launched{ExecutionTime: response.GetExecutionTime().AsDuration(), Device: response.GetDevice()}
	launched.Outputs, err = namedTensors(response.GetOutputs())
	return launched, err
}

// KernelFault is why a kernel ended early.
type KernelFault struct {
	*pb.KernelFault
	// Kernel is its name.
	Kernel string
}

var faultTexts = map[pb.KernelFaultKind]string{
	pb.KernelFaultKind_KERNEL_FAULT_KIND_OUT_OF_BOUNDS:    "an index is out of bounds",
	pb.KernelFaultKind_KERNEL_FAULT_KIND_DIVISION_BY_ZERO: "division by zero",
	pb.KernelFaultKind_KERNEL_FAULT_KIND_ASSERTION:        "an assertion failed",
	pb.KernelFaultKind_KERNEL_FAULT_KIND_INVALID_VALUE:    "a value for which the dialect defines no result",
	pb.KernelFaultKind_KERNEL_FAULT_KIND_LOOP_BUDGET:      "more iterations than the loop budget",
}

// Error returns the reason, the thread and the line.
func (f *KernelFault) Error() string {
	what, isKnown := faultTexts[f.GetKind()]
	switch {
	case f.GetVariable() != "":
		what = fmt.Sprintf("variable '%s' is read before it is assigned", f.GetVariable())
	case f.GetKind() == pb.KernelFaultKind_KERNEL_FAULT_KIND_OUT_OF_BOUNDS && f.GetArray() != "":
		const text = "index %d is out of bounds for dimension %d of '%s' with extent %d"
		what = fmt.Sprintf(text, f.GetIndex(), f.GetDimension(), f.GetArray(), f.GetExtent())
	case !isKnown:
		what = strings.ToLower(f.GetKind().String())
	}
	text := fmt.Sprintf("%s: %s, in thread %d", f.Kernel, what, f.GetThread())
	if f.GetLine() > 0 {
		text += fmt.Sprintf(", line %d", f.GetLine())
	}
	return visible(text)
}

// ListKernels returns the compiled kernels.
func (c *Client) ListKernels(ctx context.Context) ([]*CompiledKernel, error) {
	response, err := c.kernels.ListKernels(ctx, &pb.ListKernelsRequest{})
	return response.GetKernels(), err
}

// EvictKernel removes a compiled kernel.
func (c *Client) EvictKernel(ctx context.Context, id KernelID) error {
	_, err := c.kernels.EvictKernel(ctx, &pb.EvictKernelRequest{KernelId: string(id)})
	return err
}
