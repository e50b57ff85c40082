//go:build linux

package box

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// backlog is how many calls may wait to be taken.
	backlog = 128
	// handoverTimeout bounds the time that a caller may take to send its descriptors.
	handoverTimeout = 10 * time.Second
	// callFiles is the number of descriptors that a caller sends.
	callFiles = 3
	// callPipe is the capacity of a call's pipes, in bytes.
	callPipe = 1 << 20
)

// listen binds the box's address.
func listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: wire.Socket}), unix.Listen(fd, backlog)); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "calls"), nil
}

// openDoor makes the descriptor through which processes outside connect, if they may take it from this process.
// Connections sent there arrive at the returned file.
func openDoor() (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Dup3(pair[1], wire.DoorFD, unix.O_CLOEXEC), unix.Close(pair[1])); err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]))
	}
	return os.NewFile(uintptr(pair[0]), "door"), nil
}

// admit accepts one call from the door. It ignores a message without a descriptor.
func admit(door *os.File) (*os.File, error) {
	fds, err := receive(door, 1)
	if err != nil || len(fds) == 0 {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), "call"), nil
}

// accept takes one call.
func accept(listener *os.File) (*os.File, error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, failure := -1, error(nil)
	err = raw.Read(func(l uintptr) bool {
		fd, _, failure = unix.Accept4(int(l), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return !errors.Is(failure, unix.EAGAIN)
	})
	if err := errors.Join(err, failure); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "call"), nil
}

// take receives the caller's descriptors 0 to 2, which the receiver closes.
func take(conn *os.File) ([]*os.File, error) {
	_ = conn.SetReadDeadline(time.Now().Add(handoverTimeout))
	fds, err := receive(conn, callFiles)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), fmt.Sprint("caller's ", i)))
	}
	if len(files) != callFiles {
		closeAll(files)
		return nil, fmt.Errorf("received a call with %d descriptors", len(files))
	}
	return files, nil
}

// receive reads a message with at most that many descriptors, which the receiver closes.
func receive(conn *os.File, most int) ([]int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	oob := make([]byte, unix.CmsgSpace(most*4))
	n, failure := 0, error(nil)
	err = raw.Read(func(fd uintptr) bool {
		_, n, _, _, failure = unix.Recvmsg(int(fd), make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(failure, unix.EAGAIN)
	})
	if err := errors.Join(err, failure); err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	for _, fd := range fds {
		// Only a file that does not block can be read with a deadline, or be closed under a reader.
		_ = unix.SetNonblock(fd, true)
	}
	return fds, nil
}

// Call passes this process's descriptors 0 to 2 to the box and waits until the box closes the call.
func Call() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	conn := os.NewFile(uintptr(fd), "call")
	defer func() { _ = conn.Close() }()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: wire.Socket}); err != nil {
		return fmt.Errorf("sb-guest does not answer: %w", err)
	}
	for stream := range 2 {
		// The engine's pipes hold little, and each time one is full or empty three programs take turns. Less room is slower,
		// not wrong.
		_, _ = unix.FcntlInt(uintptr(stream), unix.F_SETPIPE_SZ, callPipe)
	}
	if err := unix.Sendmsg(fd, []byte{0}, unix.UnixRights(0, 1, 2), nil, 0); err != nil {
		return fmt.Errorf("sb-guest cannot be called: %w", err)
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}
