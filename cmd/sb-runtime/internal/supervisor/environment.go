//go:build linux

package supervisor

import (
	"maps"
	"slices"
)

// environment is what a command sees: nothing of the host's or the caller's but what was asked for.
func (s *Supervisor) environment(env, secrets map[string]string, home string) []string {
	merged := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": home,
		"LANG": "C.UTF-8",
	}
	for _, layer := range []map[string]string{s.launch.Spec.Env, s.launch.Secrets, env, secrets} {
		maps.Copy(merged, layer)
	}
	list := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, name+"="+merged[name])
	}
	return list
}
