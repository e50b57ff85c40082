package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Set checks a value and writes it to the file at path, which it makes if necessary. The rest of the file stays,
// comments included. Readers see the old file or the new one. Two writers at once lose no setting.
func Set(path, name, value string) error {
	known := keys()
	at := slices.IndexFunc(known, func(k key) bool { return k.name == name })
	if at < 0 {
		return unknownKey(path, name, names(known))
	}
	k := known[at]
	if err := k.set(&Config{}, value); err != nil {
		return badValue(path, k, value, err)
	}
	if !utf8.ValidString(value) {
		return badValue(path, k, value, errors.New("expected text in UTF-8"))
	}
	return replace(path, func(old []byte) ([]byte, error) {
		if _, err := Load(path, func(string) (string, bool) { return "", false }); err != nil {
			return nil, err
		}
		return edit(old, k, value)
	})
}

// Init writes a file with every setting and its default, commented out. Without force, an existing file is
// core.KindConflict.
func Init(path string, force bool) error {
	return replace(path, func([]byte) ([]byte, error) {
		if _, err := os.Lstat(path); err == nil && !force {
			return nil, core.Errorf(core.KindConflict, "config", path, "the file exists").
				WithHint("replace it with: sb config init --force")
		}
		return []byte(template()), nil
	})
}

// template is the file that Init writes.
func template() string {
	var b strings.Builder
	b.WriteString("# Settings of sb. A line that is commented out shows the default.\n")
	section := ""
	for _, k := range keys() {
		head, _, nested := strings.Cut(k.name, ".")
		indent := ""
		if nested {
			indent = "  "
			if head != section {
				fmt.Fprintf(&b, "\n%s:\n", head)
				section = head
			}
		}
		fmt.Fprintf(&b, "%s# %s\n%s%s\n", indent, k.doc, indent, commented(k))
	}
	return b.String()
}

// commented is the template's line of a setting.
func commented(k key) string {
	return fmt.Sprintf("# %s: %q", last(k.name), k.fallback)
}

func last(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// edit returns a file's text with a setting in it. It changes one line, as a person would. If that does not have the
// wanted effect, it encodes the whole file again.
func edit(old []byte, k key, value string) ([]byte, error) {
	path := strings.Split(k.name, ".")
	scalar := &yaml.Node{Kind: yaml.ScalarNode, Value: strings.TrimSpace(value)}
	if k.kind == kindText || k.kind == kindChoice {
		scalar = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value} // in quotes where it needs them
	}
	shown, err := yaml.Marshal(scalar)
	if err != nil {
		return nil, core.Wrap("config", k.name, err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(old, &document); err != nil {
		return nil, core.Errorf(core.KindUsage, "config", k.name, "the file is not valid YAML: %w", err)
	}
	if document.Kind == 0 {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode { // it is null: Load has accepted the file
		*root = yaml.Node{Kind: yaml.MappingNode, HeadComment: root.HeadComment}
	}
	for i := 0; i < len(root.Content); i += 2 {
		if name := root.Content[i]; name.ShortTag() != "!!str" || name.Value == "" {
			return nil, core.Errorf(core.KindUsage, "config", k.name, "line %d of the file: a key is not a name", name.Line).
				WithHint("change the file by hand")
		}
	}
	if _, section := child(root, path[0]); section != nil && section.Kind == yaml.AliasNode {
		return nil, core.Errorf(core.KindUsage, "config", k.name, "the section is an alias of another one").
			WithHint("change the file by hand")
	}
	changed := editLine(string(old), root, path, k, strings.TrimSuffix(string(shown), "\n"))
	put(root, path, scalar)
	var encoded bytes.Buffer
	encoder := yaml.NewEncoder(&encoded)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return nil, core.Wrap("config", k.name, err)
	}
	if same([]byte(changed), encoded.Bytes()) {
		return []byte(changed), nil
	}
	return encoded.Bytes(), nil
}

// same reports whether two texts hold the same values.
func same(a, b []byte) bool {
	var inA, inB any
	return yaml.Unmarshal(a, &inA) == nil && yaml.Unmarshal(b, &inB) == nil && reflect.DeepEqual(inA, inB)
}

// editLine replaces a value, or its commented-out default. Otherwise it adds a line at the top of the section or at the
// end.
func editLine(text string, root *yaml.Node, path []string, k key, shown string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := strings.SplitAfter(text, "\n")
	insert := func(at int, line string) string {
		return strings.Join(slices.Insert(lines, at, line+"\n"), "")
	}
	section, first, indent := root, 0, ""
	if len(path) == 2 {
		head, body := child(root, path[0])
		if head == nil {
			if text != "" {
				text += "\n"
			}
			return text + fmt.Sprintf("%s:\n  %s: %s\n", path[0], path[1], shown)
		}
		section, first, indent = body, head.Line, "  "
		if len(body.Content) > 0 {
			indent = strings.Repeat(" ", body.Content[0].Column-1)
		}
	}
	name := last(k.name)
	if _, value := child(section, name); value != nil {
		line := []rune(lines[value.Line-1])
		before := strings.TrimRight(string(line[:min(value.Column-1, len(line))]), " \n")
		lines[value.Line-1] = strings.TrimRight(before+" "+shown+" "+value.LineComment, " ") + "\n"
		return strings.Join(lines, "")
	}
	for i := first; i < len(lines); i++ {
		if len(path) == 2 && strings.TrimLeft(lines[i], " #\n") == lines[i] && lines[i] != "" {
			break // the next section
		}
		if strings.TrimSpace(lines[i]) == commented(k) {
			lines[i] = indent + name + ": " + shown + "\n"
			return strings.Join(lines, "")
		}
	}
	if len(path) == 1 {
		return text + name + ": " + shown + "\n"
	}
	return insert(first, indent+name+": "+shown)
}

// child finds an entry of a mapping, or nil.
func child(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if strings.EqualFold(mapping.Content[i].Value, name) {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// put sets a value below a mapping and adds missing mappings.
func put(mapping *yaml.Node, path []string, scalar *yaml.Node) {
	_, value := child(mapping, path[0])
	if value == nil {
		value = &yaml.Node{}
		mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}, value)
	}
	if len(path) == 1 {
		comment := value.LineComment
		*value = *scalar
		value.LineComment = comment
		return
	}
	if value.Kind != yaml.MappingNode {
		*value = yaml.Node{Kind: yaml.MappingNode}
	}
	put(value, path[1:], scalar)
}

// replace replaces the file's text atomically by the result of change. A symbolic link stays; its target is replaced.
func replace(path string, change func(old []byte) ([]byte, error)) error {
	fail := func(err error) error {
		return core.Errorf(core.KindOf(err), "config", path, "cannot write the file: %w", err).
			WithHint("make its directory writable, or name another file with --config or SB_CONFIG")
	}
	target := path
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		target = followed
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(target); err == nil {
		if info.IsDir() {
			return core.Errorf(core.KindUsage, "config", path, "expected a file, found a directory")
		}
		if !info.Mode().IsRegular() {
			return core.Errorf(core.KindUsage, "config", path, "expected a regular file")
		}
		mode = info.Mode().Perm()
	}
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	old, err := os.ReadFile(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindUsage, "config", path, "cannot read the file: %w", err)
	}
	text, err := change(old)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteDurable(target, text, mode); err != nil {
		return fail(err)
	}
	return nil
}
