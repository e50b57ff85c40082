package exec

import (
	"context"
	"encoding/base64"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// LogsOptions are the options of logs.
type LogsOptions struct {
	App        *cli.App
	Sandbox    string
	Select     core.LogOptions
	Timestamps bool
	JSON       bool
}

// NewLogs makes "sb logs".
func NewLogs(app *cli.App) *cobra.Command {
	opts := &LogsOptions{App: app}
	var since, until string
	cmd := &cobra.Command{
		Use:   "logs SANDBOX [EXEC]",
		Short: "Show the output of a command",
		Long: "Show the output of a command: stdout on stdout, stderr on stderr. EXEC is an id from \"sb ps\"\n" +
			"(default: the entry command).",
		Example:           "  sb logs dev\n  sb logs -f --tail 20 dev 3\n  sb logs --since 10m --timestamps dev",
		Args:              cli.Between([]string{"SANDBOX"}, "EXEC"),
		ValidArgsFunction: app.CompleteExecs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Sandbox = args[0]; len(args) > 1 {
				opts.Select.Exec = args[1]
			}
			var err error
			if opts.Select.Since, err = cli.ParseTime("--since", since, app.Now()); err != nil {
				return err
			}
			if opts.Select.Until, err = cli.ParseTime("--until", until, app.Now()); err != nil {
				return err
			}
			return runLogs(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&opts.Select.Follow, "follow", "f", false, "follow new output until the command ends")
	flags.IntVar(&opts.Select.Tail, "tail", -1, "show only the last `N` lines")
	flags.Lookup("tail").DefValue = "all"
	flags.StringVar(&since, "since", "", "show output since `TIME`, such as 2026-01-02T15:04:05Z or 10m (ago)")
	flags.StringVar(&until, "until", "", "show output until `TIME`")
	flags.BoolVar(&opts.Timestamps, "timestamps", false, "start each line with its time")
	cli.JSONFlag(cmd, &opts.JSON, "NDJSON of time, stream, data, encoding (utf-8 or base64)")
	return cmd
}

func runLogs(ctx context.Context, opts *LogsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	streams := opts.App.Streams
	opts.Select.Times = opts.Timestamps
	opts.Select.Notice = opts.App.Notice
	stdout := stamper{w: streams.Out, on: opts.Timestamps}
	stderr := stamper{w: streams.Err, on: opts.Timestamps}
	for record, err := range service.Execs.Logs(ctx, opts.Sandbox, opts.Select) {
		if err != nil {
			return err
		}
		switch {
		case opts.JSON:
			err = output.Line(streams.Out, logLine(record))
		case record.Stream == core.Stderr:
			err = stderr.write(record)
		default:
			err = stdout.write(record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type logRecord struct {
	Time     time.Time   `json:"time"`
	Stream   core.Stream `json:"stream"`
	Data     string      `json:"data"`
	Encoding string      `json:"encoding"`
}

func logLine(r core.LogRecord) logRecord {
	line := logRecord{Time: r.Time, Stream: r.Stream, Data: string(r.Data), Encoding: "utf-8"}
	if !utf8.Valid(r.Data) {
		line.Data, line.Encoding = base64.StdEncoding.EncodeToString(r.Data), "base64"
	}
	return line
}

// stamper puts the time before each line, though records are pieces of lines.
type stamper struct {
	w      io.Writer
	on     bool
	inLine bool
}

func (s *stamper) write(r core.LogRecord) error {
	if !s.on {
		_, err := s.w.Write(r.Data)
		return err
	}
	var stamped []byte
	for _, b := range r.Data {
		if !s.inLine {
			stamped = append(r.Time.UTC().AppendFormat(stamped, "2006-01-02T15:04:05.000Z"), ' ')
		}
		stamped = append(stamped, b)
		s.inLine = b != '\n'
	}
	_, err := s.w.Write(stamped)
	return err
}
