package transport

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// The headers of a request that wants fewer tools. The URL has the same as its query: a name in lower case, without the
// prefix, and with underscores.
const (
	headerToolsets = "X-MCP-Toolsets"
	headerTools    = "X-MCP-Tools"
	headerExclude  = "X-MCP-Exclude-Tools"
	headerReadOnly = "X-MCP-Readonly"
	headerPictures = "X-MCP-Pictures"
)

// selectionOf returns what a request wants of the server's tools; nil if it wants all. The header and the query of the
// URL are added up.
func selectionOf(r *http.Request) (*setup.Selection, error) {
	query := r.URL.Query()
	values := func(header string) []string {
		name := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(header), "x-mcp-"), "-", "_")
		var all []string
		for _, list := range append(r.Header.Values(header), query[name]...) {
			for value := range strings.SplitSeq(list, ",") {
				if value = strings.TrimSpace(value); value != "" {
					all = append(all, value)
				}
			}
		}
		return all
	}
	// flag returns the strictest of the values of a header, or unset.
	flag := func(header string, strict, unset bool) (bool, error) {
		result := unset
		for _, value := range values(header) {
			on, err := strconv.ParseBool(value)
			if err != nil {
				return false, core.Errorf(core.KindUsage, "mcp", "", "%s %q: expected true or false", header, value)
			}
			if result != strict {
				result = on
			}
		}
		return result, nil
	}
	readOnly, err := flag(headerReadOnly, true, false)
	if err != nil {
		return nil, err
	}
	pictures, err := flag(headerPictures, false, true)
	if err != nil {
		return nil, err
	}
	wanted := &setup.Selection{
		Toolsets: values(headerToolsets), Tools: values(headerTools), Exclude: values(headerExclude),
		ReadOnly: readOnly, NoPictures: !pictures,
	}
	if len(wanted.Toolsets)+len(wanted.Tools)+len(wanted.Exclude) == 0 && !readOnly && pictures {
		return nil, nil //nolint:nilnil // all is the usual selection
	}
	return wanted, nil
}
