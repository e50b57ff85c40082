//go:build linux

package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

// maxMessage bounds a message in bytes. One message describes all commands that a fork resumes, and command lines can
// be long.
const maxMessage = 256 << 20

// NewServer returns a gRPC server for this protocol.
func NewServer() *grpc.Server {
	return grpc.NewServer(grpc.Creds(handshake{}), grpc.ForceServerCodec(codec{}), grpc.MaxRecvMsgSize(maxMessage))
}

// Listen makes the socket of a supervisor, mode 0600, and listens on it.
func Listen(path string) (net.Listener, error) {
	short, release, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer release()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

// shorten returns another path of the socket that fits in a socket address (108 bytes: unix(7)), also if the path of
// its directory is longer. The caller calls release after use.
func shorten(path string) (short string, release func(), err error) {
	const fits = 100
	if len(path) < fits {
		return path, func() {}, nil
	}
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { _ = dir.Close() }, nil
}

// Client is a connection to a supervisor.
type Client struct {
	conn *grpc.ClientConn
	// failure is the reason why connecting failed. gRPC only returns its text.
	failure *failure
}

// failure passes an error to another goroutine.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// why returns the reason if connecting failed, else err.
func (f *failure) why(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && err != nil {
		return f.err
	}
	return err
}

// Dial prepares a connection that carries files. The first call connects. Neither the socket nor its directory may be a
// symbolic link. The files must stay open until the first call has returned.
func Dial(path string, files ...*os.File) (*Client, error) {
	for _, f := range files {
		f.Fd() // makes it blocking, as the sandbox expects
	}
	failed := &failure{}
	conn, err := grpc.NewClient("passthrough:///supervisor",
		grpc.WithTransportCredentials(handshake{files, failed}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := connect(ctx, path)
			if err != nil {
				failed.set(err)
			}
			return conn, err
		}))
	if err != nil {
		return nil, err
	}
	return &Client{conn, failed}, nil
}

// connect connects to a socket. It follows no links. The supervisor can write to its sandbox's directory, so a
// compromised one could replace the socket by a link. Commands and files would then reach any other socket of the user.
func connect(ctx context.Context, path string) (net.Conn, error) {
	dir := filepath.Dir(path)
	socket, err := openSocket(filepath.Dir(dir), filepath.Base(dir), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(socket) }()
	// The descriptor refers to this socket even if its path changes. Its path fits in a socket address (unix(7)).
	return (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", socket))
}

// openSocket opens the socket above/dir/name with O_PATH.
func openSocket(above, dir, name string) (int, error) {
	failed := func(err error) (int, error) {
		return -1, &os.PathError{Op: "connect", Path: filepath.Join(above, dir, name), Err: err}
	}
	outer, err := unix.Open(above, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = unix.Close(outer) }()
	inner, err := unix.Openat(outer, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = unix.Close(inner) }()
	socket, err := unix.Openat(inner, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(socket, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return failed(errors.Join(err, unix.Close(socket), unix.ENOTSOCK))
	}
	return socket, nil
}

// Close ends the connection. A started command keeps running.
func (c *Client) Close() error { return c.conn.Close() }

// Exec opens a call for one command.
func (c *Client) Exec(ctx context.Context) (grpc.BidiStreamingClient[Ask, Answer], error) {
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, execMethod)
	if err != nil {
		return nil, c.failure.why(err)
	}
	return &grpc.GenericClientStream[Ask, Answer]{ClientStream: stream}, nil
}

// Control sends one request. The error is an error of the connection. Errors of the supervisor are in the reply.
func (c *Client) Control(ctx context.Context, request *wire.Request) (*wire.Reply, error) {
	var reply wire.Reply
	if err := c.conn.Invoke(ctx, controlMethod, request, &reply); err != nil {
		return nil, c.failure.why(err)
	}
	return &reply, nil
}
