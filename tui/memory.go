package tui

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/seed-0724f904/sb/internal/atomicfile"
)

// Memory is the layout that the dashboard restores at its next start.
type Memory struct {
	Split    string `json:"split,omitempty"`
	Ratio    int    `json:"ratio,omitempty"`
	Tab      string `json:"tab,omitempty"`
	Sort     string `json:"sort,omitempty"`
	Reverse  bool   `json:"reverse,omitempty"`
	Filter   string `json:"filter,omitempty"`
	Group    string `json:"group,omitempty"`
	HideDead bool   `json:"hide_dead,omitempty"`
	NoWrap   bool   `json:"no_wrap,omitempty"`
	Times    bool   `json:"times,omitempty"`
}

// loadMemory reads a file of save. A missing or damaged file gives the default layout instead of an error.
func loadMemory(path string) Memory {
	var m Memory
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &m) != nil {
		return Memory{}
	}
	return m
}

// save replaces the file atomically. With an empty path it does nothing.
func (m Memory) save(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, append(text, '\n'), 0o600)
}
