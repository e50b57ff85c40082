package service

import "github.com/seed-0724f904/sb/core"

// wish is a limit that comes from the defaults, not from the user. Providers that support it enforce it. For others it
// is removed from the spec, so that the spec shows no limit. An unsupported limit that the user requested is an error.
type wish struct {
	need core.Capability
	drop func(*core.Spec)
}

// wishes lists the limits that the defaults added to the request. A quota's limit is no wish.
func (s *base) wishes(asked core.Spec) []wish {
	var list []wish
	for _, f := range core.Fields() {
		bounded := f.Name == "cpu" && s.quotas.MaxCPU > 0 || f.Name == "memory" && s.quotas.MaxMemory > 0
		if f.Limit && f.Need != "" && f.IsZero(asked) && !bounded {
			list = append(list, wish{f.Need, f.Clear})
		}
	}
	return list
}

// fit returns spec without the wishes that a provider does not support.
func fit(spec core.Spec, wishes []wish, caps core.Capabilities) core.Spec {
	spec = spec.Clone()
	for _, w := range wishes {
		if !caps.Can(w.need) {
			w.drop(&spec)
		}
	}
	return spec
}
