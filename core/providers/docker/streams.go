package docker

import (
	"io"
	"os"

	"github.com/seed-0724f904/sb/core"
)

// own takes files among the streams over from the caller, who may close them once the command has started. The
// returned function closes what was taken.
func own(s core.Streams) (core.Streams, func()) {
	var taken []*os.File
	take := func(stream any) (*os.File, bool) {
		f, ok := stream.(*os.File)
		if !ok || f == nil {
			return nil, false
		}
		again, err := duplicate(f)
		if err != nil {
			return nil, false // the caller's will do
		}
		taken = append(taken, again)
		return again, true
	}
	if f, ok := take(s.Stdin); ok {
		s.Stdin = io.Reader(f)
	}
	if f, ok := take(s.Stdout); ok {
		s.Stdout = f
	}
	if f, ok := take(s.Stderr); ok {
		s.Stderr = f
	}
	return s, func() {
		for _, f := range taken {
			_ = f.Close()
		}
	}
}
