package cli

import "runtime/debug"

// Build is the version of this program. The linker sets it in release builds. Others read the go command's record.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
}

// Complete fills in the fields that the linker did not set.
func (b Build) Complete() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			if b.Commit == "" {
				b.Commit = setting.Value
			}
		case "vcs.time":
			if b.Date == "" {
				b.Date = setting.Value
			}
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
		if modified {
			b.Version = "devel+dirty"
		}
	}
	return b
}
