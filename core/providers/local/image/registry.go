package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
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
type patience struct{ stall, delay time.Duration }

// findRemote requests an image from the registry.
func findRemote(ctx context.Context, t target, keychain authn.Keychain, wait patience) (*found, error) {
	ref, err := name.ParseReference(t.named.String())
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "local.image", t.key(), "it is no name of an image: %w", err)
	}
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	connections, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("the registry client has no transport")
	}
	connections = connections.Clone()
	found, err := ask(ctx, ref, keychain, connections, wait)
	if err != nil {
		connections.CloseIdleConnections()
		return nil, err
	}
	found.close = func() error {
		connections.CloseIdleConnections()
		return nil
	}
	return found, nil
}

func ask(
	ctx context.Context, ref name.Reference, keychain authn.Keychain, connections http.RoundTripper, wait patience,
) (*found, error) {
	puller, err := remote.NewPuller(remote.WithAuthFromKeychain(keychain), remote.WithTransport(connections),
		remote.WithUserAgent("sb"), remote.WithRetryBackoff(remote.Backoff{
			Duration: wait.delay, Factor: 2, Jitter: 0.1, Steps: attempts,
		}))
	if err != nil {
		return nil, err
	}
	answer, err := get(ctx, puller, ref, wait.stall)
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
		if answer, err = get(ctx, puller, ref.Context().Digest(one.Digest.String()), wait.stall); err != nil {
			return nil, err
		}
	}
	if !answer.MediaType.IsImage() {
		return nil, core.Errorf(core.KindUsage, "local.image", "", "it is %q and no image", answer.MediaType)
	}
	return newFound(answer.Manifest, found{remote: true, blob: func(
		ctx context.Context, of v1.Descriptor,
	) (io.ReadCloser, error) {
		return openBlob(ctx, puller, ref.Context().Digest(of.Digest.String()), wait.stall)
	}})
}

// get requests a manifest. Its time limit is three times stall, because the client retries.
func get(
	ctx context.Context, puller *remote.Puller, ref name.Reference, stall time.Duration,
) (*remote.Descriptor, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*stall, stalled(stall))
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
	var known *core.Error
	var answer *transport.Error
	var host *fs.PathError
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
	case !errors.As(err, &answer):
		if kind := core.KindOf(err); kind != core.KindInternal {
			return core.Errorf(kind, "local.image", ref, "%w", err)
		}
		return core.Errorf(core.KindUnavailable, "local.image", ref, "the image cannot be pulled: %w", err).
			WithHint("check the name and the network; --image host needs no registry, --provider docker uses an engine's images")
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
		return core.Errorf(core.KindExhausted, "local.image", ref, "the registry allows no more pulls now: %w", err).
			WithHint("wait, or log in: docker login REGISTRY")
	}
	return core.Errorf(core.KindUnavailable, "local.image", ref, "the registry fails: %w", err)
}
