package modal

import (
	"context"
	"sync"
	"sync/atomic"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core"
)

// lookups finds ids by name for one operation: in the cache, or else by asking. It may be used from several goroutines.
type lookups struct {
	client *client
	// fresh asks each time: what the cache said was not true.
	fresh bool
	used  atomic.Bool

	mu sync.Mutex
	// asked are the questions so far: what is needed twice is asked once.
	asked map[[2]string]func() (string, error)
}

// remembered says whether an id came from the cache, and may be that of something which is gone.
func (l *lookups) remembered() bool { return l.used.Load() }

// id returns the id of something by its name.
func (l *lookups) id(sort, name string, ask func() (string, error)) (string, error) {
	if id := l.client.cache.get(sort, name); id != "" && !l.fresh {
		l.used.Store(true)
		return id, nil
	}
	l.mu.Lock()
	if l.asked == nil {
		l.asked = map[[2]string]func() (string, error){}
	}
	key := [2]string{sort, name}
	if l.asked[key] == nil {
		l.asked[key] = sync.OnceValues(ask)
	}
	once := l.asked[key]
	l.mu.Unlock()
	id, err := once()
	if err == nil {
		l.client.cache.put(sort, name, id)
	}
	return id, err
}

// secret finds a secret that Modal keeps.
func (l *lookups) secret(ctx context.Context, name string) (*sdk.Secret, error) {
	id, err := l.id(cachedSecrets, name, func() (string, error) {
		found, err := l.client.sdk.Secrets.FromName(ctx, name, nil)
		if err == nil {
			return found.SecretID, nil
		}
		if kind, text := kindOf(err); kind == core.KindNotFound {
			return "", core.Errorf(kind, "modal.launch", name, "%s", text).WithHint("Modal has to keep it: sb secret create %s KEY --provider modal", name)
		}
		return "", err
	})
	return &sdk.Secret{SecretID: id, Name: name}, err
}

// secrets makes Modal's secrets: values go inline, references are looked up, all at once.
func (l *lookups) secrets(ctx context.Context, list []core.Secret) ([]*sdk.Secret, error) {
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
	err := each(names, func(i int, name string) (err error) {
		secrets[i], err = l.secret(ctx, name)
		return err
	})
	if err != nil || len(inline) == 0 {
		return secrets, err
	}
	made, err := l.client.sdk.Secrets.FromMap(ctx, inline, nil)
	return append(secrets, made), err
}

// volume finds a volume, or makes it.
func (l *lookups) volume(ctx context.Context, name string) (*sdk.Volume, error) {
	id, err := l.id(cachedVolumes, name, func() (string, error) {
		found, err := l.client.sdk.Volumes.FromName(ctx, name, &sdk.VolumeFromNameParams{CreateIfMissing: true})
		if err != nil {
			return "", err
		}
		return found.VolumeID, nil
	})
	return &sdk.Volume{VolumeID: id, Name: name}, err
}

// proxy finds a proxy.
func (l *lookups) proxy(ctx context.Context, name string) (*sdk.Proxy, error) {
	id, err := l.id(cachedProxies, name, func() (string, error) {
		found, err := l.client.sdk.Proxies.FromName(ctx, name, nil)
		if err != nil {
			return "", err
		}
		return found.ProxyID, nil
	})
	return &sdk.Proxy{ProxyID: id}, err
}

// together does things at once and returns the first one's error, in their order.
func together(things ...func() error) error {
	return each(things, func(_ int, do func() error) error { return do() })
}

// each does something with all of list at once and returns the first one's error, in their order.
func each[T any](list []T, do func(int, T) error) error {
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
