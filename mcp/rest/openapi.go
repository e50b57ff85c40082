package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/problem"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// object is a JSON object of the document. Its keys are sorted when it is encoded.
type object = map[string]any

// Document returns the OpenAPI 3.1 document of all operations, whatever a server allows. It is made of the same types
// that decode the requests and encode the responses.
func Document() ([]byte, error) {
	paths := map[string]object{}
	add := func(path, method string, described object) {
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(method)] = described
	}
	for _, op := range operations() {
		add(prefix+op.path, op.method, op.describe())
	}
	for path, text := range map[string]string{HealthPath: "Health of the server", DocumentPath: "This document"} {
		add(path, http.MethodGet, object{
			"operationId": strings.TrimSuffix(path[len(prefix)+1:], ".json"), "summary": text, "security": []object{},
			"responses": object{"200": response("success", &jsonschema.Schema{Type: "object"}, "application/json")},
		})
	}
	schema := tools.Define(tools.Tool{}, served[tools.NoneIn, problem.Problem]).Out.Root
	for _, kind := range core.Kinds() {
		schema.Properties["kind"].Enum = append(schema.Properties["kind"].Enum, kind.String())
	}
	encoded, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "sb", "version": "1",
			"description": "Isolated sandboxes: launch them, run commands and code, and move files. An operation has the " +
				"name, the rights and the limits of the tool for assistants.",
		},
		"servers":  []object{{"url": "/"}},
		"security": []object{{"key": []string{}}},
		"paths":    paths,
		"components": object{
			"securitySchemes": object{"key": object{
				"type": "http", "scheme": "bearer", "description": "an API key, the local key, or a token of the OAuth issuer",
			}},
			"schemas": object{"Problem": schema},
			"responses": object{"Problem": object{
				"description": "the error, as in RFC 9457",
				"content":     object{problem.ContentType: object{"schema": object{"$ref": "#/components/schemas/Problem"}}},
			}},
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("the document cannot be encoded: %w", err)
	}
	return append(encoded, '\n'), nil
}

// describe returns the operation object.
func (op operation) describe() object {
	described := object{
		"operationId": op.tool.Name, "summary": op.tool.Title, "description": op.tool.Description,
		"responses": op.responses(),
	}
	parameters := []object{}
	for _, name := range op.inPath() {
		parameters = append(parameters, op.parameter(name, "path"))
	}
	if !op.takesBody() {
		for _, name := range op.elsewhere() {
			parameters = append(parameters, op.parameter(name, "query"))
		}
	}
	for _, name := range op.headers() {
		parameters = append(parameters, object{"name": name, "in": "header", "schema": object{"type": "string"}})
	}
	if len(parameters) > 0 {
		described["parameters"] = parameters
	}
	switch {
	case op.sends != "":
		described["requestBody"] = object{"required": true, "content": object{op.sends: object{}}}
	case op.takesBody() && len(op.elsewhere()) > 0:
		body := op.body()
		described["requestBody"] = object{
			"required": len(body.Required) > 0, "content": object{"application/json": object{"schema": body}},
		}
	}
	return described
}

// headers lists the headers that a handler reads.
func (op operation) headers() []string {
	switch {
	case op.method == http.MethodPost && op.path == "/sandboxes":
		return []string{idempotencyHeader}
	case op.sends == octets:
		return []string{"If-Match", "If-None-Match"}
	case slices.Contains(op.produces, octets):
		return []string{"Range", "If-Range", "If-Match", "If-None-Match"}
	}
	return nil
}

// parameter returns the parameter object of an argument.
func (op operation) parameter(name, in string) object {
	schema := *op.tool.In.Root.Properties[name]
	parameter := object{
		"name": name, "in": in, "schema": &schema,
		"required": in == "path" || slices.Contains(op.tool.In.Root.Required, name),
	}
	if schema.Description != "" {
		parameter["description"], schema.Description = schema.Description, ""
	}
	return parameter
}

// body returns the schema of the arguments in a body.
func (op operation) body() *jsonschema.Schema {
	body, names := *op.tool.In.Root, op.elsewhere()
	elsewhere := func(name string) bool { return !slices.Contains(names, name) }
	body.Properties = maps.Clone(body.Properties)
	maps.DeleteFunc(body.Properties, func(name string, _ *jsonschema.Schema) bool { return elsewhere(name) })
	body.Required = slices.DeleteFunc(slices.Clone(body.Required), elsewhere)
	body.PropertyOrder = names
	return &body
}

// responses returns the responses object.
func (op operation) responses() object {
	responses := object{"default": object{"$ref": "#/components/responses/Problem"}}
	status := strconv.Itoa(op.success())
	switch {
	case op.success() == http.StatusNoContent:
		responses[status] = object{"description": "success"}
	case len(op.produces) > 0:
		responses[status] = response("success", op.tool.Out.Root, op.produces...)
	default:
		responses[status] = response("success", op.tool.Out.Root, "application/json")
	}
	if op.success() == http.StatusCreated {
		responses["202"] = response("the launch continues", op.tool.Out.Root, "application/json")
	}
	if slices.Contains(op.headers(), "Range") {
		responses["206"] = response("a part", op.tool.Out.Root, octets)
		responses["304"] = object{"description": "the file has not changed"}
	}
	return responses
}

// response returns a response object. A stream has the schema of one message.
func response(description string, schema *jsonschema.Schema, types ...string) object {
	content := object{}
	for _, name := range types {
		content[name] = object{"schema": schema}
		if name == octets {
			content[name] = object{}
		}
	}
	return object{"description": description, "content": content}
}
