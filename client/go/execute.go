package accelerd

import (
	"context"
	"errors"
	"math"
	"slices"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// maxInlineBytes bounds the inputs of a graph that are sent with it, as the rest of the request takes some bytes, too.
const maxInlineBytes = 32 << 20

// Execute runs a graph and returns the given values of it. Inputs that exceed a message are uploaded for the call, outputs that exceed one
// are kept and downloaded, and both are freed.
func (c *Client) Execute(ctx context.Context, graph *Graph, outputs ...Value) ([]Tensor, error) {
	ctx, cancel := c.conn.withDeadline(ctx)
	defer cancel()
	run := &execution{client: c, request: graph.request(outputs, false)}
	// A tensor that cannot be freed expires.
	defer run.free(context.WithoutCancel(ctx))
	if err := run.upload(ctx, graph); err != nil {
		return nil, err
	}
	response, err := c.tensors.Execute(ctx, run.request)
	var failed *Error
	if errors.As(err, &failed) && failed.isTooLarge() {
		return run.keepAndDownload(ctx)
	}
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

// Keep runs a graph and keeps the given values of it on its device.
func (c *Client) Keep(ctx context.Context, graph *Graph, options *ResidentOptions, outputs ...Value) ([]*ResidentTensor, error) {
	ctx, cancel := c.conn.withDeadline(ctx)
	defer cancel()
	run := &execution{client: c, request: graph.request(outputs, true)}
	defer run.free(context.WithoutCancel(ctx))
	run.request.KeepTtl = options.orDefault().ttl()
	if device := options.orDefault().Device; device != "" {
		run.request.Device = device
	}
	if err := run.upload(ctx, graph); err != nil {
		return nil, err
	}
	return run.keep(ctx)
}

func (g *Graph) request(outputs []Value, isKept bool) *pb.ExecuteRequest {
	request := &pb.ExecuteRequest{Inputs: slices.Clone(g.inputs), Nodes: g.nodes, Device: g.Device}
	for _, output := range outputs {
		request.Outputs = append(request.Outputs, &pb.TensorOutput{Name: output.name, Keep: isKept})
	}
	return request
}

// execution is a call with the tensors that it keeps on the daemon while it runs.
type execution struct {
	client    *Client
	request   *pb.ExecuteRequest
	temporary []*ResidentTensor
}

// upload makes the largest inputs resident, so that the others fit into a message.
func (e *execution) upload(ctx context.Context, graph *Graph) error {
	if graph.err != nil {
		return graph.err
	}
	left := 0
	for _, input := range e.request.Inputs {
		left += len(input.GetValue().GetData())
	}
	for left > min(maxInlineBytes, e.client.maxMessageBytes/2) {
		at := e.largestInput()
		input := e.request.Inputs[at]
		left -= len(input.GetValue().GetData())
		tensor, err := received(input.GetName(), input.GetValue())
		if err != nil {
			return err
		}
		resident, err := e.client.Upload(ctx, tensor, &ResidentOptions{Device: e.request.Device})
		if err != nil {
			return err
		}
		e.temporary = append(e.temporary, resident)
		if e.request.Inputs[at], err = resident.input(input.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) largestInput() int {
	found, size := 0, math.MinInt
	for at, input := range e.request.Inputs {
		if bytes := len(input.GetValue().GetData()); bytes > size {
			found, size = at, bytes
		}
	}
	return found
}

// keep runs a graph whose outputs are kept.
func (e *execution) keep(ctx context.Context) ([]*ResidentTensor, error) {
	response, err := e.client.tensors.Execute(ctx, e.request)
	if err != nil {
		return nil, err
	}
	if len(response.GetKept()) != len(e.request.GetOutputs()) {
		return nil, malformed("%d outputs kept, expected %d", len(response.GetKept()), len(e.request.GetOutputs()))
	}
	return residents(response.GetKept()), nil
}

// keepAndDownload runs a graph whose outputs exceed a message.
func (e *execution) keepAndDownload(ctx context.Context) ([]Tensor, error) {
	for _, output := range e.request.Outputs {
		output.Keep = true
	}
	kept, err := e.keep(ctx)
	if err != nil {
		return nil, err
	}
	e.temporary = append(e.temporary, kept...)
	found := make([]Tensor, len(kept))
	for at, tensor := range kept {
		if found[at], err = e.client.Download(ctx, tensor); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (e *execution) free(ctx context.Context) {
	if len(e.temporary) > 0 {
		_ = e.client.Free(ctx, e.temporary...)
	}
}
