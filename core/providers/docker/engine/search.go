package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	cliconfig "github.com/docker/cli/cli/config"

	"github.com/seed-0724f904/sb/core"
)

// NoHost is the Search.Host that finds no engine.
const NoHost = "none"

// Search finds the engine.
type Search struct {
	// Host is the address from the settings, as in DOCKER_HOST; "" searches, and NoHost finds none.
	Host string
	// LookupEnv reads the caller's environment.
	LookupEnv func(string) (string, bool)
}

// ErrNone reports that no engine was found.
const ErrNone = core.NotSetUp("no Docker or Podman engine was found")

// noEngine is the error when no place has an engine for this user.
func noEngine(places []Place) error {
	for _, at := range places {
		if at.Socket() {
			return core.Errorf(core.KindUnavailable, "docker.connect", "",
				"%w that this user can use: permission denied for %s", ErrNone, at).WithHint(ClosedHint)
		}
	}
	e := &core.Error{Kind: core.KindUnavailable, Op: "docker.connect", Err: ErrNone}
	return e.WithHint("install Docker or Podman and start it, or set DOCKER_HOST; check it with: sb doctor docker")
}

// Connect returns the first engine that answers.
func (s Search) Connect(ctx context.Context) (*Engine, error) {
	places, chosen, err := s.Places()
	if err != nil {
		return nil, err
	}
	var failed error
	for _, at := range places {
		if !chosen && !at.there() {
			continue
		}
		e, err := Reach(ctx, at)
		if err == nil {
			return e, nil
		}
		if failed == nil {
			failed = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failed == nil {
		return nil, noEngine(places)
	}
	return nil, failed
}

// Places lists the places to search, in order of preference. When the user chose an engine, chosen is true and it is
// the only place.
func (s Search) Places() (list []Place, chosen bool, err error) {
	env := func(name string) string {
		value, _ := s.LookupEnv(name)
		return value
	}
	if s.Host == NoHost {
		return nil, false, nil
	}
	if s.Host != "" {
		return []Place{{Why: "docker.host", Host: s.Host}}, true, nil
	}
	home := env("HOME")
	config := env("DOCKER_CONFIG")
	if config == "" {
		config = filepath.Join(home, ".docker")
	}
	if host := env("DOCKER_HOST"); host != "" {
		at := Place{Why: "DOCKER_HOST", Host: host}
		if env("DOCKER_TLS_VERIFY") != "" || env("DOCKER_TLS") != "" || env("DOCKER_CERT_PATH") != "" {
			at.TLS, at.SkipVerify = env("DOCKER_CERT_PATH"), env("DOCKER_TLS_VERIFY") == ""
			if at.TLS == "" {
				at.TLS = config
			}
		}
		return []Place{at}, true, nil
	}
	if name, why := currentContext(env("DOCKER_CONTEXT"), config); name != "" && name != "default" {
		at, err := readContext(config, name)
		at.Why = why
		return []Place{at}, true, err
	}
	if host := env("CONTAINER_HOST"); host != "" {
		return []Place{{Why: "CONTAINER_HOST", Host: host}}, true, nil
	}
	runtime := env("XDG_RUNTIME_DIR")
	if runtime == "" {
		runtime = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	for _, socket := range []struct{ why, path string }{
		{"Docker", "/var/run/docker.sock"},
		{"rootless Docker", runtime + "/docker.sock"},
		{"Docker Desktop", home + "/.docker/run/docker.sock"},
		{"Docker Desktop", home + "/.docker/desktop/docker.sock"},
		{"OrbStack", home + "/.orbstack/run/docker.sock"},
		{"Colima", home + "/.colima/default/docker.sock"},
		{"Colima", home + "/.config/colima/default/docker.sock"},
		{"Rancher Desktop", home + "/.rd/docker.sock"},
		{"rootless Podman", runtime + "/podman/podman.sock"},
		{"Podman", "/run/podman/podman.sock"},
		{"Podman machine", home + "/.local/share/containers/podman/machine/podman.sock"},
	} {
		list = append(list, Place{Why: socket.why, Host: "unix://" + socket.path})
	}
	return list, false, nil
}

// currentContext returns the name of the current context, and the setting that selects it.
func currentContext(variable, dir string) (name, why string) {
	if variable != "" {
		return variable, "DOCKER_CONTEXT " + variable
	}
	file, err := cliconfig.Load(dir)
	if err != nil {
		return "", ""
	}
	return file.CurrentContext, "context " + file.CurrentContext
}

// readContext reads a context from the docker command's configuration.
func readContext(config, name string) (Place, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	text, err := os.ReadFile(filepath.Join(config, "contexts", "meta", id, "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Place{}, core.Errorf(core.KindUnavailable, "docker.connect", name, "there is no Docker context %q", name).
			WithHint("docker context ls lists them")
	}
	if err != nil {
		return Place{}, core.Errorf(core.KindUnavailable, "docker.connect", name,
			"the Docker context cannot be read: %w", err)
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(text, &meta); err != nil || meta.Endpoints["docker"].Host == "" {
		return Place{}, core.Errorf(core.KindUnavailable, "docker.connect", name,
			"the Docker context names no engine")
	}
	at := Place{Host: meta.Endpoints["docker"].Host, SkipVerify: meta.Endpoints["docker"].SkipTLSVerify}
	if dir := filepath.Join(config, "contexts", "tls", id, "docker"); isDir(dir) {
		at.TLS = dir
	}
	return at, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
