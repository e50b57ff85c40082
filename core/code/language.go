package code

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

//go:embed driver
var driver embed.FS

// Language is a language that has sessions.
type Language string

// The languages.
const (
	Python     Language = "python"
	JavaScript Language = "javascript"
	Bash       Language = "bash"
)

// Languages returns the languages that have sessions, in the order of their use.
func Languages() []Language { return []Language{Python, JavaScript, Bash} }

// dialect has the differences between languages.
type dialect struct {
	// interpreter runs the programs of driver, whose names end in extension. image is a usual image that has it.
	interpreter, extension, image string
	// names are the user's names of the language; files the endings of its files.
	names, files []string
	// bridge is the beginning of a bridge's command. It has the size of the source, which it reads from stdin, as %d.
	// serve is that of a session, which reads its program from a file.
	bridge, serve []string
	// plain means that a bridge's output is the code's, and that events are marked lines of stderr.
	plain bool
}

// dialects returns the differences, by language.
func dialects() map[Language]dialect {
	return map[Language]dialect{
		Python: {
			interpreter: "python3", extension: ".py", image: "python:3.13-slim",
			names: []string{"python", "python3", "py"}, files: []string{".py"},
			bridge: []string{
				// Without site packages the bridge starts faster. The session has them.
				"python3", "-ISc", "import os,sys;s=b''\nwhile len(s)<%[1]d:s+=os.read(0,%[1]d-len(s))or sys.exit()\nexec(s)",
			},
			serve: []string{
				"python3", "-u", "-c", "import os,sys\nwith open('/tmp/.sb-code-%d/%s.src'%(os.getuid(),sys.argv[1])) as f:" +
					"s=f.read()\nexec(compile(s,'<session>','exec'))",
			},
		},
		JavaScript: {
			interpreter: "node", extension: ".js", image: "node:22-slim",
			names: []string{"javascript", "js", "node"}, files: []string{".js", ".cjs", ".mjs"},
			bridge: []string{
				"node", "-e", "const f=require('fs'),b=Buffer.alloc(%d);let n=0;" +
					"while(n<b.length)try{n+=f.readSync(0,b,n,b.length-n)||process.exit(0)}catch(e){if(e.code!=='EAGAIN')throw e}" +
					"(0,eval)('(require)=>{'+b+'\\n}')(require)", "--",
			},
			serve: []string{
				"node", "-e", "(0,eval)('(require)=>{'+require('fs').readFileSync(" +
					"'/tmp/.sb-code-'+process.getuid()+'/'+process.argv[1]+'.src','utf8')+'\\n}')(require)", "--",
			},
		},
		Bash: {
			interpreter: "bash", extension: ".sh", image: "debian:stable-slim",
			names: []string{"bash", "sh", "shell"}, files: []string{".sh", ".bash"},
			bridge: []string{"bash", "-c", `eval "$(head -c %d)"`, "sb-code"},
			serve:  []string{"bash", "-c", `. "/tmp/.sb-code-$UID/$1.src"`, "sb-code"},
			plain:  true,
		},
	}
}

func (l Language) dialect() dialect { return dialects()[l] }

// ParseLanguage returns the language of a name, or of one of its usual short names.
func ParseLanguage(name string) (Language, error) {
	for _, l := range Languages() {
		if slices.Contains(l.dialect().names, strings.ToLower(name)) {
			return l, nil
		}
	}
	return "", core.Errorf(core.KindUsage, "code", "", "%q is not a language with sessions", name).
		WithHint("use python, javascript or bash")
}

// LanguageOf returns the language of a file's name, or "". It may be one without sessions.
func LanguageOf(file string) Language {
	for _, l := range Languages() {
		if slices.ContainsFunc(l.dialect().files, func(ending string) bool { return strings.HasSuffix(file, ending) }) {
			return l
		}
	}
	l, _ := programLanguage(func(t toolchain) bool {
		return slices.ContainsFunc(t.files, func(ending string) bool { return strings.HasSuffix(file, ending) })
	})
	return l
}

// source returns the text of a program of driver.
func (l Language) source(name string) string {
	text, err := driver.ReadFile("driver/" + name + l.dialect().extension)
	if err != nil {
		panic(err) // the program is built with it
	}
	return string(text)
}

// command returns the command of a bridge.
func (l Language) command(args ...string) []string {
	start := slices.Clone(l.dialect().bridge)
	start[2] = fmt.Sprintf(start[2], len(l.source("bridge")))
	return append(start, args...)
}

// runs reports whether a command, as a journal has it, is a bridge of a run.
func (l Language) runs(command []string) bool {
	start := l.dialect().bridge
	boot, _, _ := strings.Cut(start[2], "%") // the size is that of another version, perhaps
	return len(command) > len(start) && slices.Equal(command[:2], start[:2]) && strings.HasPrefix(command[2], boot) &&
		slices.Equal(command[3:len(start)], start[3:]) && command[len(start)] == "run"
}

// serve returns the command of a session, whose program the bridge has left in a file.
func (l Language) serve(key string, idle int) []string {
	return slices.Concat(l.dialect().serve, []string{key, strconv.Itoa(idle)})
}

// request returns a request to a bridge. field is the JSON name of its content.
func (l Language) request(op, field, content string) []byte {
	if l.dialect().plain {
		return fmt.Appendf(nil, "%s %d\n%s", op, len(content), content)
	}
	line, _ := json.Marshal(map[string]string{"op": op, field: content}) // strings always have JSON
	return append(line, '\n')
}

// splitKey is the reverse of key. The name is foreign text: it is checked as a user's would be.
func splitKey(text string) (Language, string, bool) {
	language, name, found := strings.Cut(text, ".")
	known := slices.Contains(Languages(), Language(language)) && core.ValidateName("session", name) == nil
	return Language(language), name, found && known
}
