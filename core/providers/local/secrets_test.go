//go:build linux

package local

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// No file of sb contains the value of a secret, while a sandbox runs and after its commands wrote the value.
func TestSecretsAreNotOnDisk(t *testing.T) {
	const launched, given = "value-of-the-launch", "value-of-a-command"
	p, sb := crashed(t, func(spec *core.Spec) {
		spec.Secrets = []core.Secret{{Name: "A", Value: core.NewSecretValue(launched)}}
	})
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{
		Command: []string{"sh", "-c", "echo $A $B; echo $A $B >&2"},
		Secrets: []core.Secret{{Name: "B", Value: core.NewSecretValue(given)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if exit, err := process.Wait(providertest.Patient(t)); err != nil || exit.Code != 0 {
		t.Fatal(exit, err)
	}
	files := 0
	for _, dir := range []string{p.opts.StateDir, p.opts.CacheDir} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was replaced
			}
			if err != nil {
				return err
			}
			files++
			for _, value := range []string{launched, given} {
				if bytes.Contains(content, []byte(value)) {
					t.Errorf("%s holds %q", path, value)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 5 {
		t.Errorf("only %d files were looked at", files)
	}
}
