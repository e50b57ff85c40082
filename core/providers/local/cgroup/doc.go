// Package cgroup limits a sandbox from outside with a control group. The user needs the right to make one: as root, or
// below a delegated group. Both versions of the kernel's interface work: cgroups(7).
//
// It imports golang.org/x/sys only. Start with Find, then Group.
package cgroup
