package client

import (
	"context"
	"errors"
	"strings"

	sdk "github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

// Classify assigns a kind to an error of Modal and keeps its text.
func Classify(op, subject string, err error) error {
	if err == nil {
		return nil
	}
	op = "modal." + op
	if e, ok := errors.AsType[*core.Error](err); ok {
		return core.Wrap(op, subject, e)
	}
	kind, text := KindOf(err)
	e := core.Errorf(kind, op, subject, "%s", text)
	switch kind {
	case core.KindUnauthorized:
		return e.WithHint("check the token: sb login modal")
	case core.KindUnavailable:
		return e.WithHint("check the network, and Modal's state at https://status.modal.com")
	case core.KindExhausted:
		return e.WithHint("request less or another GPU, or try again later")
	case core.KindInternal, core.KindUsage, core.KindNotFound, core.KindConflict, core.KindUnsupported, core.KindTimeout,
		core.KindCanceled:
	}
	return e
}

// KindOf returns the kind of an error, by its type or code, and Modal's own text.
func KindOf(err error) (core.Kind, string) {
	text := strings.TrimSpace
	if e, ok := errors.AsType[sdk.NotFoundError](err); ok {
		return core.KindNotFound, text(e.Exception)
	}
	if e, ok := errors.AsType[sdk.AlreadyExistsError](err); ok {
		return core.KindConflict, text(e.Exception)
	}
	if e, ok := errors.AsType[sdk.ConflictError](err); ok {
		return core.KindConflict, text(e.Exception)
	}
	if e, ok := errors.AsType[sdk.InvalidError](err); ok {
		return core.KindUsage, text(e.Exception)
	}
	if e, ok := errors.AsType[sdk.ResourceExhaustedError](err); ok {
		return core.KindExhausted, text(e.Exception)
	}
	if e, ok := errors.AsType[sdk.TimeoutError](err); ok {
		return core.KindTimeout, text(e.Exception)
	}
	if e, ok := errors.AsType[sdk.RemoteError](err); ok {
		return core.KindInternal, text(e.Exception)
	}
	if errors.Is(err, context.Canceled) {
		return core.KindCanceled, context.Canceled.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return core.KindTimeout, "Modal did not answer in time"
	}
	// The status itself, without the SDK's own text.
	if e, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return kindOfCode(e.GRPCStatus().Code()), text(e.GRPCStatus().Message())
	}
	return core.KindOf(err), err.Error()
}

func kindOfCode(code codes.Code) core.Kind {
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return core.KindUsage
	case codes.NotFound:
		return core.KindNotFound
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return core.KindConflict
	case codes.Unimplemented:
		return core.KindUnsupported
	case codes.Unavailable:
		return core.KindUnavailable
	case codes.Unauthenticated, codes.PermissionDenied:
		return core.KindUnauthorized
	case codes.DeadlineExceeded:
		return core.KindTimeout
	case codes.Canceled:
		return core.KindCanceled
	case codes.ResourceExhausted:
		return core.KindExhausted
	case codes.OK, codes.Unknown, codes.Internal, codes.DataLoss:
	}
	return core.KindInternal
}
