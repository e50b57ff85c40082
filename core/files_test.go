package core

import (
	"io/fs"
	"testing"
)

func TestModeText(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o644:                                    "-rw-r--r--",
		fs.ModeDir | 0o755:                       "drwxr-xr-x",
		fs.ModeSymlink | 0o777:                   "lrwxrwxrwx",
		fs.ModeDir | fs.ModeSticky | 0o777:       "drwxrwxrwt",
		fs.ModeSetuid | 0o755:                    "-rwsr-xr-x",
		fs.ModeSetgid | 0o744:                    "-rwxr-Sr--",
		fs.ModeNamedPipe | 0o600:                 "prw-------",
		fs.ModeSocket | 0o600:                    "srw-------",
		fs.ModeDevice | 0o660:                    "brw-rw----",
		fs.ModeDevice | fs.ModeCharDevice | 0o66: "c---rw-rw-",
	} {
		if got := ModeText(mode); got != want {
			t.Errorf("%v: %s, want %s", mode, got, want)
		}
	}
}
