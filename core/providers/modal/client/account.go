package client

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/seed-0724f904/sb/core"
)

// DefaultServer is the address of Modal.
const DefaultServer = "https://api.modal.com:443"

// Account is Modal's address and the credentials in use. As in Modal's own tools, environment variables take precedence
// over the profile in the configuration file. It holds no secret.
type Account struct {
	// File is the path of the configuration file, which may not exist.
	File string
	// Profile is the chosen profile's name; "" when none is chosen.
	Profile     string
	Server      string
	Environment string
	// TokenID identifies the token, or the OAuth client; "" means no credentials.
	TokenID string
	// OAuth reports credentials of an integration.
	OAuth bool
	// Err reports a file that cannot be read, or incomplete credentials.
	Err error
}

// profile is one table of the configuration file.
type profile struct {
	ServerURL         string `toml:"server_url"`
	TokenID           string `toml:"token_id"`
	TokenSecret       string `toml:"token_secret"`
	OAuthRefreshToken string `toml:"oauth_refresh_token"`
	OAuthClientID     string `toml:"oauth_client_id"`
	OAuthClientSecret string `toml:"oauth_client_secret"`
	OAuthJWTKey       string `toml:"oauth_jwt_key"`
	Environment       string `toml:"environment"`
	Active            bool   `toml:"active"`
}

// oauth reports whether some of the profile's credentials are an integration's.
func (p profile) oauth() bool {
	return p.OAuthRefreshToken != "" || p.OAuthClientID != "" || p.OAuthClientSecret != "" || p.OAuthJWTKey != ""
}

// printable reports whether a token's id or secret can be sent in a header.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

func unprintable() error {
	return core.Errorf(core.KindUsage, "modal", "",
		"the token's id or secret has an invalid character, such as a line break").
		WithHint(
			"check MODAL_TOKEN_ID, MODAL_TOKEN_SECRET and the profile; sb login modal reads the secret from a file",
		)
}

// ConfigFile returns the path of the configuration file of Modal's tools: MODAL_CONFIG_PATH, else .modal.toml in the
// home directory.
func ConfigFile(lookup func(string) (string, bool)) (string, error) {
	if path, _ := lookup("MODAL_CONFIG_PATH"); path != "" {
		return path, nil
	}
	home, _ := lookup("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", core.Errorf(core.KindUsage, "modal", "", "there is no home directory: %w",
				err).WithHint("set MODAL_CONFIG_PATH or HOME")
		}
	}
	return filepath.Join(home, ".modal.toml"), nil
}

// FindAccount looks for credentials. It makes no call.
func FindAccount(lookup func(string) (string, bool)) Account {
	env := func(name string) string {
		value, _ := lookup(name)
		return value
	}
	var account Account
	var chosen profile
	account.File, account.Err = ConfigFile(lookup)
	if account.Err == nil {
		account.Profile, chosen, account.Err = readProfile(account.File, env("MODAL_PROFILE"))
	}
	account.Server = cmp.Or(env("MODAL_SERVER_URL"), chosen.ServerURL, DefaultServer)
	account.Environment = cmp.Or(env("MODAL_ENVIRONMENT"), chosen.Environment)
	id, secret := cmp.Or(env("MODAL_TOKEN_ID"), chosen.TokenID), cmp.Or(env("MODAL_TOKEN_SECRET"), chosen.TokenSecret)
	refresh := cmp.Or(env("MODAL_OAUTH_REFRESH_TOKEN"), chosen.OAuthRefreshToken)
	client := cmp.Or(env("MODAL_OAUTH_CLIENT_ID"), chosen.OAuthClientID)
	// A variable with either of the two overrides the file's.
	password, key := env("MODAL_OAUTH_CLIENT_SECRET"), env("MODAL_OAUTH_JWT_KEY")
	if password == "" && key == "" {
		password, key = chosen.OAuthClientSecret, chosen.OAuthJWTKey
	}
	oauth := refresh != "" || client != "" || password != "" || key != ""
	switch {
	case account.Err != nil:
	case (id != "" || secret != "") && oauth:
		account.Err = core.Errorf(core.KindUsage, "modal", "",
			"both a Modal token and OAuth credentials are set, and only one is allowed").
			WithHint(
				"unset the MODAL_OAUTH_* variables, or MODAL_TOKEN_ID and MODAL_TOKEN_SECRET; a profile counts, too: %s",
				account.File,
			)
	case !printable(id + secret):
		account.Err = unprintable()
	case id != "" && secret != "":
		account.TokenID = id
	case id != "" || secret != "":
		account.Err = core.Errorf(core.KindUnauthorized, "modal", "",
			"a Modal token has an id and a secret, and one of them is missing").
			WithHint("set both MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run: sb login modal")
	case refresh != "" && client != "" && (password == "") != (key == ""):
		account.TokenID, account.OAuth = client, true
	case oauth:
		account.Err = core.Errorf(core.KindUnauthorized, "modal", "",
			"OAuth needs a refresh token, a client id and either a client secret or a JWT key").
			WithHint("set MODAL_OAUTH_REFRESH_TOKEN, MODAL_OAUTH_CLIENT_ID and MODAL_OAUTH_CLIENT_SECRET or MODAL_OAUTH_JWT_KEY")
	}
	return account
}

// readProfile reads one profile of the file: the named one, else the one that is active.
func readProfile(file, name string) (string, profile, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return name, profile{}, nil
	}
	if err != nil {
		return name, profile{}, core.Wrap("modal", file, err)
	}
	var profiles map[string]profile
	if err := toml.Unmarshal(text, &profiles); err != nil {
		// The parser's error would show the line, and with it perhaps a secret.
		e := core.Errorf(core.KindUsage, "modal", file, "Modal's configuration file is not valid TOML")
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := at.Position()
			e = core.Errorf(core.KindUsage, "modal", file, "Modal's configuration file is not valid TOML in line %d",
				row)
		}
		return name, profile{}, e.WithHint("correct the file, or move it away and run: sb login modal")
	}
	if name == "" {
		for candidate, p := range profiles {
			if p.Active {
				name = candidate
			}
		}
	}
	return name, profiles[name], nil
}

// errNoAccount is the cause of errors for missing credentials.
const errNoAccount = core.NotSetUp("there are no Modal credentials")

// NoAccount reports whether an operation failed for missing credentials. Lists ignore it: the user may not use Modal.
func NoAccount(err error) bool { return errors.Is(err, errNoAccount) }

// NoCredentials returns the error for missing credentials.
func NoCredentials(account Account) error {
	e := core.Errorf(core.KindUnauthorized, "modal", "", "%w", errNoAccount)
	if account.Profile != "" {
		e = core.Errorf(core.KindUnauthorized, "modal", "", "%w for the profile %q", errNoAccount, account.Profile)
	}
	return e.WithHint("sb login modal, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET")
}
