package service

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

const (
	// recordedExecs bounds the commands of a sandbox that recorded returns; it returns the newest. Each costs a call.
	recordedExecs = 200
	// recordedAtOnce is how many of these calls are made at the same time.
	recordedAtOnce = 16
)

// recorded returns the commands of a sandbox from the audit log, oldest first. It is for a provider without a journal.
// The provider reports the exit of each command. Commands that the provider has forgotten are left out.
func (s *base) recorded(ctx context.Context, sb core.Sandbox, finder core.ExecFinder) ([]core.Exec, error) {
	var execs []core.Exec
	for record, err := range (Records{s}).History(ctx, HistoryFilter{Sandbox: sb.ID, Op: "exec"}) {
		if _, damaged := errors.AsType[*AuditDamage](err); damaged {
			continue
		}
		if err != nil {
			return nil, err
		}
		if exec, ok := recordedExec(record); ok && record.Sandbox == sb.ID {
			execs = append(execs, exec)
		}
	}
	execs = execs[max(0, len(execs)-recordedExecs):]
	errs := make([]error, len(execs))
	slots := make(chan struct{}, recordedAtOnce)
	var wg sync.WaitGroup
	for i := range execs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			execs[i].Exit, errs[i] = finder.ExecEnd(ctx, sb.ID, execs[i].ID)
		})
	}
	wg.Wait()
	known := execs[:0]
	for i, exec := range execs {
		switch {
		case errs[i] == nil:
			known = append(known, exec)
		case !errors.Is(errs[i], core.KindNotFound):
			return nil, errs[i]
		}
	}
	return slices.Clip(known), nil
}

// recordedExec reads the record of a started command. Older logs have no ids.
func recordedExec(record AuditRecord) (core.Exec, bool) {
	id, _ := record.Args["exec"].(string)
	words, _ := record.Args["command"].([]any)
	exec := core.Exec{ID: id, Sandbox: record.Sandbox, Actor: record.Actor, Started: record.Time}
	for _, word := range words {
		text, _ := word.(string)
		exec.Command = append(exec.Command, text)
	}
	exec.Workdir, _ = record.Args["workdir"].(string)
	exec.TTY, _ = record.Args["tty"].(bool)
	exec.Detach, _ = record.Args["detach"].(bool)
	return exec, id != ""
}
