package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// BytesValue is a flag of a size.
type BytesValue core.Bytes

// DurationValue is a flag of a duration.
type DurationValue core.Duration

// timeoutValue is a flag that core.ParseTimeout reads.
type timeoutValue core.Duration

// GPUValue is a flag of a GPU type and count. Set writes to *GPU.
type GPUValue struct{ GPU *core.GPU }

// Set implements pflag.Value.
func (v *BytesValue) Set(s string) error {
	parsed, err := core.ParseBytes(s)
	*v = BytesValue(parsed)
	return err
}

func (v *BytesValue) String() string {
	if *v == 0 {
		return ""
	}
	return core.Bytes(*v).String()
}

// Type implements pflag.Value.
func (*BytesValue) Type() string { return "SIZE" }

// Set implements pflag.Value.
func (v *DurationValue) Set(s string) error {
	parsed, err := core.ParseDuration(s)
	*v = DurationValue(parsed)
	return err
}

func (v *DurationValue) String() string {
	if *v == 0 {
		return ""
	}
	return core.Duration(*v).String()
}

// Type implements pflag.Value.
func (*DurationValue) Type() string { return "DURATION" }

func (v *timeoutValue) Set(s string) error {
	parsed, err := core.ParseTimeout(s)
	*v = timeoutValue(parsed)
	return err
}

func (v *timeoutValue) String() string {
	if *v == 0 {
		return ""
	}
	return core.Duration(*v).String()
}
func (*timeoutValue) Type() string { return "DURATION" }

// Set implements pflag.Value.
func (v GPUValue) Set(s string) (err error) {
	*v.GPU, err = core.ParseGPU(s)
	return err
}

func (v GPUValue) String() string {
	if v.GPU == nil {
		return ""
	}
	return v.GPU.String()
}

// Type implements pflag.Value.
func (GPUValue) Type() string { return "GPU" }

// JSONFlag adds --json; fields documents the output.
func JSONFlag(cmd *cobra.Command, value *bool, fields string) {
	cmd.Flags().BoolVar(value, "json", false, "print JSON: "+fields)
}

// QuietFlag adds -q; what names its output in the help.
func QuietFlag(cmd *cobra.Command, value *bool, what string) {
	cmd.Flags().BoolVarP(value, "quiet", "q", false, "print only "+what)
}

// ParseTime reads a time or a duration before now; "" is the zero time.
func ParseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	ago, err := core.ParseDuration(text)
	if err != nil {
		return time.Time{}, core.Errorf(core.KindUsage, "parse", text, "%s %s: not a time", flag, text).
			WithHint("write a time such as 2026-01-02T15:04:05Z, or how long ago, such as 10m")
	}
	return now.Add(-time.Duration(ago)), nil
}
