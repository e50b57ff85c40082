package core

import "os"

// Own duplicates the files among the streams, so that the caller may close its files after the command has started. The
// caller keeps files that cannot be duplicated. release closes the duplicates.
func (s Streams) Own() (own Streams, release func()) {
	var taken []*os.File
	take := func(stream any) (*os.File, bool) {
		f, ok := stream.(*os.File)
		if !ok || f == nil {
			return nil, false
		}
		again, err := duplicate(f)
		if err != nil {
			return nil, false
		}
		taken = append(taken, again)
		return again, true
	}
	if f, ok := take(s.Stdin); ok {
		s.Stdin = f
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
