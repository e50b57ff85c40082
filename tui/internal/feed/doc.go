// Package feed buffers data that arrives at any time, such as output, and delivers it at the dashboard's drawing rate.
//
// It may import core, core/service, guesttext and the standard library. Start reading at Feed; Log reads a command's
// output.
package feed
