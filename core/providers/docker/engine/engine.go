package engine

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// Engine is a connection to one engine. Its methods are safe for concurrent use.
type Engine struct {
	At     Place
	Client *client.Client
	// Podman reports Podman's implementation of Docker's API.
	Podman bool
	// Version is the engine's name and version: "Docker/20.10.24".
	Version string

	mu    sync.Mutex // guards facts
	facts Facts
}

// Reach connects to an engine and requests its version.
func Reach(ctx context.Context, at Place) (*Engine, error) {
	e := &Engine{At: at}
	var first sync.Once
	opts := []client.Opt{
		client.WithUserAgent("sb"),
		client.WithHTTPResponseHook(func(r *http.Response) {
			// The client's own result leaves this out.
			first.Do(func() {
				e.Podman = r.Header.Get("Libpod-Api-Version") != ""
				e.Version, _, _ = strings.Cut(r.Header.Get("Server"), " ")
			})
		}),
	}
	how, err := at.options()
	if err != nil {
		return nil, core.Errorf(core.KindUnavailable, "docker.connect", at.String(), "%s: %w", at.Why, err)
	}
	e.Client, err = client.New(append(opts, how...)...)
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "docker.connect", at.String(), "%s: %w", at.Why, err)
	}
	limit := ConnectTimeout
	if strings.HasPrefix(at.Host, "ssh://") {
		limit = sshTimeout
	}
	ctx, cancel := Within(ctx, limit)
	defer cancel()
	ping, err := e.Client.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil && ping.OSType != "" && ping.OSType != "linux" {
		err = core.Errorf(core.KindUnsupported, "docker.connect", at.String(),
			"the engine runs containers of %s, not of Linux", ping.OSType)
	}
	if err != nil {
		_ = e.Client.Close()
		return nil, at.closed(Classify(ctx, "connect", at.String(), err))
	}
	return e, nil
}
