package core

// wish is a limit that nobody asked for: it comes from the defaults. A provider that can hold it does; for one that
// cannot it is left out of the spec, where everybody can see that there is none. What was asked for is
// refused instead.
type wish struct {
	need Capability
	drop func(*Spec)
}

// wishes lists the limits that the defaults added to what was asked. A quota's bound is no wish.
func (s *Service) wishes(asked Spec) []wish {
	var list []wish
	add := func(open bool, need Capability, drop func(*Spec)) {
		if open {
			list = append(list, wish{need, drop})
		}
	}
	add(asked.CPU == 0 && s.quotas.MaxCPU == 0, CapCPU, func(spec *Spec) { spec.CPU = 0 })
	add(asked.Memory == 0 && s.quotas.MaxMemory == 0, CapMemory, func(spec *Spec) { spec.Memory = 0 })
	add(asked.Disk == 0, CapDisk, func(spec *Spec) { spec.Disk = 0 })
	add(asked.Processes == 0, CapProcesses, func(spec *Spec) { spec.Processes = 0 })
	add(asked.OpenFiles == 0, CapOpenFiles, func(spec *Spec) { spec.OpenFiles = 0 })
	return list
}

// fit returns spec without the wishes that a provider cannot fulfil.
func fit(spec Spec, wishes []wish, caps Capabilities) Spec {
	spec = spec.Clone()
	for _, w := range wishes {
		if !caps.Can(w.need) {
			w.drop(&spec)
		}
	}
	return spec
}
