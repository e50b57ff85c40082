package modalspec

import (
	"bytes"
	"encoding/json"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// maxCPU is the highest CPU limit, in cores, as for core.Spec.CPU.
const maxCPU = 1024

// maxHeaders is the highest number of headers that Modal replaces for one sandbox.
const maxHeaders = 25

// Section has the settings that only Modal supports. Zero fields use Modal's defaults.
type Section struct {
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
	MemoryLimit core.Bytes `json:"memory_limit,omitempty"`

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

// Of returns the section of a spec, zero if it has none. It ignores unknown fields: a newer sb may have written them.
func Of(spec core.Spec) (Section, error) {
	var m Section
	if spec.Modal == nil {
		return m, nil
	}
	if err := json.Unmarshal(spec.Modal, &m); err != nil {
		return Section{}, core.Invalid("modal", "%v", err)
	}
	return m, nil
}

// JSON returns the section as a spec has it.
func (m Section) JSON() json.RawMessage {
	text, err := json.Marshal(m)
	if err != nil {
		return nil // cannot happen: all fields are plain JSON
	}
	return text
}

// Check makes the checks of a spec's section that need no answer from Modal. Unknown fields are errors. The error is
// core.KindUsage.
func Check(spec core.Spec) error {
	if spec.Modal == nil {
		return nil
	}
	var m Section
	decoder := json.NewDecoder(bytes.NewReader(spec.Modal))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return core.Invalid("modal", "%v", err)
	}
	for _, word := range append([]string{m.Cloud, m.Proxy, m.CustomDomain, m.ImageSecret}, m.Regions...) {
		if core.HasControl(word) || strings.Contains(word, " ") {
			return core.Invalid("modal", "%q has a blank or control character", word)
		}
	}
	if m.Runtime != "" && m.Runtime != "gvisor" && m.Runtime != "vm" {
		return core.Invalid("modal.runtime", "%q is neither gvisor nor vm", m.Runtime)
	}
	if m.CPULimit != 0 && (m.CPULimit < spec.CPU || m.CPULimit > maxCPU) {
		return core.Invalid(
			"modal.cpu_limit", "%v is not between the %v cores that are reserved and %d", m.CPULimit, spec.CPU, maxCPU,
		)
	}
	if m.MemoryLimit != 0 && (m.MemoryLimit < spec.Memory || m.MemoryLimit > 64*core.TiB) {
		return core.Invalid(
			"modal.memory_limit", "%s is not between the %s that are reserved and 64TiB", m.MemoryLimit, spec.Memory,
		)
	}
	for i, b := range m.Buckets {
		switch {
		case b.Name == "" || !path.IsAbs(b.Target):
			return core.Invalid("modal.buckets", "number %d needs a name and an absolute target", i+1)
		case b.Prefix != "" && !strings.HasSuffix(b.Prefix, "/"):
			return core.Invalid("modal.buckets", "the prefix %q does not end with a slash", b.Prefix)
		case b.RequesterPays && b.Secret == "":
			return core.Invalid("modal.buckets", "requester_pays of %s needs a secret", b.Name)
		}
	}
	count := 0
	for i, h := range m.Headers {
		if h.Domain == "" || len(h.Headers) == 0 {
			return core.Invalid("modal.headers", "number %d needs a domain and headers", i+1)
		}
		count += len(h.Headers)
	}
	if count > maxHeaders {
		return core.Invalid("modal.headers", "%d headers are more than the %d that Modal replaces", count, maxHeaders)
	}
	return nil
}
