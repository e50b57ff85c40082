package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcr "github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"github.com/seed-0724f904/sb/core"
)

// PushOptions are the options of Store.Push.
type PushOptions struct {
	// Format and Names are not used.
	ExportOptions

	// Keychain has the credentials of registries; nil uses those of docker login and its helpers.
	Keychain authn.Keychain
	// Registries has the registries without TLS. Mirrors are not used.
	Registries core.Registries
}

// Push sends an image to the registry in name, and returns the full name and the digest of the manifest. Blobs that the
// registry has are not sent. Concurrent pushes of the same image take turns.
//
// KindUsage: the name is invalid, or names no registry. KindUnauthorized: the registry refuses the credentials.
// KindUnavailable: the registry cannot be reached, or fails.
func (s *Store) Push(ctx context.Context, ref, name string, opts PushOptions) (full, digest string, err error) {
	to, err := destination(name)
	if err != nil {
		return "", "", err
	}
	digest, err = s.push(ctx, ref, to, opts)
	return to.key(), digest, classifyPush(to, err)
}

// destination parses the name for a push.
func destination(name string) (target, error) {
	if _, err := nameOf(name); err != nil {
		return target{}, err
	}
	t, err := parse(name)
	if err == nil && reference.Domain(t.named) == "docker.io" && strings.HasPrefix(reference.Path(t.named), "library/") {
		return t, core.Errorf(core.KindUsage, "local.image", name, "the name has neither a registry nor an account").
			WithHint("write both names: sb image push IMAGE REGISTRY/%s", t.key())
	}
	return t, err
}

func (s *Store) push(ctx context.Context, ref string, to target, opts PushOptions) (string, error) {
	refs, err := to.sources(core.Registries{Insecure: opts.Registries.Insecure})
	if err != nil {
		return "", err
	}
	made, err := s.assemble(ctx, ref, opts.ExportOptions)
	if err != nil {
		return "", err
	}
	defer made.release()
	lock := "push-" + strings.TrimPrefix(made.image.ID, "sha256:")
	unlock, err := s.lock(ctx, lock)
	if err != nil {
		return "", err
	}
	defer unlock()
	// A killed push leaves the directory, which the next one or a prune removes.
	work := filepath.Join(s.dir, workDir, lock)
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o700)); err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	progress := &progress{to: opts.Progress, ref: to.key()}
	progress.step("compressing")
	packed, err := made.pack(ctx, work)
	if err != nil {
		return "", err
	}
	keychain := &lenient{from: opts.Keychain}
	if keychain.from == nil {
		keychain.from = authn.DefaultKeychain
	}
	connections, err := newConnections(opts.Registries, patience{s.stall, s.delay, s.dial})
	if err != nil {
		return "", err
	}
	defer connections.close()
	updates := make(chan v1.Update, downloads)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for u := range updates {
			progress.set(u.Complete, u.Total)
		}
	}()
	progress.step("pushing")
	err = remote.Write(refs[len(refs)-1], packed, remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain),
		remote.WithTransport(patientTransport{connections, s.stall}), remote.WithUserAgent("sb"),
		remote.WithJobs(downloads), remote.WithProgress(updates), remote.WithRetryBackoff(remote.Backoff{
			Duration: s.delay, Factor: 2, Jitter: 0.1, Steps: attempts,
		}))
	<-reported // Write closes the channel
	if failed := keychain.failures(); err != nil && ctx.Err() == nil && len(failed) > 0 {
		err = fmt.Errorf("%w; %s", err, strings.Join(failed, "; "))
	}
	if err != nil {
		return "", err
	}
	id, err := packed.Digest()
	return id.String(), err
}

// packedImage is an image with compressed layers in files.
type packedImage struct {
	config, manifest []byte
	layers           map[v1.Hash]packedLayer
}

// packedLayer is a compressed layer in a file.
type packedLayer struct {
	v1.Descriptor

	file string
}

// pack compresses the layers into files in a directory, concurrently.
func (a *assembled) pack(ctx context.Context, dir string) (v1.Image, error) {
	manifest := &v1.Manifest{}
	if err := json.Unmarshal(a.manifest, manifest); err != nil {
		return nil, err
	}
	packed := packedImage{config: a.config, layers: map[v1.Hash]packedLayer{}}
	files := make([]packedLayer, len(a.layers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(downloads)
	for i, l := range a.layers {
		group.Go(func() (err error) {
			files[i], err = l.pack(ctx, filepath.Join(dir, strconv.Itoa(i)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, l := range files {
		packed.layers[l.Descriptor.Digest] = l
		manifest.Layers[i] = l.Descriptor
	}
	var err error
	if packed.manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return ggcr.CompressedToImage(packed)
}

func (l assembledLayer) pack(ctx context.Context, file string) (packedLayer, error) {
	packed := packedLayer{file: file}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return packed, err
	}
	sum := &sizer{sum: sha256.New()}
	zip, err := gzip.NewWriterLevel(io.MultiWriter(out, sum), gzip.BestSpeed)
	if err != nil {
		return packed, errors.Join(err, out.Close())
	}
	err = l.write(ctx, zip)
	if err == nil {
		err = zip.Close()
	}
	packed.Descriptor = v1.Descriptor{
		MediaType: types.OCILayer, Size: sum.size,
		Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.sum.Sum(nil))},
	}
	return packed, errors.Join(err, out.Close())
}

var _ ggcr.CompressedImageCore = packedImage{}

// RawConfigFile implements partial.CompressedImageCore.
func (p packedImage) RawConfigFile() ([]byte, error) { return p.config, nil }

// RawManifest implements partial.CompressedImageCore.
func (p packedImage) RawManifest() ([]byte, error) { return p.manifest, nil }

// MediaType implements partial.CompressedImageCore.
func (packedImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (p packedImage) LayerByDigest(of v1.Hash) (ggcr.CompressedLayer, error) {
	if l, ok := p.layers[of]; ok {
		return l, nil
	}
	return nil, fmt.Errorf("there is no layer %s", of)
}

// Digest implements partial.CompressedLayer.
func (l packedLayer) Digest() (v1.Hash, error) { return l.Descriptor.Digest, nil }

// Size implements partial.CompressedLayer.
func (l packedLayer) Size() (int64, error) { return l.Descriptor.Size, nil }

// MediaType implements partial.CompressedLayer.
func (l packedLayer) MediaType() (types.MediaType, error) { return l.Descriptor.MediaType, nil }

// Compressed implements partial.CompressedLayer.
func (l packedLayer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// classifyPush adds the kind and the name to an error of a push.
func classifyPush(to target, err error) error {
	answer, answered := errors.AsType[*transport.Error](err)
	host := ""
	if to.named != nil {
		host = reference.Domain(to.named)
	}
	switch {
	case !answered:
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return core.Errorf(core.KindUnauthorized, "local.image", to.key(), "the registry refuses the push: %w", err).
			WithHint("log in with an account that may write there: docker login %s", host)
	case answer.StatusCode == http.StatusNotFound:
		return core.Errorf(core.KindNotFound, "local.image", to.key(), "the registry has no such repository: %w", err).
			WithHint("check the name, or make the repository at the registry first")
	case answer.StatusCode == http.StatusMethodNotAllowed:
		return core.Errorf(core.KindUnsupported, "local.image", to.key(), "the registry accepts no pushes: %w", err).
			WithHint("name a registry that does: it may be a mirror")
	case answer.StatusCode == http.StatusRequestEntityTooLarge:
		return core.Errorf(core.KindExhausted, "local.image", to.key(), "a layer is too large for the registry: %w", err)
	}
	return classifyAs("pushed", "check the name and the network", to.key(), err)
}

// patientTransport bounds the silence of a registry: the time without a byte of a request or an answer.
type patientTransport struct {
	to    http.RoundTripper
	stall time.Duration
}

// RoundTrip implements http.RoundTripper.
func (p patientTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(p.stall, func() { cancel(stalled(p.stall)) })
	request = request.Clone(ctx)
	if request.Body != nil {
		request.Body = &watchedBody{request.Body, func() { timer.Reset(p.stall) }, func() {}}
	}
	answer, err := p.to.RoundTrip(request)
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	timer.Reset(p.stall)
	answer.Body = &watchedBody{answer.Body, func() { timer.Reset(p.stall) }, func() {
		timer.Stop()
		cancel(nil)
	}}
	return answer, nil
}

// watchedBody calls read after each read, and done when it is closed.
type watchedBody struct {
	io.ReadCloser

	read, done func()
}

// Read implements io.Reader.
func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.read()
	return n, err
}

// Close implements io.Closer.
func (w *watchedBody) Close() error {
	defer w.done()
	return w.ReadCloser.Close()
}
