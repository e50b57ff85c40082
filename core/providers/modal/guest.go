package modal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/guest"
)

// installGuest puts sb-guest into place at once.
const installGuest = `cat >"$1.new.$$" && chmod 755 "$1.new.$$" && mv -f "$1.new.$$" "$1"`

// helperProgram is sb-guest as it is put into sandboxes.
type helperProgram struct {
	content []byte
	// path is where it lies inside; it has the content's digest in it.
	path string
}

// helper finds sb-guest: beside sb-runtime where the configuration says, beside this program, or in PATH. Modal's
// machines are x86-64 ones that run Linux, and the helper must be, too.
func (p *Provider) helper() (helperProgram, error) {
	for _, candidate := range p.helperPaths() {
		content, err := os.ReadFile(candidate)
		if err != nil {
			continue
		}
		file, err := elf.NewFile(bytes.NewReader(content))
		if err != nil || file.Machine != elf.EM_X86_64 {
			continue
		}
		digest := sha256.Sum256(content)
		return helperProgram{content: content, path: "/tmp/.sb-guest-" + hex.EncodeToString(digest[:6])}, nil
	}
	return helperProgram{}, core.Errorf(core.KindUnavailable, "modal.files", "", "sb's helper %s for Linux on x86-64 is not there", guest.Program).
		WithHint("install it beside sb: GOOS=linux GOARCH=amd64 CGO_ENABLED=0 go build ./cmd/sb-guest")
}

func (p *Provider) helperPaths() []string {
	var paths []string
	if p.opts.Helper != "" {
		paths = append(paths, filepath.Join(filepath.Dir(p.opts.Helper), guest.Program))
	}
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			paths = append(paths, filepath.Join(filepath.Dir(resolved), guest.Program))
		}
	}
	if found, err := exec.LookPath(guest.Program); err == nil {
		paths = append(paths, found)
	}
	return paths
}

// guestIn sees to it that a sandbox has the helper, and returns where. It is brought there once.
func (p *Provider) guestIn(ctx context.Context, id string) (string, error) {
	helper, err := p.helper()
	if err != nil {
		return "", err
	}
	c, err := p.connect()
	if err != nil {
		return "", err
	}
	if c.cache.get(cachedGuests, id) == helper.path {
		return helper.path, nil
	}
	var complaints limitedBuffer
	code, err := p.run(ctx, id, core.ExecSpec{Command: []string{"sh", "-c", installGuest, "sh", helper.path}, Stdin: bytes.NewReader(helper.content), Stderr: &complaints})
	switch {
	case err != nil:
		return "", err
	case code != 0:
		return "", core.Errorf(core.KindInternal, "modal.files", id, "the helper could not be brought into the sandbox: exit code %d: %s", code, complaints.text)
	}
	c.cache.put(cachedGuests, id, helper.path)
	return helper.path, nil
}

// operation is one run of the helper in a sandbox.
type operation struct {
	process *process
	in      *io.PipeWriter // the request's body
	out     *io.PipeReader // the answer
	report  *limitedBuffer
	op      string
	once    sync.Once
	err     error
}

// guest starts a file operation. The caller closes in when it has sent all, reads out to its end, and then calls wait.
func (p *Provider) guest(ctx context.Context, id string, request guest.Request) (*operation, error) {
	path, err := p.guestIn(ctx, id)
	if err != nil {
		return nil, err
	}
	argv, err := request.Argv()
	if err != nil {
		return nil, core.Wrap("modal.files", string(request.Path), err)
	}
	argv[0] = path
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	o := &operation{in: inW, out: outR, report: &limitedBuffer{}, op: string(request.Op)}
	started, err := p.start(ctx, id, core.ExecSpec{Command: argv, Stdin: inR, Stdout: outW, Stderr: o.report, Workdir: "/"})
	if err != nil {
		return nil, err
	}
	o.process = started
	context.AfterFunc(ctx, func() { _ = inW.CloseWithError(ctx.Err()); _ = outR.CloseWithError(ctx.Err()) })
	go func() {
		_, err := o.process.Wait(context.WithoutCancel(ctx))
		_ = inR.CloseWithError(io.ErrClosedPipe)
		_ = outW.CloseWithError(err)
	}()
	return o, nil
}

// wait ends the operation: what is unread is thrown away. It answers the same each time.
func (o *operation) wait(ctx context.Context) error {
	o.once.Do(func() {
		_ = o.in.Close()
		go func() { _, _ = io.Copy(io.Discard, o.out) }()
		exit, err := o.process.Wait(ctx)
		_ = o.process.Close()
		if err != nil {
			o.err = err
			return
		}
		if o.process.cut {
			o.err = core.Errorf(core.KindUnavailable, "modal."+o.op, "", "the answer had no end, so it may not be whole").WithHint("try again")
			return
		}
		o.err = outcome(o.op, exit, o.report.text)
	})
	return o.err
}

// outcome is what the helper's report and exit code say.
func outcome(op string, exit core.Exit, text []byte) error {
	if exit.Code == 127 || exit.Code == 126 {
		return core.Errorf(core.KindInternal, "modal."+op, "", "sb's helper cannot be run in the sandbox: %s", exit.Message)
	}
	report, err := guest.DecodeReport(text)
	if err != nil {
		return err
	}
	if err := report.Err("modal." + op); err != nil {
		return err
	}
	if exit.Code != 0 {
		return core.Errorf(core.KindInternal, "modal."+op, "", "sb-guest ended with code %d", exit.Code)
	}
	return nil
}
