//go:build linux

package modal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
)

// A valid token is written to the file. The rest of the file stays unchanged, including comments.
func TestLogin(t *testing.T) {
	newRig(t, nil)
	for name, test := range map[string]struct{ profile, old, want string }{
		"no file": {"", "", "[local]\nactive = true\ntoken_id = 'ak-planted-id'\ntoken_secret = 'as-planted-token-secret'\n"},
		"another profile": {
			"new", "# mine\n[work]\ntoken_id = \"ak-1\" # old\ntoken_secret = \"as-1\"\nactive = true\nenvironment = \"dev\"",
			"# mine\n[work]\ntoken_id = \"ak-1\" # old\ntoken_secret = \"as-1\"\nenvironment = \"dev\"\n\n[new]\nactive = " +
				"true\ntoken_id = 'ak-planted-id'\ntoken_secret = 'as-planted-token-secret'\n",
		},
		"the same profile": {
			"my work", "[\"my work\"]\n# keep\ntoken_id = \"ak-1\"\ntoken_secret = \"as-1\"\nserver_url = " +
				"\"x\"\n\n[other]\nactive = true\n",
			"[\"my work\"]\nactive = true\ntoken_id = 'ak-planted-id'\ntoken_secret = 'as-planted-token-secret'\n# " +
				"keep\nserver_url = \"x\"\n\n[other]\n",
		},
		"written otherwise": {
			"work", "work.token_id = 'ak-1'\nwork.environment = 'dev'\n",
			"[work]\nactive = true\nenvironment = 'dev'\ntoken_id = 'ak-planted-id'\ntoken_secret = 'as-planted-token-secret'\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "modal.toml")
			if test.old != "" {
				if err := os.WriteFile(file, []byte(test.old), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			profile, err := client.Login{
				TokenID: tokenID, Secret: core.NewSecretValue(tokenSecret), Profile: test.profile, File: file,
			}.Do(t.Context())
			if err != nil || profile == "" {
				t.Fatal(profile, err)
			}
			got, err := os.ReadFile(file)
			if err != nil || string(got) != test.want {
				t.Errorf("the file is\n%s%v\nwant\n%s", got, err, test.want)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			account := client.FindAccount(func(name string) (string, bool) {
				return map[string]string{"MODAL_CONFIG_PATH": file}[name], true
			})
			if account.TokenID != tokenID || account.Profile != profile {
				t.Errorf("found as %+v", account)
			}
			if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	// The error for an invalid file has the line's number but not its text.
	broken := filepath.Join(t.TempDir(), "modal.toml")
	if err := os.WriteFile(broken, []byte("[work]\ntoken_secret = as-planted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MODAL_CONFIG_PATH", broken)
	_, err := client.Login{TokenID: tokenID, Secret: core.NewSecretValue(tokenSecret), File: broken}.Do(t.Context())
	if !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error(), "line 2") ||
		strings.Contains(err.Error(), "as-planted") || core.HintOf(err) == "" {
		t.Errorf("a broken file: %v", err)
	}
	t.Setenv("MODAL_CONFIG_PATH", filepath.Join(t.TempDir(), "none"))
	// A token that cannot be sent is rejected before any request, even if it comes from a variable.
	for _, login := range []client.Login{
		{TokenID: "ak-é", Secret: core.NewSecretValue("as-1")},
		{TokenID: "ak-1", Secret: core.NewSecretValue("as-planted\n")},
	} {
		login.File = filepath.Join(t.TempDir(), "modal.toml")
		if _, err := login.Do(t.Context()); !errors.Is(err, core.KindUsage) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", login.TokenID, err)
		}
		account := client.FindAccount(func(name string) (string, bool) {
			return map[string]string{
				"MODAL_CONFIG_PATH": login.File, "MODAL_TOKEN_ID": login.TokenID, "MODAL_TOKEN_SECRET": login.Secret.Reveal(),
			}[name], true
		})
		if !errors.Is(account.Err, core.KindUsage) {
			t.Errorf("found as %+v", account)
		}
	}
	// A profile with OAuth credentials stays unchanged.
	integration := filepath.Join(t.TempDir(), "modal.toml")
	const oauth = "[local]\noauth_client_id = 'cid'\n"
	if err := os.WriteFile(integration, []byte(oauth), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = client.Login{TokenID: tokenID, Secret: core.NewSecretValue(tokenSecret), File: integration}.Do(t.Context())
	if text, readErr := os.ReadFile(integration); !errors.Is(err, core.KindConflict) || string(text) != oauth {
		t.Errorf("%v; the file is %q, %v", err, text, readErr)
	}
	// A rejected token changes nothing.
	file := filepath.Join(t.TempDir(), "modal.toml")
	if _, err := (client.Login{
		TokenID: tokenID, Secret: core.NewSecretValue("wrong"), File: file,
	}).Do(t.Context()); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("a wrong secret: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it was written all the same")
	}
}
