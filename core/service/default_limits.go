package service

import "github.com/seed-0724f904/sb/core"

// defaultLimit is a limit that comes from the defaults, not from the user. Providers that support it enforce it. For
// others the service removes it from the spec. An unsupported limit of the user is an error.
type defaultLimit struct {
	need core.Capability
	drop func(*core.Spec)
}

// defaultLimits lists the limits that the defaults added to the request, and the policy for pulls. A quota's limit is
// not one of them.
func (s *base) defaultLimits(requested core.Spec) []defaultLimit {
	var list []defaultLimit
	for _, f := range core.Fields() {
		bounded := f.Name == "cpu" && s.quotas.MaxCPU > 0 || f.Name == "memory" && s.quotas.MaxMemory > 0
		if f.Limit && f.Need != "" && f.IsZero(requested) && !bounded {
			list = append(list, defaultLimit{f.Need, f.Clear})
		}
	}
	if requested.Pull == core.PullDefault {
		list = append(list, defaultLimit{core.CapPull, core.FieldNamed("pull").Clear})
	}
	return list
}

// fit returns spec without the default limits that a provider does not support.
func fit(spec core.Spec, defaultLimits []defaultLimit, caps core.Capabilities) core.Spec {
	spec = spec.Clone()
	for _, w := range defaultLimits {
		if !caps.Can(w.need) {
			w.drop(&spec)
		}
	}
	return spec
}
