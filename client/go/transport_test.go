package accelerd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// listen serves a daemon on a listener.
func listen(t *testing.T, listener net.Listener, daemon *fakeDaemon, options ...grpc.ServerOption) {
	t.Helper()
	server := grpc.NewServer(options...)
	pb.RegisterEmbedServiceServer(server, daemon)
	pb.RegisterSimilarityServiceServer(server, daemon)
	pb.RegisterTensorServiceServer(server, daemon)
	go func() {
		if err := server.Serve(listener); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(server.Stop)
}

func TestADaemonOnAUnixSocketIsReachedWithAToken(t *testing.T) {
	// Paths of sockets are short.
	folder, err := os.MkdirTemp("", "accelerd")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	daemon := &fakeDaemon{}
	listen(t, listener, daemon)
	for _, target := range []string{"unix:" + path, "unix://" + path} {
		client, err := New(target, WithToken("secret"))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Models(t.Context()); err != nil {
			t.Error(err)
		}
		if token := daemon.metadata.Get("authorization"); len(token) != 1 || token[0] != "Bearer secret" {
			t.Errorf("token %v", token)
		}
		if authority := daemon.metadata.Get(":authority"); len(authority) != 1 || authority[0] != "localhost" {
			t.Errorf("authority %v", authority)
		}
	}
}

// certificate writes a certificate for localhost, which signs itself, and its key.
func certificate(t *testing.T) (string, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(time.Hour),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true,
		IsCA:                  true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certificatePath := writePEM(t, filepath.Join(folder, "tls.crt"), "CERTIFICATE", signed)
	return certificatePath, writePEM(t, filepath.Join(folder, "tls.key"), "PRIVATE KEY", encoded)
}

func writePEM(t *testing.T, path, label string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: label, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDaemonAndClientKnowEachOtherByTheirCertificates(t *testing.T) {
	daemonPath, daemonKey := certificate(t)
	clientPath, clientKey := certificate(t)
	pair, err := tls.LoadX509KeyPair(daemonPath, daemonKey)
	if err != nil {
		t.Fatal(err)
	}
	authorities := &options{}
	if err := authorities.trust(clientPath); err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    authorities.tls.RootCAs,
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen(t, listener, &fakeDaemon{}, grpc.Creds(credentials.NewTLS(config)))
	target := "https://" + listener.Addr().String()
	t.Setenv("ACCELERD_TLS_CA", daemonPath)
	known, err := New(target, WithCA(daemonPath), WithClientCertificate(clientPath, clientKey))
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	if _, err := known.Models(t.Context()); err != nil {
		t.Error(err)
	}
	unknown, err := New(target, WithMaxAttempts(1))
	if err != nil {
		t.Fatal(err)
	}
	defer unknown.Close()
	var found *Error
	if _, err := unknown.Models(t.Context()); !errors.As(err, &found) || found.Code != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
	// The daemon's certificate is one of no authority of the system.
	t.Setenv("ACCELERD_TLS_CA", "")
	distrustful, err := New(target, WithMaxAttempts(1), WithClientCertificate(clientPath, clientKey))
	if err != nil {
		t.Fatal(err)
	}
	defer distrustful.Close()
	if _, err := distrustful.Models(t.Context()); err == nil || !strings.Contains(err.Error(), "WithCA") {
		t.Errorf("without the authority: %v", err)
	}
}

func TestTLSIsNotForPlaintextTargets(t *testing.T) {
	for _, target := range []string{"http://localhost:1", "unix:/run/accelerd"} {
		var found *Error
		if _, err := New(target, WithTLSConfig(&tls.Config{})); !errors.As(err, &found) || found.Field() != "tls" {
			t.Errorf("%s: %v", target, err)
		}
	}
}
