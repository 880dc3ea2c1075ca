package accelerd

import (
	"context"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Devices returns the GPUs in use, then the CPU worker pool.
func (c *Client) Devices(ctx context.Context) ([]*Device, error) {
	response, err := c.devices.ListDevices(ctx, &pb.ListDevicesRequest{})
	return response.GetDevices(), err
}

// Stats returns counters of queues, batches, memory and kernels since the daemon's start.
func (c *Client) Stats(ctx context.Context) (*Stats, error) {
	return c.devices.GetStats(ctx, &pb.GetStatsRequest{})
}

// Watch returns statistics at an interval of 100 ms to 1 h, until the context ends. 0 means 1 s.
func (c *Client) Watch(ctx context.Context, interval time.Duration) iter.Seq2[*Stats, error] {
	request := &pb.WatchRequest{}
	if interval != 0 {
		request.Interval = durationpb.New(interval)
	}
	return func(yield func(*Stats, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.devices.Watch(ctx, request)
		for err == nil {
			var response *pb.WatchResponse
			if response, err = stream.Recv(); err == nil && !yield(response.GetStats(), nil) {
				return
			}
		}
		if err != io.EOF {
			yield(nil, err)
		}
	}
}

// Drain stops the daemon from accepting work, and waits for the requests in flight: at most the timeout, or the daemon's if it is 0. It
// returns whether all are complete.
func (c *Client) Drain(ctx context.Context, timeout time.Duration) (bool, error) {
	request := &pb.DrainRequest{}
	if timeout != 0 {
		request.Timeout = durationpb.New(timeout)
	}
	response, err := c.devices.Drain(ctx, request)
	return response.GetComplete(), err
}

// Resume ends a drain. It returns whether there was one.
func (c *Client) Resume(ctx context.Context) (bool, error) {
	response, err := c.devices.Resume(ctx, &pb.ResumeRequest{})
	return response.GetResumed(), err
}
