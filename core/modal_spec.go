package core

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// maxHeaders is the highest number of headers that Modal replaces for one sandbox.
const maxHeaders = 25

// ModalSpec has the settings that only Modal supports. Zero fields use Modal's defaults.
type ModalSpec struct {
	// Regions are the allowed regions: "us-east".
	Regions []string `json:"regions,omitempty"`
	// Cloud is the cloud to run in: "aws", "gcp", "oci".
	Cloud string `json:"cloud,omitempty"`
	// Runtime is "gvisor" or "vm".
	Runtime string `json:"runtime,omitempty"`
	// Proxy is the name of a Modal proxy, which gives outgoing connections a fixed address.
	Proxy string `json:"proxy,omitempty"`
	// CustomDomain is the domain of published ports. It must be set up with Modal beforehand.
	CustomDomain string `json:"custom_domain,omitempty"`
	// PrivateIPv6 lets sandboxes of one workspace and region reach each other.
	PrivateIPv6 bool `json:"private_ipv6,omitempty"`

	// CPULimit is the hard limit in cores; Spec.CPU is then the reservation. Without it, Spec.CPU is both.
	CPULimit float64 `json:"cpu_limit,omitempty"`
	// MemoryLimit is the hard limit; Spec.Memory is then the reservation. Without it, Spec.Memory is both.
	MemoryLimit Bytes `json:"memory_limit,omitempty"`

	// ImageSecret names the secret at Modal that has the credentials of the image's registry.
	ImageSecret string `json:"image_secret,omitempty"`
	// Buckets mounts buckets of S3, R2 and GCS.
	Buckets []Bucket `json:"buckets,omitempty"`
	// OIDC sets the variable MODAL_IDENTITY_TOKEN to a token that identifies the sandbox.
	OIDC bool `json:"oidc,omitempty"`
	// Headers are replaced in outgoing HTTPS requests. Their secrets never enter the sandbox.
	Headers []HeaderReplacement `json:"headers,omitempty"`

	// PTY gives the entry command a terminal.
	PTY bool `json:"pty,omitempty"`
	// MemorySnapshot allows checkpoints of the sandbox.
	MemorySnapshot bool `json:"memory_snapshot,omitempty"`
	// Experimental are Modal's experimental options. "true" and "false" are sent as booleans, all other values as text.
	Experimental map[string]string `json:"experimental,omitempty"`
}

// Bucket mounts a bucket of an object store.
type Bucket struct {
	// Name is the bucket's name.
	Name string `json:"name"`
	// Target is an absolute path inside.
	Target string `json:"target"`
	// Prefix is the part of the bucket that is mounted; it ends with a slash.
	Prefix string `json:"prefix,omitempty"`
	// Endpoint is the store's URL; "" means Amazon S3.
	Endpoint string `json:"endpoint,omitempty"`
	// Secret names the secret at Modal that has the credentials.
	Secret string `json:"secret,omitempty"`
	// RoleARN is the role that the sandbox assumes with its OIDC token.
	RoleARN  string `json:"role_arn,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// RequesterPays charges requests to the sandbox's account; it needs a secret.
	RequesterPays bool `json:"requester_pays,omitempty"`
}

// HeaderReplacement sets headers of requests to one domain.
type HeaderReplacement struct {
	// Domain is a domain, "*.example.com" for its subdomains, or "*".
	Domain string `json:"domain"`
	// Headers are names and values. $KEY in a value is the secret's variable of that name; $$ is a dollar sign.
	Headers map[string]string `json:"headers"`
	// Secret names the secret at Modal that the values refer to.
	Secret string `json:"secret,omitempty"`
}

func (m *ModalSpec) clone() *ModalSpec {
	if m == nil {
		return nil
	}
	c := *m
	c.Regions = slices.Clone(m.Regions)
	c.Buckets = slices.Clone(m.Buckets)
	c.Headers = slices.Clone(m.Headers)
	for i := range c.Headers {
		c.Headers[i].Headers = maps.Clone(m.Headers[i].Headers)
	}
	c.Experimental = maps.Clone(m.Experimental)
	return &c
}

// validate makes the checks that need no answer from Modal. spec is the spec that contains m.
func (m *ModalSpec) validate(spec Spec) error {
	if m == nil {
		return nil
	}
	for _, word := range append([]string{m.Cloud, m.Proxy, m.CustomDomain, m.ImageSecret}, m.Regions...) {
		if HasControl(word) || strings.Contains(word, " ") {
			return Invalid("modal", "%q has a blank or control character", word)
		}
	}
	if m.Runtime != "" && m.Runtime != "gvisor" && m.Runtime != "vm" {
		return Invalid("modal.runtime", "%q is neither gvisor nor vm", m.Runtime)
	}
	if m.CPULimit != 0 && (m.CPULimit < spec.CPU || m.CPULimit > maxCPU) {
		return Invalid("modal.cpu_limit", "%v is not between the %v cores that are reserved and %d", m.CPULimit, spec.CPU, maxCPU)
	}
	if m.MemoryLimit != 0 && (m.MemoryLimit < spec.Memory || m.MemoryLimit > 64*TiB) {
		return Invalid("modal.memory_limit", "%s is not between the %s that are reserved and 64TiB", m.MemoryLimit, spec.Memory)
	}
	for i, b := range m.Buckets {
		switch {
		case b.Name == "" || !path.IsAbs(b.Target):
			return Invalid("modal.buckets", "number %d needs a name and an absolute target", i+1)
		case b.Prefix != "" && !strings.HasSuffix(b.Prefix, "/"):
			return Invalid("modal.buckets", "the prefix %q does not end with a slash", b.Prefix)
		case b.RequesterPays && b.Secret == "":
			return Invalid("modal.buckets", "requester_pays of %s needs a secret", b.Name)
		}
	}
	count := 0
	for i, h := range m.Headers {
		if h.Domain == "" || len(h.Headers) == 0 {
			return Invalid("modal.headers", "number %d needs a domain and headers", i+1)
		}
		count += len(h.Headers)
	}
	if count > maxHeaders {
		return Invalid("modal.headers", "%d headers are more than the %d that Modal replaces", count, maxHeaders)
	}
	return nil
}
