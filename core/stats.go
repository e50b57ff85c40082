package core

import "time"

// Stats is what a sandbox uses at one moment. Limits are 0 where there is none.
type Stats struct {
	Sandbox string    `json:"sandbox"`
	Time    time.Time `json:"time"`
	// CPU is the processor time used since the launch.
	CPU         time.Duration `json:"cpu_ns"`
	CPULimit    float64       `json:"cpu_limit,omitempty"` // cores
	Memory      Bytes         `json:"memory"`
	MemoryLimit Bytes         `json:"memory_limit,omitempty"`
	Processes   int           `json:"processes"`
	Disk        Bytes         `json:"disk"`
	DiskLimit   Bytes         `json:"disk_limit,omitempty"`
	NetReceived Bytes         `json:"net_received"`
	NetSent     Bytes         `json:"net_sent"`
	// Denied is how often the network policy refused a connection or a name, where that is counted.
	Denied int `json:"denied,omitempty"`
	// Frozen says that the sandbox is idle and costs no CPU until the next request.
	Frozen bool `json:"frozen"`
}
