package modal

import (
	"cmp"
	"context"
	"math"
	"net/netip"
	"strings"
	"time"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

// definition returns Modal's parameters for the sandbox. Its lookups run at the same time.
func (l *launching) definition(ctx context.Context) (*sdk.SandboxCreateParams, error) {
	spec := l.spec
	params := &sdk.SandboxCreateParams{
		GPU: spec.GPU.String(), CPU: spec.CPU, CPULimit: spec.CPU, MemoryMiB: mebibytes(spec.Memory),
		MemoryLimitMiB: mebibytes(spec.Memory),
		Timeout:        wholeSeconds(time.Duration(spec.Timeout)), IdleTimeout: wholeSeconds(time.Duration(spec.IdleTimeout)),
		Workdir: spec.Workdir,
		Command: spec.Command, Env: spec.Env, Name: spec.Name, Tags: tagsOf(spec, l.lease),
		InboundCIDRAllowlist: spec.Inbound,
	}
	for _, port := range spec.Ports {
		switch port.Protocol {
		case core.PortTCP:
			params.UnencryptedPorts = append(params.UnencryptedPorts, port.Sandbox)
		case core.PortH2:
			params.H2Ports = append(params.H2Ports, port.Sandbox)
		case core.PortDefault, core.PortHTTPS:
			params.EncryptedPorts = append(params.EncryptedPorts, port.Sandbox)
		}
	}
	policy(params, spec.Network)
	var err error
	if params.ReadinessProbe, err = probe(spec.Ready); err != nil {
		return nil, err
	}
	err = client.Together(
		func() (err error) { params.Secrets, err = l.lookups.Secrets(ctx, spec.Secrets); return err },
		func() (err error) { params.Volumes, err = l.volumes(ctx); return err },
		func() error { return l.onlyModals(ctx, params) },
	)
	return params, err
}

// onlyModals sets the parameters that only Modal has.
func (l *launching) onlyModals(ctx context.Context, params *sdk.SandboxCreateParams) error {
	m, err := modalspec.Of(l.spec)
	if err != nil || l.spec.Modal == nil {
		return err
	}
	params.Regions, params.Cloud, params.Runtime, params.CustomDomain = m.Regions, m.Cloud, sdk.SandboxRuntime(
		m.Runtime,
	), m.CustomDomain
	params.I6PN, params.PTY = m.PrivateIPv6, m.PTY
	params.IncludeOidcIdentityToken, params.ExperimentalEnableSnapshot = m.OIDC, m.MemorySnapshot
	params.CPULimit = cmp.Or(m.CPULimit, params.CPULimit)
	params.MemoryLimitMiB = cmp.Or(mebibytes(m.MemoryLimit), params.MemoryLimitMiB)
	params.ExperimentalOptions = experimental(m.Experimental)
	return client.Together(
		func() (err error) { params.CloudBucketMounts, err = l.buckets(ctx, m.Buckets); return err },
		func() (err error) { params.ExperimentalOutboundPolicy, err = l.headers(ctx, m.Headers); return err },
		func() (err error) {
			if m.Proxy != "" {
				params.Proxy, err = l.lookups.Proxy(ctx, m.Proxy)
			}
			return err
		},
	)
}

// experimental converts Modal's experimental options: "true" and "false" become booleans, other values stay text.
func experimental(options map[string]string) map[string]any {
	typed := make(map[string]any, len(options))
	for name, value := range options {
		switch value {
		case "true", "false":
			typed[name] = value == "true"
		default:
			typed[name] = value
		}
	}
	return typed
}

// mebibytes rounds up: Modal counts memory in MiB.
func mebibytes(size core.Bytes) int { return int((size + core.MiB - 1) / core.MiB) }

// wholeSeconds rounds up: Modal counts in seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// policy sets the outbound network access of a sandbox.
func policy(params *sdk.SandboxCreateParams, network core.Network) {
	switch network.Mode {
	case core.NetworkNone, core.NetworkInternal:
		params.BlockNetwork = true
	case core.NetworkAllow:
		cidrs, domains := splitAllowed(network.Allow)
		params.OutboundCIDRAllowlist, params.OutboundDomainAllowlist = &sdk.Allowlist{Entries: cidrs}, &sdk.Allowlist{
			Entries: domains,
		}
	case core.NetworkAll, core.NetworkDefault:
	}
}

// splitAllowed splits an allow-list into CIDRs and domains.
func splitAllowed(allowed []string) (cidrs, domains []string) {
	for _, entry := range allowed {
		if _, err := netip.ParsePrefix(entry); err == nil {
			cidrs = append(cidrs, entry)
		} else {
			domains = append(domains, entry)
		}
	}
	return cidrs, domains
}

// probe converts a readiness probe to Modal's form; nil stays nil.
func probe(ready *core.Probe) (*sdk.Probe, error) {
	if ready == nil {
		return nil, nil //nolint:nilnil // a probe is optional
	}
	interval := cmp.Or(time.Duration(ready.Interval), time.Second).Round(time.Millisecond)
	if ready.TCP != 0 {
		return sdk.NewTCPProbe(ready.TCP, &sdk.TCPProbeParams{Interval: interval})
	}
	return sdk.NewExecProbe(ready.Exec, &sdk.ExecProbeParams{Interval: interval})
}

// volumes finds or creates the volumes. A source is NAME or NAME/SUB/PATH.
func (l *launching) volumes(ctx context.Context) (map[string]*sdk.Volume, error) {
	found := make([]*sdk.Volume, len(l.spec.Volumes))
	err := client.Each(l.spec.Volumes, func(i int, v core.Volume) (err error) {
		name, sub, _ := strings.Cut(v.Source, "/")
		if found[i], err = l.lookups.Volume(ctx, name); err == nil && (v.ReadOnly || sub != "") {
			found[i] = found[i].WithMountOptions(&sdk.VolumeMountOptionsParams{ReadOnly: &v.ReadOnly, SubPath: &sub})
		}
		return err
	})
	volumes := map[string]*sdk.Volume{}
	for i, v := range l.spec.Volumes {
		volumes[v.Target] = found[i]
	}
	return volumes, err
}

// buckets returns the mounts of cloud buckets, by target.
func (l *launching) buckets(ctx context.Context, list []modalspec.Bucket) (map[string]*sdk.CloudBucketMount, error) {
	made := make([]*sdk.CloudBucketMount, len(list))
	err := client.Each(list, func(i int, b modalspec.Bucket) (err error) {
		params := &sdk.CloudBucketMountParams{
			ReadOnly: b.ReadOnly, RequesterPays: b.RequesterPays, BucketEndpointURL: given(b.Endpoint),
			KeyPrefix: given(b.Prefix), OidcAuthRoleArn: given(b.RoleARN),
		}
		if b.Secret != "" {
			if params.Secret, err = l.lookups.Secret(ctx, b.Secret); err != nil {
				return err
			}
		}
		if made[i], err = l.client.SDK.CloudBucketMounts.New(b.Name, params); err != nil {
			return core.Errorf(core.KindUsage, "modal.launch", b.Name, "modal.buckets: %w", err)
		}
		return nil
	})
	mounts := map[string]*sdk.CloudBucketMount{}
	for i, b := range list {
		mounts[b.Target] = made[i]
	}
	return mounts, err
}

// headers returns the policy that replaces headers of outgoing requests, or nil.
func (l *launching) headers(
	ctx context.Context, list []modalspec.HeaderReplacement,
) (*sdk.ExperimentalOutboundPolicy, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // a policy is optional
	}
	replacements := make([]sdk.ExperimentalOutboundPolicyHeaderReplacement, len(list))
	err := client.Each(list, func(i int, h modalspec.HeaderReplacement) (err error) {
		replacements[i] = sdk.ExperimentalOutboundPolicyHeaderReplacement{Domain: h.Domain, Headers: h.Headers}
		if h.Secret != "" {
			replacements[i].Secret, err = l.lookups.Secret(ctx, h.Secret)
		}
		return err
	})
	made := sdk.NewExperimentalOutboundPolicy(replacements...)
	return &made, err
}

// given returns a pointer to text, or nil if it is empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
