package commands

import "github.com/seed-0724f904/sb/core"

// bytesValue, durationValue, timeoutValue and gpuValue make flags of core's quantities.
type (
	bytesValue    core.Bytes
	durationValue core.Duration
	timeoutValue  core.Duration // of core.ParseTimeout
	gpuValue      struct{ gpu core.GPU }
)

func (v *bytesValue) Set(s string) error {
	parsed, err := core.ParseBytes(s)
	*v = bytesValue(parsed)
	return err
}

func (v *bytesValue) String() string {
	if *v == 0 {
		return ""
	}
	return core.Bytes(*v).String()
}
func (*bytesValue) Type() string { return "SIZE" }

func (v *durationValue) Set(s string) error {
	parsed, err := core.ParseDuration(s)
	*v = durationValue(parsed)
	return err
}

func (v *durationValue) String() string {
	if *v == 0 {
		return ""
	}
	return core.Duration(*v).String()
}
func (*durationValue) Type() string { return "DURATION" }

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

func (v *gpuValue) Set(s string) error {
	parsed, err := core.ParseGPU(s)
	v.gpu = parsed
	return err
}
func (v *gpuValue) String() string { return v.gpu.String() }
func (*gpuValue) Type() string     { return "GPU" }
