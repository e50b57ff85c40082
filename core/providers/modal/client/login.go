package client

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"github.com/pelletier/go-toml/v2"
	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Login is a token and its destination.
type Login struct {
	TokenID string
	Secret  core.SecretValue
	// Profile is the profile to write; "" is the workspace's name.
	Profile string
	// File is the configuration file.
	File string
}

// Do checks the token with Modal, then writes it to the file and makes its profile the active one, as Modal's own tools
// do. It returns the profile's name. Other profiles stay unchanged. Do writes nothing if Modal rejects the token.
// KindConflict: the profile has OAuth credentials, which exclude a token.
func (l Login) Do(ctx context.Context) (string, error) {
	if !printable(l.TokenID) || !printable(l.Secret.Reveal()) {
		return "", unprintable()
	}
	if _, _, err := readProfile(l.File, ""); err != nil {
		return "", err // checked before the SDK reads the file, because its errors show the line
	}
	workspace, err := l.check(ctx)
	if err != nil {
		return "", err
	}
	if l.Profile == "" {
		l.Profile = workspace
	}
	if l.Profile == "" {
		l.Profile = "default"
	}
	if _, kept, err := readProfile(l.File, l.Profile); err == nil && kept.oauth() {
		return "", core.Errorf(core.KindConflict, "modal.login", l.File,
			"the profile %q has OAuth credentials, and Modal would ignore a token beside them", l.Profile).
			WithHint("store the token under another name: --profile NAME")
	}
	return l.Profile, l.write()
}

// check returns the workspace of the token from Modal.
func (l Login) check(ctx context.Context) (string, error) {
	account := FindAccount(os.LookupEnv)
	c := &Client{Account: account, Cache: &cache{}}
	made, err := sdk.NewClientWithOptions(&sdk.ClientParams{
		TokenID: l.TokenID, TokenSecret: l.Secret.Reveal(), Logger: slog.New(slog.DiscardHandler),
		GRPCUnaryInterceptors: []grpc.UnaryClientInterceptor{c.unary},
	})
	if err != nil {
		return "", Classify("login", "", err)
	}
	defer made.Close()
	c.SDK = made
	raw, err := c.Raw(ctx)
	if err != nil {
		return "", Classify("login", account.Server, err)
	}
	info, err := raw.TokenInfoGet(ctx, &pb.TokenInfoGetRequest{})
	return info.GetWorkspaceName(), Classify("login", account.Server, err)
}

// write replaces the file atomically. Only its owner can read it.
func (l Login) write() error {
	old, err := os.ReadFile(l.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Wrap("modal.login", l.File, err)
	}
	text, err := l.edit(string(old))
	if err != nil {
		return err
	}
	return core.Wrap("modal.login", l.File, replaceFile(l.File, []byte(text)))
}

// edit adds the token to the file's text and makes its profile the only active one. The rest of the text stays
// unchanged. A text that cannot be edited line by line is rewritten with the same meaning.
func (l Login) edit(old string) (string, error) {
	var want map[string]any
	if toml.Unmarshal([]byte(old), &want) != nil {
		return "", core.Errorf(core.KindConflict, "modal.login", l.File,
			"Modal's configuration file is not valid TOML").WithHint("correct it or move it away")
	}
	if want == nil {
		want = map[string]any{}
	}
	for _, table := range want {
		if profile, ok := table.(map[string]any); ok {
			delete(profile, "active")
		}
	}
	profile, _ := want[l.Profile].(map[string]any)
	if profile == nil {
		profile = map[string]any{}
		want[l.Profile] = profile
	}
	profile["token_id"], profile["token_secret"], profile["active"] = l.TokenID, l.Secret.Reveal(), true

	text, err := l.insert(old)
	var got map[string]any
	if err == nil && toml.Unmarshal([]byte(text), &got) == nil && reflect.DeepEqual(got, want) {
		return text, nil
	}
	rendered, err := toml.Marshal(want)
	if err != nil {
		return "", core.Errorf(core.KindInternal, "modal.login", l.File, "the configuration cannot be written as TOML")
	}
	return string(rendered), nil
}

// insert edits line by line: tables begin with their header, keys are at the beginning of a line.
func (l Login) insert(old string) (string, error) {
	table := map[string]any{"token_id": l.TokenID, "token_secret": l.Secret.Reveal(), "active": true}
	own, err := toml.Marshal(map[string]map[string]any{l.Profile: table})
	if err != nil {
		return "", err
	}
	header, keys, _ := strings.Cut(string(own), "\n")
	var b strings.Builder
	found, inside := false, false
	for line := range strings.Lines(old) {
		word := strings.TrimSpace(line)
		name, _, _ := strings.Cut(word, "=")
		name = strings.TrimSpace(name)
		switch {
		case strings.HasPrefix(word, "["):
			inside = tableName(word) == tableName(header)
			b.WriteString(strings.TrimRight(line, "\r\n") + "\n")
			if inside {
				found = true
				b.WriteString(keys)
			}
			continue
		case name == "active", inside && (name == "token_id" || name == "token_secret"):
			continue
		}
		b.WriteString(line)
	}
	if !found {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(string(own))
	}
	return b.String(), nil
}

// tableName returns the name in a table's header, without quotes.
func tableName(header string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(header, "["), "]")
	return strings.Trim(strings.TrimSpace(name), "\"'")
}

// replaceFile writes a private file atomically: readers see the old content or the new.
func replaceFile(path string, content []byte) error {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved // keep a symbolic link
	}
	return atomicfile.WriteDurable(path, content, 0o600)
}
