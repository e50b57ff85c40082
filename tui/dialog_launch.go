package tui

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// Template is a named spec that fills the launch form.
type Template struct {
	Name string
	Spec core.Spec
}

// launchField is one line of the form.
type launchField struct {
	id, label, hint string
	input           textinput.Model
	choices         []string // when not nil, left and right cycle through them
	given           string   // the template's text: while unchanged, the spec keeps the template's value
	// set writes the text to a spec.
	set func(spec *core.Spec, text string) error
	get func(spec core.Spec) string
}

// launchForm edits a launch spec. It validates every change, and shows the placement when typing pauses.
type launchForm struct {
	fx        *effects
	fields    []*launchField
	at        int
	offset    int
	base      core.Spec // the template, with the settings that have no field
	templates []Template
	template  int // index + 1; 0 is none
	prices    map[string]string

	seq       int
	queried   bool
	placement *service.Placement
	err       error
	rows      int
}

// launchDelay is the pause in typing after which the form asks for the placement.
const launchDelay = 300 * time.Millisecond

// askPlacementMsg asks for the placement. It is stale when seq is not the form's.
type askPlacementMsg struct{ seq int }

func newLaunchForm(fx *effects, inv *inventory, like *entry) *launchForm {
	f := &launchForm{fx: fx, prices: map[string]string{}}
	providers, gpus, images := []string{core.ProviderAuto}, []string{""}, []string{}
	can := map[core.Capability]bool{}
	for _, s := range inv.sources {
		providers = append(providers, s.name)
		for gpu := range s.caps.GPUs {
			if !slices.Contains(gpus, gpu) {
				gpus = append(gpus, gpu)
			}
		}
		maps.Copy(f.prices, s.caps.GPUPrices)
		images = append(images, s.caps.Images...)
		for _, c := range s.caps.Has {
			can[c] = true
		}
	}
	slices.Sort(gpus)
	if like != nil {
		f.templates = append(f.templates, Template{"like " + like.box.Name, similar(like.box.Spec)})
	}
	f.fields = launchFields(providers, gpus, images, can)
	f.focus(0)
	return f
}

// similar returns a spec for another sandbox like this one. It drops the name, host ports, and secrets without a
// reference: only the sandbox has their values.
func similar(spec core.Spec) core.Spec {
	spec = spec.Clone()
	spec.Name = ""
	spec.Secrets = slices.DeleteFunc(spec.Secrets, func(s core.Secret) bool { return s.Ref == "" })
	for i := range spec.Ports {
		spec.Ports[i].Host = 0
	}
	return spec
}

func launchFields(providers, gpus, images []string, can map[core.Capability]bool) []*launchField {
	names := []string{"name", "provider", "image", "command"}
	for _, source := range []string{"snapshot", "checkpoint", "template"} {
		if can[core.FieldNamed(source).Need] {
			names = append(names, source)
		}
	}
	names = append(names, "gpu", "cpu", "memory", "disk", "timeout", "idle_timeout", "network", "ports", "env", "persist")
	if can[core.CapPull] {
		names = append(names, "pull")
	}
	fields := make([]*launchField, len(names))
	for i, name := range names {
		fields[i] = newLaunchField(core.FieldNamed(name))
	}
	for _, f := range fields {
		switch f.id {
		case "image":
			f.hint = orElse(strings.Join(images, ", "), f.hint)
		case "provider":
			f.choices = providers
			f.input.SetValue(providers[0])
		case "gpu":
			if len(gpus) > 1 {
				f.choices = gpus
			}
		case "network":
			f.choices = networkChoices(can)
		case "pull":
			f.choices = append([]string{""}, core.FieldNamed(f.id).Choices...)
		case "persist":
			f.choices = []string{"", yes}
		}
	}
	return fields
}

// networkChoices returns the default and the modes that some provider supports.
func networkChoices(can map[core.Capability]bool) []string {
	choices := []string{""}
	for _, mode := range networkModes() {
		if can[mode.want] {
			choices = append(choices, string(mode.mode))
		}
	}
	return choices
}

// newLaunchField makes the line of a field of the spec.
func newLaunchField(field core.Field) *launchField {
	f := &launchField{
		id: field.Name, label: field.Label, hint: field.Hint, input: newInput(""),
		set: func(s *core.Spec, text string) error {
			_, err := field.Parse(s, text)
			return err
		},
		get: field.Text,
	}
	switch field.Name {
	case "command":
		f.set, f.get = setCommand, commandText
	case "ports":
		f.set, f.get = setPorts, portsText
	case "env":
		f.set, f.get = setEnv, envText
	case "network":
		f.set = func(s *core.Spec, text string) error {
			s.Network = core.Network{Mode: core.NetworkMode(text)}
			return nil
		}
		f.get = func(s core.Spec) string { return string(s.Network.Mode) }
	case "persist":
		f.set = func(s *core.Spec, text string) error { s.Persist = text == yes; return nil }
		f.get = func(s core.Spec) string {
			if s.Persist {
				return yes
			}
			return ""
		}
	}
	return f
}

// yes is the text of a field that is on.
const yes = "yes"

func setCommand(s *core.Spec, text string) error {
	s.Command = nil
	if text != "" {
		s.Command = []string{"/bin/sh", "-c", text}
	}
	return nil
}

func commandText(s core.Spec) string {
	if len(s.Command) == 3 && s.Command[0] == "/bin/sh" && s.Command[1] == "-c" {
		return s.Command[2]
	}
	return format.Quote(s.Command...)
}

func setPorts(s *core.Spec, text string) error {
	s.Ports = nil
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		numbers, protocol, _ := strings.Cut(word, "/")
		host, inside, both := strings.Cut(numbers, ":")
		if !both {
			host, inside = "0", host
		}
		from, hostErr := strconv.Atoi(host)
		to, err := strconv.Atoi(inside)
		if err != nil || hostErr != nil {
			return core.Errorf(core.KindUsage, "parse", word, "%q is not PORT or HOST:PORT", word)
		}
		s.Ports = append(s.Ports, core.Port{Host: from, Sandbox: to, Protocol: core.PortProtocol(protocol)})
	}
	return nil
}

func portsText(s core.Spec) string {
	var list []string
	for _, p := range s.Ports {
		port := strconv.Itoa(p.Sandbox)
		if p.Host != 0 {
			port = fmt.Sprintf("%d:%d", p.Host, p.Sandbox)
		}
		if p.Protocol != core.PortDefault {
			port += "/" + string(p.Protocol)
		}
		list = append(list, port)
	}
	return strings.Join(list, " ")
}

func setEnv(s *core.Spec, text string) error {
	s.Env = nil
	list, err := format.Words(text)
	if err != nil {
		return err
	}
	for _, word := range list {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return core.Errorf(core.KindUsage, "parse", word, "%q is not NAME=VALUE", word)
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[name] = value
	}
	return nil
}

func envText(s core.Spec) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		list = append(list, k+"="+s.Env[k])
	}
	return format.Quote(list...)
}

// spec returns the form's spec. On an error, wrong is the id of the bad field, or "" when the spec as a whole is
// invalid. Unchanged fields keep the template's value, because a line of text cannot express every value.
func (f *launchForm) spec() (spec core.Spec, wrong string, err error) {
	spec = f.base.Clone()
	for _, field := range f.fields {
		text := strings.TrimSpace(field.input.Value())
		if text == field.given {
			continue
		}
		if err := field.set(&spec, text); err != nil {
			return spec, field.id, err
		}
	}
	return spec, "", spec.Validate()
}

func (f *launchForm) focus(at int) {
	f.fields[f.at].input.Blur()
	f.at = (at + len(f.fields)) % len(f.fields)
	_ = f.fields[f.at].input.Focus() // its command only blinks
}

// changed drops the placement and asks for a new one when typing pauses.
func (f *launchForm) changed() tea.Cmd {
	f.seq++
	f.placement, f.err, f.queried = nil, nil, false
	return f.fx.after(launchDelay, askPlacementMsg{f.seq})
}

// use fills the form from a template.
func (f *launchForm) use(step int) tea.Cmd {
	if len(f.templates) == 0 {
		return nil
	}
	f.template = (f.template + step + len(f.templates) + 1) % (len(f.templates) + 1)
	f.base = core.Spec{}
	if f.template > 0 {
		f.base = f.templates[f.template-1].Spec.Clone()
	}
	for _, field := range f.fields {
		value := field.get(f.base)
		if field.id == "provider" {
			value = orElse(value, core.ProviderAuto)
		}
		field.input.SetValue(value)
		field.input.CursorEnd()
		field.given = strings.TrimSpace(field.input.Value())
	}
	return f.changed()
}

func (f *launchForm) update(msg tea.Msg) answer {
	switch msg := msg.(type) {
	case askPlacementMsg:
		if spec, _, err := f.spec(); msg.seq == f.seq && err == nil {
			f.queried = true
			return answer{cmd: f.fx.explain(f.seq, spec)}
		}
		return answer{}
	case explainedMsg:
		if msg.seq == f.seq {
			f.queried, f.err = false, msg.err
			f.placement = &msg.placement
		}
		return answer{}
	case templatesMsg:
		f.templates = append(f.templates, msg.templates...)
		f.err = msg.err
		return answer{}
	case tea.MouseWheelMsg:
		return answer{}
	case boxClickMsg:
		if i := f.offset + msg.y - 2; msg.y >= 2 && msg.y-2 < f.rows && i < len(f.fields) {
			f.focus(i)
		}
		return answer{}
	}
	return f.key(msg)
}

// key handles a key. Keys without a function of their own are typed.
func (f *launchForm) key(msg tea.Msg) answer {
	switch keyOf(msg) {
	case "esc", "ctrl+c":
		return answer{done: true}
	case "ctrl+t":
		return answer{cmd: f.use(1)}
	case "ctrl+y":
		spec, _, _ := f.spec() // best effort: a field may be incomplete
		return answer{request: copyRequest{"command", format.LaunchLine(spec)}}
	case "up", "shift+tab":
		f.focus(f.at - 1)
		return answer{}
	case "down", "tab":
		f.focus(f.at + 1)
		return answer{}
	case "enter", "ctrl+s":
		return f.submit()
	case "left", "right":
		if choices := f.fields[f.at].choices; len(choices) > 0 {
			step := map[string]int{"left": len(choices) - 1, "right": 1}[keyOf(msg)]
			return answer{cmd: f.choose(step)}
		}
	}
	return answer{cmd: f.typed(msg)}
}

// submit requests the launch, or moves to the wrong field.
func (f *launchForm) submit() answer {
	spec, wrong, err := f.spec()
	if err != nil {
		if i := slices.IndexFunc(f.fields, func(x *launchField) bool { return x.id == wrong }); i >= 0 {
			f.focus(i)
		}
		f.err = err
		return answer{}
	}
	return answer{done: true, request: launchRequest{spec}}
}

// choose advances a field by step choices.
func (f *launchForm) choose(step int) tea.Cmd {
	field := f.fields[f.at]
	i := max(0, slices.Index(field.choices, field.input.Value()))
	field.input.SetValue(field.choices[(i+step)%len(field.choices)])
	field.input.CursorEnd()
	return f.changed()
}

// typed passes a key to the field.
func (f *launchForm) typed(msg tea.Msg) (cmd tea.Cmd) {
	field := f.fields[f.at]
	before := field.input.Value()
	field.input, cmd = field.input.Update(msg)
	if field.input.Value() != before {
		return tea.Batch(cmd, f.changed())
	}
	return cmd
}

func (f *launchForm) view(s *theme.Styles, w, h int) []string {
	const label = 13
	w = min(w, 84)
	inner := w - 4
	_, wrong, err := f.spec()
	template := "none"
	if f.template > 0 {
		template = f.templates[f.template-1].Name
	}
	head := s.Faint.On(screen.Fit("Template", label)) + s.Text.On(screen.Cut(safe(template), inner-label-16))
	if len(f.templates) > 0 {
		head += s.Faint.On("  ctrl+t next")
	}
	f.rows = min(len(f.fields), max(1, h-8))
	f.offset = min(max(f.offset, f.at-f.rows+1, 0), f.at)
	lines := []string{head}
	for i := f.offset; i < f.offset+f.rows && i < len(f.fields); i++ {
		field := f.fields[i]
		p, name := s.Field, field.label
		hintText := ""
		if i == f.at {
			p, hintText = s.FieldActive, field.hint
		}
		if field.id == wrong {
			p = s.FieldWrong
		}
		price := ""
		if gpu, gpuErr := core.ParseGPU(field.input.Value()); field.id == "gpu" && gpuErr == nil && f.prices[gpu.Type] != "" {
			price = " " + f.prices[gpu.Type]
		}
		room := max(8, inner-label-3-screen.Width(price))
		hintCells := min(screen.Width(hintText), room/2)
		cells := max(6, room-hintCells-2)
		value := field.input.Value()
		switch {
		case i == f.at && len(field.choices) > 0:
			field.input.SetWidth(max(1, cells-screen.Width("◂  ▸")))
			value = "◂ " + field.input.View() + " ▸"
		case i == f.at:
			field.input.SetWidth(cells)
			value = field.input.View()
		}
		marker := "  "
		if i == f.at {
			marker = s.Key.On("› ")
		}
		lines = append(lines, marker+p.On(screen.Fit(name, label))+screen.Fit(value, room-hintCells-1)+s.Info.On(price)+" "+
			s.Faint.On(screen.Cut(hintText, hintCells)))
	}
	lines = append(lines, "")
	lines = append(lines, f.verdict(s, err, inner)...)
	keys := s.Faint.On(
		screen.Cut("enter launches · ↑↓ fields · ←→ choices · ctrl+y copies the command · esc closes", inner),
	)
	return frame(s, "Launch a sandbox", append(lines, keys), w)
}

// verdict shows the error or the placement, always in two lines.
func (f *launchForm) verdict(s *theme.Styles, err error, w int) []string {
	if err == nil {
		err = f.err
	}
	line := func(p theme.Paint, text string) string { return p.On(screen.Cut(safe(text), w)) }
	switch {
	case err != nil:
		return []string{line(s.FieldWrong, err.Error()), line(s.Faint, core.HintOf(err))}
	case f.placement == nil:
		return []string{s.Faint.On("…"), ""}
	case f.placement.Chosen != "":
		return []string{line(s.Good, "✓ runs on "+f.placement.Chosen), ""}
	}
	var why []string
	for _, c := range f.placement.Candidates {
		why = append(why, c.Provider+" "+c.Why)
	}
	return []string{line(s.FieldWrong, "✗ no provider can run it: "+strings.Join(why, "; ")), ""}
}
