package rest

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed-0724f904/sb/core"
)

// wildcards finds the names in a path: "/volumes/{name}".
var wildcards = regexp.MustCompile(`\{(\w+)\}`)

// inPath returns the arguments that the path has.
func (op operation) inPath() []string {
	var names []string
	for _, match := range wildcards.FindAllStringSubmatch(op.path, -1) {
		names = append(names, match[1])
	}
	return names
}

// takesBody reports whether the other arguments come in a body of JSON, and not in the query.
func (op operation) takesBody() bool { return op.method == http.MethodPost && !op.query }

// elsewhere returns the arguments that are neither in the path nor left out.
func (op operation) elsewhere() []string {
	var names []string
	for _, name := range op.tool.In.Root.PropertyOrder {
		if !slices.Contains(op.omit, name) && !slices.Contains(op.inPath(), name) {
			names = append(names, name)
		}
	}
	return names
}

// arguments returns the arguments of a request, from its path and its query or body. They are not validated.
func (op operation) arguments(r *http.Request) (json.RawMessage, error) {
	values, err := op.fromQuery(r)
	if err != nil {
		return nil, err
	}
	if op.takesBody() {
		if values, err = op.fromBody(r); err != nil {
			return nil, err
		}
	}
	for _, name := range op.inPath() {
		if values[name], err = json.Marshal(r.PathValue(name)); err != nil {
			return nil, err
		}
	}
	return json.Marshal(values)
}

// decode decodes the arguments of a request into a value of the operation's input.
func (op operation) decode(r *http.Request, into any) error {
	arguments, err := op.arguments(r)
	if err != nil {
		return err
	}
	return op.tool.In.Decode(arguments, into)
}

func (op operation) fromBody(r *http.Request) (map[string]json.RawMessage, error) {
	data, err := io.ReadAll(r.Body) // the transport has bounded it
	if err != nil {
		return nil, core.Wrap("api", "", err)
	}
	values := map[string]json.RawMessage{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &values); err != nil || values == nil {
			return nil, core.Errorf(core.KindUsage, "api", "", "the body is not a JSON object")
		}
	}
	for name := range values {
		if err := op.check(name); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (op operation) fromQuery(r *http.Request) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for name, given := range r.URL.Query() {
		if op.takesBody() {
			return nil, core.Errorf(core.KindUsage, "api", "", "there is no parameter %q; arguments are in the body", name)
		}
		if err := op.check(name); err != nil {
			return nil, err
		}
		if len(given) != 1 {
			return nil, core.Errorf(core.KindUsage, "api", "", "the parameter %q was given %d times", name, len(given))
		}
		values[name] = asJSON(op.tool.In.Root.Properties[name], given[0])
	}
	return values, nil
}

// check refuses an argument that the operation does not take at this place. The schema refuses unknown ones.
func (op operation) check(name string) error {
	if slices.Contains(op.inPath(), name) || slices.Contains(op.omit, name) {
		return core.Errorf(core.KindUsage, "api", "", "%q is no parameter of this route", name)
	}
	return nil
}

// asJSON returns a parameter as the JSON that its schema expects. A text that does not fit stays a string, which the
// schema refuses with a reason.
func asJSON(schema *jsonschema.Schema, text string) json.RawMessage {
	if schema != nil {
		types := append([]string{schema.Type}, schema.Types...)
		if number, err := strconv.ParseInt(text, 10, 64); err == nil && slices.Contains(types, "integer") {
			return strconv.AppendInt(nil, number, 10)
		}
		if value, err := strconv.ParseBool(text); err == nil && slices.Contains(types, "boolean") {
			return strconv.AppendBool(nil, value)
		}
	}
	encoded, _ := json.Marshal(text) // a string has JSON
	return encoded
}
