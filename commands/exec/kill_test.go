package exec

import "testing"

func TestLinuxSignal(t *testing.T) {
	for name, want := range map[string]int{
		"TERM": 15, "sigkill": 9, "USR1": 10, "15": 15, "WINCH": 28, "SYS": 31, "64": 64,
	} {
		if got, ok := linuxSignal(name); !ok || got != want {
			t.Errorf("linuxSignal(%q) = %d, %v; want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "NOPE", "0", "65", "-9"} {
		if got, ok := linuxSignal(name); ok {
			t.Errorf("linuxSignal(%q) = %d; want none", name, got)
		}
	}
}
