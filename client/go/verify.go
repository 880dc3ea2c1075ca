package accelerd

import (
	"context"
	"io"
	"iter"

	"google.golang.org/protobuf/proto"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Exactly accepts equal numbers only.
func Exactly() *Tolerance {
	return &Tolerance{Rule: &pb.Tolerance_Exact{Exact: &pb.ExactTolerance{}}}
}

// Within accepts |actual - expected| <= atol + rtol * |expected|.
func Within(atol, rtol float64) *Tolerance {
	return &Tolerance{Rule: &pb.Tolerance_Close{Close: &pb.CloseTolerance{Atol: &atol, Rtol: &rtol}}}
}

// WithinULPs accepts numbers within a distance in units in the last place.
func WithinULPs(distance uint64) *Tolerance {
	return &Tolerance{Rule: &pb.Tolerance_Ulp{Ulp: &pb.UlpTolerance{MaxDistance: distance}}}
}

// WithinMaxNorm accepts errors relative to the largest expected number of the tensor.
func WithinMaxNorm(rtol float64) *Tolerance {
	return &Tolerance{Rule: &pb.Tolerance_MaxNorm{MaxNorm: &pb.MaxNormTolerance{Rtol: rtol}}}
}

// CompareOptions are those of a comparison. Without a policy, the rules of torch.testing.assert_close apply.
type CompareOptions struct {
	Policy *Policy
	// OutputPolicies are those of outputs by name, instead of Policy.
	OutputPolicies map[string]*Policy
	// MaxMismatches is the number of mismatches to list for an output. Nil means 10.
	MaxMismatches *uint32
	// RowVerdicts asks which rows have a mismatch.
	RowVerdicts bool
}

// Compare compares tensors with expected ones of the same names.
func (c *Client) Compare(ctx context.Context, actual, expected map[string]Operand, options *CompareOptions) (*Comparison, error) {
	request := &pb.CompareOutputsRequest{}
	var err error
	if request.Actual, err = operands(actual); err != nil {
		return nil, err
	}
	if request.Expected, err = operands(expected); err != nil {
		return nil, err
	}
	if options != nil {
		request.Policy = options.Policy
		request.OutputPolicies = options.OutputPolicies
		request.MaxMismatches = options.MaxMismatches
		request.RowVerdicts = options.RowVerdicts
	}
	return c.verification.CompareOutputs(ctx, request)
}

// Function is a side of a verification that the daemon runs: a [Program], or a [WasmFunction].
type Function interface {
	asSubject(header *pb.VerifyHeader) error
	asReference(header *pb.VerifyHeader) error
}

// WasmFunction is an exported function of a WebAssembly module. docs/verify.md describes how values are passed.
type WasmFunction struct {
	// Module is the module, in the binary format.
	Module []byte
	// Name is that of the export. It may be empty if the module exports only one function.
	Name string
	// Params and Results are those of the other side, or of the export, if they are empty.
	Params  []*pb.WasmParam
	Results []*pb.WasmResult
}

func (w WasmFunction) message() *pb.WasmFunction {
	return &pb.WasmFunction{Module: w.Module, Function: w.Name, Params: w.Params, Results: w.Results}
}

func (w WasmFunction) asSubject(header *pb.VerifyHeader) error {
	header.Subject = &pb.VerifyHeader_Wasm{Wasm: w.message()}
	return nil
}

func (w WasmFunction) asReference(header *pb.VerifyHeader) error {
	header.Reference = &pb.VerifyHeader_ReferenceWasm{ReferenceWasm: w.message()}
	return nil
}

func (p Program) asSubject(header *pb.VerifyHeader) error {
	program, err := p.message()
	header.Subject = &pb.VerifyHeader_Kernel{Kernel: program}
	return err
}

func (p Program) asReference(header *pb.VerifyHeader) error {
	program, err := p.message()
	header.Reference = &pb.VerifyHeader_ReferenceKernel{ReferenceKernel: program}
	return err
}

// Cases are cases of a verification. The first extent of each tensor is their number.
type Cases struct {
	// Inputs are those of functions.
	Inputs map[string]Operand
	// Actual and Expected are the outputs of a side that is no function.
	Actual   map[string]Operand
	Expected map[string]Operand
}

func (c *Cases) request() (*pb.VerifyRequest, error) {
	cases := &pb.VerifyCases{}
	var err error
	if cases.Inputs, err = operands(c.Inputs); err != nil {
		return nil, err
	}
	if cases.Actual, err = operands(c.Actual); err != nil {
		return nil, err
	}
	if cases.Expected, err = operands(c.Expected); err != nil {
		return nil, err
	}
	return &pb.VerifyRequest{Part: &pb.VerifyRequest_Cases{Cases: cases}}, nil
}

// Verification says what is verified, and how.
type Verification struct {
	// Subject and Reference compute the actual and the expected outputs. Nil means that the cases have them.
	Subject   Function
	Reference Function
	// Cases are chunks of cases. Nil means that the daemon generates inputs.
	Cases iter.Seq[Cases]
	// Count is the number of cases to generate, 100,000 if it is 0. Equal seeds give equal cases.
	Count uint64
	Seed  uint64
	// Domains are the values of inputs to generate.
	Domains map[string]*pb.InputDomain
	CompareOptions
	// Options are further fields of the header. Those above replace its own.
	Options *pb.VerifyHeader
}

const defaultCaseCount = 100_000

func (v *Verification) header() (*pb.VerifyRequest, error) {
	header := &pb.VerifyHeader{}
	if v.Options != nil {
		header = proto.CloneOf(v.Options)
	}
	header.Policy = v.Policy
	header.OutputPolicies = v.OutputPolicies
	header.MaxMismatches = v.MaxMismatches
	header.CaseVerdicts = v.RowVerdicts
	header.Subject = &pb.VerifyHeader_GivenOutputs{GivenOutputs: &pb.GivenOutputs{}}
	header.Reference = &pb.VerifyHeader_ExpectedOutputs{ExpectedOutputs: &pb.GivenOutputs{}}
	if v.Subject != nil {
		if err := v.Subject.asSubject(header); err != nil {
			return nil, err
		}
	}
	if v.Reference != nil {
		if err := v.Reference.asReference(header); err != nil {
			return nil, err
		}
	}
	if v.Cases == nil {
		header.Generator = &pb.CaseGenerator{CaseCount: v.Count, Seed: v.Seed, Domains: v.Domains}
		if v.Count == 0 {
			header.Generator.CaseCount = defaultCaseCount
		}
	}
	return &pb.VerifyRequest{Part: &pb.VerifyRequest_Header{Header: header}}, nil
}

// Verify compares what two functions compute, or what one computes with given outputs.
func (c *Client) Verify(ctx context.Context, verification *Verification) (*VerifySummary, error) {
	header, err := verification.header()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.conn.withDeadline(ctx)
	defer cancel()
	stream, err := c.verification.Verify(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(header); err != nil && err != io.EOF {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() {
		err := sendCases(stream, verification.Cases)
		if err != nil {
			cancel()
		}
		sent <- err
	}()
	summary, err := receiveSummary(stream)
	if err == nil {
		return summary, nil
	}
	cancel()
	if failed := <-sent; failed != nil {
		return nil, failed
	}
	return nil, err
}

// sendCases sends all cases. A stream that failed says why when its response is received.
func sendCases(stream pb.VerifyService_VerifyClient, cases iter.Seq[Cases]) error {
	if cases != nil {
		for chunk := range cases {
			request, err := chunk.request()
			if err != nil {
				return err
			}
			err = stream.Send(request)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	return stream.CloseSend()
}

func receiveSummary(stream pb.VerifyService_VerifyClient) (*VerifySummary, error) {
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return nil, malformed("no summary")
		}
		if err != nil {
			return nil, err
		}
		if summary := response.GetSummary(); summary != nil {
			return summary, nil
		}
	}
}
