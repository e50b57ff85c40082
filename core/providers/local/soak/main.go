//go:build linux

// Command soak attacks the local provider. Several clients run random operations on shared sandboxes, while soak kills
// random processes: clients, supervisors, sentries and gofers. After each round nothing may be left, "sb ls" must be
// correct, and saved files must be intact. The seed and the round's number determine a round's plan, but not the
// machine's timing.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	code := soakMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the program's flags.
type options struct {
	bin, dir       string
	limit          time.Duration
	kills          int
	seed           uint64
	round, rounds  int
	clients, steps int
	goOn           bool
}

func parse(args []string, errors io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(errors)
	flags.StringVar(&o.bin, "bin", "", "directory of sb, sb-runtime and sb-guest")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "directory for the soak's own directory")
	flags.DurationVar(&o.limit, "for", 0, "start no round after this time; 0 is no limit")
	flags.IntVar(&o.kills, "kills", 0, "start no round after this many kills; 0 is no limit")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "seed of the plans") //nolint:gosec // a seed is public
	flags.IntVar(&o.round, "round", 0, "number of the first round")
	flags.IntVar(&o.rounds, "rounds", 0, "number of rounds; 0 is no limit")
	flags.IntVar(&o.clients, "clients", 3*runtime.NumCPU(), "number of concurrent clients")
	flags.IntVar(&o.steps, "steps", 25, "operations of each client in a round")
	flags.BoolVar(&o.goOn, "go-on", false, "continue after a violation")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.bin == "" || flags.NArg() > 0 {
		flags.Usage()
		return o, fmt.Errorf("-bin is missing, or there are arguments")
	}
	return o, nil
}

// soakMain runs the program and returns its exit code: 1 after a violation.
func soakMain(ctx context.Context, args []string, out, errors io.Writer) int {
	o, err := parse(args, errors)
	if err != nil {
		return 2
	}
	violations, err := soak(ctx, o, out)
	if err != nil {
		_, _ = fmt.Fprintf(errors, "soak: %v\n", err)
		return 1
	}
	if violations > 0 {
		return 1
	}
	return 0
}

// soak runs rounds and returns the number of violations.
func soak(ctx context.Context, o options, out io.Writer) (violations int, err error) {
	w, err := newWorld(o.bin, o.dir)
	if err != nil {
		return 0, err
	}
	defer func() {
		if closed := w.close(); err == nil {
			err = closed
		}
	}()
	if err := w.settle(ctx); err != nil {
		return 0, err
	}
	_, _ = fmt.Fprintf(out, "seed %d, %d clients with %d operations in a round\n", o.seed, o.clients, o.steps)
	t := newTally()
	lastReport := time.Now()
	for number := o.round; !o.over(t, number) && ctx.Err() == nil; number++ {
		r := newRound(w, number, t)
		r.prelude(ctx)
		r.play(ctx, plan(o.seed, number, o.clients, o.steps))
		r.verify(ctx)
		if ctx.Err() != nil {
			break
		}
		t.rounds++
		if len(r.violations) > 0 {
			violations += len(r.violations)
			_, _ = fmt.Fprintf(out,
				"round %d of seed %d:\n%s\n%s\n%s: %d violations, the first: %s\nrepeat it: .ci/soak -seed %d -round %d "+
					"-rounds 1 -clients %d -steps %d\n",
				number, o.seed, strings.Join(r.events, "\n"), r.explanation, t.line(), len(r.violations), r.violations[0], o.seed,
				number, o.clients, o.steps)
			if !o.goOn {
				break
			}
			if err := w.again(ctx); err != nil {
				return violations, err
			}
		}
		if time.Since(lastReport) > 10*time.Second {
			lastReport = time.Now()
			_, _ = fmt.Fprintln(out, t.line())
		}
	}
	if err := t.report(out); err != nil {
		return violations, err
	}
	_, err = fmt.Fprintf(out, "%s, %d violations, seed %d\n", t.line(), violations, o.seed)
	return violations, err
}

// over reports whether a limit is reached before the round number.
func (o options) over(t *tally, number int) bool {
	return o.limit > 0 && time.Since(t.began) >= o.limit || o.kills > 0 && t.kills() >= o.kills || o.rounds > 0 &&
		number >= o.round+o.rounds
}
