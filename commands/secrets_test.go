package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
)

func TestSecrets(t *testing.T) {
	env := map[string]string{"FROM_ENV": "value-env"}
	lookup := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	flags := cli.EnvFlags{
		Secrets:     []string{"FROM_ENV", "FROM_FILE=@" + writeFile(t, "secret", "value-file\n"), "INLINE=value=inline"},
		SecretFiles: []string{writeFile(t, ".env", "# comment\nexport DOT=value-dot\nQUOTED='a b'\n")},
	}
	streams := iostreams.NewTest()
	got, err := flags.ReadSecrets(lookup, streams.Streams)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, s := range got {
		values[s.Name] = s.Value.Reveal()
	}
	for name, want := range map[string]string{
		"FROM_ENV": "value-env", "FROM_FILE": "value-file", "INLINE": "value=inline", "DOT": "value-dot", "QUOTED": "a b",
	} {
		if values[name] != want {
			t.Errorf("secret %s is %q, want %q", name, values[name], want)
		}
	}
	warning := streams.Err.String()
	if !strings.Contains(warning, "INLINE") || strings.Contains(warning, "value=inline") {
		t.Errorf("the warning is to name the secret and not to show it: %q", warning)
	}
	if strings.Contains(warning, "FROM_ENV") || strings.Contains(warning, "FROM_FILE") {
		t.Errorf("a warning about secrets that are not on the command line: %q", warning)
	}
}

// No error about secrets shows a value, however malformed the input is.
func TestSecretErrorsShowNoValue(t *testing.T) {
	const value = "hunter2"
	none := func(string) (string, bool) { return "", false }
	for name, flags := range map[string]cli.EnvFlags{
		"broken dotenv":    {SecretFiles: []string{writeFile(t, ".env", "OK=1\n"+value+" is not a line\n")}},
		"unclosed quote":   {SecretFiles: []string{writeFile(t, ".env", "KEY=\""+value+"\n")}},
		"blank in the key": {Secrets: []string{"my key=" + value}},
		"no key":           {Secrets: []string{"=" + value}},
	} {
		t.Run(name, func(t *testing.T) {
			streams := iostreams.NewTest()
			_, err := flags.ReadSecrets(none, streams.Streams)
			if err == nil {
				t.Fatal("no error")
			}
			shown := fmt.Sprintf("%v %+v %s %s", err, err, core.HintOf(err), streams.Err)
			if strings.Contains(shown, value) {
				t.Errorf("the secret is shown: %s", shown)
			}
		})
	}
}

func TestEnvironmentOrder(t *testing.T) {
	flags := cli.EnvFlags{
		EnvFiles: []string{writeFile(t, "a.env", "A=1\nB=1\nC=1\n"), writeFile(t, "b.env", "B=2\nC=2\n")},
		Env:      []string{"C=3", "D="},
	}
	got, err := flags.Environment(func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	if got["A"] != "1" || got["B"] != "2" || got["C"] != "3" {
		t.Errorf("environment: %v", got)
	}
	if v, ok := got["D"]; !ok || v != "" {
		t.Errorf("D= is to set an empty variable")
	}
}
