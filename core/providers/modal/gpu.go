package modal

import "github.com/seed-0724f904/sb/core"

// gpus returns Modal's GPU types, with the most of each that one sandbox may have.
func gpus() map[string]int {
	return map[string]int{
		"T4": 8, "L4": 8, "A10": 4, "A10G": 4, "A100": 8, "A100-40GB": 8, "A100-80GB": 8, "L40S": 8,
		"H100": 8, "H100!": 8, "H200": 8, "B200": 8, "B200+": 8, "RTX-PRO-6000": 8, "ANY": 1,
	}
}

// checkGPU rejects a GPU type or count that Modal would reject.
func checkGPU(gpu core.GPU) error {
	if gpu.IsZero() {
		return nil
	}
	known := gpus()
	most, there := known[gpu.Type]
	if !there {
		var names []string
		for name := range known {
			names = append(names, name)
		}
		e := core.Errorf(core.KindUsage, "modal.launch", gpu.String(), "Modal has no GPU %q", gpu.Type)
		if near := core.Nearest(gpu.Type, names); near != "" {
			return e.WithHint("did you mean %s? sb provider ls --json lists them", near)
		}
		return e.WithHint("sb provider ls --json lists them")
	}
	if gpu.Count > most {
		return core.Errorf(
			core.KindUsage, "modal.launch", gpu.String(), "one sandbox can have at most %d of %s", most, gpu.Type,
		)
	}
	return nil
}
