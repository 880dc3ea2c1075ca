package accelerd

import (
	"crypto/tls"
	"os"

	"google.golang.org/grpc"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Client makes calls to one or more daemons. It connects on the first call. All methods may be called concurrently.
type Client struct {
	connections     *connections
	conn            *conn
	maxMessageBytes int

	embedding    pb.EmbedServiceClient
	similarity   pb.SimilarityServiceClient
	parsing      pb.ParseServiceClient
	tensors      pb.TensorServiceClient
	kernels      pb.KernelServiceClient
	verification pb.VerifyServiceClient
	devices      pb.DeviceServiceClient
}

// New returns a client of the daemon at a target: host:port, http://host:port, https://host:port or unix:/path, or several of them,
// separated by commas, between which calls take turns. An empty target means that of the environment variable ACCELERD_SERVER, or
// localhost:7433.
//
// A target with https:// uses TLS, as do [WithCA], [WithClientCertificate] and [WithTLSConfig]; others use plaintext.
func New(target string, list ...Option) (*Client, error) {
	settings, err := newOptions(list)
	if err != nil {
		return nil, err
	}
	targets, err := parseTargets(target)
	if err != nil {
		return nil, err
	}
	if err := secure(targets, settings); err != nil {
		return nil, err
	}
	opened, err := connect(targets, settings)
	if err != nil {
		return nil, err
	}
	opened.hint = hints(targets, settings)
	retried := &conn{under: opened, policy: newRetryPolicy(settings.maxAttempts), timeout: settings.timeout}
	return &Client{
		connections:     opened,
		conn:            retried,
		maxMessageBytes: settings.maxMessageBytes,
		embedding:       pb.NewEmbedServiceClient(retried),
		similarity:      pb.NewSimilarityServiceClient(retried),
		parsing:         pb.NewParseServiceClient(retried),
		tensors:         pb.NewTensorServiceClient(retried),
		kernels:         pb.NewKernelServiceClient(retried),
		verification:    pb.NewVerifyServiceClient(retried),
		devices:         pb.NewDeviceServiceClient(retried),
	}, nil
}

// secure decides whether there is TLS, and checks where the token would be sent.
func secure(targets []target, settings *options) error {
	for _, one := range targets {
		if settings.tls != nil && (one.scheme == "http" || one.isUnixSocket()) {
			return invalid("tls", "expected a target with https:// or without a scheme, got %q", one.address)
		}
	}
	if targets[0].scheme == "https" && settings.tls == nil {
		settings.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if path := os.Getenv("ACCELERD_TLS_CA"); path != "" {
			if err := settings.trust(path); err != nil {
				return err
			}
		}
	}
	if settings.token == "" || settings.tls != nil || settings.allowPlaintextToken {
		return nil
	}
	for _, one := range targets {
		if !one.isLocal() {
			const refused = "refusing to send it to %q in plaintext, where others can read it: use https://, or WithPlaintextToken " +
				"if the network encrypts by other means"
			return invalid("token", refused, one.address)
		}
	}
	return nil
}

// Conn returns the connections of the client for generated stubs, such as accelerdv1.NewEmbedServiceClient(client.Conn()). Their calls have
// the client's token, default deadline, retries and errors.
func (c *Client) Conn() grpc.ClientConnInterface {
	return c.conn
}

// Close closes the connections. Calls in progress fail.
func (c *Client) Close() error {
	return c.connections.Close()
}
