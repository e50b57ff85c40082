package modal

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"github.com/pelletier/go-toml/v2"
	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
)

// Login is a token and where to keep it.
type Login struct {
	TokenID string
	Secret  core.SecretValue
	// Profile is the profile to write; "" is the workspace's name.
	Profile string
	// File is the configuration file.
	File string
}

// Do checks the token with Modal, then writes it to the file and makes its profile the active one, as Modal's own
// tools do. It returns the profile's name. Other profiles stay; nothing is written when the token is refused.
func (l Login) Do(ctx context.Context) (string, error) {
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
	return l.Profile, l.write()
}

// check asks Modal whose the token is.
func (l Login) check(ctx context.Context) (string, error) {
	account := FindAccount(os.LookupEnv)
	c := &client{account: account, cache: &cache{}}
	made, err := sdk.NewClientWithOptions(&sdk.ClientParams{
		TokenID: l.TokenID, TokenSecret: l.Secret.Reveal(), Logger: slog.New(slog.DiscardHandler),
		GRPCUnaryInterceptors: []grpc.UnaryClientInterceptor{c.unary},
	})
	if err != nil {
		return "", classify("login", "", err)
	}
	defer made.Close()
	c.sdk = made
	raw, err := c.raw(ctx)
	if err != nil {
		return "", classify("login", account.Server, err)
	}
	info, err := raw.TokenInfoGet(ctx, &pb.TokenInfoGetRequest{})
	return info.GetWorkspaceName(), classify("login", account.Server, err)
}

// write replaces the file at once. It is readable by its owner only.
func (l Login) write() error {
	profiles := map[string]map[string]any{}
	text, err := os.ReadFile(l.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Wrap("modal.login", l.File, err)
	}
	if toml.Unmarshal(text, &profiles) != nil {
		return core.Errorf(core.KindConflict, "modal.login", l.File, "Modal's configuration file is not valid TOML").WithHint("mend it or move it away")
	}
	for _, p := range profiles {
		delete(p, "active")
	}
	if profiles[l.Profile] == nil {
		profiles[l.Profile] = map[string]any{}
	}
	profiles[l.Profile]["token_id"], profiles[l.Profile]["token_secret"] = l.TokenID, l.Secret.Reveal()
	profiles[l.Profile]["active"] = true
	if text, err = toml.Marshal(profiles); err != nil {
		return core.Errorf(core.KindInternal, "modal.login", l.File, "the configuration cannot be written as TOML")
	}
	return core.Wrap("modal.login", l.File, replaceFile(l.File, text))
}

// replaceFile writes a private file at once: readers see the old content or the new.
func replaceFile(path string, content []byte) error {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved // a link stays one
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".modal-*.toml")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
