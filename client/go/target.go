package accelerd

import (
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
)

const defaultTarget = "localhost:7433"

// grpcSchemes are the schemes of grpc-go that may precede "//".
var grpcSchemes = map[string]bool{"dns": true, "passthrough": true, "unix": true, "unix-abstract": true, "xds": true}

var addressWithPort = regexp.MustCompile(`^(?:\[[^\]]*\]|[^:/,\[\]]*):([0-9]{1,9})$`)

// target is the address of a daemon.
type target struct {
	// address is without http:// or https://.
	address string
	// scheme is "http", "https" or empty.
	scheme string
}

// parseTargets reads the addresses of daemons, which commas separate.
func parseTargets(text string) ([]target, error) {
	if text == "" {
		text = os.Getenv("ACCELERD_SERVER")
	}
	if text == "" {
		text = defaultTarget
	}
	// Lists of gRPC for other languages.
	for _, scheme := range []string{"ipv4:", "ipv6:"} {
		text = strings.TrimPrefix(text, scheme)
	}
	var targets []target
	for _, one := range strings.Split(text, ",") {
		parsed, err := parseTarget(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		if len(targets) > 0 && parsed.scheme != targets[0].scheme {
			return nil, invalid("target", "expected the same scheme for all addresses, got %q", text)
		}
		targets = append(targets, parsed)
	}
	return targets, nil
}

func parseTarget(text string) (target, error) {
	parsed := target{address: text}
	for _, scheme := range []string{"http", "https"} {
		if rest, ok := strings.CutPrefix(text, scheme+"://"); ok {
			parsed = target{address: rest, scheme: scheme}
		}
	}
	parsed.address = strings.TrimSuffix(parsed.address, "/")
	scheme, _, hasScheme := strings.Cut(parsed.address, "://")
	isKnown := !hasScheme || (parsed.scheme == "" && grpcSchemes[scheme])
	if parsed.address == "" || !isKnown || !hasValidPort(parsed.address) {
		const expected = "expected host:port, https://host:port or unix:///path, with a port from 1 to 65535, got %q"
		return target{}, invalid("target", expected, text)
	}
	return parsed, nil
}

func hasValidPort(address string) bool {
	found := addressWithPort.FindStringSubmatch(address)
	if found == nil {
		return true
	}
	port, err := strconv.Atoi(found[1])
	return err == nil && 1 <= port && port <= 65535
}

func (t target) isUnixSocket() bool {
	return strings.HasPrefix(t.address, "unix:") || strings.HasPrefix(t.address, "unix-abstract:")
}

// isLocal returns true if nobody on the network can read what is sent to the target.
func (t target) isLocal() bool {
	if t.isUnixSocket() {
		return true
	}
	host := t.address
	if strings.Count(host, ":") == 1 || strings.HasPrefix(host, "[") {
		host = host[:strings.LastIndex(host, ":")+1]
		host = strings.TrimSuffix(host, ":")
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}
