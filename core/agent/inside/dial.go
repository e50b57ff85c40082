//go:build linux

package inside

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/port"
)

// runDial connects to a port and carries the connection's bytes.
func runDial(args []string, stdin, stdout, stderr *os.File) int {
	if len(args) != 1 {
		_, _ = io.WriteString(stderr, "usage: sb-guest dial PORT\n")
		return exitUsage
	}
	number, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitUsage
	}
	conn, err := port.Connect(int(number))
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitFailed
	}
	defer func() { _ = conn.Close() }()
	if _, err := stdout.Write([]byte{0}); err != nil {
		return exitFailed
	}
	port.Carry(conn, stdin, ended{stdout})
	return 0
}

// ended is an output whose close signals its end, even if the input is the same socket.
type ended struct{ *os.File }

func (e ended) Close() error {
	_ = unix.Shutdown(int(e.Fd()), unix.SHUT_WR)
	return e.File.Close()
}
