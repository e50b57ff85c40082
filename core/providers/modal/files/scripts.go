package files

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Small POSIX scripts add features that Modal's file tool lacks: names that are not UTF-8, modes, appending and atomic
// writes. Their exit codes distinguish the failures.
const (
	exitFailed       = 19 // stderr has the reason
	exitNotFound     = 20
	exitIsDirectory  = 21
	exitNotDirectory = 22
	exitPermission   = 23
	exitExists       = 24
	exitNotEmpty     = 25
	exitOutside      = 26
	exitNoTar        = 27
	exitMounted      = 28
)

// unescape sets $p to the path in the script's second argument, without escapes.
const unescape = `p=$(printf '%b.' "$2"); p=${p%.}
`

// shellFiles replaces the tool for names that are not UTF-8.
const shellFiles = unescape + `
there() { [ -e "$p" ] || [ -L "$p" ] || exit 20; }
one() {
	s=$(stat -c '%f %s %Y %u %g' "$1") || return 0
	l=; [ -L "$1" ] && { l=$(readlink "$1"; echo .); l=${l%??}; }
	printf '%s\0%s\0%s\0' "$s" "$1" "$l"
}
case $1 in
stat) there; one "$p";;
list)
	there; [ -d "$p" ] || exit 22; [ -r "$p" ] || exit 23
	for f in "${p%/}"/* "${p%/}"/.[!.]* "${p%/}"/..?*; do
		if [ -e "$f" ] || [ -L "$f" ]; then one "$f"; fi
	done;;
read) there; [ -d "$p" ] && exit 21; [ -e "$p" ] || exit 20; [ -r "$p" ] || exit 23; cat <"$p" || exit 19;;
mkdir)
	if [ "$3" = 1 ]; then mkdir -p "$p" || exit 19; exit 0; fi
	[ -e "$p" ] || [ -L "$p" ] && exit 24
	[ -d "${p%/*}/" ] || exit 20
	mkdir "$p" || exit 23;;
remove)
	there
	if [ -L "$p" ] || [ ! -d "$p" ]; then rm -f "$p" || exit 23
	elif [ "$3" = 1 ]; then
		d=$(cd -P "${p%/*}/" && pwd) || exit 23
		d=${d%/}/${p##*/}
		while read -r _ _ _ _ m _; do
			case $m/ in "$d"/*) exit 28;; esac
		done </proc/self/mountinfo
		rm -rf "$p" || exit 23
	else rmdir "$p" || exit 25; fi;;
esac
`

// commitFile moves an uploaded file into place atomically. It follows links and keeps the mode of an existing file.
// Arguments: verb, path, the new file, a name beside the path, mode or "", "p" to make parents, "a"
// to append.
const commitFile = unescape + `
new=$3 beside=$4 mode=$5 how=$6
fail() { rm -f "$new" "$beside"; exit "$1"; }
while [ -L "$p" ]; do
	[ -e "$p" ] || fail 20
	p=$(readlink -f "$p"; echo .); p=${p%??}
done
d=${p%/*}; d=${d:-/}
case $how in *p*) mkdir -p "$d" || fail 22;; esac
[ -d "$d" ] || { [ -e "$d" ] && fail 22; fail 20; }
[ -d "$p" ] && fail 21
if [ -e "$p" ]; then
	[ -f "$p" ] || fail 22
	[ -w "$p" ] || fail 23
	[ -n "$mode" ] || mode=$(stat -c %a "$p") || fail 19
else
	[ -n "$mode" ] || mode=644
fi
case $how in *a*)
	cat "$new" >>"$p" || fail 19
	[ -z "$5" ] || chmod "$5" "$p" || fail 23
	rm -f "$new"; exit 0;;
esac
beside=$d/$beside
mv -f "$new" "$beside" && chmod "$mode" "$beside" && mv -f "$beside" "$p" || { [ -w "$d" ] || fail 23; fail 19; }
`

// scriptArgv returns the command line of a script.
func scriptArgv(script, verb, path string, args ...string) []string {
	return append([]string{"sh", "-c", script, "sh", verb, escapePath(path)}, args...)
}

// escapePath escapes a path for printf's %b, because command lines on Modal are UTF-8 and paths may have any bytes.
func escapePath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; c == '\\' || c >= 0x80 {
			fmt.Fprintf(&b, `\0%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// scriptVerdict is the Verdict for scripts.
func scriptVerdict(op, subject string, exit core.Exit, complaints []byte) error {
	is := func(kind core.Kind, what string) error { return core.Errorf(kind, "modal."+op, subject, "%s", what) }
	switch exit.Code {
	case 0:
		return nil
	case exitNotFound:
		return is(core.KindNotFound, "there is no such file or directory")
	case exitIsDirectory:
		return is(core.KindConflict, "it is a directory")
	case exitNotDirectory:
		return is(core.KindConflict,
			"the path has the wrong type: expected a regular file or a directory")
	case exitPermission:
		return is(core.KindUnauthorized, "permission denied")
	case exitExists:
		return is(core.KindConflict, "it exists")
	case exitNotEmpty:
		return is(core.KindConflict, "the directory is not empty")
	case exitOutside:
		return is(core.KindUsage, "the archive's entry is refused: it points outside")
	case exitNoTar:
		return errNoTar
	case exitMounted:
		return is(core.KindConflict,
			"a file system is mounted there or below, and mounts are not removed")
	case 126, 127:
		return errNoShell
	}
	return core.Errorf(core.KindInternal, "modal."+op, subject, "exit code %d: %s", exit.Code,
		strings.TrimSpace(string(complaints)))
}

// Errors for an image that lacks a program.
var (
	errNoShell = core.Errorf(core.KindUnsupported, "modal.files", "",
		"the image has no shell, which Modal needs for this")
	errNoTar = core.Errorf(core.KindUnsupported, "modal.files", "", "the image has no tar")
)

// script runs a verb of shellFiles.
func (f *Files) script(ctx context.Context, id, op, name, verb string, args ...string) ([]byte, error) {
	return f.programs.Answer(ctx, id, op, name, scriptArgv(shellFiles, verb, name, args...), scriptVerdict)
}

// shellInfos parses the output of the script's stat and list. It has three texts for each file, and each ends with NUL.
func shellInfos(op, name string, text []byte) ([]core.FileInfo, error) {
	damaged := core.Errorf(core.KindInternal, "modal."+op, name, "the sandbox's stat sent an invalid answer")
	fields := bytes.Split(text, []byte{0})
	if len(fields)%3 != 1 {
		return nil, damaged
	}
	infos := []core.FileInfo{}
	for ; len(fields) >= 3; fields = fields[3:] {
		var mode uint32
		var size, modified int64
		info := core.FileInfo{Path: path.Clean(string(fields[1])), Link: string(fields[2])}
		if n, err := fmt.Sscanf(string(fields[0]), "%x %d %d %d %d", &mode, &size, &modified, &info.UID,
			&info.GID); n != 5 || err != nil {
			return nil, damaged
		}
		info.Mode, info.Size, info.ModTime = fileMode(mode), size, time.Unix(modified, 0)
		infos = append(infos, info)
	}
	return infos, nil
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}

// octal returns a mode in the form of chmod(1), or "" for none.
func octal(mode fs.FileMode) string {
	if mode == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(mode.Perm()), 8)
}
