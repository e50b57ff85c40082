package setup

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
)

// CompletionOptions are the options of completion.
type CompletionOptions struct {
	App   *cli.App
	Root  *cobra.Command
	Shell string
}

// NewCompletion makes "sb completion".
func NewCompletion(app *cli.App) *cobra.Command {
	opts := &CompletionOptions{App: app}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a shell completion script",
		Long: "Print the script that lets a shell complete commands, flags, sandboxes, providers, apps, GPUs, images and\n" +
			"files in sandboxes.",
		Example: "  # bash, for this session and for later ones\n" +
			"  source <(sb completion bash)\n" +
			"  sb completion bash > ~/.local/share/bash-completion/completions/sb\n\n" +
			"  # zsh, into a directory of $fpath\n" +
			"  sb completion zsh > \"${fpath[1]}/_sb\"\n\n" +
			"  # fish\n" +
			"  sb completion fish > ~/.config/fish/completions/sb.fish",
		Args:              cli.Exactly("the name of a shell"),
		ValidArgsFunction: cli.FirstArg(cli.Fixed("bash", "zsh", "fish", "powershell")),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Root, opts.Shell = cmd.Root(), args[0]
			switch opts.Shell {
			case "bash", "zsh", "fish", "powershell":
				return runCompletion(cmd.Context(), opts)
			}
			return cli.Usagef(cmd, "no completion for %q: bash, zsh, fish or powershell", opts.Shell)
		},
	}
}

// bashWithoutPackage replaces the functions of the package bash-completion that cobra's script uses. Without them, each
// Tab prints an error.
const bashWithoutPackage = `
if ! declare -F _init_completion >/dev/null && ! declare -F _get_comp_words_by_ref >/dev/null; then
    __sb_init_completion() {
        COMPREPLY=()
        words=("${COMP_WORDS[@]}")
        cword=$COMP_CWORD
        cur=${words[cword]}
        prev=${words[cword-1]}
    }
    declare -F __ltrim_colon_completions >/dev/null || __ltrim_colon_completions() { :; }
fi
`

func runCompletion(_ context.Context, opts *CompletionOptions) error {
	out := opts.App.Streams.Out
	switch opts.Shell {
	case "bash":
		if err := opts.Root.GenBashCompletionV2(out, true); err != nil {
			return err
		}
		_, err := io.WriteString(out, bashWithoutPackage)
		return err
	case "zsh":
		return opts.Root.GenZshCompletion(out)
	case "fish":
		return opts.Root.GenFishCompletion(out, true)
	default:
		return opts.Root.GenPowerShellCompletionWithDesc(out)
	}
}
