package cli

import "github.com/seed-0724f904/sb/core"

// bytesValue, durationValue, timeoutValue and gpuValue make flags of core's quantities.
type (
	BytesValue    core.Bytes
	DurationValue core.Duration
	timeoutValue  core.Duration // of core.ParseTimeout
	GPUValue      struct{ GPU core.GPU }
)

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
func (*BytesValue) Type() string { return "SIZE" }

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

func (v *GPUValue) Set(s string) error {
	parsed, err := core.ParseGPU(s)
	v.GPU = parsed
	return err
}
func (v *GPUValue) String() string { return v.GPU.String() }
func (*GPUValue) Type() string     { return "GPU" }
