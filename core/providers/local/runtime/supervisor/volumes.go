//go:build linux

package supervisor

import (
	"bytes"

	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostdir"
)

// volumes returns the directories to mount. In a directory of the user, the launching user's files belong to the
// sandbox's default user. In a volume with a name they belong to root, because sandboxes with other users share it.
func (s *Supervisor) volumes() []engine.Volume {
	var volumes []engine.Volume
	for _, m := range s.launch.Mounts {
		v := engine.Volume{
			Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, CopyOnWrite: m.CopyOnWrite,
			Device: m.Device, Inode: m.Inode,
		}
		if !m.Named {
			v.Owner = s.firstUser()
		}
		volumes = append(volumes, v)
	}
	return volumes
}

// firstUser returns the ids of the default user, before the sandbox runs. A name is looked up in the files of the
// image, or of this machine's view. If it is not there, the result is root.
func (s *Supervisor) firstUser() hostdir.Owner {
	text := s.defaultUser()
	if text == "" {
		return hostdir.Owner{}
	}
	users := command.Users{OnlyUsers: s.launch.Root == nil}
	if s.launch.Root == nil {
		users.List, _ = command.ParsePasswd(bytes.NewReader(engine.HostPasswd()))
	} else {
		users.List, _ = command.ParsePasswd(bytes.NewReader(s.imageFile("/etc/passwd")))
		users.Groups, _ = command.ParseGroup(bytes.NewReader(s.imageFile("/etc/group")))
	}
	found, err := users.Find(text, s.stranger)
	if err != nil {
		return hostdir.Owner{} // each command reports it
	}
	return hostdir.Owner{UID: found.UID, GID: found.GID}
}

// imageFile returns a file of the image, or nil.
func (s *Supervisor) imageFile(name string) []byte {
	text, err := engine.ImageFile(s.launch.Root.Path, name, command.MaxUsers)
	if err != nil {
		s.log.Info("a file of the image was not read", "file", name, "error", err)
	}
	return text
}
