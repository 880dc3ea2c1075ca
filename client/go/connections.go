package accelerd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	// rest is the time for which a daemon that cannot be reached gets no calls, if there are others.
	rest            = 2 * time.Second
	writeBufferSize = 256 << 10
)

// connections are those of a client, used in turn. Its calls have the token, and errors of type *Error; nothing is retried.
type connections struct {
	all   []*connection
	next  atomic.Uint64
	token string
	hint  func(*Error) string
}

type connection struct {
	*grpc.ClientConn
	// restsUntil is in nanoseconds since 1970.
	restsUntil atomic.Int64
}

func connect(targets []target, settings *options) (*connections, error) {
	opened := &connections{token: settings.token}
	for range settings.connections {
		for _, one := range targets {
			dialed, err := grpc.NewClient(one.address, dialOptions(one, settings)...)
			if err != nil {
				return nil, errors.Join(invalid("target", "%v", err), opened.Close())
			}
			opened.all = append(opened.all, &connection{ClientConn: dialed})
		}
	}
	return opened, nil
}

func dialOptions(to target, settings *options) []grpc.DialOption {
	secured := insecure.NewCredentials()
	if settings.tls != nil {
		secured = credentials.NewTLS(settings.tls)
	}
	list := []grpc.DialOption{
		grpc.WithTransportCredentials(secured),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallSendMsgSize(settings.maxMessageBytes),
			// The daemon limits its responses.
			grpc.MaxCallRecvMsgSize(math.MaxInt32),
		),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		// No configuration is looked up in DNS.
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			// By default a daemon that is back is found only after up to two minutes.
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithWriteBufferSize(writeBufferSize),
	}
	if to.isLocal() {
		// The proxy of the environment cannot reach this machine.
		list = append(list, grpc.WithNoProxy())
	}
	return append(list, settings.dialOptions...)
}

// pick returns the next connection that does not rest, or the last if all do.
func (c *connections) pick() *connection {
	now := time.Now().UnixNano()
	var found *connection
	for range c.all {
		found = c.all[c.next.Add(1)%uint64(len(c.all))]
		if found.restsUntil.Load() <= now {
			break
		}
	}
	return found
}

func (c *connections) Invoke(ctx context.Context, method string, request, reply any, list ...grpc.CallOption) error {
	picked := c.pick()
	var reached peer.Peer
	err := picked.Invoke(c.withToken(ctx), method, request, reply, withPeer(list, &reached)...)
	return c.failure(picked, &reached, err)
}

func (c *connections) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, list ...grpc.CallOption,
) (grpc.ClientStream, error) {
	picked := c.pick()
	opened := &stream{connections: c, picked: picked}
	var err error
	opened.ClientStream, err = picked.NewStream(c.withToken(ctx), desc, method, withPeer(list, &opened.reached)...)
	if err != nil {
		return nil, c.failure(picked, &opened.reached, err)
	}
	return opened, nil
}

// Close closes all connections.
func (c *connections) Close() error {
	var failures []error
	for _, one := range c.all {
		if err := one.Close(); err != nil && status.Code(err) != codes.Canceled {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (c *connections) withToken(ctx context.Context) context.Context {
	if c.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
}

// withPeer adds an option, in a new list, as other calls may share the given one.
func withPeer(list []grpc.CallOption, reached *peer.Peer) []grpc.CallOption {
	return append(slices.Clip(list), grpc.Peer(reached))
}

// failure returns the error of a call. gRPC sets the peer once the call has a connection.
func (c *connections) failure(picked *connection, reached *peer.Peer, err error) error {
	converted := toError(err)
	var problem *Error
	if !errors.As(converted, &problem) {
		return converted
	}
	if problem.Code == codes.Unavailable && reached.Addr == nil {
		problem.isUnsent = true
		picked.restsUntil.Store(time.Now().Add(rest).UnixNano())
	}
	if c.hint != nil {
		problem.hint = c.hint(problem)
	}
	return converted
}

// stream is a stream whose errors are of type *Error.
type stream struct {
	grpc.ClientStream
	connections *connections
	picked      *connection
	reached     peer.Peer
}

func (s *stream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	return s.connections.failure(s.picked, &s.reached, err)
}

func (s *stream) SendMsg(message any) error {
	return toError(s.ClientStream.SendMsg(message))
}

func (s *stream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	return header, toError(err)
}

// hints returns a function of remedies for the failures of a client.
func hints(targets []target, settings *options) func(*Error) string {
	names := make([]string, len(targets))
	for at, one := range targets {
		names[at] = one.address
	}
	named := strings.Join(names, ",")
	return func(problem *Error) string {
		switch {
		case problem.Code == codes.Unauthenticated && settings.token == "":
			return "set WithToken or the environment variable ACCELERD_TOKEN, or WithClientCertificate"
		case problem.Code == codes.Unavailable && strings.Contains(problem.Message, "x509: certificate signed by unknown authority"):
			return "WithCA trusts the authority that signed the daemon's certificate"
		case problem.isUnsent && isRefused(problem.Message):
			return fmt.Sprintf("is the daemon running at %s? `accelerd serve` starts it", named)
		default:
			return ""
		}
	}
}

func isRefused(message string) bool {
	for _, cause := range []string{"connection refused", "no such file or directory", "no such host", "no route to host"} {
		if strings.Contains(message, cause) {
			return true
		}
	}
	return false
}
