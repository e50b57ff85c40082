//go:build linux

package modal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/service"
)

// shown collects everything that a frontend could show or write.
type shown struct{ bytes.Buffer }

func (s *shown) add(things ...any) {
	for _, thing := range things {
		if err, ok := thing.(error); ok {
			fmt.Fprintf(s, "%v %+v %s\n", err, err, core.HintOf(err))
		}
		fmt.Fprintf(s, "%v %+v %#v\n", thing, thing, thing)
		text, _ := json.Marshal(thing)
		s.Write(text)
	}
}

// No description, error, event, log, audit record or file contains a secret value, after successful and failed
// operations.
func TestPlantedSecretsDoNotLeak(t *testing.T) {
	const inline, sent = "planted-inline-value", "planted-exec-value"
	const kept, wrong = "planted-kept-value", "as-planted-wrong-secret"
	r := newRig(t, nil)
	state := t.TempDir()
	var shown shown
	svc := service.New(service.Options{
		Factories: []core.Factory{modal.Factory(r.opts)}, StateDir: state,
		Logger: slog.New(slog.NewTextHandler(&shown, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	ctx := t.Context()
	stored, err := svc.Stores.CreateSecret(
		ctx, modal.Name, "kept", map[string]core.SecretValue{"KEPT": core.NewSecretValue(kept)}, core.SecretOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	_, again := svc.Stores.CreateSecret(
		ctx, modal.Name, "kept", map[string]core.SecretValue{"KEPT": core.NewSecretValue(kept)}, core.SecretOptions{},
	)
	s := spec()
	s.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue(inline)}, {Name: "KEPT", Ref: "kept"}}
	s.Ports = []core.Port{{Sandbox: 8000}}
	sb, err := svc.Sandboxes.Launch(ctx, s, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.faults.Plan("SandboxCreateV2", modaltest.Fault{Code: codes.InvalidArgument, Message: "no"})
	s.Name = core.NewName()
	_, refused := svc.Sandboxes.Launch(ctx, s, service.LaunchOptions{})
	secrets := []core.Secret{{Name: "SENT", Value: core.NewSecretValue(sent)}}
	process, err := svc.Execs.Start(
		ctx, sb.ID,
		core.ExecSpec{Command: []string{"sh", "-c", `test "${#SENT} ${#TOKEN} ${#KEPT}" = "18 20 18"`}, Secrets: secrets},
	)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := process.Wait(ctx)
	_ = process.Close()
	r.faults.Plan("TaskExecStart", modaltest.Fault{Code: codes.InvalidArgument, Message: "no"})
	_, notRun := svc.Execs.Start(ctx, sb.ID, core.ExecSpec{Command: []string{"true"}, Secrets: secrets})
	token, err2 := svc.Ports.ConnectToken(ctx, sb.ID, core.ConnectOptions{Port: 8000})
	list, err3 := svc.Sandboxes.List(ctx, core.ListFilter{All: true})
	inventory, err4 := svc.Stores.Secrets(ctx, modal.Name)
	shown.add(
		stored, again, sb, refused, exit, err, notRun, token, err2, list, err3, inventory, err4,
		svc.Providers.List(ctx, true),
	)
	if exit.Code != 0 || again == nil || refused == nil || notRun == nil || token.Token.Empty() {
		t.Errorf("something did not happen as planned: %+v, %v, %v, %v", exit, again, refused, notRun)
	}
	t.Setenv("MODAL_TOKEN_SECRET", wrong)
	q := modal.New(modal.Options{})
	defer func() { _ = q.Close() }()
	shown.add(q.Check(ctx), q.Diagnose(ctx))
	_, loginErr := client.Login{
		TokenID: tokenID, Secret: core.NewSecretValue(wrong), File: filepath.Join(t.TempDir(), "modal.toml"),
	}.Do(ctx)
	shown.add(loginErr)
	if !errors.Is(loginErr, core.KindUnauthorized) {
		t.Errorf("with a wrong secret: %v", loginErr)
	}
	if err := svc.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(shown.String(), "TOKEN") || len(filesWith(t, state, sb.ID)) == 0 {
		t.Error("the searched text differs from the shown text")
	}
	for _, planted := range []string{inline, sent, kept, wrong, tokenSecret, token.Token.Reveal()} {
		if at := strings.Index(shown.String(), planted); at >= 0 {
			t.Errorf("%q was said: %s", planted, shown.String()[max(0, at-200):at])
		}
		for _, dir := range []string{r.opts.CacheDir, state} {
			if files := filesWith(t, dir, planted); len(files) > 0 {
				t.Errorf("%q is in %v", planted, files)
			}
		}
	}
}
