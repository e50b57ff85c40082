package core

import "time"

// Stream is one of a command's two outputs.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// LogRecord is a piece of output as it was written: any bytes, not always a line.
type LogRecord struct {
	Time   time.Time `json:"time"`
	Stream Stream    `json:"stream"`
	Data   []byte    `json:"data"`
}

// LogOptions selects output.
type LogOptions struct {
	// Exec is a journal id; "" is the entry command.
	Exec string
	// Follow goes on until the command ends or the caller stops.
	Follow bool
	// Tail keeps the last so many lines; negative keeps all.
	Tail int
	// Times wants the times at which it was written, where the provider knows them at a price only: from some it comes with the time at which it
	// was read.
	Times bool
	// Since and Until bound the records' time; zero means unbounded.
	Since, Until time.Time
	// Notice, if there is one, is called with a sentence for the reader when the end of the output so far is not certain.
	// It is called by the goroutine that reads.
	Notice func(text string)
}
