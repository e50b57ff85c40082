package core

import "time"

// Stream is one of a command's two outputs.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// LogRecord is a piece of output as it was written. It can be any bytes, not only whole lines.
type LogRecord struct {
	Time   time.Time `json:"time"`
	Stream Stream    `json:"stream"`
	Data   []byte    `json:"data"`
}

// LogOptions select output.
type LogOptions struct {
	// Exec is a journal id; "" means the entry command.
	Exec string
	// Follow waits for more output until the command ends or the caller stops.
	Follow bool
	// Tail limits the output to this many last lines; negative means no limit.
	Tail int
	// Times requests the write times from a provider where they are expensive. Without it, such a provider's records may
	// have the time of the read.
	Times bool
	// Since and Until bound the records' time; zero means unbounded.
	Since, Until time.Time
	// Notice, if not nil, receives a sentence for the user when the end of the current output is uncertain. The reading
	// goroutine calls it.
	Notice func(text string)
}
