//go:build linux

package inside

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/program"
)

// nursery holds init's children by request: the commands of "sb-guest spawn".
type nursery struct {
	mu    sync.Mutex
	byPID map[int]*nursling
	byID  map[string]*nursling
}

// nursling is one command. It stays in the nursery until a client has received its end.
type nursling struct {
	pid     int
	outputs [2]*relay
	exit    guest.Exit // valid once over is closed
	over    chan struct{}
}

// serve serves connections until the process ends.
func (n *nursery) serve() {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: guest.SpawnSocket, Net: "unix"})
	if err != nil {
		return // spawn returns an error
	}
	if err := os.Chmod(guest.SpawnSocket, 0o600); err != nil {
		return
	}
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		go n.answer(conn)
	}
}

// answer serves one "sb-guest spawn": it starts or finds the command, and reports its start and its end.
func (n *nursery) answer(conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	reports := json.NewEncoder(conn)
	request, outputs, err := receiveSpawn(conn)
	var child *nursling
	if err == nil {
		child, err = n.take(request, outputs)
	}
	if err != nil {
		closeFDs(outputs)
		var report guest.Report
		report.Fail("", err)
		_ = reports.Encode(guest.SpawnReport{Error: report.Error})
		return
	}
	_ = reports.Encode(guest.SpawnReport{PID: child.pid})
	<-child.over
	for _, output := range child.outputs {
		output.flush()
	}
	if reports.Encode(guest.SpawnReport{Exit: &child.exit}) == nil {
		n.mu.Lock()
		delete(n.byID, request.ID)
		n.mu.Unlock()
	}
	runtime.GC()
}

// take starts the requested command, or finds it and connects it to new outputs.
func (n *nursery) take(request guest.Spawn, outputs []int) (*nursling, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	child := n.byID[request.ID]
	switch {
	case request.Attach && child == nil:
		return nil, core.Errorf(core.KindNotFound, guest.ModeSpawn, request.ID, "there is no command %q", request.ID)
	case request.Attach:
		for i, output := range child.outputs {
			output.redirect(outputs[i])
		}
		return child, nil
	case child != nil:
		return nil, core.Errorf(core.KindConflict, guest.ModeSpawn, request.ID, "there is a command %q already", request.ID)
	}
	child, err := start(request, outputs)
	if err != nil {
		return nil, err
	}
	if n.byPID == nil {
		n.byPID, n.byID = map[int]*nursling{}, map[string]*nursling{}
	}
	n.byPID[child.pid], n.byID[request.ID] = child, child
	return child, nil
}

// ended notes the end of a child. The caller holds mu.
func (n *nursery) ended(pid int, status syscall.WaitStatus) {
	child := n.byPID[pid]
	if child == nil {
		return // an orphan
	}
	delete(n.byPID, pid)
	child.exit = guest.Exit{Code: status.ExitStatus()}
	if status.Signaled() {
		child.exit = guest.Exit{Code: exitSignal + int(status.Signal()), Signal: int(status.Signal())}
	}
	close(child.over)
}

// start runs a command in a new session, with pipes of this process as outputs.
func start(request guest.Spawn, outputs []int) (*nursling, error) {
	if len(request.Argv) == 0 {
		return nil, unix.EINVAL
	}
	file, err := program.Find(request.Argv[0], pathIn(request.Env), request.Dir)
	if err != nil {
		return nil, err
	}
	child := &nursling{over: make(chan struct{})}
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := []uintptr{uintptr(null)}
	defer func() {
		for _, fd := range theirs {
			_ = unix.Close(int(fd))
		}
	}()
	for i, output := range outputs {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			for _, made := range child.outputs[:i] {
				_ = unix.Close(made.from)
			}
			return nil, err
		}
		theirs = append(theirs, uintptr(pipe[1]))
		child.outputs[i] = newRelay(pipe[0], output)
	}
	child.pid, err = syscall.ForkExec(file, request.Argv, &syscall.ProcAttr{
		Dir: request.Dir, Env: request.Env, Files: theirs,
		Sys: &syscall.SysProcAttr{
			Setsid: true, Credential: &syscall.Credential{Uid: request.UID, Gid: request.GID, Groups: request.Groups},
		},
	})
	if err != nil {
		for _, output := range child.outputs {
			_ = unix.Close(output.from)
		}
		return nil, err
	}
	for _, output := range child.outputs {
		go output.run()
	}
	return child, nil
}

func pathIn(env []string) string {
	for _, entry := range env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			return path
		}
	}
	return program.DefaultPath
}

// receiveSpawn reads a request and the two descriptors that come with it. It accepts requests of root only: other users
// would get root's rights.
func receiveSpawn(conn *net.UnixConn) (request guest.Spawn, outputs []int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return request, nil, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return request, nil, errors.Join(err, credErr)
	}
	if cred.Uid != 0 {
		return request, nil, unix.EPERM
	}
	var text []byte
	buffer, control := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(2*4))
	for !bytes.HasSuffix(text, []byte("\n")) && len(text) <= guest.MaxSpawn {
		read, oob, _, _, err := conn.ReadMsgUnix(buffer, control)
		if err != nil || read == 0 && oob == 0 {
			return request, outputs, errors.Join(err, unix.EPIPE)
		}
		text = append(text, buffer[:read]...)
		outputs = append(outputs, rightsIn(control[:oob])...)
	}
	if len(outputs) != 2 {
		return request, outputs, unix.EBADF
	}
	return request, outputs, json.Unmarshal(text, &request)
}

// rightsIn returns the descriptors in a control message.
func rightsIn(control []byte) []int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	var all []int
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			all = append(all, fds...)
		}
	}
	for _, fd := range all {
		unix.CloseOnExec(fd)
	}
	return all
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
