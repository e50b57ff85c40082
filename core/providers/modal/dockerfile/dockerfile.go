package dockerfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Instruction is one instruction of a Dockerfile.
type Instruction struct {
	// Line is the number of its first line, from 1.
	Line int
	// Verb is in upper case.
	Verb string
	// Flags are the words with two dashes after the verb.
	Flags []string
	// Args are the words, in a form that depends on the verb. ARG has NAME=VALUE or NAME. ENV and LABEL have name, value
	// and separator in turn. RUN has one text or, if JSON is set, the words of the list.
	Args []string
	JSON bool
	// Documents are the heredocs, in order.
	Documents []Document
	// Text is the instruction in full, on one line without comments, with its heredocs below.
	Text string
}

// Document is a heredoc.
type Document struct {
	Name, Content string
	// Expand reports whether variables in Content are replaced.
	Expand bool
}

// Parse reads a Dockerfile. Lines may end as on Windows. An error names the line.
func Parse(text string) ([]Instruction, error) {
	parsed, err := parser.Parse(strings.NewReader(strings.ReplaceAll(text, "\r\n", "\n")))
	if err != nil {
		if at, ok := errors.AsType[*parser.LocationError](err); ok && len(at.Locations) > 0 && len(at.Locations[0]) > 0 {
			err = fmt.Errorf("line %d: %w", at.Locations[0][0].Start.Line, err)
		}
		return nil, err
	}
	if parsed.EscapeToken != parser.DefaultEscapeToken {
		return nil, errors.New("the directive escape is not supported")
	}
	list := make([]Instruction, 0, len(parsed.AST.Children))
	for _, node := range parsed.AST.Children {
		list = append(list, instruction(node))
	}
	return list, nil
}

func instruction(node *parser.Node) Instruction {
	in := Instruction{
		Line: node.StartLine, Verb: strings.ToUpper(node.Value), Flags: node.Flags, JSON: node.Attributes["json"],
		Text: strings.TrimSpace(node.Original),
	}
	for next := node.Next; next != nil; next = next.Next {
		in.Args = append(in.Args, next.Value)
	}
	for _, doc := range node.Heredocs {
		in.Text += "\n" + doc.Content + doc.Name
		content := doc.Content
		if doc.Chomp {
			content = parser.ChompHeredocContent(content)
		}
		in.Documents = append(in.Documents, Document{Name: doc.Name, Content: content, Expand: doc.Expand})
	}
	return in
}

// Flag returns the value of the first flag --NAME=VALUE.
func (i Instruction) Flag(name string) (value string, there bool) {
	for _, flag := range i.Flags {
		if value, there = strings.CutPrefix(flag, "--"+name+"="); there {
			return value, true
		}
	}
	return "", false
}

// IsDocument reports whether a word of ADD or COPY stands for a heredoc.
func (i Instruction) IsDocument(word string) bool {
	return len(i.Documents) > 0 && strings.HasPrefix(word, "<<")
}

// Variables are the values of $NAME and ${NAME:-default}, by name.
type Variables map[string]string

// Get returns the value of a variable.
func (v Variables) Get(name string) (string, bool) {
	value, there := v[name]
	return value, there
}

// Keys lists the names.
func (v Variables) Keys() []string {
	keys := make([]string, 0, len(v))
	for name := range v {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	return keys
}

// Expand replaces variables in a word and removes its quotes. A variable without a value becomes empty.
func (v Variables) Expand(word string) (string, error) {
	expanded, _, err := shell.NewLex(parser.DefaultEscapeToken).ProcessWord(word, v)
	return expanded, err
}

// ExpandDocument replaces variables in a heredoc, whose quotes stay.
func (v Variables) ExpandDocument(doc Document) (string, error) {
	if !doc.Expand {
		return doc.Content, nil
	}
	lex := shell.NewLex(parser.DefaultEscapeToken)
	lex.RawQuotes, lex.RawEscapes = true, true
	expanded, _, err := lex.ProcessWord(doc.Content, v)
	return expanded, err
}

// Declare adds the variables that ARG or ENV sets. An ARG without a default takes its value from outer.
func (v Variables) Declare(in Instruction, outer Variables) error {
	switch in.Verb {
	case "ARG":
		for _, arg := range in.Args {
			name, value, given := strings.Cut(arg, "=")
			if !given {
				if value, given = outer[name]; !given {
					continue
				}
				v[name] = value
				continue
			}
			expanded, err := v.Expand(value)
			if err != nil {
				return err
			}
			v[name] = expanded
		}
	case "ENV":
		for pair := range slices.Chunk(in.Args, 3) {
			expanded, err := v.Expand(pair[1])
			if err != nil {
				return err
			}
			v[pair[0]] = expanded
		}
	}
	return nil
}
