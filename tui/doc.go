// Package tui is the dashboard: a live view of all sandboxes that can do what the commands do.
//
// One Model is the root. It routes messages: to the dialog on top, to the pane that has the
// focus, to the commands of the key map. Panes, tabs and dialogs are plain structs. Nothing in
// Update waits or does I/O: what does is in effects.go and comes back as a message. Dialogs
// answer with a request, which the root carries out. layout.go has all rectangles,
// theme.go all colours, commands.go all that a key or the palette can do.
package tui
