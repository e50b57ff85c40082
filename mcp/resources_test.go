package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

func TestResources(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(args{"name": "dev"})
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/ä b%.txt", "content": "text"})
	a.Call("exec", args{"sandbox": sb, "command": "echo said"})

	list, err := a.client.ListResources(t.Context(), mcp.ListResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var uris []string
	for _, resource := range list.Resources {
		uris = append(uris, resource.URI)
	}
	if !slices.Equal(uris, []string{"sandbox://", "sandbox://" + sb}) {
		t.Errorf("the list is %v", uris)
	}
	offered, err := a.client.ListResourceTemplates(t.Context(), mcp.ListResourceTemplatesRequest{})
	if err != nil || len(offered.ResourceTemplates) != len(templates()) {
		t.Errorf("%d templates, %v", len(offered.ResourceTemplates), err)
	}
	var info tools.SandboxInfo
	if err := json.Unmarshal([]byte(a.readText("sandbox://mcp-dev")), &info); err != nil || info.ID != sb {
		t.Errorf("one sandbox: %+v, %v", info, err)
	}
	if text := a.readText("sandbox://"); !strings.Contains(text, sb) {
		t.Errorf("all sandboxes: %s", text)
	}
	if text := a.readText(tools.FileURI(sb, "/tmp/ä b%.txt")); text != "text" {
		t.Errorf("a file: %q", text)
	}
	if text := a.readText("sandbox://" + sb + "/files/tmp"); !strings.Contains(text, "ä b%.txt") {
		t.Errorf("a directory: %s", text)
	}
	if text := a.readText("sandbox://" + sb + "/exec"); !strings.Contains(text, "echo said") {
		t.Errorf("the commands: %s", text)
	}
	if text := a.readText("sandbox://" + sb + "/exec/1/stdout"); text != "said\n" {
		t.Errorf("output: %q", text)
	}
	for _, uri := range []string{
		"sandbox://nobody", "sandbox://" + sb + "/exec/77/stdout", "sandbox://" + sb + "/exec/1/sideways", "sandbox://" +
			sb + "/files/none",
		"file:///etc/passwd", "sandbox://" + sb + "/files/tmp?offset=x", "sandbox:///files/etc/passwd",
	} {
		request := mcp.ReadResourceRequest{}
		request.Params.URI = uri
		if result, err := a.client.ReadResource(t.Context(), request); err == nil {
			t.Errorf("%s: %v", uri, result.Contents)
		}
	}
}

func TestFiles(t *testing.T) {
	a := newBench(t, setup.Options{Toolsets: []string{setup.Default, setup.Files}}).connect(t)
	sb := a.Launch(nil)
	checkOutput(
		t, "file_write", a.Call("file_write", args{"sandbox": sb, "path": "/tmp/new/dir/f", "content": "one\ntwo\n"}),
	)
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/new/dir/f", "content": "three\n", "append": true})
	got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/new/dir/f"})
	checkOutput(t, "file_read", got)
	if got["content"] != "one\ntwo\nthree\n" || got["encoding"] != "text" {
		t.Errorf("got %v", got)
	}
	if got = a.Call(
		"file_read", args{"sandbox": sb, "path": "/tmp/new/dir/f", "offset": 4},
	); got["content"] != "two\nthree\n" {
		t.Errorf("from an offset: %v", got)
	}
	got = a.Call("file_list", args{"sandbox": sb, "path": "/tmp/new/dir"})
	checkOutput(t, "file_list", got)
	if entries, _ := got["entries"].([]any); len(entries) != 1 {
		t.Errorf("the list: %v", got)
	}
	if got = a.Call("file_list", args{"sandbox": sb, "path": "/tmp/new/dir/f"}); got["total"] != 1.0 {
		t.Errorf("one file: %v", got)
	}
	a.fails(core.KindConflict, "file_remove", args{"sandbox": sb, "path": "/tmp/new"})
	a.Call("file_remove", args{"sandbox": sb, "path": "/tmp/new", "recursive": true})
	a.fails(core.KindNotFound, "file_read", args{"sandbox": sb, "path": "/tmp/new/dir/f"})
	a.fails(core.KindUsage, "file_write", args{"sandbox": sb, "path": "/tmp/x", "content": "no base64!", "base64": true})
}

func TestBinaryFileThereAndBack(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(nil)
	data := make([]byte, 5000)
	for i := range data {
		data[i] = byte(i * 31)
	}
	encoded := base64.StdEncoding.EncodeToString(data)
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/b", "content": encoded, "base64": true})
	if got := a.Call("file_read", args{"sandbox": sb, "path": "/tmp/b"}); got["encoding"] != "none" ||
		got["content"] != "" || got["size"] != 5000.0 {
		t.Errorf("bytes as text: %v", got)
	}
	var back []byte
	for offset := 0.0; ; {
		got := a.Call(
			"file_read", args{"sandbox": sb, "path": "/tmp/b", "base64": true, "offset": int(offset), "max_output": 1000},
		)
		piece, err := base64.StdEncoding.DecodeString(got["content"].(string))
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, piece...)
		next, more := got["next_offset"].(float64)
		if !more {
			break
		}
		offset = next
	}
	if !slices.Equal(back, data) {
		t.Errorf("%d bytes came back, and not the same", len(back))
	}
	if blob, ok := a.read(tools.FileURI(sb, "/tmp/b")).(mcp.BlobResourceContents); !ok || blob.Blob != encoded {
		t.Error("the resource is not the file")
	}
}

func TestSubscriptions(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t, legacy())
	sb := a.Launch(nil)
	uri := tools.FileURI(sb, "/tmp/watched")
	for _, subscribed := range []string{uri, "sandbox://" + sb} {
		request := mcp.SubscribeRequest{}
		request.Params.URI = subscribed
		if err := a.client.Subscribe(t.Context(), request); err != nil { //nolint:staticcheck // most clients use it
			t.Fatal(err)
		}
	}
	updated := func(uri string) func(mcp.JSONRPCNotification) bool {
		return func(note mcp.JSONRPCNotification) bool {
			return note.Method == mcp.MethodNotificationResourceUpdated && note.Params.AdditionalFields["uri"] == uri
		}
	}
	a.Call("exec", args{"sandbox": sb, "command": "echo x > /tmp/watched"})
	a.notification("a command changed the file", updated(uri))
	a.mu.Lock()
	a.notes = nil
	a.mu.Unlock()
	a.Call("file_write", args{"sandbox": sb, "path": "/tmp/watched", "content": "y"})
	a.notification("a tool changed the file", updated(uri))
	a.Call("sandbox_terminate", args{"sandbox": sb})
	a.notification("the sandbox has ended", updated("sandbox://"+sb))
	a.notification("there is another list", func(note mcp.JSONRPCNotification) bool {
		return note.Method == mcp.MethodNotificationResourcesListChanged
	})
}

// fileWatcher is a provider whose file events come from the test.
type fileWatcher struct {
	*fake.Provider
	// watched receives the path of each new watch.
	watched chan string
	events  chan []core.FileEvent
	stats   *atomic.Int64
}

func (p fileWatcher) Capabilities() core.Capabilities {
	caps := p.Provider.Capabilities()
	caps.Has = append(slices.Clone(caps.Has), core.CapFileWatch)
	return caps
}

func (p fileWatcher) Stat(ctx context.Context, id, name string) (core.FileInfo, error) {
	p.stats.Add(1)
	return p.Provider.Stat(ctx, id, name)
}

func (p fileWatcher) WatchFiles(ctx context.Context, _, name string, _ bool) iter.Seq2[core.FileEvent, error] {
	return func(yield func(core.FileEvent, error) bool) {
		select {
		case p.watched <- name:
		case <-ctx.Done():
		}
		for {
			select {
			case <-ctx.Done():
				yield(core.FileEvent{}, ctx.Err())
				return
			case events := <-p.events:
				for _, event := range events {
					if !yield(event, nil) {
						return
					}
				}
			}
		}
	}
}

// If the provider reports changes, they are passed on, and files are polled less and less often.
func TestWatchedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := fileWatcher{fake.New(fake.Options{}), make(chan string), make(chan []core.FileEvent), &atomic.Int64{}}
		svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{{
			Name: "fake", IDPrefix: "fak-", Open: func() (core.Provider, error) { return provider, nil },
		}}})
		a := benchOver(t, provider.Provider, svc, setup.Options{}).connect(t, legacy())
		sb := a.Launch(nil)
		uri := tools.FileURI(sb, "/tmp/watched")
		request := mcp.SubscribeRequest{}
		request.Params.URI = uri
		if err := a.client.Subscribe(t.Context(), request); err != nil { //nolint:staticcheck // most clients use it
			t.Fatal(err)
		}
		if got := providertest.Receive(t, provider.watched); got != "/tmp" {
			t.Errorf("watched is %q", got)
		}
		received := func() (updates int) {
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, note := range a.notes {
				if note.Method == mcp.MethodNotificationResourceUpdated && note.Params.AdditionalFields["uri"] == uri {
					updates++
				}
			}
			return updates
		}
		// The file does not exist, so no poll could find the change.
		provider.events <- []core.FileEvent{{Kind: core.FileModified, Path: "/tmp/other"}}
		if got := received(); got != 0 {
			t.Errorf("another file's change was reported: %d", got)
		}
		provider.events <- []core.FileEvent{{Kind: core.FileRenamed, Path: "/tmp/elsewhere", From: "/tmp/watched"}}
		if got := received(); got != 1 {
			t.Errorf("a change was reported %d times, want once", got)
		}
		looks := provider.stats.Load()
		time.Sleep(time.Minute)
		if looks = provider.stats.Load() - looks; looks > 8 {
			t.Errorf("the file was looked at %d times in a minute", looks)
		}
	})
}

func TestPromptsAndCompletion(t *testing.T) {
	a := newBench(t, setup.Options{}).connect(t)
	sb := a.Launch(args{"name": "dev"})
	a.Call("file_write", args{"sandbox": sb, "path": "/srv/data/one.csv", "content": "1"})
	a.Call("exec", args{"sandbox": sb, "command": "true"})
	list, err := a.client.ListPrompts(t.Context(), mcp.ListPromptsRequest{})
	if err != nil || len(list.Prompts) != len(prompts()) {
		t.Fatalf("%v, %v", list, err)
	}
	request := mcp.GetPromptRequest{}
	request.Params.Name = "debug_failing_test"
	request.Params.Arguments = map[string]string{"project": "/home/me/p", "test": "go test ./x", "sandbox": "dev"}
	got, err := a.client.GetPrompt(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := got.Messages[0].Content.(mcp.TextContent); !strings.Contains(text.Text, "go test ./x") ||
		!strings.Contains(text.Text, "Use sandbox dev") {
		t.Errorf("the prompt is %q", text.Text)
	}
	request.Params.Arguments = nil
	if _, err := a.client.GetPrompt(t.Context(), request); err == nil ||
		!strings.Contains(err.Error(), `"project" is missing`) {
		t.Errorf("without arguments: %v", err)
	}

	template := func(uri string) mcp.ResourceReference { return mcp.ResourceReference{Type: "ref/resource", URI: uri} }
	for _, test := range []struct {
		name, value string
		known       map[string]string
		want        []string
	}{
		{"id", "mcp-", nil, []string{"mcp-dev"}},
		{"id", sb[:6], nil, []string{sb}},
		{"exec", "", map[string]string{"id": sb}, []string{"1"}},
		{"stream", "std", map[string]string{"id": sb}, []string{"stderr", "stdout"}},
		{"path", "srv/da", map[string]string{"id": sb}, []string{"srv/data/"}},
		{"path", "srv/data/", map[string]string{"id": sb}, []string{"srv/data/one.csv"}},
		{"path", "srv/", map[string]string{"id": "nobody"}, []string{}},
	} {
		request := mcp.CompleteRequest{}
		request.Params.Ref = template("sandbox://{id}/files/{+path}{?offset,limit,grep}")
		request.Params.Argument = mcp.CompleteArgument{Name: test.name, Value: test.value}
		request.Params.Context.Arguments = test.known
		result, err := a.client.Complete(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(result.Completion.Values, test.want) {
			t.Errorf("%s %q: %v, want %v", test.name, test.value, result.Completion.Values, test.want)
		}
	}
}

// The arguments of prompts complete, with paths of this machine in open directories only.
func TestCompletionOfPrompts(t *testing.T) {
	open, closed := filepath.Join(t.TempDir(), "open"), t.TempDir()
	for _, dir := range []string{filepath.Join(open, "project"), filepath.Join(closed, "secret")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(open, "project.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(closed, filepath.Join(open, "out")); err != nil {
		t.Fatal(err)
	}
	opts := setup.Options{AllowPaths: []string{open}}
	opts.Policy.GPUs = []string{"T4", "H100"}
	a := newBench(t, opts).connect(t)
	for _, test := range []struct {
		name, value string
		want        []string
	}{
		{"gpu", "", []string{"H100", "T4"}},
		{"gpu", "A", []string{}},
		{"test", "go", []string{"go test ./..."}},
		{"source", "", []string{open + "/"}},
		{"project", open[:len(open)-1], []string{open + "/"}},
		{"script", open + "/pro", []string{open + "/project.py", open + "/project/"}},
		{"source", open + "/out/", []string{}},
		{"source", open + "/../", []string{}},
		{"source", closed + "/", []string{}},
		{"source", "/", []string{open + "/"}},
		{"packages", "", []string{}},
	} {
		request := mcp.CompleteRequest{}
		request.Params.Ref = mcp.PromptReference{Type: "ref/prompt", Name: "train_on_gpu"}
		request.Params.Argument = mcp.CompleteArgument{Name: test.name, Value: test.value}
		result, err := a.client.Complete(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(result.Completion.Values, test.want) {
			t.Errorf("%s %q: %v, want %v", test.name, test.value, result.Completion.Values, test.want)
		}
	}
}

// answers is a user who answers questions.
type answers struct {
	agree     bool
	questions []string
}

func (u *answers) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	u.questions = append(u.questions, request.Params.Message)
	result := &mcp.ElicitationResult{}
	result.Action = mcp.ElicitationResponseActionDecline
	if u.agree {
		result.Action = mcp.ElicitationResponseActionAccept
		result.Content = map[string]any{"confirm": true}
	}
	return result, nil
}

func TestElicitation(t *testing.T) {
	for name, options := range map[string][]client.ClientOption{"now": nil, "2025-11-25": {legacy()}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup.Options{})
			user := &answers{}
			a := b.connect(t, append(options, client.WithElicitationHandler(user))...)
			a.Launch(nil)
			a.fails(core.KindCanceled, "sandbox_terminate", args{"all": true})
			a.fails(core.KindCanceled, "sandbox_launch", args{"gpu": "T4"})
			if len(user.questions) != 2 || !strings.Contains(user.questions[0], "Terminate 1 sandboxes") ||
				!strings.Contains(user.questions[1], "T4") {
				t.Errorf("the user was asked %q", user.questions)
			}
			user.agree = true
			a.Launch(args{"gpu": "T4"})
			if got := a.Call("sandbox_terminate", args{"all": true}); len(got["terminated"].([]any)) != 2 {
				t.Errorf("got %v", got)
			}
		})
	}
	t.Run("cannot be asked", func(t *testing.T) {
		a := newBench(t, setup.Options{}).connect(t)
		a.Launch(nil)
		a.Call("sandbox_terminate", args{"all": true})
	})
}
