package image

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// buildSteps follows a build. It reports the steps as progress and keeps the end of their output for an error.
type buildSteps struct {
	progress core.ProgressFunc
	output   engine.Tail
	// image is the id of the built image, once the builder reports it.
	image    string
	reported map[string]bool
}

func newBuildSteps(progress core.ProgressFunc) *buildSteps {
	return &buildSteps{progress: progress, reported: map[string]bool{}}
}

// traceID is the id of BuildKit's messages.
const traceID = "moby.buildkit.trace"

// take reads one message of either builder.
func (s *buildSteps) take(m jsonstream.Message) {
	if m.ID == traceID && m.Aux != nil {
		var trace []byte
		if json.Unmarshal(*m.Aux, &trace) == nil {
			s.trace(trace)
		}
		return
	}
	var built build.Result
	if m.Aux != nil && json.Unmarshal(*m.Aux, &built) == nil && built.ID != "" {
		s.image = built.ID
	}
	for line := range strings.Lines(m.Stream) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		_, _ = io.WriteString(&s.output, line+"\n")
		if len(line) > 5 && strings.EqualFold(line[:5], "step ") {
			s.step(line)
		} else {
			s.log(line)
		}
	}
}

// log reports output.
func (s *buildSteps) log(text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			s.progress(core.Progress{Step: line, Log: true})
		}
	}
}

func (s *buildSteps) step(name string) {
	if !s.reported[name] {
		s.reported[name] = true
		s.progress(core.Progress{Step: "building: " + name})
	}
}

// Fields of BuildKit's messages, as moby/buildkit's api/services/control/control.proto numbers them.
const (
	statusVertexes = 1 // StatusResponse.vertexes
	statusLogs     = 3 // StatusResponse.logs
	vertexName     = 3 // Vertex.name
	vertexCached   = 4 // Vertex.cached
	vertexStarted  = 5 // Vertex.started
	logMessage     = 4 // VertexLog.msg
)

// trace reads a StatusResponse. It skips damaged parts: they are progress only.
func (s *buildSteps) trace(text []byte) {
	fields(text, func(field int, value []byte, _ uint64) {
		switch field {
		case statusVertexes:
			var name string
			var started, cached bool
			fields(value, func(field int, value []byte, number uint64) {
				switch field {
				case vertexName:
					name = string(value)
				case vertexCached:
					cached = number != 0
				case vertexStarted:
					started = true
				}
			})
			// The builder's own steps are of no use to the user.
			if started && !strings.HasPrefix(name, "[internal]") {
				if cached {
					name += " (cached)"
				}
				s.step(name)
			}
		case statusLogs:
			fields(value, func(field int, value []byte, _ uint64) {
				if field == logMessage {
					_, _ = s.output.Write(value)
					s.log(string(value))
				}
			})
		}
	})
}

// fields calls take with each field of a message, with its bytes or its number.
func fields(text []byte, take func(field int, value []byte, number uint64)) {
	for len(text) > 0 {
		field, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return
		}
		text = text[n:]
		var value []byte
		var number uint64
		n = protowire.ConsumeFieldValue(field, kind, text)
		if kind == protowire.BytesType {
			value, n = protowire.ConsumeBytes(text)
		}
		if kind == protowire.VarintType {
			number, n = protowire.ConsumeVarint(text)
		}
		if n < 0 {
			return
		}
		text = text[n:]
		take(int(field), value, number)
	}
}
