package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// LaunchLine returns the command line that launches a spec.
func LaunchLine(spec core.Spec) string {
	argv := []string{"sb", "launch"}
	add := func(flag, value string) {
		if value != "" {
			argv = append(argv, flag, value)
		}
	}
	for _, field := range core.Fields() {
		if field.IsZero(spec) || field.Name == "command" || field.Name == "ready" || field.Name == "modal" {
			continue
		}
		flag := "--" + field.Flag
		switch value := field.Value(spec).(type) {
		case bool:
			argv = append(argv, flag)
		case int:
			add(flag, strconv.Itoa(value))
		case float64:
			add(flag, strconv.FormatFloat(value, 'f', -1, 64))
		case core.Bytes:
			add(flag, value.Exact())
		case []string:
			add(flag, strings.Join(value, ","))
		case core.Network:
			if len(value.Allow) > 0 {
				add("--allow", strings.Join(value.Allow, ","))
			} else {
				add(flag, string(value.Mode))
			}
		case []core.Volume:
			for _, v := range value {
				add(flag, volumeText(v))
			}
		case []core.Tmpfs:
			for _, t := range value {
				add(flag, tmpfsText(t))
			}
		case []core.Port:
			for _, p := range value {
				add(flag, portText(p))
			}
		case map[string]string:
			for _, k := range slices.Sorted(maps.Keys(value)) {
				add(flag, k+"="+value[k])
			}
		case []core.Secret:
			for _, secret := range value {
				if secret.Ref != "" {
					add("--secret-ref", secret.Name+"="+secret.Ref)
				} else {
					add(flag, secret.Name)
				}
			}
		default:
			if text := fmt.Sprint(value); flag != "--provider" || text != core.ProviderAuto {
				add(flag, text)
			}
		}
	}
	argv = append(append(argv, readyFlags(spec.Ready)...), modalFlags(spec.Modal)...)
	if len(spec.Command) > 0 {
		argv = append(append(argv, "--"), spec.Command...)
	}
	return Quote(argv...)
}

func volumeText(v core.Volume) string {
	text := v.Source + ":" + v.Target
	if v.ReadOnly {
		text += ":ro"
	}
	if v.CopyOnWrite {
		text += ":cow"
	}
	return text
}

func tmpfsText(t core.Tmpfs) string {
	if t.Size == 0 {
		return t.Target
	}
	return t.Target + ":" + t.Size.Exact()
}

func portText(p core.Port) string {
	text := fmt.Sprintf("%d:%d", p.Host, p.Sandbox)
	if p.Protocol != core.PortDefault {
		text += "/" + string(p.Protocol)
	}
	return text
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
		argv = []string{"--ready-exec", Quote(ready.Exec...)}
	}
	if ready.Interval != 0 {
		argv = append(argv, "--ready-interval", ready.Interval.String())
	}
	return argv
}

// modalFlags returns the flags of Modal's own settings. The values are JSON, which the flag parses as YAML.
func modalFlags(modal json.RawMessage) []string {
	if modal == nil {
		return nil
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(modal, &fields) != nil {
		return nil // cannot happen: a spec is checked before it is shown
	}
	var argv []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		argv = append(argv, "--modal", key+"="+string(fields[key]))
	}
	return argv
}
