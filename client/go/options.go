package accelerd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
)

const (
	defaultTimeout         = time.Minute
	defaultMaxMessageBytes = 64 << 20
)

// Option is a setting of a client.
type Option func(*options) error

type options struct {
	timeout             time.Duration
	maxAttempts         int
	maxMessageBytes     int
	connections         int
	token               string
	allowPlaintextToken bool
	tls                 *tls.Config
	dialOptions         []grpc.DialOption
}

func newOptions(list []Option) (*options, error) {
	settings := &options{
		timeout:         defaultTimeout,
		maxMessageBytes: defaultMaxMessageBytes,
		connections:     1,
		token:           os.Getenv("ACCELERD_TOKEN"),
	}
	for _, option := range list {
		if err := option(settings); err != nil {
			return nil, err
		}
	}
	return settings, checkToken(settings.token)
}

func checkToken(token string) error {
	for _, character := range token {
		if character < '!' || character > '~' {
			return invalid("token", "expected visible ASCII characters without spaces")
		}
	}
	return nil
}

func positive(name string, value int) error {
	if value < 1 {
		return invalid(name, "expected at least 1, got %d", value)
	}
	return nil
}

// WithTimeout sets the time that a unary call has, retries included, if its context has no deadline. The default is a minute; 0 means no
// deadline. Streams have the deadline of their context only.
func WithTimeout(timeout time.Duration) Option {
	return func(settings *options) error {
		if timeout < 0 {
			return invalid("timeout", "expected at least 0, got %v", timeout)
		}
		settings.timeout = timeout
		return nil
	}
}

// WithMaxAttempts bounds the attempts of a call; 1 disables retries. By default only the deadline bounds them.
func WithMaxAttempts(count int) Option {
	return func(settings *options) error {
		settings.maxAttempts = count
		return positive("max attempts", count)
	}
}

// WithMaxMessageBytes sets the maximum size of a request, by default 64 MiB as that of the daemon.
func WithMaxMessageBytes(size int) Option {
	return func(settings *options) error {
		settings.maxMessageBytes = size
		return positive("max message bytes", size)
	}
}

// WithConnections opens several connections to each daemon, between which calls take turns. The daemon serves each connection on one
// thread.
func WithConnections(count int) Option {
	return func(settings *options) error {
		settings.connections = count
		return positive("connections", count)
	}
}

// WithToken sets the bearer token, by default that of the environment variable ACCELERD_TOKEN. It is sent only over TLS, to a Unix socket
// or to this machine.
func WithToken(token string) Option {
	return func(settings *options) error {
		settings.token = token
		return nil
	}
}

// WithPlaintextToken permits to send the token to other machines in plaintext, for networks that encrypt by other means.
func WithPlaintextToken() Option {
	return func(settings *options) error {
		settings.allowPlaintextToken = true
		return nil
	}
}

// WithTLSConfig sets the configuration of TLS, which is used for all targets but those with http://. An https:// target needs none: it
// trusts the system's authorities, or those in the PEM file of the environment variable ACCELERD_TLS_CA. Options of TLS after this one change
// a copy of the configuration.
func WithTLSConfig(config *tls.Config) Option {
	return func(settings *options) error {
		settings.tls = config.Clone()
		return nil
	}
}

// WithCA trusts the authorities of a PEM file instead of the system's, and uses TLS.
func WithCA(path string) Option {
	return func(settings *options) error {
		return settings.trust(path)
	}
}

// WithClientCertificate identifies the client by a certificate with its chain, and uses TLS. The PEM files are read again for each
// connection, so they can be replaced.
func WithClientCertificate(certificatePath, keyPath string) Option {
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		certificate, err := tls.LoadX509KeyPair(certificatePath, keyPath)
		return &certificate, err
	}
	return func(settings *options) error {
		if _, err := load(nil); err != nil {
			return fmt.Errorf("accelerd: client certificate: %w", err)
		}
		settings.useTLS().GetClientCertificate = load
		return nil
	}
}

// WithDialOptions adds options of gRPC to those of each connection.
func WithDialOptions(list ...grpc.DialOption) Option {
	return func(settings *options) error {
		settings.dialOptions = append(settings.dialOptions, list...)
		return nil
	}
}

func (o *options) useTLS() *tls.Config {
	if o.tls == nil {
		o.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o.tls
}

func (o *options) trust(path string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("accelerd: CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return invalid("CA", "expected PEM with a certificate in %s", path)
	}
	o.useTLS().RootCAs = pool
	return nil
}
