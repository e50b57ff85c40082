package modal

import "testing"

// Incoming output, a slow reader and a reconnection are not silence.
func TestActivityIsNotSilence(t *testing.T) {
	a := &activity{}
	if !a.silent() {
		t.Error("nothing came, and that is no silence")
	}
	a.note(1)
	for range 3 {
		if a.silent() {
			t.Error("somebody is busy, and that is silence")
		}
	}
	a.note(-1)
	if a.silent() {
		t.Error("somebody was busy since it was last asked, and that is silence")
	}
	if !a.silent() {
		t.Error("nothing came any more, and that is no silence")
	}
}
