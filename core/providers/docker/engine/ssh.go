package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dialSSH connects to an engine on another machine as the docker command does: over ssh and the docker command there.
// ssh keeps this process's terminal, so that it can ask for a passphrase.
func dialSSH(ctx context.Context, address *url.URL) (net.Conn, error) {
	if address.Hostname() == "" || strings.HasPrefix(address.Hostname(), "-") {
		return nil, errors.New("ssh:// needs a host")
	}
	// -T: no terminal at the other end.
	args := []string{"-T", "-o", "ConnectTimeout=30"}
	if user := address.User.Username(); user != "" {
		args = append(args, "-l", user)
	}
	if port := address.Port(); port != "" {
		args = append(args, "-p", port)
	}
	args = append(args, "--", address.Hostname(), "docker")
	if address.Path != "" && address.Path != "/" {
		// ssh passes the words to a shell.
		args = append(args, "--host", "'unix://"+strings.ReplaceAll(address.Path, "'", `'\''`)+"'")
	}
	args = append(args, "system", "dial-stdio")
	// The connection outlives the request that opened it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "ssh", args...)
	// Plain pipes instead of the command's own: Wait would close those under a reader.
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	err = cmd.Start()
	_ = inR.Close()
	_ = outW.Close()
	_ = errW.Close()
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close(), errR.Close())
	}
	c := &sshConn{cmd: cmd, in: inW, out: outR, complaints: errR, silent: make(chan struct{})}
	go func() {
		defer close(c.silent)
		_, _ = io.Copy(&c.stderr, errR)
	}()
	return c, nil
}

// sshConn is a connection over the streams of a command.
type sshConn struct {
	cmd *exec.Cmd
	in  *os.File
	out *os.File
	// complaints is the command's stderr. stderr has the end of it; silent is closed at its end.
	complaints *os.File
	stderr     Tail
	silent     chan struct{}

	once sync.Once
}

// Read implements net.Conn. At the end of a failed connection, it returns ssh's error.
func (c *sshConn) Read(b []byte) (int, error) {
	n, err := c.out.Read(b)
	if errors.Is(err, io.EOF) {
		err = c.explain("read", err)
	}
	return n, err
}

// Write implements net.Conn. At the end of a failed connection, it returns ssh's error.
func (c *sshConn) Write(b []byte) (int, error) {
	n, err := c.in.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = c.explain("write", err)
	}
	return n, err
}

// lastWords bounds the wait for the end of ssh's stderr. An ssh that shares its connection (ControlPersist) keeps it
// open.
const lastWords = time.Second

// explain returns the command's stderr at the end of the connection, or err.
func (c *sshConn) explain(op string, err error) error {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-c.silent:
	case <-timer.C:
	}
	if why := c.stderr.String(); why != "" {
		return &net.OpError{Op: op, Net: "ssh", Err: errors.New(why)}
	}
	return err
}

// CloseWrite ends the stream to the engine.
func (c *sshConn) CloseWrite() error { return c.in.Close() }

// Close implements net.Conn. It waits for the command.
func (c *sshConn) Close() error {
	c.once.Do(func() {
		_ = c.in.Close()
		_ = c.out.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // its status reports the kill
		_ = c.complaints.Close()
		<-c.silent
	})
	return nil
}

// LocalAddr implements net.Conn.
func (c *sshConn) LocalAddr() net.Addr { return &net.UnixAddr{Name: "ssh", Net: "unix"} }

// RemoteAddr implements net.Conn.
func (c *sshConn) RemoteAddr() net.Addr { return c.LocalAddr() }

// SetDeadline implements net.Conn.
func (c *sshConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *sshConn) SetReadDeadline(t time.Time) error { return c.out.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *sshConn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }
