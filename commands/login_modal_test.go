package commands

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/setup"
	"github.com/seed-0724f904/sb/core"
)

// At a terminal, login asks for the missing half of a token. It never shows the secret.
func TestLoginPromptsForToken(t *testing.T) {
	for name, test := range map[string]struct {
		id, secret, typed string
		wantID            string
		kind              core.Kind
		prompt            string
	}{
		"both":          {typed: "ak-1\ras-planted\r", wantID: "ak-1", prompt: "token id: ak-1\r\ntoken secret: \r\n"},
		"the secret":    {id: "ak-1", typed: "as-planted\r", wantID: "ak-1", prompt: "token secret: \r\n"},
		"the id":        {secret: "as-planted", typed: "ak-1\r", wantID: "ak-1", prompt: "token id: ak-1\r\n"},
		"neither":       {id: "ak-1", secret: "as-planted", wantID: "ak-1"},
		"ctrl+c":        {id: "ak-1", typed: "as-pl\x03", kind: core.KindCanceled, prompt: "token secret: "},
		"no answer":     {id: "ak-1", typed: "\r", kind: core.KindUsage, prompt: "token secret: \r\n"},
		"no answer, id": {secret: "as-planted", typed: "\r", kind: core.KindUsage, prompt: "token id: \r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			app, streams := clitest.New(t, map[string]string{"MODAL_TOKEN_SECRET": test.secret})
			streams.SetTTY(80).Type(test.typed)
			opts := &setup.LoginModalOptions{App: app, TokenID: test.id}
			secret, err := opts.Token()
			if test.wantID == "" {
				if !errors.Is(err, test.kind) {
					t.Errorf("error %v", err)
				}
			} else if err != nil || opts.TokenID != test.wantID || secret.Reveal() != "as-planted" {
				t.Errorf("%q, %q, %v", opts.TokenID, secret.Reveal(), err)
			}
			if streams.Raw != 0 {
				t.Error("the terminal is still raw")
			}
			if shown := streams.Err.String(); !strings.Contains(shown, test.prompt) || strings.Contains(shown, "as-pl") {
				t.Errorf("shown is %q", shown)
			}
		})
	}
}

// Login warns about variables that take precedence over the stored token.
func TestOverriddenToken(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"":                             {"MODAL_PROFILE": "work", "MODAL_TOKEN_ID": "ak-1"},
		"MODAL_PROFILE":                {"MODAL_PROFILE": "other"},
		"MODAL_PROFILE MODAL_TOKEN_ID": {"MODAL_PROFILE": "other", "MODAL_TOKEN_ID": "ak-2"},
	} {
		app, _ := clitest.New(t, env)
		opts := &setup.LoginModalOptions{App: app, TokenID: "ak-1"}
		if got := strings.Join(opts.Overruled("work"), " "); got != want {
			t.Errorf("with %v: %q", env, got)
		}
	}
}
