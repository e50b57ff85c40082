package engine

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
	// ConnectTimeout bounds the first answer of an engine, so that a hanging engine does not delay other commands.
	ConnectTimeout = 2 * time.Second
	// sshTimeout is ConnectTimeout over ssh, which takes several round trips, starts a program there and may ask for a
	// passphrase.
	sshTimeout = 30 * time.Second
	// AskTimeout bounds a request for information.
	AskTimeout = 10 * time.Second
	// WorkTimeout bounds a request that changes something.
	WorkTimeout = 2 * time.Minute
)

// errSlow is the cause of a request's context that ended because the engine took too long.
var errSlow = errors.New("the engine does not answer")

// Within bounds a request.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errSlow)
}

// Classify converts the client's error to a *core.Error. ctx is the request's context.
func Classify(ctx context.Context, op, subject string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*core.Error](err); ok {
		return core.Wrap(op, subject, err)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the dialer reports a deadline before the context's timer fires
	}
	e := &core.Error{Kind: kindOf(err), Op: "docker." + op, Subject: subject, Err: plain(err)}
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errSlow):
		e.Kind, e.Err = core.KindUnavailable, errSlow
		e.Hint = "check the engine or restart it; sb doctor names it"
	case ctx.Err() != nil:
		e.Kind, e.Err = core.KindOf(ctx.Err()), ctx.Err()
	case e.Kind == core.KindUnavailable:
		e.Hint = "start the engine, or set DOCKER_HOST; check it with: sb doctor docker"
	}
	return e
}

// plain returns err without the prefix of the client.
func plain(err error) error {
	if text, cut := strings.CutPrefix(err.Error(), "Error response from daemon: "); cut {
		return errors.New(text)
	}
	return err
}

// kindOf returns the kind for the error type that the client derives from the status code.
func kindOf(err error) core.Kind {
	switch {
	case errdefs.IsNotFound(err):
		return core.KindNotFound
	case errdefs.IsConflict(err), errdefs.IsAlreadyExists(err), errdefs.IsNotModified(err),
		errdefs.IsFailedPrecondition(err):
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

// broken reports whether a connection failed or was closed.
func broken(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		switch errno {
		case syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENOENT, syscall.EHOSTUNREACH,
			syscall.ETIMEDOUT:
			return true
		}
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
