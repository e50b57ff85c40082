package client

import (
	"context"
	"sync"
	"sync/atomic"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core"
)

// Lookups finds ids by name for one operation, in the cache or by asking Modal. It is safe for concurrent use.
type Lookups struct {
	Client *Client
	// Fresh ignores the cache.
	Fresh bool
	used  atomic.Bool

	mu sync.Mutex
	// requests holds the requests so far, so that each is made once.
	requests map[[2]string]func() (string, error)
}

// Remembered reports whether an id came from the cache and may be out of date.
func (l *Lookups) Remembered() bool { return l.used.Load() }

// ID returns the id of something by its name.
func (l *Lookups) ID(sort, name string, ask func() (string, error)) (string, error) {
	if id := l.Client.Cache.Get(sort, name); id != "" && !l.Fresh {
		l.used.Store(true)
		return id, nil
	}
	l.mu.Lock()
	if l.requests == nil {
		l.requests = map[[2]string]func() (string, error){}
	}
	key := [2]string{sort, name}
	if l.requests[key] == nil {
		l.requests[key] = sync.OnceValues(ask)
	}
	once := l.requests[key]
	l.mu.Unlock()
	id, err := once()
	if err == nil {
		l.Client.Cache.Put(sort, name, id)
	}
	return id, err
}

// Secret finds a secret that is stored at Modal.
func (l *Lookups) Secret(ctx context.Context, name string) (*sdk.Secret, error) {
	id, err := l.ID(CachedSecrets, name, func() (string, error) {
		found, err := l.Client.SDK.Secrets.FromName(ctx, name, nil)
		if err == nil {
			return found.SecretID, nil
		}
		if kind, text := KindOf(err); kind == core.KindNotFound {
			return "", core.Errorf(kind, "modal.launch", name, "%s",
				text).WithHint("store it at Modal first: sb secret create %s KEY --provider modal", name)
		}
		return "", err
	})
	return &sdk.Secret{SecretID: id, Name: name}, err
}

// Secrets returns Modal's secrets for a spec's. Values go inline; references are looked up in parallel.
func (l *Lookups) Secrets(ctx context.Context, list []core.Secret) ([]*sdk.Secret, error) {
	inline := map[string]string{}
	var names []string
	for _, secret := range list {
		if secret.Ref == "" {
			inline[secret.Name] = secret.Value.Reveal()
		} else {
			names = append(names, secret.Ref)
		}
	}
	secrets := make([]*sdk.Secret, len(names))
	err := Each(names, func(i int, name string) (err error) {
		secrets[i], err = l.Secret(ctx, name)
		return err
	})
	if err != nil || len(inline) == 0 {
		return secrets, err
	}
	made, err := l.Client.SDK.Secrets.FromMap(ctx, inline, nil)
	return append(secrets, made), err
}

// Volume finds or creates a volume.
func (l *Lookups) Volume(ctx context.Context, name string) (*sdk.Volume, error) {
	id, err := l.ID(CachedVolumes, name, func() (string, error) {
		found, err := l.Client.SDK.Volumes.FromName(ctx, name, &sdk.VolumeFromNameParams{CreateIfMissing: true})
		if err != nil {
			return "", err
		}
		return found.VolumeID, nil
	})
	return &sdk.Volume{VolumeID: id, Name: name}, err
}

// Proxy finds a proxy.
func (l *Lookups) Proxy(ctx context.Context, name string) (*sdk.Proxy, error) {
	id, err := l.ID(cachedProxies, name, func() (string, error) {
		found, err := l.Client.SDK.Proxies.FromName(ctx, name, nil)
		if err != nil {
			return "", err
		}
		return found.ProxyID, nil
	})
	return &sdk.Proxy{ProxyID: id}, err
}

// Together runs functions in parallel and returns the first error in their order.
func Together(things ...func() error) error {
	return Each(things, func(_ int, do func() error) error { return do() })
}

// Each calls do for all elements of list in parallel and returns the first error in the list's order.
func Each[T any](list []T, do func(int, T) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, one := range list {
		wg.Go(func() { errs[i] = do(i, one) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
