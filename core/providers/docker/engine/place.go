package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// Place is a possible place of an engine.
type Place struct {
	// Why names the setting that selects the place: "DOCKER_HOST", "context colima".
	Why string
	// Host is the address, as in DOCKER_HOST.
	Host string
	// TLS is a directory of ca.pem, cert.pem and key.pem, or "".
	TLS string
	// SkipVerify accepts any certificate of the engine.
	SkipVerify bool
}

// there reports whether a place that the user did not choose has a socket that this user may use.
func (at Place) there() bool {
	path, ok := strings.CutPrefix(at.Host, "unix://")
	return !ok || at.Socket() && Writable(path)
}

// Socket reports whether a place is an existing socket of this machine.
func (at Place) Socket() bool {
	path, ok := strings.CutPrefix(at.Host, "unix://")
	if !ok {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// ClosedHint is the hint for a socket that this user may not open.
const ClosedHint = "use a rootless engine, or let an administrator add you to the socket's group"

// closed adds ClosedHint to a failure to connect that a missing permission caused.
func (at Place) closed(err error) error {
	failed, ok := errors.AsType[*core.Error](err)
	path, local := strings.CutPrefix(at.Host, "unix://")
	if ok && local && at.Socket() && !Writable(path) {
		failed.Hint = ClosedHint
	}
	return err
}

// address returns the place's address with the defaults of the docker command: tcp, and Docker's ports.
func (at Place) address() (*url.URL, error) {
	host := at.Host
	if !strings.Contains(host, "://") {
		host = "tcp://" + host
	}
	address, err := url.Parse(host)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return nil, failed.Err // without the address, which may hold a password
	}
	if _, set := address.User.Password(); set {
		return nil, errors.New("an engine's address cannot have a password")
	}
	if address.Scheme == "tcp" && address.Port() == "" {
		port := "2375"
		if at.TLS != "" {
			port = "2376"
		}
		address.Host = net.JoinHostPort(cmp.Or(address.Hostname(), "localhost"), port)
	}
	return address, err
}

// String returns the address without its password.
func (at Place) String() string {
	if address, err := url.Parse(at.Host); err == nil {
		return address.Redacted()
	}
	return "an invalid address"
}

// options returns the client's options for the place.
func (at Place) options() ([]client.Opt, error) {
	address, err := at.address()
	if err != nil {
		return nil, err
	}
	switch address.Scheme {
	case "ssh":
		return []client.Opt{
			client.WithHost("http://docker.example.com"),
			client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialSSH(ctx, address)
			}),
		}, nil
	case "unix", "npipe":
		return []client.Opt{client.WithHost(at.Host)}, nil
	}
	opts := []client.Opt{client.WithHost(address.String())}
	if at.TLS == "" {
		return opts, nil
	}
	config, err := at.tls()
	if err != nil {
		return nil, err
	}
	// The transport comes first: WithHost sets its dialer.
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	return append([]client.Opt{client.WithHTTPClient(secure), client.WithScheme("https")}, opts...), nil
}

func (at Place) tls() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: at.SkipVerify, //nolint:gosec // as the user's Docker settings say
	}
	if ca, err := os.ReadFile(filepath.Join(at.TLS, "ca.pem")); err == nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%s contains no certificate", filepath.Join(at.TLS, "ca.pem"))
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(at.TLS, "cert.pem"), filepath.Join(at.TLS, "key.pem"))
	switch {
	case err == nil:
		config.Certificates = []tls.Certificate{pair}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	return config, nil
}
