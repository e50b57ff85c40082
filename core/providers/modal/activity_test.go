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
			t.Error("one stream is busy, and that counts as silence")
		}
	}
	a.note(-1)
	if a.silent() {
		t.Error("one stream was busy since the last question, and that counts as silence")
	}
	if !a.silent() {
		t.Error("nothing arrived, and that does not count as silence")
	}
}
