package accelerd

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

func TestTargetsAreAddressesWithOrWithoutAScheme(t *testing.T) {
	for text, expected := range map[string][]target{
		"":                         {{"localhost:7433", ""}},
		"host:1":                   {{"host:1", ""}},
		"http://host:1/":           {{"host:1", "http"}},
		"https://[::1]:1":          {{"[::1]:1", "https"}},
		"unix:/run/accelerd":       {{"unix:/run/accelerd", ""}},
		"unix:///run/a":            {{"unix:///run/a", ""}},
		"dns:///host:1":            {{"dns:///host:1", ""}},
		"a:1, b:2":                 {{"a:1", ""}, {"b:2", ""}},
		"ipv4:10.0.0.1:7,10.0.0.2": {{"10.0.0.1:7", ""}, {"10.0.0.2", ""}},
	} {
		t.Setenv("ACCELERD_SERVER", "")
		found, err := parseTargets(text)
		if err != nil || !slices.Equal(found, expected) {
			t.Errorf("%q: %v, %v", text, found, err)
		}
	}
	t.Setenv("ACCELERD_SERVER", "https://there:2")
	if found, err := parseTargets(""); err != nil || found[0] != (target{"there:2", "https"}) {
		t.Errorf("the environment: %v, %v", found, err)
	}
}

func TestTargetsThatCannotBeAreRefused(t *testing.T) {
	refused := []string{"ftp://host:1", "http://", "host:0", "host:65536", "https://dns:///a", "a:1,,b:1", "http://a:1,https://b:1"}
	for _, text := range refused {
		_, err := New(text)
		var found *Error
		if !errors.As(err, &found) || found.Code != codes.InvalidArgument || found.Field() != "target" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLocalTargetsAreOnThisMachine(t *testing.T) {
	for address, expected := range map[string]bool{
		"localhost:1": true, "LOCALHOST": true, "127.0.0.1:1": true, "127.9.9.9": true, "[::1]:1": true, "::1": true, "unix:/a": true,
		"localhost.evil.example:1": false, "10.0.0.1:1": false, "[2001:db8::1]:1": false, "127.0.0.1.example:1": false,
	} {
		if (target{address: address}).isLocal() != expected {
			t.Errorf("%s: local: %v", address, !expected)
		}
	}
}

func TestATokenIsNotSentInPlaintextToOtherMachines(t *testing.T) {
	for _, address := range []string{"host:1", "http://10.0.0.1:1", "localhost:1,host:1"} {
		if _, err := New(address, WithToken("secret")); err == nil || !strings.HasPrefix(err.Error(), "INVALID_ARGUMENT: token: refusing") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, test := range []struct {
		address string
		options []Option
	}{
		{"localhost:1", nil},
		{"unix:/run/a", nil},
		{"https://host:1", nil},
		{"host:1", []Option{WithPlaintextToken()}},
	} {
		if _, err := New(test.address, append(test.options, WithToken("secret"))...); err != nil {
			t.Errorf("%s: %v", test.address, err)
		}
	}
	if _, err := New("localhost:1", WithToken("two words")); err == nil || strings.Contains(err.Error(), "words") {
		t.Errorf("a token with a space: %v", err)
	}
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	for name, option := range map[string]Option{
		"timeout": WithTimeout(-1), "attempts": WithMaxAttempts(0), "bytes": WithMaxMessageBytes(0), "connections": WithConnections(0),
		"CA": WithCA("absent.pem"), "certificate": WithClientCertificate("absent.pem", "absent.key"), "PEM": WithCA("go.mod"),
	} {
		if _, err := New("localhost:1", option); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New("http://localhost:1", WithTLSConfig(nil)); err != nil {
		t.Errorf("no configuration of TLS: %v", err)
	}
}
