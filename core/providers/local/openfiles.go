//go:build linux

package local

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// minOpenFiles is the limit of open files that a sandbox needs. Measured with the embedded gVisor: it starts with 512.
// With 256 the sentry ends without a message.
const minOpenFiles = 512

// checkOpenFiles returns an error if the hard limit of open files is too low for a start. The soft limit does not
// count: Go raises it.
func checkOpenFiles(op string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return core.Wrap("local."+op, "", err)
	}
	if limit.Max >= minOpenFiles {
		return nil
	}
	return core.Errorf(core.KindExhausted, "local."+
		op, "", "the limit of open files is %d, and a sandbox needs %d", limit.Max, minOpenFiles).
		WithHint("%s", openFilesHint)
}

// openFilesHint names the command that raises the limit of open files.
const openFilesHint = "raise the limit with ulimit -n 1024, as root if the hard limit is lower; ulimit -Hn shows it"

// outOfFiles reports whether the process or the machine has no descriptor left.
func outOfFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// openFilesError returns an error that names the limit behind EMFILE or ENFILE.
func openFilesError(op string, err error) error {
	if errors.Is(err, unix.ENFILE) {
		return core.Errorf(core.KindExhausted, "local."+op, "", "this machine's limit of open files is reached: %w", err).
			WithHint("close programs, or raise the limit as root with: sysctl fs.file-max=NUMBER")
	}
	var limit unix.Rlimit
	number := "an unknown number"
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		number = strconv.FormatUint(limit.Cur, 10)
	}
	return core.Errorf(core.KindExhausted, "local."+op, "", "the limit of open files (%s) is reached: %w", number, err).
		WithHint("%s", openFilesHint)
}
