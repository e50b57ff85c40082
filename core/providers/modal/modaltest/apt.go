package modaltest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// aptSettings is the directory of the sources and keys of this machine's apt. Images that are based on this machine's
// programs do not contain it.
const aptSettings = "/etc/apt"

// maxAptSettings is the size limit of one file of aptSettings, in bytes.
const maxAptSettings = 4 << 20

// unpackApt unpacks the settings and adds the missing system accounts. It empties dpkg's statoverride, because dpkg
// fails if that file names other accounts.
const unpackApt = `test -d "$1" && exit
mkdir -p "$1" && tar --extract --no-same-owner --directory="$1" --file=- || exit
add() {
	printf %s "$2" | while IFS= read -r line; do grep -q "^${line%%:*}:" "$1" || printf '%s\n' "$line" >>"$1" || exit; done
}
add /etc/passwd "$2" && add /etc/group "$3" || exit
! test -s /var/lib/dpkg/statoverride || : >/var/lib/dpkg/statoverride`

// giveApt copies this machine's apt settings and system accounts into a build whose steps use apt. giveApt leaves an
// image with settings unchanged. The package database is this machine's, so scripts of packages need the accounts.
func (s *Server) giveApt(ctx context.Context, id string, steps []buildStep) error {
	if !slices.ContainsFunc(steps, func(step buildStep) bool { return strings.Contains(step.command, "apt") }) {
		return nil
	}
	var archive bytes.Buffer
	if err := packAptSettings(&archive, aptSettings); err != nil || archive.Len() == 0 {
		return err
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		return err
	}
	return s.shell(
		ctx, id, &archive, nil, unpackApt, aptSettings, systemAccounts(string(users)), systemAccounts(string(groups)),
	)
}

// firstPerson is the first id of Debian's regular users (login.defs, UID_MIN).
const firstPerson = 1000

// systemAccounts returns the lines of a passwd or group file for system accounts, without passwords, comments and
// members.
func systemAccounts(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 4 {
			continue
		}
		if id, err := strconv.Atoi(fields[2]); err != nil || id >= firstPerson {
			continue
		}
		fields[1] = "x"
		if len(fields) > 4 {
			fields[4] = "" // the comment of a user
		} else {
			fields[3] = "" // the members of a group
		}
		kept.WriteString(strings.Join(fields, ":") + "\n")
	}
	return kept.String()
}

// packAptSettings archives the apt settings that every user of this machine may read, without credentials. If the
// directory does not exist, it writes nothing.
func packAptSettings(to io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	archive := tar.NewWriter(to)
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case strings.HasPrefix(name, "auth.conf"), mode.IsDir() && mode&0o005 != 0o005:
			if mode.IsDir() {
				return fs.SkipDir
			}
			return nil
		case mode.IsDir():
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		case mode&fs.ModeSymlink != 0:
			link, err := root.Readlink(name)
			if err != nil {
				return err
			}
			return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: link})
		case !mode.IsRegular(), mode&0o004 == 0, info.Size() > maxAptSettings:
			return nil
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)),
		}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close())
}
