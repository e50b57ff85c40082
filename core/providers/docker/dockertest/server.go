package dockertest

import (
	"io"
	"net/http"
)

// Environment returns a LookupEnv that has only pairs.
func Environment(pairs map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := pairs[name]
		return value, ok
	}
}

// Imitation answers the first request to an engine.
func Imitation() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Server", "Docker/1.2.3 (linux)")
		_, _ = io.WriteString(w, "OK")
	})
}
