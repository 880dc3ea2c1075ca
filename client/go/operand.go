package accelerd

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// uploadChunk is the size of the messages of an upload. Messages of 1 MiB took several times as long in all.
const uploadChunk = 64 << 10

// Operand is what operations, kernels and comparisons read: a [Tensor], or a [*ResidentTensor].
type Operand interface {
	input(name string) (*pb.TensorInput, error)
}

func (t Tensor) input(name string) (*pb.TensorInput, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return &pb.TensorInput{Name: name, Source: &pb.TensorInput_Value{Value: t.message()}}, nil
}

// ResidentTensor is a tensor that stays in the memory of a device.
type ResidentTensor struct {
	*pb.ResidentTensor
}

func (r *ResidentTensor) input(name string) (*pb.TensorInput, error) {
	return &pb.TensorInput{Name: name, Source: &pb.TensorInput_Handle{Handle: r.GetHandle()}}, nil
}

// operands returns operands in the order of their names.
func operands(named map[string]Operand) ([]*pb.TensorInput, error) {
	var inputs []*pb.TensorInput
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if named[name] == nil {
			return nil, invalid(name, "expected a tensor, got nil")
		}
		input, err := named[name].input(name)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, input)
	}
	return inputs, nil
}

// namedTensors returns the tensors of a response by name.
func namedTensors(list []*pb.NamedTensor) (map[string]Tensor, error) {
	found := make(map[string]Tensor, len(list))
	for _, one := range list {
		tensor, err := received(one.GetName(), one.GetValue())
		if err != nil {
			return nil, err
		}
		found[one.GetName()] = tensor
	}
	return found, nil
}

// ResidentOptions says where a tensor is kept, and for how long.
type ResidentOptions struct {
	// Device is a name such as "cuda:0". Empty means the daemon's default.
	Device string
	// TTL is the time after its last use when the tensor is freed. 0 means the daemon's default.
	TTL time.Duration
}

func (o *ResidentOptions) orDefault() ResidentOptions {
	if o == nil {
		return ResidentOptions{}
	}
	return *o
}

func (o ResidentOptions) ttl() *durationpb.Duration {
	if o.TTL == 0 {
		return nil
	}
	return durationpb.New(o.TTL)
}

// Upload makes a tensor resident.
func (c *Client) Upload(ctx context.Context, tensor Tensor, options *ResidentOptions) (*ResidentTensor, error) {
	if err := tensor.check(); err != nil {
		return nil, err
	}
	ctx, cancel := c.conn.withDeadline(ctx)
	defer cancel()
	stream, err := c.tensors.UploadTensor(ctx)
	if err != nil {
		return nil, err
	}
	kept := options.orDefault()
	header := &pb.UploadTensorHeader{Dtype: tensor.Dtype, Shape: extents(tensor.Shape), Device: kept.Device, Ttl: kept.ttl()}
	first := min(len(tensor.Data), uploadChunk)
	err = stream.Send(&pb.UploadTensorRequest{Header: header, Data: tensor.Data[:first]})
	for start := first; start < len(tensor.Data) && err == nil; start += uploadChunk {
		err = stream.Send(&pb.UploadTensorRequest{Data: tensor.Data[start:min(start+uploadChunk, len(tensor.Data))]})
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	response, err := stream.CloseAndRecv()
	if err != nil {
		return nil, err
	}
	return &ResidentTensor{response.GetTensor()}, nil
}

// Download returns the elements of a resident tensor.
func (c *Client) Download(ctx context.Context, tensor *ResidentTensor) (Tensor, error) {
	ctx, cancel := c.conn.withDeadline(ctx)
	defer cancel()
	stream, err := c.tensors.DownloadTensor(ctx, &pb.DownloadTensorRequest{Handle: tensor.GetHandle()})
	if err != nil {
		return Tensor{}, err
	}
	data := make([]byte, 0, tensor.GetSizeBytes())
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return received("tensor", &pb.Tensor{Dtype: tensor.GetDtype(), Shape: tensor.GetShape(), Data: data})
		}
		if err != nil {
			return Tensor{}, err
		}
		data = append(data, response.GetData()...)
	}
}

// Free frees resident tensors: all of them, or none if it fails.
func (c *Client) Free(ctx context.Context, tensors ...*ResidentTensor) error {
	request := &pb.FreeTensorsRequest{}
	for _, tensor := range tensors {
		request.Handles = append(request.Handles, tensor.GetHandle())
	}
	_, err := c.tensors.FreeTensors(ctx, request)
	return err
}

// ListTensors returns the caller's resident tensors, oldest first.
func (c *Client) ListTensors(ctx context.Context) ([]*ResidentTensor, error) {
	response, err := c.tensors.ListTensors(ctx, &pb.ListTensorsRequest{})
	return residents(response.GetTensors()), err
}

func residents(list []*pb.ResidentTensor) []*ResidentTensor {
	found := make([]*ResidentTensor, len(list))
	for at, tensor := range list {
		found[at] = &ResidentTensor{tensor}
	}
	return found
}
