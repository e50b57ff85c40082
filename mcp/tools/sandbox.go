package tools

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// LaunchIn is the input of sandbox_launch. The tag spec names the spec field that an argument sets. The argument has
// that field's description, unless the tag jsonschema has another.
type LaunchIn struct {
	Name       string            `json:"name,omitempty" spec:"name" jsonschema:"unique among live sandboxes"`
	Provider   string            `json:"provider,omitempty" spec:"provider" jsonschema:"auto (default), local, docker or modal"`
	Image      string            `json:"image,omitempty" spec:"image" jsonschema:"such as python:3.12; host has the user's programs"`
	Pull       string            `json:"pull,omitempty" spec:"pull" jsonschema:"when to download the image" enum:"missing|always|never"`
	Template   string            `json:"template,omitempty" spec:"template" jsonschema:"name"`
	Snapshot   string            `json:"snapshot,omitempty" spec:"snapshot" jsonschema:"id"`
	Checkpoint string            `json:"checkpoint,omitempty" spec:"checkpoint" jsonschema:"name; restores memory and processes"`
	Python     string            `json:"python_version,omitempty" spec:"python" jsonschema:"such as 3.12"`
	Pip        []string          `json:"pip,omitempty" spec:"pip" jsonschema:"Python packages"`
	Apt        []string          `json:"apt,omitempty" spec:"apt" jsonschema:"Debian packages"`
	CPU        float64           `json:"cpu,omitempty" spec:"cpu" jsonschema:"cores"`
	Memory     string            `json:"memory,omitempty" spec:"memory" jsonschema:"such as 2GiB"`
	GPU        string            `json:"gpu,omitempty" spec:"gpu" jsonschema:"TYPE or TYPE:COUNT, such as T4, L4, A100-80GB, H100. It costs money"`
	Timeout    int               `json:"timeout_seconds,omitempty" jsonschema:"lifetime"`
	MaxCost    float64           `json:"max_cost,omitempty" spec:"max_cost" jsonschema:"ends it before it costs more"`
	Workdir    string            `json:"workdir,omitempty" spec:"workdir" jsonschema:"default directory of commands"`
	Env        map[string]string `json:"env,omitempty" spec:"env"`
	Secrets    map[string]string `json:"secrets,omitempty" spec:"secrets" jsonschema:"like env, but kept out of output and logs"`
	SecretRefs []string          `json:"secret_names,omitempty" jsonschema:"secrets stored at the provider"`
	Volumes    map[string]string `json:"volumes,omitempty" jsonschema:"mount path: volume name"`
	Ports      []int             `json:"ports,omitempty" jsonschema:"ports to publish"`
	Network    string            `json:"network,omitempty" jsonschema:"outgoing connections; allow needs network_allow" enum:"none|all|allow|internal"`
	Allow      []string          `json:"network_allow,omitempty" jsonschema:"domains and CIDRs"`
	App        string            `json:"app,omitempty" spec:"app" jsonschema:"groups sandboxes"`
	Persist    bool              `json:"persist,omitempty" spec:"persist" jsonschema:"lets it stop and start again with its files"`
	Keep       bool              `json:"keep_after_disconnect,omitempty" jsonschema:"keeps it running after you disconnect"`
}

// SandboxInfo describes a sandbox in results.
type SandboxInfo struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Provider string          `json:"provider"`
	State    string          `json:"state" jsonschema:"queued, creating, running, paused, stopped, exited, failed or lost"`
	Reason   string          `json:"reason,omitempty" jsonschema:"why it does not run"`
	Image    string          `json:"image,omitempty"`
	GPU      string          `json:"gpu,omitempty"`
	App      string          `json:"app,omitempty"`
	Created  time.Time       `json:"created"`
	Expires  *time.Time      `json:"expires,omitempty" jsonschema:"end of its lifetime"`
	Leased   bool            `json:"leased,omitempty" jsonschema:"it ends earlier when its clients are gone"`
	Cost     string          `json:"cost,omitempty" jsonschema:"until now"`
	Ports    []publishedPort `json:"ports,omitempty"`
	Note     string          `json:"note,omitempty" jsonschema:"a note on this launch for the user"`
}

// InfoOf describes a sandbox.
func InfoOf(sb core.Sandbox) SandboxInfo {
	info := SandboxInfo{
		ID: sb.ID, Name: sb.Name, Provider: sb.Provider, State: string(sb.State), Reason: string(sb.Reason),
		Image: sb.Image, App: sb.App, Created: sb.Created,
	}
	if sb.Message != "" {
		info.Reason = strings.TrimPrefix(info.Reason+": "+sb.Message, ": ")
	}
	if !sb.GPU.IsZero() {
		info.GPU = sb.GPU.String()
	}
	if info.Leased = sb.Lease.Renewed; info.Leased {
		sb.Expires = sb.Lease.Expires // its holder renews the lease, up to this end
	}
	if !sb.Expires.IsZero() {
		info.Expires = &sb.Expires
	}
	if sb.Cost != nil {
		info.Cost = sb.Cost.String()
	}
	for _, port := range sb.Ports {
		info.Ports = append(info.Ports, publishedPort{
			Port: port.Sandbox, Address: port.Address,
		})
	}
	return info
}

// Text implements texter.
func (i SandboxInfo) Text() string {
	parts := []string{fmt.Sprintf("%s (%s) %s on %s", i.ID, i.Name, i.State, i.Provider)}
	if i.ID == "" {
		parts[0] = i.Name + " " + i.State
	}
	if i.Reason != "" {
		parts = append(parts, i.Reason)
	}
	if i.Image != "" {
		parts = append(parts, "image "+i.Image)
	}
	if i.GPU != "" {
		parts = append(parts, "GPU "+i.GPU)
	}
	if i.App != "" {
		parts = append(parts, "app "+i.App)
	}
	if i.Expires != nil {
		parts = append(parts, "ends "+i.Expires.UTC().Format(time.RFC3339))
	}
	if i.Cost != "" {
		parts = append(parts, i.Cost+" so far")
	}
	for _, port := range i.Ports {
		parts = append(parts, port.String())
	}
	text := strings.Join(parts, ", ")
	if i.ID == "" && i.Note != "" { // other launches have their notes beside the text
		text += "\nnote: " + i.Note
	}
	return text
}

// ListIn is the input of sandbox_list.
type ListIn struct {
	Sandbox string `json:"sandbox,omitempty" jsonschema:"show only this one"`
	App     string `json:"app,omitempty" jsonschema:"only those of this app"`
	All     bool   `json:"all,omitempty" jsonschema:"include ended sandboxes"`
}

// ListOut is a list of sandboxes.
type ListOut struct {
	Sandboxes []SandboxInfo `json:"sandboxes"`
	Failures  []string      `json:"failures,omitempty" jsonschema:"providers that did not answer, and why"`
}

// Text implements texter.
func (l ListOut) Text() string {
	if len(l.Sandboxes)+len(l.Failures) == 0 {
		return "no sandboxes"
	}
	var lines []string
	for _, sb := range l.Sandboxes {
		lines = append(lines, sb.Text())
	}
	return list(slices.Concat(l.Failures, lines))
}

// TerminateIn is the input of sandbox_terminate.
type TerminateIn struct {
	Sandbox string `json:"sandbox,omitempty"`
	All     bool   `json:"all,omitempty" jsonschema:"end every sandbox that this server launched for this user"`
}

// TerminateOut is the result of sandbox_terminate.
type TerminateOut struct {
	Terminated []string `json:"terminated" jsonschema:"ids of the sandboxes that are gone now"`
	Failures   []string `json:"failures,omitempty"`
	Others     []string `json:"others,omitempty" jsonschema:"with all: the user's sandboxes of other servers. They run on"`
}

// Text implements texter.
func (o TerminateOut) Text() string {
	text := "terminated: " + strings.Join(o.Terminated, ", ")
	if len(o.Terminated) == 0 {
		text = "no sandboxes to terminate"
	}
	if len(o.Others) > 0 {
		text += "\nother servers launched for this user: " + strings.Join(o.Others, ", ")
	}
	return list(append([]string{text}, o.Failures...))
}

func sandboxTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "sandbox_launch", Title: "Launch a sandbox", Toolset: setup.Sandboxes, OpenWorld: true,
			Description: "Launch an isolated Linux machine for untrusted code and return its id, which other tools " +
				"take as " +
				"sandbox. All arguments are optional; reuse a running sandbox (sandbox_list) where possible.",
		}, Launch),
		Define(Tool{
			Name: "sandbox_list", Title: "List sandboxes", Toolset: setup.Sandboxes, ReadOnly: true, Idempotent: true,
			Description: "List the sandboxes with their ids, names, states, images and ports. Include ended ones " +
				"with all: true.",
		}, List),
		Define(Tool{
			Name: "sandbox_terminate", Title: "Terminate a sandbox", Toolset: setup.Sandboxes, Destructive: true,
			Idempotent: true,
			Description: "End a sandbox and remove its files, which cannot be undone. Save the files that you need " +
				"first.",
		}, Terminate),
	}
}

// Launch launches a sandbox for the caller.
func Launch(ctx context.Context, c *Call, in LaunchIn) (SandboxInfo, error) {
	spec, err := in.spec()
	if err != nil {
		return SandboxInfo{}, err
	}
	sb, err := c.Launch(ctx, spec, in.Keep)
	if p, ok := pendingOf(err); ok {
		info := p.info()
		info.Note = core.HintOf(err)
		return info, nil
	}
	info := InfoOf(sb)
	info.Note = strings.Join(c.notices, "; ")
	return info, err
}

// spec converts the arguments to a launch spec.
func (in LaunchIn) spec() (core.Spec, error) {
	spec := core.Spec{
		Timeout: core.Duration(seconds(in.Timeout)),
		Network: core.Network{Mode: core.NetworkMode(in.Network), Allow: in.Allow},
	}
	if err := setFields(&spec, in); err != nil {
		return spec, err
	}
	if len(in.Allow) > 0 && in.Network == "" {
		spec.Network.Mode = core.NetworkAllow
	}
	spec.Secrets = secretsOf(in.Secrets)
	for _, ref := range in.SecretRefs {
		spec.Secrets = append(spec.Secrets, core.Secret{Name: ref, Ref: ref})
	}
	for _, target := range slices.Sorted(maps.Keys(in.Volumes)) {
		spec.Volumes = append(spec.Volumes, core.Volume{Source: in.Volumes[target], Target: target})
	}
	for _, port := range in.Ports {
		spec.Ports = append(spec.Ports, core.Port{Sandbox: port})
	}
	return spec, nil
}

// setFields sets the spec fields that the tags spec of an input name. It skips fields of a different type.
func setFields(spec *core.Spec, in LaunchIn) error {
	value := reflect.ValueOf(in)
	for i := range value.NumField() {
		name := value.Type().Field(i).Tag.Get("spec")
		if name == "" || value.Field(i).IsZero() {
			continue
		}
		field := core.FieldNamed(name)
		target := reflect.ValueOf(field.Ref(spec)).Elem()
		if value.Field(i).Type() == target.Type() {
			target.Set(value.Field(i))
		} else if value.Field(i).Kind() == reflect.String {
			if _, err := field.Parse(spec, value.Field(i).String()); err != nil {
				return err
			}
		}
	}
	return nil
}

func secretsOf(values map[string]string) []core.Secret {
	var secrets []core.Secret
	for _, name := range slices.Sorted(maps.Keys(values)) {
		secrets = append(secrets, core.Secret{Name: name, Value: core.NewSecretValue(values[name])})
	}
	return secrets
}

// Launch launches a sandbox for the call's owner and session. With keep, only its own timeout ends it. A launch that
// outlasts the soft deadline continues, and the error is a *stillLaunching.
func (c *Call) Launch(ctx context.Context, spec core.Spec, keep bool) (core.Sandbox, error) {
	spec.Name = cmp.Or(spec.Name, core.NewName())
	if !strings.HasPrefix(spec.Name, c.namePrefix()) {
		spec.Name = c.namePrefix() + spec.Name
	}
	var notices []string
	sb, err := c.background(ctx, spec, func(ctx context.Context, progress func(step string)) (core.Sandbox, error) {
		return c.launch(ctx, spec, keep, service.LaunchOptions{
			Progress: func(p core.Progress) { progress(p.Step) },
			Notice:   func(text string) { notices = append(notices, text) },
		})
	})
	if _, pending := pendingOf(err); !pending {
		c.notices = append(c.notices, notices...)
	}
	return sb, err
}

func (c *Call) launch(
	ctx context.Context, spec core.Spec, keep bool, opts service.LaunchOptions,
) (core.Sandbox, error) {
	mode := c.Host.Options.OnDisconnect
	keep = keep || mode == setup.Detach
	spec.Labels = map[string]string{sessionLabel: c.Session.ID, ownerLabel: c.Identity.Label()}
	for _, secret := range c.Host.Options.Secrets {
		if !slices.ContainsFunc(spec.Secrets, func(given core.Secret) bool { return given.Name == secret.Name }) {
			spec.Secrets = append(spec.Secrets, secret)
		}
	}
	given := spec.Secrets
	opts.Bound, opts.Renewed = !keep && mode == setup.Terminate, !keep
	opts.Confirm = func(requested core.Spec) error {
		given = requested.Secrets // with those of a template
		if requested.GPU.IsZero() {
			return nil
		}
		return c.confirm(
			ctx, "gpu", fmt.Sprintf("Launch a sandbox with GPU %s? It costs money for as long as it runs.", requested.GPU),
		)
	}
	sb, err := c.Service.Sandboxes.Launch(ctx, spec, opts)
	if err != nil {
		return sb, err
	}
	c.Host.launched.add(sb.Ref(), c.Identity.Label())
	c.Host.Secrets.add(sb.ID, given)
	if !keep {
		c.Keep(ctx, sb)
	}
	return sb, nil
}

// List lists the caller's sandboxes.
func List(ctx context.Context, c *Call, in ListIn) (ListOut, error) {
	out := ListOut{Sandboxes: []SandboxInfo{}}
	if in.Sandbox != "" {
		sb, err := c.Find(ctx, in.Sandbox)
		if p, ok := pendingOf(err); ok {
			out.Sandboxes = append(out.Sandboxes, p.info())
			return out, nil
		}
		if err == nil {
			out.Sandboxes = append(out.Sandboxes, InfoOf(sb))
		}
		return out, err
	}
	listing, err := c.Service.Sandboxes.List(ctx, core.ListFilter{App: in.App, All: in.All})
	if err != nil {
		return out, err
	}
	for _, sb := range listing.Sandboxes {
		out.Sandboxes = append(out.Sandboxes, InfoOf(sb))
	}
	for _, p := range c.Host.launching.of(c.Identity.Label()) {
		listed := slices.ContainsFunc(listing.Sandboxes, func(sb core.Sandbox) bool {
			return sb.Name == p.name
		})
		if in.App == "" && !listed && !p.over() {
			out.Sandboxes = append(out.Sandboxes, p.info())
		}
	}
	for _, failed := range listing.Failures {
		out.Failures = append(out.Failures, failed.Provider+": "+failed.Error)
	}
	return out, nil
}

// Terminate ends one sandbox, or all of the caller's.
func Terminate(ctx context.Context, c *Call, in TerminateIn) (TerminateOut, error) {
	out := TerminateOut{Terminated: []string{}}
	if in.All == (in.Sandbox != "") {
		return out, core.Errorf(core.KindUsage, "terminate", "", "name one sandbox, or set all: true")
	}
	if !in.All {
		sb, err := c.Find(ctx, in.Sandbox)
		if p, ok := pendingOf(err); ok {
			out.Terminated = append(out.Terminated, p.name)
			return out, c.abandon(ctx, p)
		}
		if err != nil {
			return out, err
		}
		out.Terminated = append(out.Terminated, sb.ID)
		return out, c.terminate(ctx, sb)
	}
	listing, err := c.Service.Sandboxes.List(ctx, core.ListFilter{All: true})
	if err != nil {
		return out, err
	}
	ours, names := c.Host.launched.of(c.Identity.Label()), []string{}
	var rest []core.Sandbox
	listing.Sandboxes = slices.DeleteFunc(listing.Sandboxes, func(sb core.Sandbox) bool {
		if ours[sb.Ref()] {
			names = append(names, sb.Name)
			return false
		}
		if _, launched := sb.Labels[sessionLabel]; launched && sb.Labels[ownerLabel] == c.Identity.Label() {
			rest = append(rest, sb)
		}
		return true
	})
	if rest, _, err = c.Service.Sandboxes.Mine(rest); err != nil {
		return out, err
	}
	for _, sb := range rest {
		out.Others = append(out.Others, sb.Ref())
	}
	for _, failed := range listing.Failures {
		if slices.ContainsFunc(slices.Collect(maps.Keys(ours)), func(ref string) bool {
			return strings.HasPrefix(ref, failed.Provider+"/")
		}) {
			out.Failures = append(out.Failures, failed.Provider+": "+failed.Error)
		}
	}
	if len(names) == 0 {
		return out, nil
	}
	if err := c.confirm(
		ctx, "terminate_all",
		fmt.Sprintf("Terminate %d sandboxes with all their files: %s?", len(names), strings.Join(names, ", ")),
	); err != nil {
		return out, err
	}
	for _, sb := range listing.Sandboxes {
		if err := c.terminate(ctx, sb); err != nil {
			out.Failures = append(out.Failures, sb.Name+": "+err.Error())
			continue
		}
		out.Terminated = append(out.Terminated, sb.ID)
	}
	return out, nil
}

func (c *Call) terminate(ctx context.Context, sb core.Sandbox) error {
	ref := sb.Ref()
	if err := c.Service.Sandboxes.Terminate(ctx, ref); err != nil {
		return err
	}
	c.Session.Release(ref)
	c.Host.launched.forget(ref)
	c.Host.Secrets.forget(sb.ID)
	return nil
}
