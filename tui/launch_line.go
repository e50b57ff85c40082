package tui

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// launchLine returns the command line that launches a spec.
func launchLine(spec core.Spec) string {
	argv := []string{"sb", "launch"}
	add := func(flag, value string) {
		if value != "" {
			argv = append(argv, flag, value)
		}
	}
	number := func(flag string, n float64) {
		if n != 0 {
			add(flag, strconv.FormatFloat(n, 'f', -1, 64))
		}
	}
	if spec.Provider != core.ProviderAuto {
		add("--provider", spec.Provider)
	}
	add("--name", spec.Name)
	add("--app", spec.App)
	add("--image", spec.Image)
	add("--dockerfile", spec.Dockerfile)
	add("--template", spec.Template)
	add("--snapshot", spec.Snapshot)
	add("--checkpoint", spec.Checkpoint)
	add("--python", spec.Python)
	add("--pip", strings.Join(spec.Pip, ","))
	add("--apt", strings.Join(spec.Apt, ","))
	add("--gpu", spec.GPU.String())
	number("--cpu", spec.CPU)
	add("--memory", exact(spec.Memory))
	add("--disk", exact(spec.Disk))
	number("--processes", float64(spec.Processes))
	number("--open-files", float64(spec.OpenFiles))
	if spec.Timeout != 0 {
		add("--timeout", spec.Timeout.String())
	}
	if spec.IdleTimeout != 0 {
		add("--idle-timeout", spec.IdleTimeout.String())
	}
	number("--max-cost", spec.MaxCost)
	add("--workdir", spec.Workdir)
	add("--user", spec.User)
	if len(spec.Network.Allow) > 0 {
		add("--allow", strings.Join(spec.Network.Allow, ","))
	} else {
		add("--network", string(spec.Network.Mode))
	}
	for _, v := range spec.Volumes {
		mount := v.Source + ":" + v.Target
		if v.ReadOnly {
			mount += ":ro"
		}
		add("--volume", mount)
	}
	for _, p := range spec.Ports {
		port := fmt.Sprintf("%d:%d", p.Host, p.Sandbox)
		if p.Protocol != core.PortDefault {
			port += "/" + string(p.Protocol)
		}
		add("--port", port)
	}
	add("--inbound", strings.Join(spec.Inbound, ","))
	for _, k := range slices.Sorted(maps.Keys(spec.Labels)) {
		add("--label", k+"="+spec.Labels[k])
	}
	for _, k := range slices.Sorted(maps.Keys(spec.Env)) {
		add("--env", k+"="+spec.Env[k])
	}
	for _, secret := range spec.Secrets {
		if secret.Ref != "" {
			add("--secret-ref", secret.Name+"="+secret.Ref)
		} else {
			add("--secret", secret.Name)
		}
	}
	if spec.Persist {
		argv = append(argv, "--persist")
	}
	if spec.Require {
		argv = append(argv, "--require")
	}
	argv = append(append(argv, readyFlags(spec.Ready)...), modalFlags(spec.Modal)...)
	if len(spec.Command) > 0 {
		argv = append(append(argv, "--"), spec.Command...)
	}
	return quote(argv...)
}

// readyFlags returns the flags of a probe. A command other than "sh -c LINE" is quoted into a line for sh.
func readyFlags(ready *core.Probe) []string {
	var argv []string
	switch {
	case ready == nil:
		return nil
	case ready.TCP != 0:
		argv = []string{"--ready-tcp", strconv.Itoa(ready.TCP)}
	case len(ready.Exec) == 3 && ready.Exec[0] == "sh" && ready.Exec[1] == "-c":
		argv = []string{"--ready-exec", ready.Exec[2]}
	default:
		argv = []string{"--ready-exec", quote(ready.Exec...)}
	}
	if ready.Interval != 0 {
		argv = append(argv, "--ready-interval", ready.Interval.String())
	}
	return argv
}

// modalFlags returns the flags of Modal's own settings. The values are JSON, which the flag parses as YAML.
func modalFlags(modal *core.ModalSpec) []string {
	if modal == nil {
		return nil
	}
	text, err := json.Marshal(modal)
	fields := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return nil // cannot happen: all fields are plain JSON
	}
	var argv []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		argv = append(argv, "--modal", key+"="+string(fields[key]))
	}
	return argv
}

// exact writes a size such that ParseBytes returns the same size; "" for zero.
func exact(b core.Bytes) string {
	if b == 0 {
		return ""
	}
	if same, err := core.ParseBytes(b.String()); err == nil && same == b {
		return b.String()
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}
