package accelerd

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// maxReplayBytes bounds the requests of a stream that are kept for a retry. A stream with more is not retried.
const maxReplayBytes = 64 << 20

// conn adds the default deadline and retries to the calls of connections.
type conn struct {
	// under makes one attempt.
	under   grpc.ClientConnInterface
	policy  *retryPolicy
	timeout time.Duration
}

// withDeadline returns the context of a call that has the default timeout if it has no deadline.
func (c *conn) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || c.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

// Invoke makes a unary call, with retries until its deadline.
func (c *conn) Invoke(ctx context.Context, method string, request, reply any, list ...grpc.CallOption) error {
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	tries := c.policy.attempts(ctx, isIdempotent(method, request))
	for {
		err := c.under.Invoke(ctx, method, request, reply, list...)
		if err == nil {
			return nil
		}
		if err := backOff(ctx, tries, err); err != nil {
			return err
		}
	}
}

// NewStream opens a stream. It is retried until its first response.
func (c *conn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, list ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	open := func() (grpc.ClientStream, error) { return c.under.NewStream(ctx, desc, method, list...) }
	retried := &retriedStream{ctx: ctx, open: open, tries: c.policy.attempts(ctx, isIdempotent(method, nil))}
	opened, err := retried.opened()
	retried.current = opened
	return retried, err
}

// backOff waits until the next attempt. It returns the error of a call that is not retried.
func backOff(ctx context.Context, tries *attempts, failure error) error {
	var problem *Error
	if !errors.As(failure, &problem) {
		return failure
	}
	wait, ok := tries.wait(problem)
	if !ok {
		return failure
	}
	return sleep(ctx, wait)
}

func contextError(ctx context.Context) error {
	return fromStatus(status.FromContextError(ctx.Err()))
}

// retriedStream is a stream that keeps its requests until the first response, so that it can send them again.
type retriedStream struct {
	ctx   context.Context
	open  func() (grpc.ClientStream, error)
	tries *attempts

	mutex   sync.Mutex
	current grpc.ClientStream
	// sent are the requests so far, and whether there are no more, until isCommitted.
	sent        []any
	sentBytes   int
	hasEnded    bool
	isCommitted bool
}

// opened returns a new stream, with retries until there is a connection.
func (s *retriedStream) opened() (grpc.ClientStream, error) {
	for {
		opened, err := s.open()
		if err == nil {
			return opened, nil
		}
		if err := backOff(s.ctx, s.tries, err); err != nil {
			return nil, err
		}
	}
}

func (s *retriedStream) stream() grpc.ClientStream {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.current
}

func (s *retriedStream) commit() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.isCommitted = true
	s.sent = nil
}

// keep adds a request. It returns the stream to send it to, and whether another one may send it again.
func (s *retriedStream) keep(message any) (grpc.ClientStream, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.isCommitted {
		return s.current, false
	}
	if encodable, ok := message.(proto.Message); ok {
		s.sentBytes += proto.Size(encodable)
	}
	if s.sentBytes > maxReplayBytes {
		s.isCommitted = true
		s.sent = nil
		return s.current, false
	}
	s.sent = append(s.sent, message)
	return s.current, true
}

func (s *retriedStream) SendMsg(message any) error {
	current, isKept := s.keep(message)
	err := current.SendMsg(message)
	if err == io.EOF && isKept {
		// The stream failed. RecvMsg sends the request again, or returns the error.
		return nil
	}
	return err
}

func (s *retriedStream) CloseSend() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.hasEnded = true
	return s.current.CloseSend()
}

func (s *retriedStream) RecvMsg(message any) error {
	for {
		err := s.stream().RecvMsg(message)
		if err == nil {
			s.commit()
			return nil
		}
		if err == io.EOF || s.isFinal() {
			return err
		}
		if err := backOff(s.ctx, s.tries, err); err != nil {
			return err
		}
		if err := s.replay(); err != nil {
			return err
		}
	}
}

func (s *retriedStream) isFinal() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.isCommitted
}

// replay opens another stream and sends all requests again. A failure to send shows when the response is received.
func (s *retriedStream) replay() error {
	opened, err := s.opened()
	if err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.current = opened
	for _, message := range s.sent {
		if opened.SendMsg(message) != nil {
			return nil
		}
	}
	if s.hasEnded {
		return opened.CloseSend()
	}
	return nil
}

func (s *retriedStream) Header() (metadata.MD, error) {
	header, err := s.stream().Header()
	if err == nil {
		s.commit()
	}
	return header, err
}

func (s *retriedStream) Trailer() metadata.MD {
	return s.stream().Trailer()
}

func (s *retriedStream) Context() context.Context {
	return s.stream().Context()
}
