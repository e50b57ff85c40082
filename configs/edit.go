package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed-0724f904/sb/core"
)

// Set writes one setting to the file at path, keeping its comments and order, and
// makes the file if need be. The value is checked first. Readers see the old file or the new.
func Set(path, name, value string) error {
	known := keys()
	var found *key
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].name
		if known[i].name == name {
			found = &known[i]
		}
	}
	if found == nil {
		return unknownKey(path, name, names)
	}
	if err := found.set(&Config{}, value); err != nil {
		return badValue(path, *found, value, err)
	}
	if _, err := Load(path, func(string) (string, bool) { return "", false }); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindUsage, "config", path, "it cannot be read: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return core.Errorf(core.KindUsage, "config", path, "it is not valid YAML: %w", err)
	}
	if document.Kind == 0 {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	if document.Content[0].Kind != yaml.MappingNode {
		document.Content[0] = &yaml.Node{Kind: yaml.MappingNode, HeadComment: document.Content[0].HeadComment}
	}
	put(document.Content[0], strings.Split(name, "."), value)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return core.Wrap("config", path, err)
	}
	return write(path, out.Bytes())
}

// put sets a value below a mapping and makes the mappings on the way.
func put(mapping *yaml.Node, path []string, value string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != path[0] {
			continue
		}
		child := mapping.Content[i+1]
		switch {
		case len(path) == 1:
			*child = yaml.Node{Kind: yaml.ScalarNode, Value: value, LineComment: child.LineComment}
		case child.Kind == yaml.MappingNode:
			put(child, path[1:], value)
		default:
			*child = yaml.Node{Kind: yaml.MappingNode}
			put(child, path[1:], value)
		}
		return
	}
	name := &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}
	child := &yaml.Node{Kind: yaml.ScalarNode, Value: value}
	if len(path) > 1 {
		child = &yaml.Node{Kind: yaml.MappingNode}
		put(child, path[1:], value)
	}
	mapping.Content = append(mapping.Content, name, child)
}

// Init writes a file that shows every setting with its default, commented out. One
// that exists is only replaced with force.
func Init(path string, force bool) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return core.Errorf(core.KindConflict, "config", path, "it exists already").WithHint("replace it with: sb config init --force")
	}
	return write(path, []byte(template()))
}

// template is the file that Init writes.
func template() string {
	var b strings.Builder
	b.WriteString("# Settings of sb. What is commented out is the default.\n")
	section := ""
	for _, k := range keys() {
		head, name, nested := strings.Cut(k.name, ".")
		indent := ""
		if !nested {
			name = head
		} else {
			indent = "  "
			if head != section {
				fmt.Fprintf(&b, "\n%s:\n", head)
				section = head
			}
		}
		fmt.Fprintf(&b, "%s# %s\n%s# %s: %q\n", indent, k.doc, indent, name, k.fallback)
	}
	return b.String()
}

// write replaces a file at once.
func write(path string, text []byte) (err error) {
	fail := func(err error) error {
		return core.Errorf(core.KindOf(err), "config", path, "it cannot be written: %w", err).WithHint("make its directory writable, or name another file with --config or SB_CONFIG")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return core.Errorf(core.KindUsage, "config", path, "it is a directory, not a file")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".config-*")
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fail(errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
