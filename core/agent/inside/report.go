//go:build linux

package inside

import (
	"encoding/json"
	"io"

	"github.com/seed-0724f904/sb/core/agent/guest"
)

// send writes the report. It ignores an error, because a missing reader needs no report.
func send(w io.Writer, r guest.Report) {
	_ = json.NewEncoder(w).Encode(r)
}
