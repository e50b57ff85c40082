package docker

import (
	"context"
	"path/filepath"

	"github.com/seed-0724f904/sb/core/providers/docker/engine"
	"github.com/seed-0724f904/sb/core/providers/docker/image"
)

// containers has the requests to an engine that sandboxes need.
type containers struct{ *engine.Engine }

// connect finds the engine on first use. After a failure, the next call tries again.
func (p *Provider) connect(ctx context.Context) (containers, error) {
	p.connecting.Lock()
	defer p.connecting.Unlock()
	if e := p.met(); e.Engine != nil {
		return e, nil
	}
	found, err := p.search().Connect(ctx)
	if err != nil {
		return containers{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.engine = containers{found}
	return p.engine, nil
}

// met returns the engine that an earlier call found; its Engine is nil when there is none.
func (p *Provider) met() containers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine
}

func (p *Provider) search() engine.Search {
	return engine.Search{Host: p.opts.Host, LookupEnv: p.opts.LookupEnv}
}

// learn loads the engine's facts.
func (p *Provider) learn(ctx context.Context, e containers) error {
	return e.Learn(ctx, p.factsDir())
}

// factsDir is the directory of the cached facts; "" means no cache.
func (p *Provider) factsDir() string {
	if p.opts.CacheDir == "" {
		return ""
	}
	return filepath.Join(p.opts.CacheDir, Name)
}

// store returns the engine's images.
func (p *Provider) store(e containers) image.Store {
	return image.Store{
		Engine: e.Engine, Login: image.FindLogin(p.opts.LookupEnv), Default: p.opts.Image,
		Labels: map[string]string{labelBuild: version, labelSnapshot: ""},
	}
}
