package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/joho/godotenv"
	"github.com/spf13/pflag"

	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
)

// EnvFlags are the flags that give a command or a sandbox its environment.
type EnvFlags struct {
	Env         []string
	PassEnv     []string
	EnvFiles    []string
	Secrets     []string
	SecretFiles []string
	SecretRefs  []string
}

// Register adds the flags of variables and secrets.
func (f *EnvFlags) Register(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.Env, "env", "e", nil, "set `KEY=VALUE`, or copy KEY from this environment (repeatable)")
	flags.StringSliceVar(
		&f.PassEnv, "pass-env", nil,
		"set the variables `NAMES` that this environment has, as secrets (comma separated, repeatable)",
	)
	flags.StringArrayVar(&f.EnvFiles, "env-file", nil, "read KEY=VALUE lines from `FILE` (repeatable)")
	flags.StringArrayVar(&f.Secrets, "secret", nil, "set a secret: `KEY` from this environment, or KEY=@FILE (repeatable)")
	flags.StringArrayVar(
		&f.SecretFiles, "secret-file", nil, "read secrets from the KEY=VALUE lines of `FILE` (repeatable)",
	)
	flags.StringArrayVar(
		&f.SecretRefs, "secret-ref", nil, "use a secret stored at the provider: `KEY[=NAME]` (repeatable)",
	)
}

// Environment resolves the variables. Files come first, in order; flags win over files.
func (f *EnvFlags) Environment(lookup func(string) (string, bool)) (map[string]string, error) {
	if len(f.Env) == 0 && len(f.EnvFiles) == 0 {
		return nil, nil
	}
	env := map[string]string{}
	for _, path := range f.EnvFiles {
		values, err := ReadDotenv("--env-file", path)
		if err != nil {
			return nil, err
		}
		maps.Copy(env, values)
	}
	for _, assignment := range f.Env {
		key, value, assigned := strings.Cut(assignment, "=")
		if err := CheckKey("--env", key); err != nil {
			return nil, err
		}
		if !assigned {
			var ok bool
			if value, ok = lookup(key); !ok {
				return nil, core.Errorf(core.KindUsage, "env", key, "--env %s: not set in this environment", key).
					WithHint("write --env %s=VALUE", key)
			}
		}
		env[key] = value
	}
	return env, nil
}

// ReadSecrets resolves the secrets. It warns about values on the command line.
func (f *EnvFlags) ReadSecrets(lookup func(string) (string, bool), streams *iostreams.Streams) ([]core.Secret, error) {
	found := map[string]core.Secret{}
	add := func(name, value string) {
		found[name] = core.Secret{Name: name, Value: core.NewSecretValue(value)}
	}
	// These are mostly keys of services, so they are secrets.
	for _, key := range f.PassEnv {
		if err := CheckKey("--pass-env", key); err != nil {
			return nil, err
		}
		if value, ok := lookup(key); ok {
			add(key, value)
		}
	}
	for _, path := range f.SecretFiles {
		values, err := ReadDotenv("--secret-file", path)
		if err != nil {
			return nil, err
		}
		for key, value := range values {
			add(key, value)
		}
	}
	for _, secret := range f.Secrets {
		key, value, err := readSecret(secret, lookup, streams.Err)
		if err != nil {
			return nil, err
		}
		add(key, value)
	}
	for _, secret := range f.SecretRefs {
		key, ref, assigned := strings.Cut(secret, "=")
		if err := CheckKey("--secret-ref", key); err != nil {
			return nil, err
		}
		if !assigned {
			ref = key
		}
		found[key] = core.Secret{Name: key, Ref: ref}
	}
	if len(found) == 0 {
		return nil, nil
	}
	list := make([]core.Secret, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[name])
	}
	return list, nil
}

// readSecret resolves one --secret: NAME, NAME=@FILE or NAME=VALUE. The last causes a warning.
func readSecret(text string, lookup func(string) (string, bool), warnings io.Writer) (key, value string, err error) {
	key, value, assigned := strings.Cut(text, "=")
	if err := CheckKey("--secret", key); err != nil {
		return "", "", err
	}
	if !assigned {
		value, ok := lookup(key)
		if !ok {
			return "", "", missingSecret(key)
		}
		return key, value, nil
	}
	if path, ok := strings.CutPrefix(value, "@"); ok {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", "", FileError("--secret "+key, path, err)
		}
		return key, strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"), nil
	}
	_, _ = fmt.Fprintf(warnings,
		"warning: the value of secret %s is on the command line, where other users and the shell's history see it\n"+
			"hint: export %s and use --secret %s, or --secret %s=@FILE\n", key, key, key, key)
	return key, value, nil
}

func missingSecret(key string) error {
	return core.Errorf(core.KindUsage, "secret", key, "--secret %s: not set in this environment", key).
		WithHint("export %s first, or use --secret %s=@FILE", key, key)
}

// CheckKey refuses names that an environment cannot hold. The error shows the flag only, because the text may be a
// value.
func CheckKey(flag, key string) error {
	if key == "" || strings.ContainsAny(key, " \t\n\x00=") {
		return core.Errorf(
			core.KindUsage, "parse", flag, "%s: expected KEY or KEY=VALUE, with the name of a variable as KEY", flag,
		)
	}
	return nil
}

// FileError classifies an error of reading a file that a flag names.
func FileError(flag, path string, err error) error {
	kind := core.KindOf(err)
	if errors.Is(err, syscall.EISDIR) {
		kind = core.KindUsage
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &core.Error{Kind: kind, Op: "read", Subject: flag, Err: fmt.Errorf("%s: %w", path, err)}
}

// ReadDotenv parses a file of KEY=VALUE lines. It drops the parser's own message, which quotes the file and its
// secrets.
func ReadDotenv(flag, path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, FileError(flag, path, err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxDotenv+1))
	if err != nil {
		return nil, FileError(flag, path, err)
	}
	if len(content) > maxDotenv {
		return nil, core.Errorf(core.KindUsage, "parse", path, "%s %s: larger than %s", flag, path, core.Bytes(maxDotenv))
	}
	values, err := godotenv.UnmarshalBytes(content)
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "parse", path, "%s %s: not a file of KEY=VALUE lines", flag, path)
	}
	for key := range values {
		if err := CheckKey(flag, key); err != nil {
			return nil, err
		}
	}
	return values, nil
}

const maxDotenv = 1 << 20
