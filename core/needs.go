package core

import "slices"

// Need is a capability that a spec requires, and why.
type Need struct {
	// Field is the name of the field that requires it.
	Field      string
	Capability Capability
	// Flag is the part of the command line that requires it: "--pip" or "--network internal".
	Flag string
}

// NeededFor lists the capabilities that the spec requires, each with the flag that sets the field.
func (s Spec) NeededFor() []Need {
	var needs []Need
	add := func(field string, c Capability, flag string, when bool) {
		if when {
			needs = append(needs, Need{field, c, "--" + flag})
		}
	}
	for _, f := range Fields() {
		add(f.Name, f.Need, f.Flag, f.Need != "" && !f.IsZero(s))
	}
	add("pull", CapPull, "pull "+string(s.Pull), s.Pull == PullAlways || s.Pull == PullNever)
	add("timeout", CapTimeout, "timeout", s.Timeout > 0)
	add("timeout", CapNoTimeout, "timeout 0", s.Timeout == NoTimeout)
	add("idle_timeout", CapIdle, "idle-timeout", s.IdleTimeout > 0)
	add("volumes", CapCopyOnWrite, "volume SOURCE:TARGET:cow",
		slices.ContainsFunc(s.Volumes, func(v Volume) bool { return v.CopyOnWrite }))
	for _, p := range s.Ports {
		add("ports", CapPortTLS, "port PORT/"+string(p.Protocol), p.Protocol == PortHTTPS || p.Protocol == PortH2)
	}
	add("secrets", CapSecretStore, "secret-ref", slices.ContainsFunc(s.Secrets, Secret.Kept))
	if mode := s.Network.Mode; mode != NetworkDefault {
		add("network", networkNeed(mode), "network "+string(mode), networkNeed(mode) != "")
	}
	add("network", CapNetHost, "allow "+AllowHost, s.Network.Host())
	return needs
}

// networkNeed returns the capability of a mode, or "" for one that does not exist.
func networkNeed(mode NetworkMode) Capability {
	switch mode {
	case NetworkNone:
		return CapNetNone
	case NetworkAll:
		return CapNetAll
	case NetworkAllow:
		return CapNetAllow
	case NetworkInternal:
		return CapNetInternal
	case NetworkDefault:
	}
	return ""
}

// Needs lists the capabilities that the spec requires, each once.
func (s Spec) Needs() []Capability {
	var caps []Capability
	for _, need := range s.NeededFor() {
		if !slices.Contains(caps, need.Capability) {
			caps = append(caps, need.Capability)
		}
	}
	return caps
}
