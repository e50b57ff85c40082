package docker

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
	"sync"

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

// noEngine says that none of places has an engine for this user.
func noEngine(places []place) error {
	for _, at := range places {
		if at.socket() {
			return core.Errorf(core.KindUnavailable, "docker.connect", "", "%w that this user may use: %s may not be opened", errNone, at).WithHint(closedHint)
		}
	}
	e := &core.Error{Kind: core.KindUnavailable, Op: "docker.connect", Err: errNone}
	return e.WithHint("install Docker or Podman and start it, or set DOCKER_HOST; sb doctor docker says where it was looked for")
}

// connect finds the engine when it is first needed. A failure is not remembered.
func (p *Provider) connect(ctx context.Context) (*engine, error) {
	p.connecting.Lock()
	defer p.connecting.Unlock()
	if e := p.met(); e != nil {
		return e, nil
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
			p.mu.Lock()
			p.engine = e
			p.mu.Unlock()
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
		return nil, noEngine(places)
	}
	return nil, failed
}

// met returns the engine that was found before, or nil.
func (p *Provider) met() *engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine
}

// there says whether a place that nobody chose has a socket that this user may use.
func (at place) there() bool {
	path, ok := strings.CutPrefix(at.Host, "unix://")
	return !ok || at.socket() && writable(path)
}

// socket says whether a place is a socket of this machine that exists.
func (at place) socket() bool {
	path, ok := strings.CutPrefix(at.Host, "unix://")
	if !ok {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// reach connects to an engine and asks who it is.
func reach(ctx context.Context, at place) (*engine, error) {
	e := &engine{at: at}
	var first sync.Once
	opts := []client.Opt{
		client.WithUserAgent("sb"),
		client.WithHTTPResponseHook(func(r *http.Response) {
			// The client's own answer leaves this out.
			first.Do(func() {
				e.podman = r.Header.Get("Libpod-Api-Version") != ""
				e.version, _, _ = strings.Cut(r.Header.Get("Server"), " ")
			})
		}),
	}
	how, err := at.options()
	if err != nil {
		return nil, core.Errorf(core.KindUnavailable, "docker.connect", at.String(), "%s: %w", at.Why, err)
	}
	e.client, err = client.New(append(opts, how...)...)
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "docker.connect", at.String(), "%s: %w", at.Why, err)
	}
	limit := connectTimeout
	if strings.HasPrefix(at.Host, "ssh://") {
		limit = sshTimeout
	}
	ctx, cancel := within(ctx, limit)
	defer cancel()
	ping, err := e.client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil && ping.OSType != "" && ping.OSType != "linux" {
		err = core.Errorf(core.KindUnsupported, "docker.connect", at.String(), "the engine runs containers of %s, not of Linux", ping.OSType)
	}
	if err != nil {
		_ = e.client.Close()
		return nil, at.closed(classify(ctx, "connect", at.String(), err))
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

// address is the place's, with what the docker command adds: tcp, and Docker's ports.
func (at place) address() (*url.URL, error) {
	host := at.Host
	if !strings.Contains(host, "://") {
		host = "tcp://" + host
	}
	address, err := url.Parse(host)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return nil, failed.Err // without the address, which may hold a password
	}
	if _, set := address.User.Password(); set {
		return nil, errors.New("an engine's address takes no password")
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

// String is the address without a password that it may hold.
func (at place) String() string {
	if address, err := url.Parse(at.Host); err == nil {
		return address.Redacted()
	}
	return "an address that cannot be read"
}

// options says how the place is reached.
func (at place) options() ([]client.Opt, error) {
	address, err := at.address()
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
	opts := []client.Opt{client.WithHost(address.String())}
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
