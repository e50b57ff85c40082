package docker

import (
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

// place is where an engine may be.
type place struct {
	// Why says what led here: "DOCKER_HOST", "context colima".
	Why string
	// Host is the address, as in DOCKER_HOST.
	Host string
	// TLS is a directory of ca.pem, cert.pem and key.pem, or "".
	TLS string
	// SkipVerify takes any certificate of the engine's.
	SkipVerify bool
}

// places lists where to look. When somebody chose an engine that is the only place, and chosen is true; else they
// are in order of preference.
func (p *Provider) places() (list []place, chosen bool, err error) {
	env := func(name string) string {
		value, _ := p.opts.LookupEnv(name)
		return value
	}
	if p.opts.Host == NoHost {
		return nil, false, nil
	}
	if p.opts.Host != "" {
		return []place{{Why: "docker.host", Host: p.opts.Host}}, true, nil
	}
	home := env("HOME")
	config := env("DOCKER_CONFIG")
	if config == "" {
		config = filepath.Join(home, ".docker")
	}
	if host := env("DOCKER_HOST"); host != "" {
		at := place{Why: "DOCKER_HOST", Host: host}
		if env("DOCKER_TLS_VERIFY") != "" || env("DOCKER_TLS") != "" || env("DOCKER_CERT_PATH") != "" {
			at.TLS, at.SkipVerify = env("DOCKER_CERT_PATH"), env("DOCKER_TLS_VERIFY") == ""
			if at.TLS == "" {
				at.TLS = config
			}
		}
		return []place{at}, true, nil
	}
	if name, why := currentContext(env("DOCKER_CONTEXT"), config); name != "" && name != "default" {
		at, err := readContext(config, name)
		at.Why = why
		return []place{at}, true, err
	}
	if host := env("CONTAINER_HOST"); host != "" {
		return []place{{Why: "CONTAINER_HOST", Host: host}}, true, nil
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
		list = append(list, place{Why: socket.why, Host: "unix://" + socket.path})
	}
	return list, false, nil
}

// currentContext returns the name of the current context, and where it is set.
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

// readContext reads a context as the docker command keeps it.
func readContext(config, name string) (place, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	text, err := os.ReadFile(filepath.Join(config, "contexts", "meta", id, "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return place{}, core.Errorf(core.KindUnavailable, "docker.connect", name, "there is no Docker context %q", name).
			WithHint("docker context ls lists them")
	}
	if err != nil {
		return place{}, core.Errorf(core.KindUnavailable, "docker.connect", name, "the Docker context cannot be read: %w", err)
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(text, &meta); err != nil || meta.Endpoints["docker"].Host == "" {
		return place{}, core.Errorf(core.KindUnavailable, "docker.connect", name, "the Docker context names no engine")
	}
	at := place{Host: meta.Endpoints["docker"].Host, SkipVerify: meta.Endpoints["docker"].SkipTLSVerify}
	if dir := filepath.Join(config, "contexts", "tls", id, "docker"); isDir(dir) {
		at.TLS = dir
	}
	return at, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
