package commands

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// completeTimeout bounds what pressing Tab may take.
const completeTimeout = 800 * time.Millisecond

const noFiles = cobra.ShellCompDirectiveNoFileComp

// complete registers the completion of a flag's value. The flag exists, so it cannot fail.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, f)
}

// fixed completes from words that are known.
func fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, noFiles)
}

// extensions completes files with these endings.
func extensions(endings ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return endings, cobra.ShellCompDirectiveFilterFileExt
	}
}

// firstArg completes the first argument only.
func firstArg(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, noFiles
		}
		return f(cmd, args, word)
	}
}

// ask runs a question to the service within the time that a completion has;
// what fails completes nothing.
func (a *App) ask(cmd *cobra.Command, question func(context.Context, *service.Service) []string) []string {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	svc, err := a.Service()
	if err != nil {
		return nil
	}
	return question(ctx, svc)
}

func (a *App) sandboxes(cmd *cobra.Command) []core.Sandbox {
	var found []core.Sandbox
	a.ask(cmd, func(ctx context.Context, svc *service.Service) []string {
		listing, err := svc.List(ctx, core.ListFilter{All: true})
		if err == nil {
			found = listing.Sandboxes
		}
		return nil
	})
	return found
}

// completeSandboxes completes references to sandboxes that were not named yet.
func (a *App) completeSandboxes(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []string
	for _, box := range a.sandboxes(cmd) {
		ref, other := box.Name, box.ID
		if ref == "" || (word != "" && strings.HasPrefix(box.ID, word) && !strings.HasPrefix(box.Name, word)) {
			ref, other = box.ID, box.Name
		}
		if strings.HasPrefix(ref, word) && !slices.Contains(args, ref) {
			words = append(words, cobra.CompletionWithDesc(ref, string(box.State)+" "+other))
		}
	}
	return words, noFiles
}

// completeExecs completes "SANDBOX EXEC".
func (a *App) completeExecs(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeSandboxes(cmd, args, word)
	case 1:
		return a.ask(cmd, func(ctx context.Context, svc *service.Service) []string {
			execs, err := svc.Execs(ctx, args[0])
			if err != nil {
				return nil
			}
			var words []string
			for _, e := range execs {
				if strings.HasPrefix(e.ID, word) {
					words = append(words, cobra.CompletionWithDesc(e.ID, strings.Join(e.Command, " ")))
				}
			}
			return words
		}), noFiles
	}
	return nil, noFiles
}

func (a *App) completeProviders(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.ask(cmd, func(_ context.Context, svc *service.Service) []string { return svc.ProviderNames() }), noFiles
}

// completePlaces completes where a sandbox is launched: a provider, or "auto".
func (a *App) completePlaces(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	words, directive := a.completeProviders(cmd, args, word)
	return append([]string{core.ProviderAuto}, words...), directive
}

func (a *App) completeApps(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	apps := map[string]bool{}
	for _, box := range a.sandboxes(cmd) {
		if box.App != "" {
			apps[box.App] = true
		}
	}
	return slices.Sorted(maps.Keys(apps)), noFiles
}

func (a *App) completeGPUs(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.ask(cmd, func(_ context.Context, svc *service.Service) []string {
		types := map[string]bool{}
		for _, provider := range svc.ProviderNames() {
			caps, _ := svc.Capabilities(provider) // one that cannot be opened offers nothing
			for name := range caps.GPUs {
				types[name] = true
			}
		}
		return slices.Sorted(maps.Keys(types))
	}), noFiles
}

func (a *App) completeImages(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	words := a.ask(cmd, func(_ context.Context, svc *service.Service) []string {
		images := map[string]bool{}
		for _, provider := range svc.ProviderNames() {
			caps, _ := svc.Capabilities(provider) // one that cannot be opened has none
			for _, name := range caps.Images {
				images[name] = true
			}
		}
		return slices.Sorted(maps.Keys(images))
	})
	for _, box := range a.sandboxes(cmd) {
		if box.Image != "" && !slices.Contains(words, box.Image) {
			words = append(words, box.Image)
		}
	}
	return words, noFiles
}

// completeInside completes the files of a sandbox below the directory that word names.
func (a *App) completeInside(cmd *cobra.Command, ref, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, begin := path.Split(word)
	words := a.ask(cmd, func(ctx context.Context, svc *service.Service) []string {
		inside := dir
		if inside == "" {
			inside = "."
		}
		entries, err := svc.ReadDir(ctx, ref, inside)
		if err != nil {
			return nil
		}
		var found []string
		for _, entry := range entries {
			name := path.Base(entry.Path)
			if !strings.HasPrefix(name, begin) {
				continue
			}
			if entry.Mode.IsDir() {
				name += "/"
			}
			found = append(found, dir+name)
		}
		return found
	})
	return words, noFiles | cobra.ShellCompDirectiveNoSpace
}

// completePath completes "SANDBOX PATH".
func (a *App) completePath(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeSandboxes(cmd, args, word)
	}
	return a.completeInside(cmd, args[0], word)
}

// completeCopy completes the operands of cp: files here, or SANDBOX:PATH.
func (a *App) completeCopy(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ref, inside, ok := strings.Cut(word, ":")
	if ok {
		words, directive := a.completeInside(cmd, ref, inside)
		for i := range words {
			words[i] = ref + ":" + words[i]
		}
		return words, directive
	}
	if strings.ContainsAny(word, "/.~") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words, _ := a.completeSandboxes(cmd, args, word)
	for i, w := range words {
		name, _, _ := strings.Cut(w, "\t")
		words[i] = name + ":"
	}
	return words, cobra.ShellCompDirectiveNoSpace
}

// completeModal completes the keys of --modal.
func completeModal(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []string
	for _, key := range configs.ModalKeys() {
		words = append(words, key+"=")
	}
	return words, noFiles | cobra.ShellCompDirectiveNoSpace
}
