package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Change is the result of an edit of a client's file, or its preview.
type Change struct {
	Client string `json:"client"`
	File   string `json:"file"`
	// Changed reports whether the edit changes the file.
	Changed bool `json:"changed"`
	// Backup is the path of a copy of the old file; "" when there was none.
	Backup string `json:"backup,omitempty"`
	// Before and After are the file's content.
	Before []byte `json:"-"`
	After  []byte `json:"-"`
}

// Entry renders the server's entry in the client's file, with the keys that lead to it.
func (c Client) Entry(s Server) ([]byte, error) {
	entry, err := c.value(s)
	if err != nil {
		return nil, err
	}
	var value any = map[string]any{s.Name: entry}
	for _, key := range slices.Backward(c.keys) {
		value = map[string]any{key: value}
	}
	switch c.format {
	case formatTOML:
		return c.table(s), nil
	case formatYAML:
		return encodeYAML(value)
	case formatJSON:
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(value)
	return b.Bytes(), err
}

// Install adds the server to a client's file, or replaces it there. The rest of the file stays as it is, comments
// included. A second call changes nothing. Only its owner can access a file with a key.
func (c Client) Install(file string, s Server, dryRun bool) (Change, error) {
	if _, err := c.value(s); err != nil {
		return Change{Client: c.Name, File: file}, err
	}
	mask := fs.FileMode(0o777)
	if s.Key != "" {
		mask = 0o700
	}
	return c.change(file, mask, dryRun, func(before []byte) ([]byte, error) { return c.with(before, s) })
}

// Uninstall removes the server from a client's file. If nothing else changed since Install, the file has its old bytes
// again, or is removed if there was none.
func (c Client) Uninstall(file, name string, dryRun bool) (Change, error) {
	return c.change(file, 0o777, dryRun, func(before []byte) ([]byte, error) {
		kept, err := c.without(before, name)
		if err != nil || bytes.Equal(kept, before) {
			return before, err
		}
		pruned, err := c.pruned(kept)
		if err != nil {
			return nil, err
		}
		switch old, existed := c.backup(file, name); {
		case !existed && (sameText(pruned, nil) || sameText(pruned, []byte("{}"))):
			return nil, nil
		case existed && c.same(old, pruned):
			return old, nil
		}
		return pruned, nil
	})
}

// backup returns the newest copy of the file that has no server of that name.
func (c Client) backup(file, name string) (content []byte, found bool) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	copies, _ := filepath.Glob(file + ".sb-*") // the only error is a malformed pattern, which finds nothing
	for _, path := range slices.Backward(copies) {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if without, err := c.without(content, name); err == nil && bytes.Equal(without, content) {
			return content, true
		}
	}
	return nil, false
}

// sameText reports whether two texts differ in white space and commas only.
func sameText(a, b []byte) bool {
	blank := func(r rune) bool { return unicode.IsSpace(r) || r == ',' }
	return bytes.Equal(bytes.Join(bytes.FieldsFunc(a, blank), nil), bytes.Join(bytes.FieldsFunc(b, blank), nil))
}

// same reports whether an old configuration has the text of a pruned one, besides white space, and its meaning.
func (c Client) same(old, pruned []byte) bool {
	old, err := c.pruned(old)
	if err != nil || !sameText(old, pruned) {
		return false
	}
	was, wasErr := c.decode(old)
	is, isErr := c.decode(pruned)
	return errors.Join(wasErr, isErr) == nil && reflect.DeepEqual(was, is)
}

// decode returns the meaning of a configuration.
func (c Client) decode(content []byte) (value any, err error) {
	var table map[string]any
	switch {
	case len(bytes.TrimSpace(content)) == 0:
		return table, nil
	case c.format == formatTOML:
		err = toml.Unmarshal(content, &table)
		return table, err
	case c.format == formatYAML:
		err = yaml.Unmarshal(content, &table)
		return table, err
	}
	if content, err = hujson.Standardize(bytes.Clone(content)); err == nil {
		err = json.Unmarshal(content, &value)
	}
	return value, err
}

// pruned returns the configuration without the objects that would have the servers, if they are empty.
func (c Client) pruned(content []byte) ([]byte, error) {
	switch c.format {
	case formatTOML:
		return content, nil
	case formatYAML:
		return prunedYAML(content, c.keys[0])
	case formatJSON:
	}
	for i := len(c.keys); i > 0; i-- {
		document, err := hujson.Parse(bytes.Clone(content))
		if err != nil {
			return nil, err
		}
		path := pointer(c.keys[:i]...)
		if at := document.Find(path); at == nil || !sameText(at.Pack(), []byte("{}")) {
			break
		}
		if content, err = patched(document, []map[string]any{{"op": "remove", "path": path}}); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// change edits a file and keeps only the mode bits in mask. If edit returns nil, the file is removed.
func (c Client) change(file string, mask fs.FileMode, dryRun bool, edit func([]byte) ([]byte, error)) (Change, error) {
	// A configuration file may be a symbolic link to another directory. The link stays.
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	change := Change{Client: c.Name, File: file}
	before, err := os.ReadFile(file)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return change, core.Errorf(core.KindOf(err), "mcp", file, "the configuration of %s cannot be read: %w", c.Title, err)
	}
	after, err := edit(before)
	if err != nil {
		return change, core.Errorf(
			core.KindUsage, "mcp", file, "the configuration of %s is invalid and was not changed: %w", c.Title, err,
		).
			WithHint("correct it, or add the output of --print by hand")
	}
	change.Before, change.After, change.Changed = before, after, !bytes.Equal(before, after)
	if dryRun {
		return change, nil
	}
	if !change.Changed {
		return change, narrow(file, mask)
	}
	if exists {
		change.Backup = file + ".sb-" + time.Now().UTC().Format("20060102-150405.000000000")
		if err := os.WriteFile(change.Backup, before, 0o600); err != nil {
			return change, core.Errorf(
				core.KindOf(err), "mcp", change.Backup, "no backup could be written, so nothing was changed: %w", err,
			)
		}
	}
	if after == nil {
		if err := os.Remove(file); err != nil {
			return change, core.Errorf(core.KindOf(err), "mcp", file, "the configuration cannot be removed: %w", err)
		}
		return change, nil
	}
	return change, replace(file, after, mask)
}

// narrow removes the mode bits that are not in mask.
func narrow(file string, mask fs.FileMode) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode().Perm()&^mask != 0 {
		err = os.Chmod(file, info.Mode().Perm()&mask)
	}
	if err != nil {
		return core.Errorf(core.KindOf(err), "mcp", file, "others can read the file, which has a key: %w", err)
	}
	return nil
}

// replace writes a file atomically and keeps only the mode bits in mask.
func replace(file string, data []byte, mask fs.FileMode) error {
	mode := fs.FileMode(0o600)
	if info, statErr := os.Stat(file); statErr == nil {
		mode = info.Mode().Perm() & mask
	}
	fail := func(err error) error {
		return core.Errorf(core.KindOf(err), "mcp", file, "the configuration cannot be written: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fail(err)
	}
	if err := atomicfile.WriteDurable(file, data, mode); err != nil {
		return fail(err)
	}
	return nil
}

// with returns the configuration with the server added.
func (c Client) with(before []byte, s Server) ([]byte, error) {
	switch c.format {
	case formatTOML:
		return c.withTable(before, s)
	case formatYAML:
		return c.withYAML(before, s)
	case formatJSON:
	}
	if len(bytes.TrimSpace(before)) == 0 {
		return c.Entry(s)
	}
	same, err := c.has(before, s)
	if err != nil || same {
		return before, err
	}
	document, err := hujson.Parse(bytes.Clone(before))
	if err != nil {
		return nil, err
	}
	value, err := c.value(s)
	if err != nil {
		return nil, err
	}
	var patch []map[string]any
	for i := range c.keys {
		if path := pointer(c.keys[:i+1]...); document.Find(path) == nil {
			patch = append(patch, map[string]any{"op": "add", "path": path, "value": map[string]any{}})
		}
	}
	patch = append(
		patch, map[string]any{"op": "add", "path": pointer(append(slices.Clip(c.keys), s.Name)...), "value": value},
	)
	return patched(document, patch)
}

// without returns the configuration without the server.
func (c Client) without(before []byte, name string) ([]byte, error) {
	switch c.format {
	case formatTOML:
		return c.withoutTable(before, name)
	case formatYAML:
		return c.withoutYAML(before, name)
	case formatJSON:
	}
	if len(bytes.TrimSpace(before)) == 0 {
		return before, nil
	}
	document, err := hujson.Parse(bytes.Clone(before))
	if err != nil {
		return nil, err
	}
	path := pointer(append(slices.Clip(c.keys), name)...)
	if document.Find(path) == nil {
		return before, nil
	}
	return patched(document, []map[string]any{{"op": "remove", "path": path}})
}

func patched(document hujson.Value, patch []map[string]any) ([]byte, error) {
	standard := document.IsStandard()
	operations, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	if err := document.Patch(operations); err != nil {
		return nil, err
	}
	// Not formatted: the rest of the file keeps its owner's layout.
	if standard {
		document.Standardize() // a client that rejects comments also rejects trailing commas
	}
	return document.Pack(), nil
}

// has reports whether the configuration already has this exact entry.
func (c Client) has(before []byte, s Server) (bool, error) {
	standard, err := hujson.Standardize(bytes.Clone(before))
	if err != nil {
		return false, err
	}
	var found any
	if err := json.Unmarshal(standard, &found); err != nil {
		return false, err
	}
	for _, key := range append(append([]string{}, c.keys...), s.Name) {
		object, ok := found.(map[string]any)
		if !ok {
			return false, errors.New("expected an object at " + key)
		}
		if found, ok = object[key]; !ok {
			return false, nil
		}
	}
	value, err := c.value(s)
	if err != nil {
		return false, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return false, err
	}
	var wanted any
	if err := json.Unmarshal(encoded, &wanted); err != nil {
		return false, err
	}
	return reflect.DeepEqual(found, wanted), nil
}

// pointer builds a JSON pointer from keys.
func pointer(keys ...string) string {
	var b strings.Builder
	for _, key := range keys {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}

// table renders a server as a TOML table.
func (c Client) table(s Server) []byte {
	header := fmt.Sprintf("[%s.%s]\n", strings.Join(c.keys, "."), tomlKey(s.Name))
	if s.URL != "" {
		return fmt.Appendf(
			nil, "%surl = %s\nhttp_headers = { Authorization = %s }\n", header, tomlString(s.URL), tomlString("Bearer "+s.Key),
		)
	}
	quoted := make([]string, len(s.Args))
	for i, arg := range s.Args {
		quoted[i] = tomlString(arg)
	}
	table := fmt.Appendf(nil, "%scommand = %s\nargs = [%s]\n", header, tomlString(s.Command), strings.Join(quoted, ", "))
	if len(s.Env) == 0 {
		return table
	}
	var variables []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		variables = append(variables, name+" = "+tomlString(s.Env[name]))
	}
	return fmt.Appendf(table, "env = { %s }\n", strings.Join(variables, ", "))
}

// tomlString quotes text as a TOML basic string. Every JSON escape is also valid in TOML.
func tomlString(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}

func tomlKey(key string) string {
	if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return key
	}
	return tomlString(key)
}

func (c Client) withTable(before []byte, s Server) ([]byte, error) {
	without, err := c.withoutTable(before, s.Name)
	if err != nil {
		return nil, err
	}
	table := c.table(s)
	if bytes.Contains(before, table) && len(before) == len(without)+len(table)+blankBefore(without) {
		return before, nil
	}
	after := bytes.TrimRight(bytes.Clone(without), "\n")
	if len(after) > 0 {
		after = append(after, '\n', '\n')
	}
	after = append(after, table...)
	var check map[string]any
	return after, toml.Unmarshal(after, &check)
}

// blankBefore returns the number of empty lines before a new table.
func blankBefore(without []byte) int {
	if len(without) > 0 {
		return 1
	}
	return 0
}

// withoutTable removes a table and its subtables from the text. Comments elsewhere stay.
func (c Client) withoutTable(before []byte, name string) ([]byte, error) {
	var check map[string]any
	if err := toml.Unmarshal(before, &check); err != nil {
		return nil, err
	}
	header := strings.Join(c.keys, ".") + "." + tomlKey(name)
	var kept, between []string // between are the comments and empty lines after the last line of the table
	inside, removed := false, false
	for line := range strings.Lines(string(before)) {
		trimmed := strings.TrimSpace(line)
		switch {
		case inside && (trimmed == "" || strings.HasPrefix(trimmed, "#")):
			between = append(between, line)
			continue
		case strings.HasPrefix(trimmed, "["):
			table := strings.Trim(strings.ReplaceAll(strings.Split(trimmed, "#")[0], " ", ""), "[]")
			inside = table == header || strings.HasPrefix(table, header+".")
			removed = removed || inside
		}
		if !inside {
			kept = append(append(kept, between...), line)
		}
		between = nil
	}
	if !removed {
		return before, nil
	}
	after := strings.Trim(strings.Join(append(kept, between...), ""), "\n")
	if after != "" {
		after += "\n"
	}
	return []byte(after), toml.Unmarshal([]byte(after), &check)
}
