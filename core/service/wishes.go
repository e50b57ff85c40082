package service

import "github.com/seed-0724f904/sb/core"

// wish is a limit that comes from the defaults, not from the user. Providers that support it enforce it. For others it
// is removed from the spec, so that the spec shows no limit. An unsupported limit that the user requested is an error.
type wish struct {
	need core.Capability
	drop func(*core.Spec)
}

// wishes lists the limits that the defaults added to the request. A quota's limit is no wish.
func (s *Service) wishes(asked core.Spec) []wish {
	var list []wish
	add := func(open bool, need core.Capability, drop func(*core.Spec)) {
		if open {
			list = append(list, wish{need, drop})
		}
	}
	add(asked.CPU == 0 && s.quotas.MaxCPU == 0, core.CapCPU, func(spec *core.Spec) { spec.CPU = 0 })
	add(asked.Memory == 0 && s.quotas.MaxMemory == 0, core.CapMemory, func(spec *core.Spec) { spec.Memory = 0 })
	add(asked.Disk == 0, core.CapDisk, func(spec *core.Spec) { spec.Disk = 0 })
	add(asked.Processes == 0, core.CapProcesses, func(spec *core.Spec) { spec.Processes = 0 })
	add(asked.OpenFiles == 0, core.CapOpenFiles, func(spec *core.Spec) { spec.OpenFiles = 0 })
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
