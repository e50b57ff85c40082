package core

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// maxHeaders is how many headers Modal replaces for one sandbox.
const maxHeaders = 25

// ModalSpec is what only Modal's sandboxes have. A zero field leaves the choice to Modal.
type ModalSpec struct {
	// Regions are those that it may run in: "us-east".
	Regions []string `json:"regions,omitempty"`
	// Cloud is the cloud that it runs in: "aws", "gcp", "oci".
	Cloud string `json:"cloud,omitempty"`
	// Runtime is "gvisor" or "vm".
	Runtime string `json:"runtime,omitempty"`
	// Proxy is the name of a Modal proxy, which gives outgoing connections a fixed address.
	Proxy string `json:"proxy,omitempty"`
	// CustomDomain is the domain of published ports, set up with Modal beforehand.
	CustomDomain string `json:"custom_domain,omitempty"`
	// PrivateIPv6 lets sandboxes of one workspace and region reach each other.
	PrivateIPv6 bool `json:"private_ipv6,omitempty"`

	// CPULimit is the hard limit in cores when Spec.CPU is only what is reserved. Without it the two are the same.
	CPULimit float64 `json:"cpu_limit,omitempty"`
	// MemoryLimit is the hard limit when Spec.Memory is only what is reserved. Without it the two are the same.
	MemoryLimit Bytes `json:"memory_limit,omitempty"`

	// ImageSecret names the secret at Modal with the credentials of the image's registry.
	ImageSecret string `json:"image_secret,omitempty"`
	// Buckets mounts buckets of S3, R2 and GCS.
	Buckets []Bucket `json:"buckets,omitempty"`
	// OIDC puts a token that says who the sandbox is in its variable MODAL_IDENTITY_TOKEN.
	OIDC bool `json:"oidc,omitempty"`
	// Headers are replaced in outgoing HTTPS requests; the secrets in them never come into the sandbox.
	Headers []HeaderReplacement `json:"headers,omitempty"`

	// PTY gives the entry command a terminal.
	PTY bool `json:"pty,omitempty"`
	// MemorySnapshot makes it possible to keep the sandbox with its memory.
	MemorySnapshot bool `json:"memory_snapshot,omitempty"`
	// Experimental are Modal's experimental options; "true" and "false" are sent as such, all else as text.
	Experimental map[string]string `json:"experimental,omitempty"`
}

// Bucket mounts a bucket of an object store.
type Bucket struct {
	// Name is the bucket's.
	Name string `json:"name"`
	// Target is an absolute path inside.
	Target string `json:"target"`
	// Prefix is the part of the bucket that is mounted; it ends with a slash.
	Prefix string `json:"prefix,omitempty"`
	// Endpoint is the store's URL; without it it is Amazon's.
	Endpoint string `json:"endpoint,omitempty"`
	// Secret names the secret at Modal with the credentials.
	Secret string `json:"secret,omitempty"`
	// RoleARN is the role that is taken on with the sandbox's OIDC token.
	RoleARN  string `json:"role_arn,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// RequesterPays pays for the requests; it needs a secret.
	RequesterPays bool `json:"requester_pays,omitempty"`
}

// HeaderReplacement sets headers of requests to one domain.
type HeaderReplacement struct {
	// Domain is a domain, "*.example.com" with those below it, or "*".
	Domain string `json:"domain"`
	// Headers are names and values. $KEY in a value is the secret's variable of that name, $$ is a dollar sign.
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

// validate checks what holds whatever Modal says of it. spec is what m belongs to.
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
