package docker

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// Labels of a sandbox's container. A sandbox's container has labelVersion and a sandbox's name: containers also inherit
// the labels of their image. Only volumes and images with labelVersion belong to sb.
const (
	labelVersion = "sb.version"
	labelName    = "sb.name"
	labelApp     = "sb.app"
	labelOwner   = "sb.owner"
	labelExpires = "sb.expires"
	labelSpec    = "sb.spec"
	labelLease   = "sb.lease"
	// labelKey signs calls to the first process. A user who can read it can exec in the container anyway.
	labelKey = "sb.key"
	// labelProtocol is the wire.Version of the first process; without the label, it is 1.
	labelProtocol = "sb.protocol"
	// labelDir names the sandbox's wire.Dir.
	labelDir = "sb.dir"
	// labelRuntime is on Podman's containers, whose runtime Docker's API reports only as "oci".
	labelRuntime = "sb.runtime"
	// labelBuild is on images that launches built.
	labelBuild = "sb.build"
	// labelSnapshot is on snapshots: the id of the saved sandbox.
	labelSnapshot = "sb.snapshot"
	// labelBox is on Docker's volumes with a sandbox's journal and secrets, with version. It is not labelVersion: they are
	// not volumes of the user's.
	labelBox = "sb.box"
	// labelUser begins the names of the spec's own labels.
	labelUser = "sb.label."

	version = "1"
)

// namePrefix begins a container's name; the sandbox's name follows.
const namePrefix = "sb-"

// deadName returns the name for a dead sandbox's container after another container took its name.
func deadName(sandbox, id string) string {
	return namePrefix + sandbox + "-" + id[:min(shortID, len(id))]
}

// labels returns the labels that describe a sandbox. The spec in them has no secret values.
func labels(spec core.Spec, lease core.Lease, dir wire.Dir, key []byte) (map[string]string, error) {
	spec = spec.Redacted()
	specText, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	leaseText, err := json.Marshal(lease)
	if err != nil {
		return nil, err
	}
	l := map[string]string{
		labelVersion: version, labelName: spec.Name, labelApp: spec.App, labelOwner: lease.Owner.Actor +
			" " + lease.Owner.User + "@" + lease.Owner.Host,
		labelSpec: string(specText), labelLease: string(leaseText), labelDir: string(dir),
		labelKey:      base64.StdEncoding.EncodeToString(key),
		labelProtocol: strconv.Itoa(wire.Version),
		// Overrides the image's labels.
		labelRuntime: "", labelNetwork: "",
	}
	if !lease.Expires.IsZero() {
		l[labelExpires] = lease.Expires.UTC().Format(time.RFC3339)
	}
	if spec.Network.Mode == core.NetworkInternal {
		l[labelNetwork] = internalName(spec.App, lease.Owner)
	}
	for name, value := range spec.Labels {
		l[labelUser+name] = value
	}
	return l, nil
}

// described is the content of a container's labels.
type described struct {
	name, app string
	spec      core.Spec
	lease     core.Lease
	dir       wire.Dir
	protocol  int
	key       []byte
}

// describe reads a container's labels. ok is false when the container is not a sandbox of sb. Labels that cannot be
// parsed leave their fields zero.
func describe(id string, l map[string]string, names ...string) (d described, ok bool) {
	if l[labelVersion] == "" || l[labelName] == "" || !slices.ContainsFunc(names, func(name string) bool {
		name = strings.TrimPrefix(name, "/")
		return name == namePrefix+l[labelName] || name == deadName(l[labelName], id)
	}) {
		return described{}, false
	}
	d = described{name: l[labelName], app: l[labelApp], dir: wire.Dir(l[labelDir]), protocol: 1}
	if n, err := strconv.Atoi(l[labelProtocol]); err == nil {
		d.protocol = n
	}
	_ = json.Unmarshal([]byte(l[labelSpec]), &d.spec)
	_ = json.Unmarshal([]byte(l[labelLease]), &d.lease)
	d.key, _ = base64.StdEncoding.DecodeString(l[labelKey])
	return d, true
}

// shortID is the number of characters of a container's id in a sandbox's id.
const shortID = 12

func idOf(container string) string { return IDPrefix + container[:min(shortID, len(container))] }

// containerOf returns the beginning of the container's id, or "" if id is not valid.
func containerOf(id string) string {
	container, ok := strings.CutPrefix(id, IDPrefix)
	if !ok || len(container) != shortID || strings.Trim(container, "0123456789abcdef") != "" {
		return ""
	}
	return container
}
