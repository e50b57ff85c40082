package cli

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

// completeTimeout bounds one completion.
const completeTimeout = 800 * time.Millisecond

// NoFiles turns off the shell's completion of file names.
const NoFiles = cobra.ShellCompDirectiveNoFileComp

// Complete registers the completion of a flag's value. The flag exists, so it cannot fail.
func Complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, f)
}

// Fixed completes one of these words.
func Fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, NoFiles)
}

// extensions completes files with these endings.
func extensions(endings ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return endings, cobra.ShellCompDirectiveFilterFileExt
	}
}

// FirstArg completes the first argument only.
func FirstArg(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, NoFiles
		}
		return f(cmd, args, word)
	}
}

// ask calls question within completeTimeout. After a failure it returns no names.
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
		listing, err := svc.Sandboxes.List(ctx, core.ListFilter{All: true})
		if err == nil {
			found = listing.Sandboxes
		}
		return nil
	})
	return found
}

// CompleteSandboxes completes references to sandboxes that the arguments do not name yet.
func (a *App) CompleteSandboxes(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
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
	return words, NoFiles
}

// CompleteExecs completes "SANDBOX EXEC".
func (a *App) CompleteExecs(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.CompleteSandboxes(cmd, args, word)
	case 1:
		return a.ask(cmd, func(ctx context.Context, svc *service.Service) []string {
			execs, err := svc.Execs.List(ctx, args[0])
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
		}), NoFiles
	}
	return nil, NoFiles
}

// CompleteProviders completes the names of providers.
func (a *App) CompleteProviders(
	cmd *cobra.Command, _ []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.ask(cmd, func(_ context.Context, svc *service.Service) []string { return svc.Providers.Names() }), NoFiles
}

// completePlaces completes the provider of a launch, or "auto".
func (a *App) completePlaces(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	words, directive := a.CompleteProviders(cmd, args, word)
	return append([]string{core.ProviderAuto}, words...), directive
}

// CompleteApps completes the names of apps.
func (a *App) CompleteApps(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	apps := map[string]bool{}
	for _, box := range a.sandboxes(cmd) {
		if box.App != "" {
			apps[box.App] = true
		}
	}
	return slices.Sorted(maps.Keys(apps)), NoFiles
}

// CompleteGPUs completes GPU types.
func (a *App) CompleteGPUs(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.ask(cmd, func(_ context.Context, svc *service.Service) []string {
		types := map[string]bool{}
		for _, provider := range svc.Providers.Names() {
			caps, _ := svc.Providers.Capabilities(provider) // a provider that cannot be opened has no completions
			for name := range caps.GPUs {
				types[name] = true
			}
		}
		return slices.Sorted(maps.Keys(types))
	}), NoFiles
}

// CompleteImages completes the names of images.
func (a *App) CompleteImages(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	words := a.ask(cmd, func(_ context.Context, svc *service.Service) []string {
		images := map[string]bool{}
		for _, provider := range svc.Providers.Names() {
			caps, _ := svc.Providers.Capabilities(provider) // a provider that cannot be opened has none
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
	return words, NoFiles
}

// completeInside completes the files of a sandbox below the directory that word names.
func (a *App) completeInside(cmd *cobra.Command, ref, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, begin := path.Split(word)
	words := a.ask(cmd, func(ctx context.Context, svc *service.Service) []string {
		inside := dir
		if inside == "" {
			inside = "."
		}
		entries, err := svc.Files.ReadDir(ctx, ref, inside)
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
	return words, NoFiles | cobra.ShellCompDirectiveNoSpace
}

// CompletePath completes "SANDBOX PATH".
func (a *App) CompletePath(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.CompleteSandboxes(cmd, args, word)
	}
	return a.completeInside(cmd, args[0], word)
}

// CompleteCopy completes the operands of cp: files here, or SANDBOX:PATH.
func (a *App) CompleteCopy(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
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
	words, _ := a.CompleteSandboxes(cmd, args, word)
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
	return words, NoFiles | cobra.ShellCompDirectiveNoSpace
}

// CheckpointNames returns the names of checkpoints, for completion.
func CheckpointNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Stores.Checkpoints(ctx, "")
	return Named(found, err, func(c core.Checkpoint) []string { return []string{c.Name} })
}

// SnapshotIDs returns the ids of snapshots, for completion.
func SnapshotIDs(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Stores.Snapshots(ctx, "")
	return Named(found, err, func(s core.Snapshot) []string { return []string{s.ID} })
}
