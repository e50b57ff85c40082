package setup

// Tool describes a tool for "sb mcp --list-tools".
type Tool struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Toolset  string `json:"toolset,omitempty"`
	ReadOnly bool   `json:"read_only"`
	// Tokens estimates the cost of the definition in a model's context: a token is about four bytes of JSON.
	Tokens int `json:"tokens"`
}

// ListTools returns the tools that the options select, in display order.
type ListTools func(opts Options) ([]Tool, error)
