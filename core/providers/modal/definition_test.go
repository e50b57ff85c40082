//go:build linux

package modal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// Every field of a spec reaches Modal with its meaning.
func TestEveryFieldReachesModal(t *testing.T) {
	r := newRig(t, func(o *modaltest.Options) {
		o.Secrets = map[string]map[string]string{"bucket": {"K": "v"}, "api": {"KEY": "v"}}
	})
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.CPU, s.Memory, s.IdleTimeout, s.Workdir = 1.5, 512*core.MiB, core.Duration(time.Minute), "/tmp"
	s.Env = map[string]string{"COLOR": "red"}
	s.Labels = map[string]string{"team": "x"}
	s.Volumes = []core.Volume{{Source: "data/part", Target: "/data", ReadOnly: true}}
	s.Ports = []core.Port{{Sandbox: 8000}, {Sandbox: 8001, Protocol: core.PortTCP}, {Sandbox: 8002, Protocol: core.PortH2}}
	s.Inbound = []string{"203.0.113.0/24"}
	s.Network = core.Network{Mode: core.NetworkAllow, Allow: []string{"10.0.0.0/8"}}
	s.Ready = &core.Probe{TCP: 8000, Interval: core.Duration(2 * time.Second)}
	s.Modal = modalspec.Section{
		Regions: []string{"us-east", "us-west"}, Cloud: "aws", Runtime: "vm", CustomDomain: "sandboxes.example.com",
		PrivateIPv6: true,
		CPULimit:    4, MemoryLimit: core.GiB, OIDC: true, PTY: true, MemorySnapshot: true,
		Experimental: map[string]string{"fast": "true", "mode": "x"},
		Buckets: []modalspec.Bucket{
			{
				Name: "b", Target: "/bucket", Prefix: "p/", Endpoint: "https://x.r2.cloudflarestorage.com", Secret: "bucket",
				ReadOnly: true, RequesterPays: true,
			},
		},
		Headers: []modalspec.HeaderReplacement{
			{Domain: "api.example.com", Headers: map[string]string{"Authorization": "Bearer $KEY"}, Secret: "api"},
		},
	}.JSON()
	sb := launched(t, p, s)
	d := r.server.Definition(sb.ID)
	if d == nil {
		t.Fatal("the server knows no such sandbox")
	}
	bucket, volume, headers := first(d.GetCloudBucketMounts()), first(d.GetVolumeMounts()), first(
		d.GetExperimentalOutboundPolicy().GetHeaderReplacements(),
	)
	tunnels := map[uint32]string{}
	for _, port := range d.GetOpenPorts().GetPorts() {
		tunnels[port.GetPort()] = port.GetTunnelType().String()
		if port.GetUnencrypted() {
			tunnels[port.GetPort()] = "tcp"
		}
	}
	for name, is := range map[string]bool{
		"cpu":     d.GetResources().GetMilliCpu() == 1500 && d.GetResources().GetMilliCpuMax() == 4000,
		"memory":  d.GetResources().GetMemoryMb() == 512 && d.GetResources().GetMemoryMbMax() == 1024,
		"timeout": d.GetTimeoutSecs() == 600 && d.GetIdleTimeoutSecs() == 60,
		"workdir": d.GetWorkdir() == "/tmp",
		"volume":  volume.GetMountPath() == "/data" && volume.GetReadOnly() && volume.GetSubPath() == "part",
		"ports": tunnels[8000] == "TUNNEL_TYPE_UNSPECIFIED" && tunnels[8001] == "tcp" &&
			tunnels[8002] == "TUNNEL_TYPE_H2",
		"inbound": strings.Join(d.GetInboundCidrAllowlist(), " ") == "203.0.113.0/24",
		"network": d.GetNetworkAccess().
			GetNetworkAccessType() == pb.NetworkAccess_ALLOWLIST && strings.Join(d.GetNetworkAccess().
			GetAllowedCidrs(), " ") == "10.0.0.0/8",
		"probe":        d.GetReadinessProbe().GetTcpPort() == 8000 && d.GetReadinessProbe().GetIntervalMs() == 2000,
		"regions":      strings.Join(d.GetSchedulerPlacement().GetRegions(), " ") == "us-east us-west",
		"cloud":        d.GetCloudProviderStr() == "aws",
		"runtime":      d.GetRuntime() == "vm",
		"domain":       d.GetCustomDomain() == "sandboxes.example.com",
		"private IPv6": d.GetI6PnEnabled(),
		"OIDC":         d.GetIncludeOidcIdentityToken(),
		"PTY":          d.GetPtyInfo().GetEnabled(),
		"memory kept":  d.GetEnableSnapshot(),
		"experiments":  d.GetExperimentalOptionsV2()["fast"] == "true" && d.GetExperimentalOptionsV2()["mode"] == "x",
		"bucket": bucket.GetBucketName() == "b" && bucket.GetMountPath() == "/bucket" &&
			bucket.GetKeyPrefix() == "p/" && bucket.GetReadOnly() && bucket.GetRequesterPays(),
		"bucket's store": bucket.GetBucketType() == pb.CloudBucketMount_R2 && bucket.GetCredentialsSecretId() != "",
		"headers": headers.GetDomain() == "api.example.com" &&
			headers.GetHeaders()["Authorization"] == "Bearer $KEY" && headers.GetSecretId() != "",
	} {
		if !is {
			t.Errorf("%s: %v", name, d)
		}
	}
	if len(sb.Ports) != 3 {
		t.Errorf("the ports are %+v", sb.Ports)
	}
	tunnelsOf, err := p.Tunnels(t.Context(), sb.ID)
	if err != nil || len(tunnelsOf) != 3 || tunnelsOf[1].Protocol != core.PortTCP || tunnelsOf[1].URL != "" ||
		tunnelsOf[2].Protocol != core.PortH2 || tunnelsOf[0].URL == "" {
		t.Errorf("the tunnels are %+v, %v", tunnelsOf, err)
	}
	got, err := p.Get(t.Context(), sb.ID)
	if m, ofErr := modalspec.Of(got.Spec); err != nil || ofErr != nil || m.Runtime != "vm" || got.Spec.Ready == nil ||
		got.Labels["team"] != "x" {
		t.Errorf("it is read back as %+v, %v", got, err)
	}
}

// Modal receives a private registry's credentials in the form of its kind. The host determines the kind.
func TestPrivateRegistries(t *testing.T) {
	r := newRig(t, func(o *modaltest.Options) {
		o.Secrets = map[string]map[string]string{"half": {"REGISTRY_USERNAME": "me"}, "login": {
			"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "planted", "SERVICE_ACCOUNT_JSON": "{}",
			"REGISTRY_USERNAME": "me", "REGISTRY_PASSWORD": "planted",
		}}
	})
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	for image, kind := range map[string]pb.RegistryAuthType{
		"123.dkr.ecr.us-east-1.amazonaws.com/team/app:1": pb.RegistryAuthType_REGISTRY_AUTH_TYPE_AWS,
		"us-docker.pkg.dev/project/team/app:1":           pb.RegistryAuthType_REGISTRY_AUTH_TYPE_GCP,
		"eu.gcr.io/project/app":                          pb.RegistryAuthType_REGISTRY_AUTH_TYPE_GCP,
		"registry.example.com/app":                       pb.RegistryAuthType_REGISTRY_AUTH_TYPE_STATIC_CREDS,
	} {
		s := spec()
		s.Image, s.Modal = image, modalspec.Section{ImageSecret: "login"}.JSON()
		made := r.server.ImageDefinition(r.server.Definition(launched(t, p, s).ID).GetImageId())
		if config := made.GetImageRegistryConfig(); config.GetRegistryAuthType() != kind || config.GetSecretId() == "" ||
			strings.Join(made.GetDockerfileCommands(), "\n") != "FROM "+image {
			t.Errorf("%s: %v", image, made)
		}
	}
	s := spec()
	s.Image, s.Modal = "registry.example.com/app", modalspec.Section{ImageSecret: "half"}.JSON()
	if _, err := p.Launch(t.Context(), s, lease(), nil); !errors.Is(err, core.KindUsage) ||
		!strings.Contains(err.Error(), "REGISTRY_PASSWORD") {
		t.Errorf("a secret without a password: %v", err)
	}
	for _, image := range []string{"im-123", "modal:mine"} {
		s.Image = image
		if _, err := p.Launch(t.Context(), s, lease(), nil); !errors.Is(err, core.KindUsage) ||
			!strings.Contains(err.Error(), "image_secret") {
			t.Errorf("%s with a registry's secret: %v", image, err)
		}
	}
}

func first[T any](list []T) T {
	var none T
	if len(list) == 0 {
		return none
	}
	return list[0]
}

// The error for an object that is missing at Modal names it.
func TestMissingAtModal(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	for name, change := range map[string]func(*core.Spec){
		"a-proxy":    func(s *core.Spec) { s.Modal = modalspec.Section{Proxy: "a-proxy"}.JSON() },
		"a-secret":   func(s *core.Spec) { s.Secrets = []core.Secret{{Ref: "a-secret"}} },
		"an-image":   func(s *core.Spec) { s.Image = "modal:an-image" },
		"a-snapshot": func(s *core.Spec) { s.Snapshot = "a-snapshot" },
		"a-login": func(s *core.Spec) {
			s.Image = "123.dkr.ecr.us-east-1.amazonaws.com/x"
			s.Modal = modalspec.Section{ImageSecret: "a-login"}.JSON()
		},
	} {
		s := spec()
		change(&s)
		if _, err := p.Launch(t.Context(), s, lease(), nil); !errors.Is(err, core.KindNotFound) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		} else if hint := core.HintOf(err); strings.Contains(hint, "sb secret create "+name) != (name == "a-secret" ||
			name == "a-login") {
			t.Errorf("%s: the hint is %q", name, hint)
		}
	}
}
