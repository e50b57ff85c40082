// Package packages installs packages in running sandboxes, with the package manager that a sandbox has.
//
// It imports core only. An installation is a command of the sandbox, so it outlives its client, and the journal has its
// output. Start with Install.Command; install.sh is the program inside.
package packages
