//go:build linux

package inside

import (
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// runSpawn passes the request on descriptor 0 to init, with descriptors 1 and 2. It copies init's reports to
// SpawnReportFD until the command's end.
func runSpawn(stdin, stdout, stderr *os.File) int {
	// A user may signal all processes to end the command: its end must still be reported.
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	reports := os.NewFile(guest.SpawnReportFD, "reports")
	fail := func(err error) int {
		var report guest.Report
		report.Fail("", core.Errorf(core.KindInternal, guest.ModeSpawn, "", "the first process does not answer: %w", err))
		send(reports, report) // a SpawnReport with Error alone reads the same
		return exitFailed
	}
	request, err := io.ReadAll(io.LimitReader(stdin, guest.MaxSpawn))
	if err != nil {
		return fail(err)
	}
	conn, err := dialInit()
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close() }()
	err = passOn(conn, request, unix.UnixRights(int(stdout.Fd()), int(stderr.Fd())))
	// Readers of the outputs must see their end when init closes them.
	_ = errors.Join(stdout.Close(), stderr.Close())
	// Init may have refused before it had read all.
	if n, _ := io.Copy(reports, conn); n == 0 && err != nil {
		return fail(err)
	}
	return 0
}

// dialInit connects to init, which may still be starting.
func dialInit() (*net.UnixConn, error) {
	const patience, pause = 10 * time.Second, time.Millisecond
	for began := time.Now(); ; time.Sleep(pause) {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: guest.SpawnSocket, Net: "unix"})
		starting := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED)
		if !starting || time.Since(began) > patience {
			return conn, err
		}
	}
}

// passOn writes all of the request; the rights go with its first bytes.
func passOn(conn *net.UnixConn, request, rights []byte) error {
	n, _, err := conn.WriteMsgUnix(request, rights, nil)
	if err != nil || n == len(request) { // a write of no bytes fails after init has answered and closed
		return err
	}
	_, err = conn.Write(request[n:])
	return err
}
