package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Confirm asks the user on the terminal. Without a terminal it returns an error that names the flag.
func Confirm(app *App, question, flag string) error {
	if !app.Streams.CanPrompt() {
		return core.Errorf(core.KindUsage, "confirm", "", "%s There is no terminal to answer on", question).
			WithHint("add %s to skip the question", flag)
	}
	if _, err := fmt.Fprintf(app.Streams.Err, "%s [y/N] ", question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(app.Streams.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return core.Errorf(core.KindCanceled, "confirm", "", "nothing was done")
}
