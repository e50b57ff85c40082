// Package configs reads settings and spec files. Settings are config.yaml and, above it, SB_* variables; flags stand
// above both and belong to the commands.
//
// It imports core and is the only user of viper. Start with Load for settings and ReadSpec for spec files.
package configs
