package core

import "time"

// Stats is a measurement of a sandbox. A limit is 0 if there is none.
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
	// Denied counts the connections and names that the network policy refused, where the provider counts them.
	Denied int `json:"denied,omitempty"`
	// Frozen means that the sandbox is idle and uses no CPU until the next request.
	Frozen bool `json:"frozen"`
}
