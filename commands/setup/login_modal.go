package setup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers"
)

// LoginModalOptions are the options of login modal.
type LoginModalOptions struct {
	App     *cli.App
	TokenID string
	Profile string
}

// NewLoginModal makes "sb login modal".
func NewLoginModal(app *cli.App) *cobra.Command {
	opts := &LoginModalOptions{App: app}
	cmd := &cobra.Command{
		Use:   "modal",
		Short: "Store a Modal token in ~/.modal.toml",
		Long: "Verify a Modal token and store it in ~/.modal.toml, readable only by you. The id comes from\n" +
			"--token-id or MODAL_TOKEN_ID, the secret from MODAL_TOKEN_SECRET or stdin.",
		Example: "  sb login modal\n" +
			"  sb login modal --token-id ak-123 <secret.txt\n" +
			"  MODAL_TOKEN_ID=ak-123 MODAL_TOKEN_SECRET=as-456 sb login modal --profile work",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLoginModal(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&opts.TokenID, "token-id", "", "`ID` of the token (default: MODAL_TOKEN_ID)")
	cmd.Flags().StringVar(&opts.Profile, "profile", "", "`NAME` of the profile (default: the workspace's)")
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
	secret, err := opts.Token()
	if err != nil {
		return err
	}
	profile, err := providers.LoginModal(
		ctx, providers.ModalLogin{TokenID: opts.TokenID, Secret: secret, Profile: opts.Profile, File: file},
	)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(app.Streams.Err, "the token is valid and stored as profile %s in %s\n", profile, file)
	for _, name := range opts.Overruled(profile) {
		_, _ = fmt.Fprintf(app.Streams.Err, "warning: %s is set to another value and overrides the profile: unset it\n", name)
	}
	return err
}

// Overruled returns the names of the variables that take precedence over the written profile.
func (o *LoginModalOptions) Overruled(profile string) []string {
	var names []string
	for _, variable := range []struct{ name, want string }{{"MODAL_PROFILE", profile}, {"MODAL_TOKEN_ID", o.TokenID}} {
		if value, _ := o.App.LookupEnv(variable.name); value != "" && value != variable.want {
			names = append(names, variable.name)
		}
	}
	return names
}

// Token completes the token's id and returns its secret. The sources are flag and environment, then the user at a
// terminal, then the first line of stdin.
func (o *LoginModalOptions) Token() (core.SecretValue, error) {
	secret, _ := o.App.LookupEnv("MODAL_TOKEN_SECRET")
	if o.App.Streams.CanPrompt() && (o.TokenID == "" || secret == "") {
		var err error
		if secret, err = o.ask(secret); err != nil {
			return core.SecretValue{}, err
		}
	}
	if o.TokenID == "" {
		return core.SecretValue{}, core.Errorf(core.KindUsage, "login", "", "the token's id is missing").
			WithHint("create a token at https://modal.com/settings/tokens, then: sb login modal --token-id ID <SECRET-FILE")
	}
	if secret == "" && !o.App.Streams.InTTY() {
		line, err := bufio.NewReader(io.LimitReader(o.App.Streams.In, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return core.SecretValue{}, core.Wrap("login", "", err)
		}
		secret = strings.TrimSpace(line)
	}
	if secret == "" {
		return core.SecretValue{}, core.Errorf(core.KindUsage, "login", "", "the token's secret is missing").
			WithHint("set MODAL_TOKEN_SECRET, or pass the secret on stdin")
	}
	return core.NewSecretValue(secret), nil
}

// ask asks the user at the terminal for the missing parts of the token. It does not show the secret.
func (o *LoginModalOptions) ask(secret string) (_ string, err error) {
	streams := o.App.Streams
	restore, err := streams.MakeRaw()
	if err != nil {
		return "", core.Errorf(core.KindInternal, "login", "", "the terminal refuses raw mode: %w", err)
	}
	defer func() { err = errors.Join(err, restore()) }()
	terminal := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{streams.In, streams.Err}, "token id: ")
	if o.TokenID == "" {
		var line string
		if line, err = terminal.ReadLine(); err != nil {
			return "", unanswered(streams.Err, err)
		}
		o.TokenID = strings.TrimSpace(line)
	}
	if secret == "" {
		if secret, err = terminal.ReadPassword("token secret: "); err != nil {
			return "", unanswered(streams.Err, err)
		}
	}
	return strings.TrimSpace(secret), nil
}

// unanswered returns the error of a question without an answer: ctrl+c and ctrl+d end the input.
func unanswered(w io.Writer, err error) error {
	if errors.Is(err, io.EOF) {
		_, _ = fmt.Fprint(w, "\r\n") // the terminal is raw, and the cursor behind the question
		return core.Errorf(core.KindCanceled, "login", "", "nothing was done")
	}
	return core.Wrap("login", "", err)
}
