package cli

import "github.com/seed-0724f904/sb/core"

// BytesValue is a flag of a size.
type BytesValue core.Bytes

// DurationValue is a flag of a duration.
type DurationValue core.Duration

// timeoutValue is a flag that core.ParseTimeout reads.
type timeoutValue core.Duration

// GPUValue is a flag of a GPU type and count. It writes to what it points to.
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
