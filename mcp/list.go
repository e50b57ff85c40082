package mcp

import (
	"encoding/json"

	"github.com/seed-0724f904/sb/mcp/setup"
)

// bytesPerToken is the usual size of a token of JSON.
const bytesPerToken = 4

// ListTools is a setup.ListTools.
func ListTools(opts setup.Options) ([]setup.Tool, error) {
	selected, err := toolsFor(opts)
	if err != nil {
		return nil, err
	}
	list := make([]setup.Tool, len(selected))
	for i, tool := range selected {
		definition, err := json.Marshal(tool.Definition())
		if err != nil {
			return nil, err
		}
		list[i] = setup.Tool{
			Name: tool.Name, Title: tool.Title, Toolset: tool.Toolset, ReadOnly: tool.ReadOnly,
			Tokens: len(definition) / bytesPerToken,
		}
	}
	return list, nil
}
