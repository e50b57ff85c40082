package tui

const panickingChild = "SB_TUI_PANICKING_CHILD"

func runPanickingChild() {}
