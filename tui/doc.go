// Package tui is the dashboard: a live view of all sandboxes, with the actions of the shell commands.
//
// It may import core, core/service, core/transfer and tui/internal; no provider and no command.
//
// Start reading at model.go: one Model is the root and routes each message to the dialog on top, the focused pane or
// the key map. Panes, tabs and dialogs are plain structs. Update never blocks and does no I/O: effects.go does I/O and
// returns the results as messages. Dialogs answer with a request, which perform.go carries out. commands.go has every
// action of a key or the palette, layout.go all rectangles.
//
// It has more than 30 files because panes, tabs and dialogs show the same Model. Code that needs no Model is in
// separate packages: theme (colors), and in internal screen (cells of text), format (values as text), feed (incoming
// data), guesttext (text of sandboxes) and graph.
package tui
