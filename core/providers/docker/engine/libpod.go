package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"github.com/seed-0724f904/sb/core"
)

// libpod makes a request to Podman's own API. The caller closes the answer's body.
func (e *Engine) libpod(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://podman/v4.0.0/libpod/"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return e.Client.Dialer()(ctx) }
	own := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	return own.Do(request)
}

// Initialize prepares a Podman container for its start. Podman also prepares it on attach, but returns no error then,
// and the following start reports the container's own ports as in use.
func (e *Engine) Initialize(ctx context.Context, id string) error {
	response, err := e.libpod(ctx, http.MethodPost, "containers/"+id+"/init")
	if err != nil {
		return err
	}
	if response.StatusCode < http.StatusBadRequest { // 304 if it is prepared already
		return response.Body.Close()
	}
	var answer struct{ Message string }
	if err := errors.Join(json.NewDecoder(response.Body).Decode(&answer), response.Body.Close()); err != nil {
		return err
	}
	kind := core.KindInternal
	switch response.StatusCode {
	case http.StatusNotFound:
		kind = core.KindNotFound
	case http.StatusConflict:
		kind = core.KindConflict
	}
	return core.Errorf(kind, "docker.launch", "", "%s", answer.Message)
}
