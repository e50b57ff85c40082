// Package feed carries what arrives at any time, such as output, to the dashboard at the pace of drawing.
//
// It may import core, core/service, guesttext and the standard library. Start reading at Feed;
// Log reads a command's output.
package feed
