package image

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/seed-0724f904/sb/core"
)

// patience has two times: stall bounds a registry's silence, and delay comes before the first retry of a request.
type patience struct {
	stall, delay time.Duration
	dial         dialer
}

// findRemote requests an image from the mirrors of its registry, and then from the registry itself. A retry of a blob
// goes to the next of them.
func findRemote(ctx context.Context, t target, opts PullOptions, wait patience) (*found, error) {
	sources, err := t.sources(opts.Registries)
	if err != nil {
		return nil, err
	}
	keychain := &lenient{from: opts.Keychain}
	if keychain.from == nil {
		keychain.from = authn.DefaultKeychain
	}
	connections, err := newConnections(opts.Registries, wait)
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(remote.WithAuthFromKeychain(keychain), remote.WithTransport(connections),
		remote.WithUserAgent("sb"), remote.WithRetryBackoff(remote.Backoff{
			Duration: wait.delay, Factor: 2, Jitter: 0.1, Steps: attempts,
		}))
	if err != nil {
		return nil, err
	}
	var failed []string
	for i, ref := range sources {
		// The client retries a request to the registry. A mirror can be replaced.
		limit := 3 * wait.stall
		if i < len(sources)-1 {
			limit = wait.stall / 4
		}
		raw, err := manifestOf(ctx, puller, ref, limit)
		if err == nil {
			blobs := blobSources{puller: puller, refs: sources[i:], stall: wait.stall, opened: map[v1.Hash]int{}}
			return newFound(raw, found{remote: true, blob: blobs.open, close: func() error {
				connections.close()
				return nil
			}})
		}
		if ctx.Err() != nil || i == len(sources)-1 {
			connections.close()
			failed = append(failed, keychain.failures()...)
			if len(failed) > 0 && ctx.Err() == nil {
				err = fmt.Errorf("%w; %s", err, strings.Join(failed, "; "))
			}
			return nil, err
		}
		failed = append(failed, fmt.Sprintf("the mirror %s failed before: %v", ref.Context().RegistryStr(), err))
	}
	return nil, notStored(t.key())
}

// lenient is a keychain that has no credentials where they cannot be read, because the image may be public. failures
// returns the reasons.
type lenient struct {
	from authn.Keychain

	mu     sync.Mutex
	failed []string
}

// Resolve implements authn.Keychain.
func (l *lenient) Resolve(of authn.Resource) (authn.Authenticator, error) {
	found, err := l.from.Resolve(of)
	if err == nil {
		return found, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, fmt.Sprintf("the credentials for %s cannot be read: %v", of.RegistryStr(), err))
	return authn.Anonymous, nil
}

func (l *lenient) failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// manifestOf requests the manifest for this machine's platform.
func manifestOf(ctx context.Context, puller *remote.Puller, ref name.Reference, limit time.Duration) ([]byte, error) {
	answer, err := get(ctx, puller, ref, limit)
	if err != nil {
		return nil, err
	}
	if answer.MediaType.IsIndex() {
		index := &v1.IndexManifest{}
		if err := json.Unmarshal(answer.Manifest, index); err != nil {
			return nil, core.Errorf(core.KindUsage, "local.image", "", "the index is invalid: %w", err)
		}
		one, err := choose(index)
		if err != nil {
			return nil, err
		}
		if answer, err = get(ctx, puller, ref.Context().Digest(one.Digest.String()), limit); err != nil {
			return nil, err
		}
	}
	if !answer.MediaType.IsImage() {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "it is %q, not an image", answer.MediaType)
	}
	return answer.Manifest, nil
}

// blobSources opens blobs at a mirror or registry.
type blobSources struct {
	puller *remote.Puller
	refs   []name.Reference
	stall  time.Duration

	mu sync.Mutex
	// opened counts how often each blob was opened at the next source.
	opened map[v1.Hash]int
}

func (b *blobSources) open(ctx context.Context, of v1.Descriptor) (io.ReadCloser, error) {
	b.mu.Lock()
	if p := partialOf(ctx); p == nil || !p.same {
		b.opened[of.Digest]++
	}
	from := b.refs[(b.opened[of.Digest]-1)%len(b.refs)]
	b.mu.Unlock()
	return openBlob(ctx, b.puller, from.Context().Digest(of.Digest.String()), b.stall)
}

// get requests a manifest within limit.
func get(
	ctx context.Context, puller *remote.Puller, ref name.Reference, limit time.Duration,
) (*remote.Descriptor, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, stalled(limit))
	defer cancel()
	answer, err := puller.Get(ctx, ref)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return answer, err
}

func stalled(after time.Duration) error {
	return core.Errorf(core.KindTimeout, "local.image", "", "the registry sent nothing for %s", after)
}

// openBlob opens a blob of a registry. A read fails if the registry sends nothing for the duration stall.
func openBlob(ctx context.Context, puller *remote.Puller, ref name.Digest, stall time.Duration) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(stall, func() { cancel(stalled(stall)) })
	fail := func(err error) (io.ReadCloser, error) {
		timer.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	layer, err := puller.Layer(ctx, ref)
	if err != nil {
		return fail(err)
	}
	content, err := layer.Compressed()
	if err != nil {
		return fail(err)
	}
	return &blobReader{content: content, timer: timer, stall: stall, ctx: ctx, cancel: cancel}, nil
}

type blobReader struct {
	content io.ReadCloser
	timer   *time.Timer
	stall   time.Duration
	ctx     context.Context //nolint:containedctx // the reader ends it
	cancel  context.CancelCauseFunc
}

func (r *blobReader) Read(p []byte) (int, error) {
	r.timer.Reset(r.stall)
	n, err := r.content.Read(p)
	r.timer.Stop()
	if cause := context.Cause(r.ctx); err != nil && cause != nil {
		return n, cause
	}
	return n, err
}

func (r *blobReader) Close() error {
	r.timer.Stop()
	r.cancel(nil)
	return r.content.Close()
}

// classify adds the kind and the subject to an error of a pull.
func classify(ref string, err error) error {
	return classifyAs("pulled", "check the name and the network; --image host needs no registry, --provider docker uses "+
		"an engine's images", ref, err)
}

// classifyAs is classify for an image that is "pulled" or "pushed". hint helps if the network fails.
func classifyAs(done, hint, ref string, err error) error {
	var known *core.Error
	var answer *transport.Error
	var host *fs.PathError
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &known):
		named := *known
		if named.Subject != "" {
			named.Err = fmt.Errorf("%s: %w", named.Subject, named.Err)
		}
		named.Subject = ref
		return &named
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return core.Errorf(core.KindExhausted, "local.image", ref, "the disk is full: %w", err).
			WithHint("free some space: sb image ls lists the images, sb prune removes what nothing needs")
	case errors.As(err, &host):
		return core.Wrap("local.image", ref, err)
	case errors.As(err, &certificate):
		return core.Errorf(core.KindUnavailable, "local.image", ref, "its certificate cannot be verified: %w", err).
			WithHint("add its authority to the machine's certificates, or name the registry in images.insecure: "+
				"sb config set images.insecure %s", cmp.Or(failedHost(err), "HOST"))
	// A loopback address may answer over http, and then the answer counts.
	case !errors.As(err, &answer) && (errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, errPlain)):
		return core.Errorf(core.KindUnavailable, "local.image", ref, "the registry speaks http instead of https: %w", err).
			WithHint("if you trust the network, name the registry in images.insecure: sb config set images.insecure %s",
				cmp.Or(failedHost(err), "HOST"))
	case !errors.As(err, &answer):
		if kind := core.KindOf(err); kind != core.KindInternal {
			return core.Errorf(kind, "local.image", ref, "%w", err)
		}
		return core.Errorf(core.KindUnavailable, "local.image", ref, "the image cannot be %s: %w", done, err).
			WithHint("%s", hint)
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return core.Errorf(core.KindUnauthorized, "local.image", ref,
			"the registry refuses access, or has no such image: %w", err).
			WithHint("check the name, or log in: docker login REGISTRY")
	case http.StatusNotFound:
		return core.Errorf(core.KindNotFound, "local.image", ref, "the registry has no such image").
			WithHint("check the name and the tag; --provider docker uses an engine's images")
	case http.StatusTooManyRequests:
		return core.Errorf(core.KindExhausted, "local.image", ref, "the registry's limit of pulls is reached: %w", err).
			WithHint("wait, or log in: docker login REGISTRY")
	}
	return core.Errorf(core.KindUnavailable, "local.image", ref, "the registry failed: %w", err)
}

// failedHost returns the host of a failed request, or "".
func failedHost(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		if at, err := url.Parse(request.URL); err == nil {
			return at.Host
		}
	}
	return ""
}
