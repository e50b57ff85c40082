package programtest

import "os"

// LongVariable is the environment variable that turns long tests on. CI turns them on, too.
const LongVariable = "SB_TEST_LONG"

// Skipper is a *testing.T.
type Skipper interface {
	Helper()
	Skip(args ...any)
}

// Long skips a test that takes five seconds or more, unless LongVariable or CI is set.
func Long(t Skipper) {
	t.Helper()
	if os.Getenv(LongVariable) == "" && os.Getenv("CI") == "" {
		t.Skip("it takes long: set " + LongVariable + "=1 to run it")
	}
}
