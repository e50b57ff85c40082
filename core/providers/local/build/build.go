package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// Builder builds images. It is safe for concurrent use, also by several processes.
type Builder struct {
	// Images receives the images.
	Images *image.Store
	// Dir has the cache. Only its user can enter it.
	Dir string
	// Pull returns a base image.
	Pull func(ctx context.Context, ref string) (image.Image, error)
	// Runner runs the commands.
	Runner Runner
	// CacheSize bounds the cached layers in bytes. 0 is DefaultCacheSize.
	CacheSize int64
}

// DefaultCacheSize bounds the cached layers of one user in bytes.
const DefaultCacheSize = 10 << 30

// Options describe one build.
type Options struct {
	// File is the path of the Dockerfile, for messages. Text is its content; nil reads File.
	File string
	Text []byte
	// Titles replace the texts and lines of instructions in messages, by line. They are for a Dockerfile that no user
	// wrote.
	Titles map[int]string
	// Context is the directory of COPY and ADD; "" is none.
	Context string
	// Args are the values for ARG instructions.
	Args map[string]string
	// Target is the name or the number of the last stage to build; "" is the last one.
	Target string
	// Secrets are the values for RUN --mount=type=secret, by id.
	Secrets map[string]core.SecretValue
	// NoCache runs all steps again. Their layers replace the cached ones.
	NoCache bool
	// Ref is the name of the image; "" is none.
	Ref string
	// Progress receives the steps and the output; it may be nil. Calls are sequential.
	Progress core.ProgressFunc
}

// Runner runs the commands of a build.
type Runner interface {
	// Run runs one command in a new sandbox and removes the sandbox. If the command succeeds, Run writes the archive of
	// the sandbox's writable layer to run.Layer.
	Run(ctx context.Context, run Run) (core.Exit, error)
}

// Run is one command.
type Run struct {
	// Root is the path of the EROFS file that is the sandbox's root directory.
	Root string
	Argv []string
	// Env has entries "NAME=value".
	Env           []string
	User, Workdir string
	// Scripts are executable files in ScriptsDir, by name.
	Scripts map[string]string
	// Offline gives the sandbox no network.
	Offline bool
	// Secrets are variables of the command whose values are secret. SecretFiles are files with secret content.
	Secrets     map[string]core.SecretValue
	SecretFiles []SecretFile
	// Caches are directories of this machine.
	Caches []Cache
	// Output receives the output of the command. Several goroutines may call it at once.
	Output io.Writer
	Layer  io.Writer
}

// SecretFile is a file of a sandbox that is only in memory.
type SecretFile struct {
	// Path is absolute.
	Path  string
	Value core.SecretValue
	Mode  uint32
}

// Cache is a directory of this machine that a sandbox sees.
type Cache struct {
	Source, Target string
	ReadOnly       bool
}

// job is one build.
type job struct {
	*Builder
	Options

	plan    *plan
	cache   *cache
	context *buildContext
	// done are the finished stages.
	done map[*stage]*state
	// images are the images of COPY --from and of mounts.
	images map[string]*source
	step   int

	reporting sync.Mutex
}

// Build builds an image and stores it. If all steps are cached and the image is stored, it does no more than read the
// context.
//
// KindUsage: the Dockerfile has an error or an unsupported instruction, or a step failed. The subject is the file with
// the line. The error of a failed step has the end of its output. KindNotFound: a file or an image is missing.
func (b *Builder) Build(ctx context.Context, o Options) (built image.Image, err error) {
	if err := image.CheckName(o.Ref); err != nil {
		return image.Image{}, err
	}
	if o.Text == nil {
		if o.Text, err = readDockerfile(o.File); err != nil {
			return image.Image{}, err
		}
	}
	j := &job{Builder: b, Options: o, done: map[*stage]*state{}, images: map[string]*source{}}
	if j.plan, err = newPlan(o); err != nil {
		return image.Image{}, err
	}
	if j.context, err = openContext(o.Context, o.File); err != nil {
		return image.Image{}, err
	}
	defer func() { _ = j.context.close() }()
	if j.cache, err = openCache(ctx, b.Dir); err != nil {
		return image.Image{}, err
	}
	defer func() { err = errors.Join(err, j.cache.close(b.cacheSize())) }()
	defer j.closeFiles()
	for _, s := range j.plan.needed {
		if err := j.build(ctx, s); err != nil {
			return image.Image{}, err
		}
	}
	j.unusedArgs()
	return j.finish(ctx)
}

func (b *Builder) cacheSize() int64 {
	if b.CacheSize > 0 {
		return b.CacheSize
	}
	return DefaultCacheSize
}

// maxDockerfile bounds the size of a Dockerfile in bytes.
const maxDockerfile = 4 << 20

func readDockerfile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, core.Errorf(core.KindNotFound, "local.build", file, "the Dockerfile cannot be read: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, maxDockerfile+1))
	}
	if err == nil && len(text) > maxDockerfile {
		err = fmt.Errorf("it is larger than %s", core.Bytes(maxDockerfile))
	}
	if err != nil {
		return nil, core.Errorf(core.KindUsage, "local.build", file, "the Dockerfile cannot be read: %w", err)
	}
	return text, nil
}

// closeFiles closes the files of the stages and images.
func (j *job) closeFiles() {
	for _, s := range j.done {
		s.close()
	}
	for _, s := range j.images {
		_ = s.file.Close()
	}
}

// finish stores the image of the last stage.
func (j *job) finish(ctx context.Context) (image.Image, error) {
	s := j.done[j.plan.needed[len(j.plan.needed)-1]]
	id, err := s.id()
	if err != nil {
		return image.Image{}, err
	}
	addition := image.Addition{ID: id, Ref: j.Ref, Config: s.config, Created: time.Now().UTC()}
	addition.Write = func(ctx context.Context, file string) error {
		j.report(core.Progress{Step: "writing the image"})
		return s.write(ctx, id, file)
	}
	return j.Images.Add(ctx, addition)
}

// id returns the image's id. It is that of the base, the layers and the configuration, so that equal builds make the
// same image.
func (s *state) id() (string, error) {
	document := struct {
		Base   string       `json:"base"`
		Layers []string     `json:"layers"`
		Config image.Config `json:"config"`
	}{s.base.ID, nil, s.config}
	for _, l := range s.layers {
		document.Layers = append(document.Layers, l.DiffID)
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// write makes the file of the image.
func (s *state) write(ctx context.Context, id, file string) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.tree.Prepare(s.config.WorkingDir); err != nil {
		return err
	}
	var uuid [16]byte
	raw, err := hex.DecodeString(strings.TrimPrefix(id, "sha256:"))
	if err != nil {
		return err
	}
	copy(uuid[:], raw)
	if err := s.tree.Finish(uuid); err != nil {
		return err
	}
	return os.Rename(s.file.Name(), file)
}

// report reports a step or output.
func (j *job) report(p core.Progress) {
	if j.Progress == nil {
		return
	}
	j.reporting.Lock()
	defer j.reporting.Unlock()
	j.Progress(p)
}

// outputEnd is the size of the output in an error, in bytes.
const outputEnd = 2 << 10

// Output reports the lines of a step's output, and keeps the end for an error. It is safe for concurrent use.
type Output struct {
	report core.ProgressFunc

	mu   sync.Mutex
	line []byte
	tail []byte
}

// maxLine bounds a reported line in bytes.
const maxLine = 16 << 10

// NewOutput returns an output whose lines are reported. report may be nil.
func NewOutput(report core.ProgressFunc) *Output {
	if report == nil {
		report = func(core.Progress) {}
	}
	return &Output{report: report}
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, p...)
	if over := len(o.tail) - outputEnd; over > 0 {
		o.tail = append([]byte(nil), o.tail[over:]...)
	}
	o.line = append(o.line, p...)
	for {
		i := bytes.IndexByte(o.line, '\n')
		if i < 0 && len(o.line) < maxLine {
			return len(p), nil
		}
		if i < 0 {
			i = len(o.line) - 1
		}
		o.report(core.Progress{Step: strings.TrimRight(string(o.line[:i+1]), "\r\n"), Log: true})
		o.line = append([]byte(nil), o.line[i+1:]...)
	}
}

// End reports an unfinished last line, and returns the end of the output.
func (o *Output) End() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 {
		o.report(core.Progress{Step: string(o.line), Log: true})
		o.line = nil
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(o.tail), ""))
}

// at returns the subject of an error about a line.
func (j *job) at(line int) string { return at(j.File, line) }

func at(file string, line int) string { return fmt.Sprintf("%s:%d", filepath.Base(file), line) }
