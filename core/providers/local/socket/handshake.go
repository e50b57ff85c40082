//go:build linux

package socket

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// The client begins with one message of helloSize bytes: the magic, the protocol's version and the number of
// descriptors. The message carries its descriptors. The supervisor answers with its version, or with 0 if it refuses
// the client.
const (
	magic            = "sb\x00\x01"
	helloSize        = len(magic) + 4
	maxFiles         = 4
	handshakeTimeout = 5 * time.Second
)

// hello returns a client's first message.
func hello(files int) []byte {
	b := append(make([]byte, 0, helloSize), magic...)
	b = binary.BigEndian.AppendUint16(b, wire.Version)
	return binary.BigEndian.AppendUint16(b, uint16(files)) //nolint:gosec // at most maxFiles
}

// parseHello reads a client's first message.
func parseHello(b []byte) (version, files int, err error) {
	if len(b) != helloSize || !bytes.HasPrefix(b, []byte(magic)) {
		return 0, 0, errors.New("the client does not speak this protocol")
	}
	b = b[len(magic):]
	version, files = int(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:]))
	if files > maxFiles {
		return version, 0, fmt.Errorf("the client announced %d descriptors", files)
	}
	return version, files, nil
}

// Files are the descriptors of a connection. The end of the connection closes those that were not taken.
type Files struct {
	mu    sync.Mutex
	files []*os.File
}

// Take returns the first n descriptors; the caller closes them.
func (f *Files) Take(n int) ([]*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > len(f.files) {
		return nil, core.Errorf(core.KindInternal, "wire", "", "received %d descriptors, expected %d", len(f.files), n)
	}
	taken := f.files[:n:n]
	f.files = f.files[n:]
	return taken, nil
}

func (f *Files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		_ = file.Close()
	}
	f.files = nil
}

// authInfo carries a connection's descriptors to its calls.
type authInfo struct{ files *Files }

func (authInfo) AuthType() string { return "unix" }

func filesOf(ctx context.Context) *Files {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(authInfo); ok {
			return info.files
		}
	}
	return &Files{}
}

// handshake implements credentials.TransportCredentials for both sides.
type handshake struct {
	files  []*os.File
	failed *failure // the client's
}

func (h handshake) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}
func (h handshake) Clone() credentials.TransportCredentials { return h }
func (h handshake) OverrideServerName(string) error         { return nil }

// ClientHandshake sends the client's descriptors.
func (h handshake) ClientHandshake(
	ctx context.Context, _ string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.greet(ctx, conn)
	if err != nil {
		h.failed.set(err)
	}
	return conn, info, err
}

func (h handshake) greet(ctx context.Context, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("not a unix socket")
	}
	deadline, ok := ctx.Deadline()
	if limit := time.Now().Add(handshakeTimeout); !ok || deadline.After(limit) {
		deadline = limit
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, nil, err
	}
	if err := sendHello(unixConn, h.files, nil); err != nil {
		return nil, nil, err
	}
	var answer [2]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, nil, err
	}
	switch version := binary.BigEndian.Uint16(answer[:]); version {
	case 0:
		return nil, nil, core.Errorf(core.KindUnauthorized, "connect", "", "the sandbox's supervisor belongs to another user")
	default:
		if err := wire.CheckVersion(wire.Version, int(version)); err != nil {
			return nil, nil, err
		}
	}
	return conn, authInfo{}, conn.SetDeadline(time.Time{})
}

// sendHello sends the first message with fds and the descriptors of files. A canceled call may close its files
// concurrently, so sendHello holds each file until the message is sent.
func sendHello(conn *net.UnixConn, files []*os.File, fds []int) error {
	if len(files) == 0 {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		_, _, err := conn.WriteMsgUnix(hello(len(fds)), rights, nil)
		return err
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = sendHello(conn, files[1:], append(fds, int(fd))) }); err != nil {
		return err
	}
	return sent
}

// ServerHandshake checks the client and receives its descriptors.
func (h handshake) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("not a unix socket")
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, nil, err
	}
	files, err := receive(unixConn)
	if err != nil {
		return nil, nil, err
	}
	refuse := func(version uint16, err error) (net.Conn, credentials.AuthInfo, error) {
		files.close()
		_, _ = conn.Write(binary.BigEndian.AppendUint16(nil, version))
		return nil, nil, err
	}
	if same, err := sameUser(unixConn); err != nil || !same {
		return refuse(0, errors.Join(err, errors.New("the client is another user")))
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint16(nil, wire.Version)); err != nil {
		return refuse(wire.Version, err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		files.close()
		return nil, nil, err
	}
	return &serverConn{Conn: conn, files: files}, authInfo{files}, nil
}

// receive reads a client's first message.
func receive(conn *net.UnixConn) (*Files, error) {
	message := make([]byte, helloSize)
	control := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(message, control)
	if err != nil {
		return nil, err
	}
	files := &Files{}
	messages, err := unix.ParseSocketControlMessage(control[:oobn])
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // other ancillary data
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			// Only this side uses the descriptions. Nonblocking descriptors make it possible to cancel reads and
			// writes.
			if err := unix.SetNonblock(fd, true); err != nil {
				_ = unix.Close(fd)
				continue // the count below shows the loss
			}
			files.files = append(files.files, os.NewFile(uintptr(fd), "client"))
		}
	}
	version, announced, err := parseHello(message[:n])
	switch {
	case err != nil:
	case version != wire.Version:
		// The answer has the version.
	case announced != len(files.files) || flags&unix.MSG_CTRUNC != 0:
		err = fmt.Errorf("%d descriptors were announced, %d came", announced, len(files.files))
	}
	if err != nil {
		files.close()
		return nil, err
	}
	return files, nil
}

func sameUser(conn *net.UnixConn) (bool, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return false, err
	}
	if credErr != nil {
		return false, credErr
	}
	return int(cred.Uid) == os.Getuid(), nil
}

// serverConn closes the descriptors that were not taken.
type serverConn struct {
	net.Conn
	files *Files
}

func (c *serverConn) Close() error {
	c.files.close()
	return c.Conn.Close()
}
