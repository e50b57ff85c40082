package service

import "github.com/seed-0724f904/sb/core"

// wish is a limit that nobody asked for: it comes from the defaults. A provider that can hold it does; for one that
// cannot it is left out of the spec, where everybody can see that there is none. What was asked for is
// refused instead.
type wish struct {
	need core.Capability
	drop func(*core.Spec)
}

// wishes lists the limits that the defaults added to what was asked. A quota's bound is no wish.
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

// fit returns spec without the wishes that a provider cannot fulfil.
func fit(spec core.Spec, wishes []wish, caps core.Capabilities) core.Spec {
	spec = spec.Clone()
	for _, w := range wishes {
		if !caps.Can(w.need) {
			w.drop(&spec)
		}
	}
	return spec
}
