package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

const (
	// connectTimeout bounds the first answer of an engine: one that hangs must not hold up commands
	// that have no need of it.
	connectTimeout = 2 * time.Second
	// sshTimeout is that for one behind ssh, which takes several round trips, starts a program there and may ask for a passphrase.
	sshTimeout = 30 * time.Second
	// askTimeout bounds a request that the engine answers from what it knows.
	askTimeout = 10 * time.Second
	// workTimeout bounds a request that makes it do something.
	workTimeout = 2 * time.Minute
)

// errSlow is why a request's context ended when the engine took too long.
var errSlow = errors.New("the engine does not answer")

// within bounds a request.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errSlow)
}

// classify makes a *core.Error of what the client returned. ctx is the request's.
func classify(ctx context.Context, op, subject string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*core.Error](err); ok {
		return core.Wrap(op, subject, err)
	}
	e := &core.Error{Kind: kindOf(err), Op: "docker." + op, Subject: subject, Err: plain(err)}
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errSlow):
		e.Kind, e.Err = core.KindUnavailable, errSlow
		e.Hint = "see what the engine does, or restart it; sb doctor says which one it is"
	case ctx.Err() != nil:
		e.Kind, e.Err = core.KindOf(ctx.Err()), ctx.Err()
	case e.Kind == core.KindUnavailable:
		e.Hint = "start the engine, or name another in DOCKER_HOST; sb doctor docker says where it was looked for"
	}
	return e
}

// plain is err without what the client says of itself.
func plain(err error) error {
	if text, cut := strings.CutPrefix(err.Error(), "Error response from daemon: "); cut {
		return errors.New(text)
	}
	return err
}

// kindOf sorts by the type that the client derives from the status code.
func kindOf(err error) core.Kind {
	switch {
	case errdefs.IsNotFound(err):
		return core.KindNotFound
	case errdefs.IsConflict(err), errdefs.IsAlreadyExists(err), errdefs.IsNotModified(err), errdefs.IsFailedPrecondition(err):
		return core.KindConflict
	case errdefs.IsInvalidArgument(err), errdefs.IsOutOfRange(err):
		return core.KindUsage
	case errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return core.KindUnauthorized
	case errdefs.IsNotImplemented(err):
		return core.KindUnsupported
	case errdefs.IsResourceExhausted(err):
		return core.KindExhausted
	case client.IsErrConnectionFailed(err), errdefs.IsUnavailable(err), broken(err):
		return core.KindUnavailable
	}
	return core.KindOf(err)
}

// broken says whether a connection could not be made or broke off.
func broken(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		switch errno {
		case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENOENT, syscall.EHOSTUNREACH, syscall.ETIMEDOUT:
			return true
		}
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

func notFound(id string) error {
	return core.Errorf(core.KindNotFound, "docker", id, "there is no sandbox %q", id).WithHint("sb ls --all lists them")
}
