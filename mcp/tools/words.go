package tools

import (
	"regexp"
	"slices"
	"strings"
)

// Words rewrites texts that name tools or commands of the shell for the tools that a server serves. It is safe for
// concurrent use.
type Words struct {
	served map[string]string
	names  *regexp.Regexp
}

// NewWords makes words. The keys of served are sb's tools, its values the names under which they are served.
func NewWords(served map[string]string) Words { return Words{served, toolNames()} }

// WordsOf returns the words for tools that have sb's own names.
func WordsOf(tools []Tool) Words {
	served := map[string]string{}
	for _, tool := range tools {
		served[tool.Name] = tool.Name
	}
	return NewWords(served)
}

// Text returns the sentences and clauses of a text that name no missing tool.
func (w Words) Text(text string) string {
	var kept []string
	for sentence := range strings.SplitSeq(text, ". ") {
		end := ""
		if strings.HasSuffix(sentence, ".") {
			end = "."
		}
		if sentence = w.clauses(strings.TrimSuffix(sentence, ".")); sentence != "" {
			kept = append(kept, sentence+end)
		}
	}
	joined := strings.Join(kept, ". ")
	if strings.HasSuffix(text, ".") && joined != "" && !strings.HasSuffix(joined, ".") {
		joined += "."
	}
	return joined
}

func (w Words) clauses(sentence string) string {
	var kept []string
	for clause := range strings.SplitSeq(sentence, "; ") {
		if clause, ok := w.named(clause); ok {
			kept = append(kept, clause)
		}
	}
	return strings.Join(kept, "; ")
}

// named returns a clause with the served names of its tools. It returns false if one of them is not served.
func (w Words) named(clause string) (string, bool) {
	all := true
	clause = w.names.ReplaceAllStringFunc(clause, func(name string) string {
		served, ok := w.served[name]
		all = all && ok
		return served
	})
	return clause, all
}

// toolNames matches the names of sb's tools that are no English words. It makes all tools, which takes milliseconds.
func toolNames() *regexp.Regexp {
	var names []string
	for _, tool := range Catalogue() {
		if strings.Contains(tool.Name, "_") {
			names = append(names, tool.Name)
		}
	}
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
}

// shellCommands are commands of the shell with the number of their arguments, and the tool that does the same.
func shellCommands() []shellCommand {
	return []shellCommand{
		{"checkpoint ls", 0, "checkpoint_list"},
		{"checkpoint rm", 1, "checkpoint_remove"},
		{"volume ls", 0, "volume_list"},
		{"volume rm", 1, "volume_remove"},
		{"secret ls", 0, "secret_list"},
		{"image ls", 0, "image_list"},
		{"image pull", 1, "image_pull"},
		{"ls", 0, "sandbox_list"},
		{"inspect", 1, "sandbox_list"},
		{"terminate", 1, "sandbox_terminate"},
		{"resume", 1, "sandbox_resume"},
		{"start", 1, "sandbox_start"},
		{"stop", 1, "sandbox_stop"},
		{"fs mkdir", 2, "file_mkdir"},
		{"ps", 1, "exec_list"},
		{"logs", 1, "exec_wait"},
		{"cp", 0, "pull"},
		{"pull", 0, "pull"},
		{"push", 0, "push"},
	}
}

type shellCommand struct {
	words     string
	arguments int
	tool      string
}

// shellCommandIn matches a command of the shell in a clause.
func shellCommandIn(clause string) bool {
	return regexp.MustCompile(`(^|[\s(])sb [a-z]`).MatchString(clause)
}

// Hint rewrites the hint of an error, which is for the shell. It names the tool that does what a command does. A clause
// with a tool that is not served is dropped. Other commands are for the user.
func (w Words) Hint(hint string) string {
	var kept []string
	for clause := range strings.SplitSeq(hint, "; ") {
		clause, ok := w.shell(clause)
		if !ok {
			continue
		}
		if clause, ok = w.named(clause); !ok {
			continue
		}
		switch {
		case shellCommandIn(clause):
			clause = "for the user: " + clause
		case !strings.Contains(clause, "server"): // which has flags of its own
			clause = flagNames(clause)
		}
		kept = append(kept, clause)
	}
	return strings.Join(kept, "; ")
}

// flagNames replaces the flags of a launch by the names of arguments: "--keep-stdin" by "keep_stdin".
func flagNames(clause string) string {
	return regexp.MustCompile(`(^| )--[a-z][a-z-]*`).ReplaceAllStringFunc(clause, func(flag string) string {
		before, name, _ := strings.Cut(flag, "--")
		return before + strings.ReplaceAll(name, "-", "_")
	})
}

// shell replaces the commands of the shell for which there are tools. It returns false if one is not served.
func (w Words) shell(clause string) (string, bool) {
	if !shellCommandIn(clause) {
		return clause, true
	}
	all := true
	for _, command := range shellCommands() {
		pattern := regexp.MustCompile(
			`\bsb ` + command.words + `\b((?: --?[a-z-]+)*)` + strings.Repeat(`(?: [^\s,;]+)?`, command.arguments),
		)
		clause = pattern.ReplaceAllStringFunc(clause, func(found string) string {
			served, ok := w.served[command.tool]
			all = all && ok
			if slices.Contains(strings.Fields(found), "--all") {
				served += " with all: true"
			}
			return served
		})
	}
	return clause, all
}
