package accelerd

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
)

// order says how the messages of a stream depend on each other.
type order bool

const (
	inAnyOrder order = false
	// inSequence means that a message may replace what an earlier one wrote.
	inSequence order = true
)

// message is a numbered message of a stream, or the error of its batch.
type message[Req any] struct {
	sequence uint64
	request  *Req
	err      error
}

// numbered makes the messages of a stream from batches.
func numbered[B, Req any](batches iter.Seq[B], request func(uint64, B) (*Req, error)) iter.Seq[message[Req]] {
	return func(yield func(message[Req]) bool) {
		var sequence uint64
		for batch := range batches {
			made, err := request(sequence, batch)
			if !yield(message[Req]{sequence, made, err}) {
				return
			}
			sequence++
		}
	}
}

// mapped converts the responses of a stream, until an error.
func mapped[From, To any](responses iter.Seq2[From, error], convert func(From) (To, error)) iter.Seq2[To, error] {
	return func(yield func(To, error) bool) {
		for response, err := range responses {
			var converted To
			if err == nil {
				converted, err = convert(response)
			}
			if !yield(converted, err) || err != nil {
				return
			}
		}
	}
}

// sentMessages are the messages of a stream that have no response, so that another call can send them again.
type sentMessages[Req any] struct {
	order order

	mutex sync.Mutex
	kept  map[uint64]*Req
	// first is the first of ordered messages without a response, and answered are those after it that have one.
	first    uint64
	answered map[uint64]bool
	count    uint64
	hasEnded bool
	// err is the error of the input.
	err error
}

func newSentMessages[Req any](order order) *sentMessages[Req] {
	return &sentMessages[Req]{order: order, kept: map[uint64]*Req{}, answered: map[uint64]bool{}}
}

// unanswered returns the messages to send again, in order.
func (s *sentMessages[Req]) unanswered() []*Req {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []*Req
	for _, sequence := range slices.Sorted(maps.Keys(s.kept)) {
		found = append(found, s.kept[sequence])
	}
	return found
}

func (s *sentMessages[Req]) keep(sequence uint64, request *Req) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.kept[sequence] = request
	s.count = sequence + 1
}

func (s *sentMessages[Req]) end(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.hasEnded = true
	s.err = err
}

func (s *sentMessages[Req]) inputError() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.err
}

func (s *sentMessages[Req]) isComplete() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.hasEnded && len(s.kept) == 0
}

// onResponse processes a response. It returns true for the first to its message.
func (s *sentMessages[Req]) onResponse(sequence uint64) (bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, isKept := s.kept[sequence]; !isKept {
		// It was answered in an earlier call, and what preceded it in this one.
		if s.order == inSequence && sequence < s.count {
			return false, nil
		}
		return false, malformed("unexpected sequence %d", sequence)
	}
	if s.order == inAnyOrder {
		delete(s.kept, sequence)
		return true, nil
	}
	isNew := !s.answered[sequence]
	s.answered[sequence] = true
	for ; s.answered[s.first]; s.first++ {
		delete(s.kept, s.first)
		delete(s.answered, s.first)
	}
	return isNew, nil
}

// sequenced is a response that has the number of its message.
type sequenced[Res any] interface {
	*Res
	GetSequence() uint64
}

type opener[Req, Res any] func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Req, Res], error)

// resume returns the responses of a stream of numbered messages. After a broken connection or the drain of a daemon, messages without a
// response are sent again; if they are ordered, all from the first of them on.
func resume[Req, Res any, P sequenced[Res]](
	ctx context.Context, c *Client, method string, order order, open opener[Req, Res], messages iter.Seq[message[Req]],
) iter.Seq2[*Res, error] {
	return func(yield func(*Res, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		tries := c.conn.policy.attempts(ctx, isIdempotent(method, nil))
		sent := newSentMessages[Req](order)
		input := produce(ctx, messages)
		for {
			err := attemptStream[Req, Res, P](ctx, open, sent, input, tries, yield)
			if err == errStopped {
				return
			}
			if failed := sent.inputError(); failed != nil {
				err = failed
			} else if err != nil {
				if err = backOff(ctx, tries, err); err == nil {
					continue
				}
			}
			if err != nil {
				yield(nil, err)
			}
			return
		}
	}
}

// errStopped says that the caller wants no further response.
var errStopped = errors.New("stopped")

// attemptStream makes one call, and yields new responses. It returns nil after the last response to all messages.
func attemptStream[Req, Res any, P sequenced[Res]](
	ctx context.Context,
	open opener[Req, Res],
	sent *sentMessages[Req],
	input <-chan message[Req],
	tries *attempts,
	yield func(*Res, error) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := open(ctx)
	if err != nil {
		cancel()
		return err
	}
	hasEnded := make(chan struct{})
	go func() {
		defer close(hasEnded)
		sendAll(ctx, cancel, stream, sent, input)
	}()
	defer func() {
		cancel()
		<-hasEnded
	}()
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			if sent.isComplete() {
				return nil
			}
			return malformed("the stream ended before its last request was answered")
		}
		if err != nil {
			return err
		}
		tries.progressed()
		isNew, err := sent.onResponse(P(response).GetSequence())
		if err != nil {
			return err
		}
		if isNew && !yield(response, nil) {
			return errStopped
		}
	}
}

// sendAll sends the messages without a response, then those that follow, until the stream ends.
func sendAll[Req, Res any](
	ctx context.Context,
	cancel context.CancelFunc,
	stream grpc.BidiStreamingClient[Req, Res],
	sent *sentMessages[Req],
	input <-chan message[Req],
) {
	for _, request := range sent.unanswered() {
		if stream.Send(request) != nil {
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case next, ok := <-input:
			if !ok {
				sent.end(nil)
				_ = stream.CloseSend() // RecvMsg returns the error.
				return
			}
			if next.err != nil {
				sent.end(next.err)
				cancel()
				return
			}
			sent.keep(next.sequence, next.request)
			if err := stream.Send(next.request); err != nil {
				if err != io.EOF {
					// gRPC refuses the message, such as for its size.
					sent.end(err)
					cancel()
				}
				return
			}
		}
	}
}

// produce runs the input in a goroutine, which ends with the context.
func produce[T any](ctx context.Context, input iter.Seq[T]) <-chan T {
	produced := make(chan T)
	go func() {
		defer close(produced)
		for next := range input {
			select {
			case produced <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return produced
}
