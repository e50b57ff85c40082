package clients

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errFlow is the error for a file whose entries are not on lines of their own.
var errFlow = errors.New("the servers are not one below the other")

func encodeYAML(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return b.Bytes(), encoder.Close()
}

// member returns a member of a mapping; its value is nil if there is none.
func member(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// rootYAML returns the mapping that a file has; nil for an empty file.
func rootYAML(content []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil || len(document.Content) == 0 {
		return nil, err
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("expected a mapping")
	}
	return document.Content[0], nil
}

// withYAML adds the server as lines below the key of all servers, and keeps all other lines.
func (c Client) withYAML(before []byte, s Server) ([]byte, error) {
	entry, err := c.value(s)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeYAML(map[string]any{s.Name: entry})
	if err != nil {
		return nil, err
	}
	if has, err := meaning(before, c.keys[0], s.Name); err != nil {
		return nil, err
	} else if wanted, err := meaning(encoded, s.Name, ""); err != nil || reflect.DeepEqual(has, wanted) {
		return before, err
	}
	without, err := c.withoutYAML(before, s.Name)
	if err != nil {
		return nil, err
	}
	root, err := rootYAML(without)
	if err != nil {
		return nil, err
	}
	lines := slices.Collect(strings.Lines(string(without)))
	if len(lines) > 0 && !strings.HasSuffix(lines[len(lines)-1], "\n") {
		lines[len(lines)-1] += "\n"
	}
	indent, at := "  ", len(lines)
	switch key, value := member(root, c.keys[0]); {
	case key == nil:
		lines = append(lines, c.keys[0]+":\n")
		at++
	case value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0:
		indent, at = strings.Repeat(" ", value.Content[0].Column-1), key.Line
	case value.Kind == yaml.MappingNode && len(value.Content) == 0 || value.Tag == "!!null":
		lines[key.Line-1] = c.keys[0] + ":\n"
		at = key.Line
	default:
		return nil, errFlow
	}
	for line := range strings.Lines(string(encoded)) {
		lines = slices.Insert(lines, at, indent+line)
		at++
	}
	after := []byte(strings.Join(lines, ""))
	has, err := meaning(after, c.keys[0], s.Name)
	if err != nil {
		return nil, err
	}
	if wanted, err := meaning(encoded, s.Name, ""); err != nil || !reflect.DeepEqual(has, wanted) {
		return nil, errors.Join(errFlow, err)
	}
	return after, nil
}

// withoutYAML removes the lines of a server.
func (c Client) withoutYAML(before []byte, name string) ([]byte, error) {
	root, err := rootYAML(before)
	if err != nil {
		return nil, err
	}
	_, servers := member(root, c.keys[0])
	key, value := member(servers, name)
	if key == nil {
		return before, nil
	}
	if servers.Style&yaml.FlowStyle != 0 {
		return nil, errFlow
	}
	lines := slices.Collect(strings.Lines(string(before)))
	after := []byte(strings.Join(slices.Delete(lines, key.Line-1, lastLine(value)), ""))
	var was, is map[string]any
	if err := errors.Join(yaml.Unmarshal(before, &was), yaml.Unmarshal(after, &is)); err != nil {
		return nil, errFlow
	}
	all, _ := was[c.keys[0]].(map[string]any)
	delete(all, name)
	if left, _ := is[c.keys[0]].(map[string]any); len(all) > 0 || len(left) > 0 {
		if !reflect.DeepEqual(was, is) {
			return nil, errFlow
		}
	}
	return after, nil
}

// prunedYAML removes the line of a key whose value is empty.
func prunedYAML(content []byte, name string) ([]byte, error) {
	root, err := rootYAML(content)
	if err != nil {
		return nil, err
	}
	key, value := member(root, name)
	if key == nil || value.Tag != "!!null" && (value.Kind != yaml.MappingNode || len(value.Content) > 0) {
		return content, nil
	}
	lines := slices.Collect(strings.Lines(string(content)))
	return []byte(strings.Join(slices.Delete(lines, key.Line-1, max(key.Line, value.Line)), "")), nil
}

// lastLine returns the last line of a value whose scalars have one line each.
func lastLine(value *yaml.Node) int {
	last := value.Line
	for _, part := range value.Content {
		last = max(last, lastLine(part))
	}
	return last
}

// meaning returns the value that keys lead to; nil if there is none. The second key may be empty.
func meaning(content []byte, first, second string) (any, error) {
	var all map[string]any
	if err := yaml.Unmarshal(content, &all); err != nil {
		return nil, err
	}
	if second == "" {
		return all[first], nil
	}
	inner, _ := all[first].(map[string]any)
	return inner[second], nil
}
