package mcp

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// put writes a file of arbitrary bytes.
func (a *assistant) put(sandbox, path string, data []byte) {
	a.t.Helper()
	a.Call(
		"file_write",
		args{"sandbox": sandbox, "path": path, "content": base64.StdEncoding.EncodeToString(data), "base64": true},
	)
}

// A file that is read in ranges is complete and unchanged, even if ranges cut characters.
func TestRangesOfAFileAreTheFile(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	for name, text := range map[string]string{
		"ascii": strings.Repeat("line of text\n", 400), "two": strings.Repeat("üä", 1500), "three": "x" +
			strings.Repeat("€\n", 1200), "four": strings.Repeat("🙂", 900),
		"empty": "", "one long line": strings.Repeat("a", 5000), "fits exactly": strings.Repeat("b", 200),
	} {
		a.put(sb, "/tmp/f", []byte(text))
		var read strings.Builder
		offset, calls := 0.0, 0
		for more := true; more && calls < 200; calls++ {
			got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/f", "offset": int(offset), "max_output": 200})
			if got["size"] != float64(len(text)) || got["encoding"] != "text" {
				t.Fatalf("%s: size %v, %v", name, got["size"], got["encoding"])
			}
			content, _ := got["content"].(string)
			if n := len([]rune(content)); n > 200 {
				t.Errorf("%s: %d characters for a budget of 200", name, n)
			}
			read.WriteString(content)
			offset, more = got["next_offset"].(float64)
		}
		if read.String() != text {
			t.Errorf("%s: %d bytes came back of %d, in %d calls", name, read.Len(), len(text), calls)
		}
		read.Reset()
		next := 0
		for more := true; more; {
			contents, ok := a.read(
				fmt.Sprintf("%s?offset=%d&limit=777", tools.FileURI(sb, "/tmp/f"), next),
			).(mcp.TextResourceContents)
			if !ok {
				t.Fatalf("%s: a range is no text", name)
			}
			read.WriteString(contents.Text)
			var to float64
			if to, more = contents.Meta["sb/next"].(float64); more {
				next = int(to)
			}
		}
		if read.String() != text {
			t.Errorf("%s: the resource's ranges have %d bytes of %d", name, read.Len(), len(text))
		}
	}
	a.put(sb, "/tmp/f", []byte("short"))
	a.fails(core.KindUsage, "file_read", args{"sandbox": sb, "path": "/tmp/f", "offset": 6})
	a.fails(core.KindUsage, "file_read", args{"sandbox": sb, "path": "/tmp/f", "offset": -1})
	if got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/f", "offset": 5}); got["content"] != "" ||
		got["next_offset"] != nil || got["size"] != 5.0 {
		t.Errorf("at the end: %v", got)
	}
	// next_offset is also right for a range that begins within a character.
	a.put(sb, "/tmp/f", []byte("€uro"))
	if got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/f", "offset": 1}); got["content"] != "uro" ||
		got["next_offset"] != nil {
		t.Errorf("within a character: %v", got)
	}
	a.put(sb, "/tmp/f", []byte(strings.Repeat("🙂", 300)))
	if got := a.Call(
		"file_read", args{"sandbox": sb, "path": "/tmp/f", "offset": 1, "max_output": 200},
	); got["content"] != strings.Repeat("🙂", 199) || got["next_offset"] != 800.0 {
		t.Errorf("from within a character to within another: %v", got)
	}
}

// A listing keeps to the budget and counts the other files.
func TestLongListing(t *testing.T) {
	a := newBench(t, setup.Options{Budget: 1000}).connect(t)
	sb := a.Launch(nil)
	a.Call("exec", args{"sandbox": sb, "command": "mkdir /tmp/many; cd /tmp/many; i=0; " +
		"while [ $i -lt 300 ]; do : > file-$i; i=$((i+1)); done"})
	result := a.result("file_list", args{"sandbox": sb, "path": "/tmp/many"})
	text := textOf(result)
	if shown := strings.Count(text, "/tmp/many/file-"); shown == 0 || len(text) > 1100 ||
		!strings.Contains(text, fmt.Sprintf("and %d more", 300-shown)) {
		t.Errorf("%d files in %d characters: %s", shown, len(text), text)
	}
}

// A few bytes that are not UTF-8 are replaced and counted. A file with many is not shown as text. The exact bytes are
// always available.
func TestBytesThatAreNotText(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	type shown struct {
		text     string // "" for data that is not text
		replaced int
	}
	long := strings.Repeat("text ", 400)
	for data, want := range map[string]shown{
		"caf\xc3": {}, "\xa9 text": {}, "a\x00b": {}, "\xe2\x82": {}, "\x7fELF\x01\x00\x00\x01\x00": {},
		"caf\xe9 au lait":    {"caf\uFFFD au lait", 1},
		"its end is cut\xc3": {"its end is cut\uFFFD", 1},
		"\xa9 begins within": {"\uFFFD begins within", 1},
		"one\x00two three":   {"one\uFFFDtwo three", 1},
		long + "\xff\xfe":    {long + "\uFFFD\uFFFD", 2},
		"a U+FFFD: \uFFFD":   {"a U+FFFD: \uFFFD", 0},
	} {
		name, data := data[:min(len(data), 20)], []byte(data)
		a.put(sb, "/tmp/f", data)
		got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/f"})
		encoding, replaced := "text", any(nil)
		if want.text == "" {
			encoding = "none"
		}
		if want.replaced > 0 {
			replaced = float64(want.replaced)
		}
		if got["encoding"] != encoding || got["content"] != want.text || got["replaced"] != replaced ||
			got["size"] != float64(len(data)) {
			t.Errorf("%q: %v", name, got)
		}
		got = a.Call("file_read", args{"sandbox": sb, "path": "/tmp/f", "base64": true})
		if back, err := base64.StdEncoding.DecodeString(got["content"].(string)); err != nil || !bytes.Equal(back, data) {
			t.Errorf("%q: as base64 %q, %v", name, back, err)
		}
		out := a.Call("exec", args{"sandbox": sb, "command": "cat /tmp/f"})
		text, _ := out["stdout"].(string)
		switch {
		case want.text == "" && !strings.Contains(text, "bytes that are not text"),
			out["stdout_bytes"] != nil && out["stdout_bytes"] != float64(len(data)),
			want.replaced > 0 && text != want.text+reply.ReplacedNote(want.replaced),
			want.text != "" && want.replaced == 0 && text != want.text:
			t.Errorf("%q: as output %q", name, text)
		}
		if want.text != "" && want.replaced == 0 {
			continue
		}
		blob, ok := a.read(tools.FileURI(sb, "/tmp/f")).(mcp.BlobResourceContents)
		if back, err := base64.StdEncoding.DecodeString(blob.Blob); !ok || err != nil || !bytes.Equal(back, data) {
			t.Errorf("%q: the resource is %q, %v", name, back, err)
		}
	}
}

// A secret's value is found even where a range, the end of an output or a search would cut it.
func TestSecretsAreFoundAcrossRanges(t *testing.T) {
	b := newBench(t, setup.Options{})
	a := b.connect(t)
	const value = "launch-value-1"
	sb := a.Launch(args{"secrets": map[string]string{"TOKEN": value}})
	a.Call("exec", args{"sandbox": sb, "command": "echo before $TOKEN after > /tmp/t"})
	for _, check := range []func(offset int) string{
		func(offset int) string {
			return a.readText(fmt.Sprintf("%s?offset=%d&limit=3", tools.FileURI(sb, "/tmp/t"), offset))
		},
		func(offset int) string {
			content, _ := a.Call(
				"file_read", args{"sandbox": sb, "path": "/tmp/t", "offset": offset, "base64": true},
			)["content"].(string)
			text, err := base64.StdEncoding.DecodeString(content)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		},
	} {
		var all strings.Builder
		for offset := range 24 {
			piece := check(offset)
			all.WriteString(piece[:min(len(piece), 1)])
			for cut := 3; cut <= len(value); cut++ {
				if strings.Contains(piece, value[cut-3:cut]) {
					t.Errorf("from %d: %q has a part of the value", offset, piece)
				}
			}
		}
		if all.String() != "before [redacted] after\n" {
			t.Errorf("the file is %q", all.String())
		}
	}
	// Output is cut within the value.
	got := a.Call(
		"exec",
		args{"sandbox": sb, "max_output": 200, "command": "i=0; while [ $i -lt 400 ]; do printf %s $TOKEN; i=$((i+1)); done"},
	)
	if text, _ := got["stdout"].(string); strings.Contains(text, "launch") || strings.Contains(text, "value") {
		t.Errorf("output: %q", text)
	}
}

// A restarted server redacts the secrets of the previous server, in old and new output.
func TestSecretsAreRedactedAfterARestart(t *testing.T) {
	first := newBench(t, setup.Options{OnDisconnect: setup.Detach})
	before := first.connect(t)
	sb := before.Launch(args{"secrets": map[string]string{"TOKEN": "launch-value-1"}})
	before.Call(
		"exec",
		args{
			"sandbox": sb, "command": "echo $TOKEN $OTHER | cat; echo $TOKEN $OTHER > /tmp/t",
			"secrets": map[string]string{"OTHER": "exec-value-2"},
		},
	)
	before.hangUp()

	second, err := New(first.service, nil, setup.Options{Toolsets: []string{setup.All}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	b := &bench{Server: second, service: first.service, provider: first.provider}
	after := b.connect(t)
	if text := after.readText("sandbox://" + sb + "/exec/1/stdout"); text != "[redacted] [redacted]\n" {
		t.Errorf("old output: %q", text)
	}
	if got := after.Call("exec_wait", args{"sandbox": sb, "exec_id": "1"}); got["stdout"] != "[redacted] [redacted]\n" {
		t.Errorf("an old command: %v", got["stdout"])
	}
	if got := after.Call("exec", args{"sandbox": sb, "command": "echo $TOKEN"}); got["stdout"] != "[redacted]\n" {
		t.Errorf("new output: %v", got["stdout"])
	}
	if got := after.Call(
		"file_read", args{"sandbox": sb, "path": "/tmp/t"},
	); got["content"] != "[redacted] [redacted]\n" || got["redacted"] != true {
		t.Errorf("a file: %v", got)
	}
}

// A picture's reply is as small as the picture, whatever else the file contains.
func TestPicturesAreBounded(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	var small bytes.Buffer
	if err := png.Encode(&small, image.NewGray(image.Rect(0, 0, 10, 20))); err != nil {
		t.Fatal(err)
	}
	a.put(sb, "/tmp/fat.png", append(small.Bytes(), make([]byte, 2<<20)...))
	result := a.result("file_read", args{"sandbox": sb, "path": "/tmp/fat.png"})
	shown, ok := result.Content[1].(mcp.ImageContent)
	if !ok || len(shown.Data) > 1000 {
		t.Fatalf("it is shown as %T with %d bytes", result.Content[1], len(shown.Data))
	}
	data, err := base64.StdEncoding.DecodeString(shown.Data)
	if err != nil {
		t.Fatal(err)
	}
	if config, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || config.Width != 10 || config.Height != 20 {
		t.Errorf("its size is %dx%d, %v", config.Width, config.Height, err)
	}
}

// Lines have numbers, and a file that is read by lines is complete.
func TestLinesOfAFile(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	read := func(line, budget int) map[string]any {
		t.Helper()
		return a.Call("file_read", args{"sandbox": sb, "path": "/tmp/f", "line": line, "max_output": budget})
	}
	var text, want strings.Builder
	for n := range 300 {
		line := strings.Repeat("ü", n%40)
		fmt.Fprintf(&text, "%s\n", line)
		fmt.Fprintf(&want, "%d\t%s\n", n+1, line)
	}
	a.put(sb, "/tmp/f", []byte(text.String()))
	got, line := "", 1.0
	for more, calls := true, 0; more && calls < 300; calls++ {
		part := read(int(line), 200)
		content, _ := part["content"].(string)
		if len([]rune(content)) > 200 || part["size"] != float64(text.Len()) {
			t.Fatalf("%d characters of %v bytes", len([]rune(content)), part["size"])
		}
		got += content
		line, more = part["next_line"].(float64)
	}
	if got != want.String() {
		t.Errorf("the lines are %q", got)
	}
	if content := read(299, 8000)["content"]; content != "299\t"+strings.Repeat("ü", 18)+"\n300\t"+strings.Repeat("ü", 19)+"\n" {
		t.Errorf("the last lines are %q", content)
	}
	for arguments, why := range map[*args]string{
		{"line": 302}: "which has 300 lines", {"line": -1}: "from 1", {"line": 1, "offset": 1}: "without offset",
		{"line": 1, "base64": true}: "without offset and base64",
	} {
		(*arguments)["sandbox"], (*arguments)["path"] = sb, "/tmp/f"
		if text := a.fails(core.KindUsage, "file_read", *arguments); !strings.Contains(text, why) {
			t.Errorf("%v: %s", *arguments, text)
		}
	}
	a.put(sb, "/tmp/f", []byte("short\n"+strings.Repeat("x", 1<<20)+"\nlast"))
	content, _ := read(2, 200)["content"].(string)
	if len(content) > 260 || !strings.Contains(content, " [... the line has 1048576 bytes ...]\n") {
		t.Errorf("a long line: %q", content)
	}
	if content := read(3, 200)["content"]; content != "3\tlast\n" {
		t.Errorf("after a long line: %q", content)
	}
	a.put(sb, "/tmp/f", nil)
	if empty := read(1, 200); empty["content"] != "" || empty["size"] != 0.0 {
		t.Errorf("an empty file: %v", empty)
	}
	a.put(sb, "/tmp/f", bytes.Repeat([]byte{0, 255, 1}, 1000))
	if binary := read(1, 200); binary["encoding"] != "none" || binary["content"] != "" {
		t.Errorf("a binary file: %v", binary)
	}
}
