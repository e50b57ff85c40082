package code

import (
	"embed"
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
)

// Languages returns the languages that have sessions, in the order of their use.
func Languages() []Language { return []Language{Python, JavaScript} }

// ParseLanguage returns the language of a name, or of one of its usual short names.
func ParseLanguage(name string) (Language, error) {
	switch strings.ToLower(name) {
	case "python", "python3", "py":
		return Python, nil
	case "javascript", "js", "node":
		return JavaScript, nil
	}
	e := core.Errorf(core.KindUsage, "code", "", "%q is not a language with sessions", name)
	return "", e.WithHint("use python or javascript")
}

// LanguageOf returns the language of a file's name, or "".
func LanguageOf(file string) Language {
	for extension, language := range map[string]Language{
		".py": Python, ".js": JavaScript, ".cjs": JavaScript, ".mjs": JavaScript,
	} {
		if strings.HasSuffix(file, extension) {
			return language
		}
	}
	return ""
}

// Interpreter returns the program that runs the language.
func (l Language) Interpreter() string {
	if l == JavaScript {
		return "node"
	}
	return "python3"
}

func (l Language) extension() string {
	if l == JavaScript {
		return ".js"
	}
	return ".py"
}

// source returns the text of a program of driver.
func (l Language) source(name string) string {
	text, err := driver.ReadFile("driver/" + name + l.extension())
	if err != nil {
		panic(err) // the program is built with it
	}
	return string(text)
}

// command returns the command of a bridge, which reads its source from stdin first.
func (l Language) command(size int, args ...string) []string {
	if l == JavaScript {
		const boot = `const f=require('fs'),b=Buffer.alloc(%d);let n=0;` +
			`while(n<b.length)try{n+=f.readSync(0,b,n,b.length-n)||process.exit(0)}catch(e){if(e.code!=='EAGAIN')throw e}` +
			`(0,eval)('(require)=>{'+b+'\n}')(require)`
		return slices.Concat([]string{"node", "-e", fmt.Sprintf(boot, size), "--"}, args)
	}
	// Without site packages the bridge starts faster. The session has them.
	const boot = "import os,sys;s=b''\nwhile len(s)<%d:s+=os.read(0,%d-len(s))or sys.exit()\nexec(s)"
	return slices.Concat([]string{"python3", "-ISc", fmt.Sprintf(boot, size, size)}, args)
}

// serve returns the command of a session, whose program the bridge has left in a file.
func (l Language) serve(key string, idle int) []string {
	if l == JavaScript {
		const boot = `(0,eval)('(require)=>{'+require('fs').readFileSync(` +
			`'/tmp/.sb-code-'+process.getuid()+'/'+process.argv[1]+'.src','utf8')+'\n}')(require)`
		return []string{"node", "-e", boot, "--", key, strconv.Itoa(idle)}
	}
	const boot = "import os,sys\n" +
		"with open('/tmp/.sb-code-%d/%s.src'%(os.getuid(),sys.argv[1])) as f:s=f.read()\n" +
		"exec(compile(s,'<session>','exec'))"
	return []string{"python3", "-u", "-c", boot, key, strconv.Itoa(idle)}
}

// Image returns the usual image of the language.
func (l Language) Image() string {
	if l == JavaScript {
		return "node:22-slim"
	}
	return "python:3.13-slim"
}

// splitKey is the reverse of key. The name is foreign text: it is checked as a user's would be.
func splitKey(text string) (Language, string, bool) {
	language, name, found := strings.Cut(text, ".")
	known := slices.Contains(Languages(), Language(language)) && core.ValidateName("session", name) == nil
	return Language(language), name, found && known
}
