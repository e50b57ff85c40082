package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
)

// mergeSecrets adds given to the secrets of a spec file. A secret of the file has no value. Without a reference, the
// value comes from the caller's environment.
func mergeSecrets(file, given []core.Secret, lookup func(string) (string, bool)) ([]core.Secret, error) {
	names := map[string]bool{}
	for _, s := range given {
		names[s.Name] = true
	}
	var merged []core.Secret
	for _, s := range file {
		if names[s.Name] {
			continue
		}
		if err := CheckKey("secrets", s.Name); err != nil {
			return nil, err
		}
		if s.Ref == "" {
			value, ok := lookup(s.Name)
			if !ok {
				return nil, missingSecret(s.Name)
			}
			s.Value = core.NewSecretValue(value)
		}
		merged = append(merged, s)
	}
	return append(merged, given...), nil
}

// readSpec reads a spec file; "-" is stdin.
func readSpec(path string, stdin io.Reader) (core.Spec, error) {
	if path == "-" {
		return configs.ReadSpec("--file "+path, stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return core.Spec{}, FileError("--file", path, err)
	}
	defer func() { _ = file.Close() }()
	return configs.ReadSpec("--file "+path, file)
}

// ParseLabels reads KEY=VALUE pairs.
func ParseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, core.Errorf(core.KindUsage, "parse", pair, "--label %s: not a label", pair).
				WithHint("write --label KEY=VALUE")
		}
		labels[key] = value
	}
	return labels, nil
}

// parseVolume reads SOURCE:TARGET[:MODE]. The service resolves a source that is a path.
func parseVolume(text string) (core.Volume, error) {
	bad := func(why string) (core.Volume, error) {
		return core.Volume{}, core.Errorf(core.KindUsage, "parse", text, "--volume %s: %s", text, why).
			WithHint("write --volume NAME:/PATH or --volume ./DIR:/PATH, with :ro at the end for read-only, or :cow for " +
				"copy-on-write")
	}
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return bad("not a volume")
	}
	volume := core.Volume{Source: parts[0], Target: parts[1]}
	if !path.IsAbs(volume.Target) {
		return bad("the path in the sandbox is not absolute")
	}
	if len(parts) == 3 {
		switch parts[2] {
		case "ro":
			volume.ReadOnly = true
		case "cow":
			volume.CopyOnWrite = true
		case "rw":
		default:
			return bad("not a volume: the mode is none of ro, rw and cow")
		}
	}
	return volume, nil
}

// parseTmpfs reads PATH[:SIZE].
func parseTmpfs(text string) (core.Tmpfs, error) {
	target, size, sized := strings.Cut(text, ":")
	tmpfs := core.Tmpfs{Target: target}
	var err error
	if sized {
		tmpfs.Size, err = core.ParseBytes(size)
	}
	if err != nil || !path.IsAbs(target) {
		return core.Tmpfs{}, core.Errorf(core.KindUsage, "parse", text, "--tmpfs %s: not a directory in memory", text).
			WithHint("write --tmpfs /PATH or --tmpfs /PATH:SIZE, such as /scratch:64MiB")
	}
	return tmpfs, nil
}

// ParsePort reads [HOST:]PORT[/PROTOCOL].
func ParsePort(text string) (core.Port, error) {
	numbers, protocol, _ := strings.Cut(text, "/")
	host, inside, two := strings.Cut(numbers, ":")
	if !two {
		host, inside = "0", numbers
	}
	hostPort, hostErr := portNumber(host, 0)
	sandboxPort, err := portNumber(inside, 1)
	if err := errors.Join(hostErr, err); err != nil {
		return core.Port{}, core.Errorf(core.KindUsage, "parse", text, "--port %s: not a port", text).
			WithHint("write --port PORT or --port HOST_PORT:PORT, with /tcp, /https or /h2 behind it")
	}
	return core.Port{Host: hostPort, Sandbox: sandboxPort, Protocol: core.PortProtocol(protocol)}, nil
}

func portNumber(text string, least int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, err
	}
	if int(n) < least {
		return 0, fmt.Errorf("port %d", n)
	}
	return int(n), nil
}
