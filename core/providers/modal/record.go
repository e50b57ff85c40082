package modal

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"

	"github.com/seed-0724f904/sb/core"
)

// Tags that sb sets in addition to the labels, which are also tags.
const (
	recordTag = "sb-record" // a record
	goneTag   = "sb-gone"   // the sandbox was removed after its end
)

// recordLimit is the size limit of a record, in bytes. A larger record omits its longest fields.
const recordLimit = 4 << 10

// record is the data that sb stores in a sandbox's tags.
type record struct {
	Spec  core.Spec  `json:"spec"`
	Lease core.Lease `json:"lease"`
	// Omitted names the fields of Spec that were left out.
	Omitted []string `json:"omitted,omitempty"`
}

// tagsOf returns the tags for the launch of a sandbox.
func tagsOf(spec core.Spec, lease core.Lease) map[string]string {
	tags := maps.Clone(spec.Labels)
	if tags == nil {
		tags = map[string]string{}
	}
	kept := spec.Redacted()
	kept.Labels = nil
	tags[recordTag] = record{Spec: kept, Lease: lease}.text()
	return tags
}

// text returns the record as the value of a tag.
func (r record) text() string {
	text, err := json.Marshal(r)
	for err == nil && len(text) > recordLimit && r.omitLongest() {
		text, err = json.Marshal(r)
	}
	if err != nil {
		return ""
	}
	return string(text)
}

// omitLongest omits the longest of the fields that can be long. It returns false if none is left.
func (r *record) omitLongest() bool {
	longest, size := "", len("null")
	var omit func()
	for _, field := range []struct {
		name  string
		value any
		omit  func()
	}{
		{"env", r.Spec.Env, func() { r.Spec.Env = nil }},
		{"command", r.Spec.Command, func() { r.Spec.Command = nil }},
		{"pip", r.Spec.Pip, func() { r.Spec.Pip = nil }},
		{"apt", r.Spec.Apt, func() { r.Spec.Apt = nil }},
		{"modal", r.Spec.Modal, func() { r.Spec.Modal = nil }},
	} {
		if text, err := json.Marshal(field.value); err == nil && len(text) > size {
			longest, size, omit = field.name, len(text), field.omit
		}
	}
	if omit == nil {
		return false
	}
	omit()
	r.Omitted = append(r.Omitted, longest)
	return true
}

// described is Modal's description of one sandbox.
type described struct {
	id, name, appID string
	created         time.Time
	tags            map[string]string
	result          *pb.GenericResult
	started         time.Time // zero if the sandbox is queued or Modal reports no time
	queued          bool
	ended           time.Time
	gpu             string
	gpuCount        int
	cpu             float64 // reserved, in cores
	memory          core.Bytes
	timeout         time.Duration
	image           string
}

func tagMap(list []*pb.SandboxTag) map[string]string {
	tags := make(map[string]string, len(list))
	for _, tag := range list {
		tags[tag.GetTagName()] = tag.GetTagValue()
	}
	return tags
}

// fromUnix converts a time of Modal's messages; 0 means no time.
func fromUnix(seconds float64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC()
}

// fromInfo reads an entry of a list.
func fromInfo(info *pb.SandboxInfo) described {
	d := described{
		id: info.GetId(), name: info.GetName(), appID: info.GetAppId(), created: fromUnix(info.GetCreatedAt()),
		tags:   tagMap(info.GetTags()),
		result: info.GetTaskInfo().GetResult(), ended: fromUnix(info.GetTaskInfo().GetFinishedAt()),
		gpu: info.GetTaskInfo().GetGpuConfig().GetGpuType(), gpuCount: int(info.GetTaskInfo().GetGpuConfig().GetCount()),
		cpu: float64(info.GetResourceInfo().GetMilliCpu().
			GetValue()) / 1000, memory: core.Bytes(info.GetResourceInfo().GetMemoryMb().GetValue()) * core.MiB,
		timeout: time.Duration(info.GetTimeoutSecs()) * time.Second, image: info.GetImageId(),
	}
	if d.result == nil {
		d.result = info.GetMetadata().GetResult()
	}
	d.started = fromUnix(info.GetTaskInfo().GetStartedAt())
	d.queued = firstGeneration(d.id) && d.started.IsZero() &&
		d.result.GetStatus() == pb.GenericResult_GENERIC_STATUS_UNSPECIFIED
	return d
}

// sandbox converts the description. Sandboxes of other clients have no record.
func (d described) sandbox(app string) core.Sandbox {
	var rec record
	_ = json.Unmarshal([]byte(d.tags[recordTag]), &rec)
	labels := map[string]string{}
	for name, value := range d.tags {
		if !strings.HasPrefix(name, "sb-") {
			labels[name] = value
		}
	}
	rec.Spec.Labels = labels
	sb := core.Sandbox{
		ID: d.id, Name: d.name, Provider: Name, App: rec.Spec.App, State: core.StateRunning, Image: rec.Spec.Image,
		GPU:    rec.Spec.GPU,
		Labels: labels, Spec: rec.Spec, Omitted: rec.Omitted, Created: d.created, Started: d.created, Lease: rec.Lease,
		Ended: d.ended,
	}
	if sb.Name == "" {
		sb.Name = rec.Spec.Name
	}
	if sb.Name == "" {
		sb.Name = d.id
	}
	if app != "" {
		sb.App = app
	}
	if sb.Created.IsZero() {
		sb.Created, sb.Started = rec.Lease.Created, rec.Lease.Created
	}
	if sb.Image == "" {
		sb.Image = d.image
	}
	if sb.GPU.IsZero() && d.gpu != "" {
		sb.GPU = core.GPU{Type: d.gpu, Count: max(d.gpuCount, 1)}
	}
	if d.tags[recordTag] == "" {
		sb.Spec.GPU, sb.Spec.CPU, sb.Spec.Memory = sb.GPU, d.cpu, d.memory
	}
	life := d.timeout
	if life == 0 {
		life = time.Duration(rec.Spec.Timeout)
	}
	if life > 0 && !sb.Created.IsZero() {
		sb.Expires = sb.Created.Add(life)
	}
	if !d.started.IsZero() {
		sb.Started = d.started
	}
	if d.queued {
		sb.State, sb.Started = core.StateQueued, time.Time{}
	}
	d.end(&sb)
	return sb
}

// gone reports whether sb no longer shows the sandbox: it was terminated, or removed after its end.
func (d described) gone() bool {
	return d.tags[goneTag] != "" || d.result.GetStatus() == pb.GenericResult_GENERIC_STATUS_TERMINATED
}

// end sets the state, reason and exit code of a sandbox that has ended.
func (d described) end(sb *core.Sandbox) {
	if code := returnCode(d.result); d.tags[recordTag] == "" || len(sb.Spec.Command) > 0 ||
		slices.Contains(sb.Omitted, "command") {
		sb.ExitCode = code
	}
	sb.Message = strings.TrimSpace(d.result.GetException())
	switch d.result.GetStatus() {
	case pb.GenericResult_GENERIC_STATUS_UNSPECIFIED:
		sb.Ended = time.Time{}
	case pb.GenericResult_GENERIC_STATUS_SUCCESS, pb.GenericResult_GENERIC_STATUS_FAILURE:
		sb.State, sb.Reason = core.StateExited, core.ReasonCommand
	case pb.GenericResult_GENERIC_STATUS_TIMEOUT:
		sb.State, sb.Reason = core.StateExited, core.ReasonTimeout
	case pb.GenericResult_GENERIC_STATUS_IDLE_TIMEOUT:
		sb.State, sb.Reason = core.StateExited, core.ReasonIdle
	case pb.GenericResult_GENERIC_STATUS_TERMINATED:
		sb.State, sb.Reason = core.StateExited, core.ReasonStopped
	case pb.GenericResult_GENERIC_STATUS_INIT_FAILURE:
		sb.ExitCode = nil // it never ran
		sb.State, sb.Reason = core.StateFailed, core.ReasonLaunch
	case pb.GenericResult_GENERIC_STATUS_MEMORY_MANAGER_EVICTION:
		sb.State, sb.Reason = core.StateFailed, core.ReasonMemory
	case pb.GenericResult_GENERIC_STATUS_INTERNAL_FAILURE:
		sb.ExitCode = nil // its end is unknown
		sb.State, sb.Reason = core.StateLost, core.ReasonCrash
	}
}
