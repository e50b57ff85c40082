package docker

import (
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

// engine is the engine that was found.
type engine struct {
	at     place
	client *client.Client
	// podman says that it is Podman's imitation of the API.
	podman bool
	// version is what the engine says of itself: "Docker/20.10.24".
	version string
	facts   facts
}

// errNone says that no engine is installed, as far as can be seen.
const errNone = core.NotSetUp("no Docker or Podman engine was found")

func noEngine() error {
	e := &core.Error{Kind: core.KindUnavailable, Op: "docker.connect", Err: errNone}
	return e.WithHint("install Docker or Podman and start it, or set DOCKER_HOST; sb doctor docker says where it was looked for")
}

// connect finds the engine when it is first needed. A failure is not remembered.
func (p *Provider) connect(ctx context.Context) (*engine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine != nil {
		return p.engine, nil
	}
	places, chosen, err := p.places()
	if err != nil {
		return nil, err
	}
	var failed error
	for _, at := range places {
		if !chosen && !at.there() {
			continue
		}
		e, err := reach(ctx, at)
		if err == nil {
			p.engine = e
			return e, nil
		}
		if failed == nil {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failed == nil {
		return nil, noEngine()
	}
	return nil, failed
}

// there says whether a place that nobody chose has a socket that this user may use.
func (at place) there() bool {
	path, ok := strings.CutPrefix(at.Host, "unix://")
	if !ok {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket && writable(path)
}

// reach connects to an engine and asks who it is.
func reach(ctx context.Context, at place) (*engine, error) {
	e := &engine{at: at}
	opts := []client.Opt{
		client.WithUserAgent("sb"),
		client.WithHTTPResponseHook(func(r *http.Response) {
			// The client's own answer leaves this out. Only the first answer has it here.
			if e.version == "" {
				e.podman = r.Header.Get("Libpod-Api-Version") != ""
				e.version, _, _ = strings.Cut(r.Header.Get("Server"), " ")
			}
		}),
	}
	how, err := at.options()
	if err != nil {
		return nil, core.Errorf(core.KindUnavailable, "docker.connect", at.Host, "%s: %w", at.Why, err)
	}
	e.client, err = client.New(append(opts, how...)...)
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "docker.connect", at.Host, "%s: %w", at.Why, err)
	}
	ctx, cancel := within(ctx, connectTimeout)
	defer cancel()
	ping, err := e.client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil && ping.OSType != "" && ping.OSType != "linux" {
		err = core.Errorf(core.KindUnsupported, "docker.connect", at.Host, "the engine runs containers of %s, not of Linux", ping.OSType)
	}
	if err != nil {
		_ = e.client.Close()
		return nil, at.closed(classify(ctx, "connect", at.Host, err))
	}
	return e, nil
}

// closedHint is for a socket that is there, and not for this user.
const closedHint = "use a rootless engine, or let an administrator add you to the socket's group"

// closed says of a failure to connect when it is for want of permission.
func (at place) closed(err error) error {
	failed, ok := errors.AsType[*core.Error](err)
	path, local := strings.CutPrefix(at.Host, "unix://")
	if info, statErr := os.Stat(path); ok && local && statErr == nil && info.Mode().Type() == os.ModeSocket && !writable(path) {
		failed.Hint = closedHint
	}
	return err
}

// options says how the place is reached.
func (at place) options() ([]client.Opt, error) {
	address, err := url.Parse(at.Host)
	if err != nil {
		return nil, err
	}
	switch address.Scheme {
	case "ssh":
		return []client.Opt{
			client.WithHost("http://docker.example.com"),
			client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSSH(ctx, address) }),
		}, nil
	case "unix", "npipe":
		return []client.Opt{client.WithHost(at.Host)}, nil
	}
	opts := []client.Opt{client.WithHost(at.Host)}
	if at.TLS == "" {
		return opts, nil
	}
	config, err := at.tls()
	if err != nil {
		return nil, err
	}
	// The transport comes first: WithHost teaches it how to dial.
	return append([]client.Opt{client.WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: config}}), client.WithScheme("https")}, opts...), nil
}

func (at place) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: at.SkipVerify} //nolint:gosec // as the user's Docker settings say
	if ca, err := os.ReadFile(filepath.Join(at.TLS, "ca.pem")); err == nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%s holds no certificate", filepath.Join(at.TLS, "ca.pem"))
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
