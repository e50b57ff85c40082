package core

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestErrorHasOneKind(t *testing.T) {
	inner := Errorf(KindNotFound, "local.stat", "/a", "no such file: %w", fs.ErrNotExist)
	outer := fmt.Errorf("while it was copied: %w", Errorf(KindUnavailable, "move", "dev", "the source is lost: %w", inner))

	if !errors.Is(outer, KindUnavailable) || errors.Is(outer, KindNotFound) {
		t.Errorf("%v has another kind than its outermost Error", outer)
	}
	if !errors.Is(outer, fs.ErrNotExist) || errors.Is(outer, context.Canceled) {
		t.Errorf("%v lost its cause", outer)
	}
	if e, ok := errors.AsType[*Error](outer); !ok || e.Op != "move" {
		t.Errorf("%v is found as %v", outer, e)
	}
	type text struct{ error }
	if _, ok := errors.AsType[text](Wrap("move", "dev", text{errors.New("x")})); !ok {
		t.Error("the type of a cause is lost")
	}
	if errors.Is(nil, KindInternal) || errors.Is(&Error{Kind: KindUsage}, fs.ErrExist) ||
		!errors.Is(&Error{}, KindInternal) {
		t.Error("an error without a cause is of another kind")
	}
}

func TestErrorNamesItsSubjectOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ subject, text, want string }{
		{"one", "the supervisor is gone", "one: the supervisor is gone"},
		{"one", "one: it is gone", "one: it is gone"},
		{"dev", `there is no sandbox "dev"`, `there is no sandbox "dev"`},
		{"é", "été", "é: été"},
		{"", "it is gone", "it is gone"},
	} {
		if got := Errorf(KindConflict, "op", test.subject, "%s", test.text).Error(); got != test.want {
			t.Errorf("%q about %q is %q, want %q", test.text, test.subject, got, test.want)
		}
	}
}
