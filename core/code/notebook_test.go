package code

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestNotebookIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "[]", "{}", `{"nbformat": 3, "cells": []}`, `{"nbformat": 4}`, `{"nbformat": 4, "cells": [1]}`, `{"nbformat": 4,`,
	} {
		if _, err := ReadNotebook("x.ipynb", []byte(text)); !errors.Is(err, core.KindUsage) {
			t.Errorf("%s: %v", text, err)
		}
	}
	n, err := ReadNotebook("x.ipynb", []byte(`{"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "R"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Language(); !errors.Is(err, core.KindUsage) {
		t.Errorf("a language without sessions: %v", err)
	}
}

func TestOutputsAreBounded(t *testing.T) {
	var o outputs
	line := strings.Repeat("x", 1<<20) + "\n"
	for range 2 * maxOutputs >> 20 {
		o.add(Event{Type: EventStdout, Text: line})
	}
	all := o.all()
	last, _ := all[len(all)-1].(map[string]any)
	if len(all) != 2 || o.size < maxOutputs || !strings.Contains(joined(last["text"]), "dropped") {
		t.Errorf("%d outputs, the last one is %v", len(all), last)
	}
}

func FuzzNotebook(f *testing.F) {
	f.Add([]byte(`{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["a\n", 1]}], "metadata": 1}`))
	f.Add([]byte(`{"nbformat": 4, "cells": [{"cell_type": "code"}, {"cell_type": 1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := ReadNotebook("x", text)
		if err != nil {
			return
		}
		_, _ = n.Language()
		for _, cell := range n.cells {
			_ = joined(cell["source"])
		}
		written, err := n.Text()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ReadNotebook("x", written); err != nil || again.Cells() != n.Cells() {
			t.Errorf("what was written is not read: %v", err)
		}
	})
}
