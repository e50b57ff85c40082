package commands

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/mcp/keys"
)

// NewKey makes "sb key".
func NewKey(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:     "key",
		Example: "  sb key create alice\n  sb key ls\n  sb key revoke k3j5x2aa",
		Short:   "API keys for \"sb mcp\" over HTTP",
		Long: "Make, list and revoke the keys that clients of \"sb mcp\" over HTTP have to send. Each key has an owner\n" +
			"and sees only the sandboxes of that owner. Keys are kept hashed; one is shown once, when it is made." + exitStatusHelp,
	}, NewKeyCreate(app, nil), NewKeyLs(app, nil), NewKeyRevoke(app, nil))
}

// keys opens the store of API keys.
func (a *App) keys() (*keys.Store, error) {
	path, err := a.keysFile()
	if err != nil {
		return nil, err
	}
	return keys.Open(path), nil
}

func (a *App) keysFile() (string, error) {
	paths, err := a.Paths()
	return filepath.Join(paths.State, "keys.json"), err
}

// localKeyFile is where the key lies that this user's own programs use for this user's own server.
func (a *App) localKeyFile() (string, error) {
	paths, err := a.Paths()
	return filepath.Join(paths.State, "mcp.key"), err
}

// localKey returns that key. It is made if it is missing.
func (a *App) localKey() (string, error) {
	path, err := a.localKeyFile()
	if err != nil {
		return "", err
	}
	local, err := keys.OpenLocal(path)
	return local.Reveal(), err
}

// completeKeys completes the ids of keys.
func (a *App) completeKeys(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	store, err := a.keys()
	if err != nil || len(args) > 0 {
		return nil, noFiles
	}
	all, err := store.List()
	if err != nil {
		return nil, noFiles
	}
	var ids []string
	for _, key := range all {
		if key.Usable(a.Now()) {
			ids = append(ids, key.ID+"\t"+key.Owner)
		}
	}
	return ids, noFiles
}
