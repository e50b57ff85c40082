// Picture runs a program on a terminal, presses keys, and writes the screen as an SVG file:
//
//	picture OUT.svg 120x36 STEP... -- COMMAND [ARG...]
//
// A STEP is wait:REGEXP, type:TEXT, press:KEY or pause:DURATION.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/tui/tuitest"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal("picture: ", err)
	}
}

func run(args []string) (err error) {
	dashes := slices.Index(args, "--")
	if dashes < 2 || dashes+1 >= len(args) {
		return errors.New("usage: picture OUT.svg COLSxROWS STEP... -- COMMAND [ARG...]")
	}
	var cols, rows int
	if _, err := fmt.Sscanf(args[1], "%dx%d", &cols, &rows); err != nil {
		return fmt.Errorf("size %s: %w", args[1], err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := args[dashes+1:]
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the caller's command
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=truecolor")
	term, err := tuitest.Start(cmd, cols, rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, term.Close()) }()
	for _, step := range args[2:dashes] {
		if err := perform(ctx, term, step); err != nil {
			return err
		}
	}
	return os.WriteFile(args[0], []byte(term.SVG()), 0o644) //nolint:gosec // a public picture
}

func perform(ctx context.Context, term *tuitest.Terminal, step string) error {
	kind, text, _ := strings.Cut(step, ":")
	switch kind {
	case "wait":
		pattern, err := regexp.Compile("(?m)" + text)
		if err != nil {
			return err
		}
		return term.Wait(ctx, pattern, false)
	case "type":
		return term.Type(text)
	case "press":
		return term.Press(text)
	case "pause":
		pause, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		time.Sleep(pause)
		return nil
	}
	return fmt.Errorf("there is no step %q", step)
}
