package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers"
)

// LoginModalOptions are what login modal works with.
type LoginModalOptions struct {
	App     *App
	TokenID string
	Profile string
}

// NewLoginModal makes "sb login modal".
func NewLoginModal(app *App, runF func(context.Context, *LoginModalOptions) error) *cobra.Command {
	opts := &LoginModalOptions{App: app}
	cmd := &cobra.Command{
		Use:   "modal",
		Short: "Keep a Modal token in ~/.modal.toml",
		Long: "Ask Modal whether a token is valid, and keep it where Modal's own tools look for it: in\n" +
			"~/.modal.toml, or the file that MODAL_CONFIG_PATH names, readable by you only. Its profile becomes the\n" +
			"active one; other profiles stay.\n\n" +
			"A token is made at https://modal.com/settings/tokens. The id comes from --token-id or MODAL_TOKEN_ID,\n" +
			"the secret from MODAL_TOKEN_SECRET or else from the first line of stdin, never from the command line." + exitStatusHelp,
		Example: "  sb login modal --token-id ak-123 <secret.txt\n" +
			"  MODAL_TOKEN_ID=ak-123 MODAL_TOKEN_SECRET=as-456 sb login modal --profile work",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runLoginModal)(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.TokenID, "token-id", "", "the token's `ID`; else MODAL_TOKEN_ID")
	cmd.Flags().StringVar(&opts.Profile, "profile", "", "the profile's `NAME` (default: the workspace's)")
	return cmd
}

func runLoginModal(ctx context.Context, opts *LoginModalOptions) error {
	app := opts.App
	file, err := providers.ModalConfigFile(app.LookupEnv)
	if err != nil {
		return err
	}
	if opts.TokenID == "" {
		opts.TokenID, _ = app.LookupEnv("MODAL_TOKEN_ID")
	}
	if opts.TokenID == "" {
		return core.Errorf(core.KindUsage, "login", "", "the token's id is not given").
			WithHint("make a token at https://modal.com/settings/tokens, then: sb login modal --token-id ID <SECRET-FILE")
	}
	secret, err := opts.secret()
	if err != nil {
		return err
	}
	profile, err := providers.LoginModal(ctx, providers.ModalLogin{TokenID: opts.TokenID, Secret: secret, Profile: opts.Profile, File: file})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(app.Streams.Err, "the token is valid and kept as profile %s in %s\n", profile, file)
	return err
}

// secret reads the token's secret from the environment or from stdin.
func (o *LoginModalOptions) secret() (core.SecretValue, error) {
	if value, _ := o.App.LookupEnv("MODAL_TOKEN_SECRET"); value != "" {
		return core.NewSecretValue(value), nil
	}
	if o.App.Streams.InTTY() {
		return core.SecretValue{}, core.Errorf(core.KindUsage, "login", "", "the token's secret is not given").
			WithHint("set MODAL_TOKEN_SECRET, or give a file with it on stdin")
	}
	line, err := bufio.NewReader(io.LimitReader(o.App.Streams.In, 4096)).ReadString('\n')
	if line = strings.TrimSpace(line); line == "" {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("stdin is empty")
		}
		return core.SecretValue{}, core.Errorf(core.KindUsage, "login", "", "the token's secret is not given: %w", err).
			WithHint("set MODAL_TOKEN_SECRET, or give a file with it on stdin")
	}
	return core.NewSecretValue(line), nil
}
