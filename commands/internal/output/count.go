package output

import "strconv"

// Count formats a number with its unit: "1 file", "3 files".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
