// Package theme has the colors and styles of the dashboard.
//
// It may import only lipgloss and the standard library. Start reading at Styles; New makes them for a theme.
package theme
