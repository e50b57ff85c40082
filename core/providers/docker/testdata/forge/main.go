//go:build linux

// Program forge runs as root inside a container and takes over sb-guest there. It stops each new process of the box
// between two steps: the process has become a file operation, but is still traceable. Then it answers in its place. The
// last element of the operation's path names the forged answer; other operations are left alone.
//
// It prints "ready", and for each operation the forged answer, or "missed".
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/guest"
)

// planted is the content of every forged file.
const planted = "planted\n"

// descriptions are forged answers to stat.
var descriptions = map[string]guest.Entry{
	"stat-parent":   {Path: []byte("../../.bashrc"), Mode: 0o644},
	"stat-other":    {Path: []byte("/etc/passwd"), Mode: 0o644},
	"stat-negative": {Path: []byte("/data/stat-negative"), Mode: 0o644, Size: -1},
	"stat-link":     {Path: []byte("/data/stat-link"), Mode: 0o644, Link: []byte("../../.bashrc")},
}

// archives are forged answers to export.
var archives = map[string][]tar.Header{
	"export-parent":   {{Name: "export-parent/../../.bashrc", Typeflag: tar.TypeReg}},
	"export-absolute": {{Name: "/tmp/.bashrc", Typeflag: tar.TypeReg}},
	"export-link": {
		{Name: "export-link/up", Typeflag: tar.TypeSymlink, Linkname: "../.."},
		{Name: "export-link/up/.bashrc", Typeflag: tar.TypeReg},
	},
	"export-hard": {
		{Name: "export-hard/up", Typeflag: tar.TypeLink, Linkname: "export-hard/../../.bashrc"},
	},
}

func main() {
	first, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	seen := map[int]bool{}
	fmt.Println("ready")
	for {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		there := map[int]bool{}
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil {
				continue
			}
			there[pid] = true
			if pid > 1 && pid != os.Getpid() && !seen[pid] && len(seen) > 0 {
				attack(pid, first)
			}
		}
		seen = there
	}
}

// attack lets a process run in small steps until it is a file operation, and answers in its place.
func attack(pid int, box []byte) {
	for {
		if unix.Kill(pid, unix.SIGSTOP) != nil {
			return
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		switch {
		case err != nil:
			return
		case len(args) == 3 && args[0] == guest.Program && args[1] == guest.ModeFiles:
			if request, err := guest.ParseRequest(args[2]); err == nil {
				fmt.Println(answer(pid, request))
			}
			_ = unix.Kill(pid, unix.SIGCONT)
			return
		case len(text) > 0 && !bytes.Equal(text, box):
			_ = unix.Kill(pid, unix.SIGCONT)
			return
		}
		_ = unix.Kill(pid, unix.SIGCONT) // it has not executed sb-guest yet
	}
}

// answer writes a forged answer to the descriptors of a process, and returns the name of the answer.
func answer(pid int, request guest.Request) string {
	name := path.Base(string(request.Path))
	description, isStat := descriptions[name]
	headers, isExport := archives[name]
	switch {
	case request.Op == guest.OpStat && isStat:
		line, err := json.Marshal(description)
		if err != nil || !write(pid, 1, line) || !write(pid, 2, []byte("{}")) {
			return "missed"
		}
		_ = unix.Kill(pid, unix.SIGKILL) // it has answered
	case request.Op == guest.OpExport && isExport:
		if !write(pid, 1, pack(headers)) { // the helper's own output follows the end of the archive
			return "missed"
		}
	default:
		return "left " + string(request.Op)
	}
	return "forged " + name
}

// write writes to a descriptor of a process. Only a traceable process allows that.
func write(pid, fd int, data []byte) bool {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	_, err = f.Write(data)
	return f.Close() == nil && err == nil
}

// pack makes an archive of a directory with these entries.
func pack(headers []tar.Header) []byte {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	dir, _, _ := strings.Cut(strings.TrimPrefix(headers[0].Name, "/"), "/")
	for _, header := range append([]tar.Header{{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}}, headers...) {
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(planted))
		}
		err := w.WriteHeader(&header)
		if err == nil && header.Typeflag == tar.TypeReg {
			_, err = w.Write([]byte(planted))
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	_ = w.Close()
	return archive.Bytes()
}
