package exec

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
)

// codeSource reads the arguments of "sb code": which sandbox and what code.
type codeSource struct {
	app  *cli.App
	args []string
	// text is the code of -c, or nil.
	text *string
}

// read sets the sandbox, the code and its language in opts. A single argument is a file, "-", the name of a sandbox
// whose code comes from stdin, or else code.
func (s codeSource) read(ctx context.Context, cmd *cobra.Command, opts *CodeOptions) error {
	words := s.args
	if s.text != nil {
		if len(words) > 1 {
			return cli.Usagef(cmd, "%s: -c replaces the argument %q", cmd.CommandPath(), words[1])
		}
		if len(words) == 1 {
			opts.Sandbox = words[0]
		}
		opts.Run.Code = *s.text
		return s.settle(opts, "")
	}
	word := "-"
	switch {
	case len(words) == 2:
		opts.Sandbox, word = words[0], words[1]
	case len(words) == 1 && s.app.Streams.InData() && s.isSandbox(ctx, words[0]):
		opts.Sandbox = words[0]
	case len(words) == 1:
		word = words[0]
	}
	if word == "-" {
		if s.app.Streams.InTTY() && len(words) == 0 {
			return cli.Usagef(cmd, "%s needs code: an argument, a file, or stdin", cmd.CommandPath())
		}
		text, err := readCode(s.app.Streams.In, "stdin")
		opts.Run.Code = text
		return errors.Join(err, s.settle(opts, ""))
	}
	if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() || looksLikeFile(word) {
		f, err := os.Open(word)
		if err != nil {
			return core.Wrap("code", word, err)
		}
		defer func() { _ = f.Close() }()
		if opts.Run.Code, err = readCode(f, word); err != nil {
			return err
		}
		return s.settle(opts, code.LanguageOf(word))
	}
	opts.Run.Code = word
	return s.settle(opts, "")
}

// settle sets the language, unless a flag has.
func (s codeSource) settle(opts *CodeOptions, language code.Language) error {
	if opts.Run.Language == "" {
		opts.Run.Language = language
	}
	if opts.Run.Language == "" {
		opts.Run.Language = code.Python
	}
	return nil
}

// isSandbox reports whether a word is the name or the id of a sandbox.
func (s codeSource) isSandbox(ctx context.Context, word string) bool {
	svc, err := s.app.Service()
	if err != nil {
		return false
	}
	_, err = svc.Sandboxes.Resolve(ctx, word)
	return err == nil
}

// readCode reads code. It refuses more than a run may have.
func readCode(from io.Reader, name string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, code.MaxCode+1))
	if err != nil {
		return "", core.Wrap("code", name, err)
	}
	return string(text), nil
}
