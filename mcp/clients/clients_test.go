package clients_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/clients"
)

func place(t *testing.T) clients.Place {
	t.Helper()
	home := t.TempDir()
	return clients.Place{OS: "linux", Home: home, Config: filepath.Join(home, ".config")}
}

func server() clients.Server {
	return clients.Server{
		Name: "sb", Command: "/usr/local/bin/sb", Args: []string{"mcp", "--allow-path", "/home/me/my project"},
	}
}

func install(t *testing.T, c clients.Client, file string) clients.Change {
	t.Helper()
	change, err := c.Install(file, server(), false)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Installs the server for each client into no file, then again, then uninstalls it.
func TestEveryClient(t *testing.T) {
	for _, c := range clients.All() {
		t.Run(c.Name, func(t *testing.T) {
			file, err := c.File(place(t), "")
			if err != nil {
				t.Fatal(err)
			}
			if change, err := c.Install(file, server(), true); err != nil || !change.Changed {
				t.Errorf("dry: %+v, %v", change, err)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("a dry run wrote the file")
			}
			if change := install(t, c, file); !change.Changed || change.Backup != "" {
				t.Errorf("first: %+v", change)
			}
			text := read(t, file)
			if !strings.Contains(text, "/usr/local/bin/sb") || !strings.Contains(text, "/home/me/my project") {
				t.Errorf("it is not in: %s", text)
			}
			if change := install(t, c, file); change.Changed || read(t, file) != text {
				t.Errorf("again: %+v %s", change, read(t, file))
			}
			entry, err := c.Entry(server())
			if err != nil || !strings.Contains(string(entry), "/usr/local/bin/sb") {
				t.Errorf("shown: %s, %v", entry, err)
			}
			change, err := c.Uninstall(file, "sb", false)
			if err != nil || !change.Changed || change.Backup == "" {
				t.Errorf("out: %+v, %v", change, err)
			}
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that had nothing else is left: %v", err)
			}
			if read(t, change.Backup) != text {
				t.Error("the copy is not the file before")
			}
			if change, err := c.Uninstall(file, "sb", false); err != nil || change.Changed {
				t.Errorf("out again: %+v, %v", change, err)
			}
		})
	}
}

// Uninstall leaves the file as it was before Install, byte for byte.
func TestUninstallRestoresTheFile(t *testing.T) {
	for name, files := range map[string][]string{
		"cursor": {
			"{}", "{\n}\n", `{"mcpServers": {}}` + "\n", "{\n\t\"theme\": \"dark\"\n}",
			"{\n  // mine\n  \"mcpServers\": {\n    \"other\": {\"command\": \"other\"}, // keep\n  },\n}\n",
		},
		"zed":      {"{\n  \"theme\": \"One\"\n}\n"},
		"opencode": {"{\"mcp\":{\"other\":{\"type\":\"local\"}}}"},
		"codex":    {"model = \"o3\"", "# mine\n[mcp_servers.other]\ncommand = \"x\"\n\n\n", "\n"},
		"goose": {
			"GOOSE_MODEL: x\n", "# mine\nGOOSE_MODEL: x", "extensions: {}\nGOOSE_MODEL: x\n", "extensions:\nGOOSE_MODEL: x\n",
			"extensions:\n    # the first\n    developer:\n        enabled: true # keep\n        text: |\n            a\n" +
				"            b\n\nGOOSE_MODEL: x\n",
		},
	} {
		c, err := clients.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range files {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
			install(t, c, file)
			if change := install(t, c, file); change.Changed {
				t.Errorf("%s: %q: a second call changed the file", name, before)
			}
			if _, err := c.Uninstall(file, "sb", false); err != nil {
				t.Errorf("%s: %q: %v", name, before, err)
			}
			if after := read(t, file); after != before {
				t.Errorf("%s: %q is now %q", name, before, after)
			}
		}
	}
}

// Uninstall keeps the changes that were made after Install.
func TestUninstallKeepsLaterChanges(t *testing.T) {
	for name, later := range map[string]string{
		"cursor": "{\"mcpServers\": {\"sb\": {\"command\": \"x\"}},\n  \"mine\": 1 // new\n}\n",
		"goose":  "extensions:\n  sb:\n    cmd: x\n  # new\n  mine: {cmd: y}\n",
		"codex":  "[mcp_servers.sb]\ncommand = \"x\"\n\n# new\n[mine]\n",
	} {
		c, err := clients.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "config")
		install(t, c, file)
		if err := os.WriteFile(file, []byte(later), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Uninstall(file, "sb", false); err != nil {
			t.Fatal(err)
		}
		if after := read(t, file); !strings.Contains(after, "mine") || !strings.Contains(after, "new") ||
			strings.Contains(after, "sb") {
			t.Errorf("%s: %q is now %q", name, later, after)
		}
	}
}

// A file whose lines cannot be edited is not changed.
func TestGooseFileInOneLine(t *testing.T) {
	c, err := clients.Find("goose")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	const before = "extensions: {other: {cmd: x}}\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Install(file, server(), false); !errors.Is(err, core.KindUsage) || read(t, file) != before {
		t.Errorf("got %v, %q", err, read(t, file))
	}
}

// Each client starts the server with the variables that it needs.
func TestEnvironmentOfTheServer(t *testing.T) {
	for _, c := range clients.All() {
		s := server()
		s.Env = map[string]string{"XDG_STATE_HOME": "/data/state", "SB_CONFIG": "/data/sb.yaml"}
		file, err := c.File(place(t), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Install(file, s, false); err != nil {
			t.Fatal(err)
		}
		text := read(t, file)
		for _, part := range []string{"XDG_STATE_HOME", "/data/state", "SB_CONFIG", "/data/sb.yaml"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s is not in %s", c.Name, part, text)
			}
		}
	}
}

// Install keeps the rest of a file: other settings, other servers, comments, the mode, and a link to the file.
func TestMergeKeepsTheRest(t *testing.T) {
	c, err := clients.Find("cursor")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	physical, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "mcp.json")
	before := `{
  // mine
  "theme": "dark",
  "mcpServers": {
    "other": {"command": "other", "args": []}, // keep
    "sb": {"command": "old/sb"},
  },
}
`
	if err := os.WriteFile(physical, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(physical, link); err != nil {
		t.Fatal(err)
	}
	change := install(t, c, link)
	text := read(t, physical)
	for _, kept := range []string{"// mine", "// keep", `"theme": "dark"`, `"other"`, `"/usr/local/bin/sb"`} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s is gone: %s", kept, text)
		}
	}
	if strings.Contains(text, "old/sb") || read(t, change.Backup) != before {
		t.Errorf("the old entry stays, or the copy is wrong: %s", text)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	if info, err := os.Stat(physical); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v", info.Mode())
	}
}

func TestPlainJSONStaysPlain(t *testing.T) {
	c, err := clients.Find("claude-desktop")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, []byte(`{"a":1,"mcpServers":{"x":{"command":"x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	install(t, c, file)
	var parsed map[string]any
	if err := json.Unmarshal([]byte(read(t, file)), &parsed); err != nil ||
		len(parsed["mcpServers"].(map[string]any)) != 2 {
		t.Errorf("%v: %s", err, read(t, file))
	}
}

func TestTOMLKeepsTheRest(t *testing.T) {
	c, err := clients.Find("codex")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.toml")
	before := "# mine\nmodel = \"o\"\n\n[mcp_servers.sb]\ncommand = \"old\"\n\n[mcp_servers.sb.env]\nA = " +
		"\"b\"\n\n[mcp_servers.sbx]\ncommand = \"x\"\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	install(t, c, file)
	text := read(t, file)
	if strings.Contains(text, "old") || strings.Contains(text, "sb.env") || !strings.Contains(text, "# mine") ||
		!strings.Contains(text, "[mcp_servers.sbx]\ncommand = \"x\"") {
		t.Errorf("got %s", text)
	}
	if change := install(t, c, file); change.Changed {
		t.Errorf("again: %s", read(t, file))
	}
}

func TestBrokenFilesAreLeftAlone(t *testing.T) {
	for name, broken := range map[string]string{
		"cursor": `{"mcpServers": `, "codex": "[x\n", "gemini": `{"mcpServers": []}`,
	} {
		c, err := clients.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Install(file, server(), false); !errors.Is(err, core.KindUsage) || core.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if read(t, file) != broken {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := clients.Find("curser"); !strings.Contains(core.HintOf(err), "cursor") {
		t.Errorf("a slip of the fingers: %v", err)
	}
}

// The entry of a running server has its URL and the key. Only the user can read the file.
func TestServerAlreadyRuns(t *testing.T) {
	const key = "sb_local_SECRET"
	running := clients.Server{Name: "sb", URL: "http://127.0.0.1:8000/mcp", Key: key}
	for _, c := range clients.All() {
		t.Run(c.Name, func(t *testing.T) {
			file, err := c.File(place(t), "")
			if err != nil {
				t.Fatal(err)
			}
			install(t, c, file)
			if err := os.Chmod(file, 0o644); err != nil { // as the client may have made it
				t.Fatal(err)
			}
			before := read(t, file)
			change, err := c.Install(file, running, false)
			if c.Name == "claude-desktop" {
				if !errors.Is(err, core.KindUnsupported) || read(t, file) != before {
					t.Errorf("%+v, %v", change, err)
				}
				return
			}
			text := read(t, file)
			if err != nil || !change.Changed || !strings.Contains(text, running.URL) ||
				!strings.Contains(text, "Bearer "+key) || strings.Contains(text, "/usr/local/bin/sb") {
				t.Errorf("%+v, %v: %s", change, err, text)
			}
			for _, path := range []string{file, change.Backup} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", path, info.Mode(), err)
				}
			}
			if err := os.Chmod(file, 0o644); err != nil { // as a user may change it
				t.Fatal(err)
			}
			change, err = c.Install(file, running, false)
			if info, statErr := os.Stat(file); err != nil || change.Changed || statErr != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("again: %+v, %v, %v", change, err, info.Mode())
			}
			encoded, err := json.Marshal(change)
			if err != nil || strings.Contains(string(encoded), key) {
				t.Errorf("reported: %s, %v", encoded, err)
			}
			if change, err := c.Uninstall(file, "sb", false); err != nil || !change.Changed {
				t.Errorf("out: %+v, %v", change, err)
			}
			if text, err := os.ReadFile(file); strings.Contains(string(text), key) {
				t.Errorf("the key is left: %v", err)
			}
		})
	}
}
