package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/seed-0724f904/sb/core"
)

// dialer makes a connection, as net.Dialer.DialContext does.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// errPlain means that a request would have gone over http to a registry for which that is not allowed.
var errPlain = errors.New("http is not allowed")

// connections sends requests to registries. It allows http and unverified certificates only where the configuration
// does, and repeats requests that a registry asks to repeat soon. A request with a partial asks for the rest of a blob.
type connections struct {
	registries    core.Registries
	strict, loose *http.Transport
	// soon bounds the time that a registry may ask to wait.
	soon time.Duration
}

func newConnections(registries core.Registries, wait patience) (*connections, error) {
	standard, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("the registry client has no transport")
	}
	c := &connections{registries: registries, strict: standard.Clone(), soon: wait.stall / 2}
	if wait.dial != nil {
		c.strict.DialContext = wait.dial
	}
	c.loose = c.strict.Clone()
	if c.loose.TLSClientConfig == nil {
		c.loose.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.loose.TLSClientConfig.InsecureSkipVerify = true // for the hosts of images.insecure only
	return c, nil
}

func (c *connections) close() {
	c.strict.CloseIdleConnections()
	c.loose.CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(request *http.Request) (*http.Response, error) {
	through := c.strict
	if c.registries.Trusts(request.URL.Host) {
		through = c.loose
	} else if request.URL.Scheme == "http" && !loopback(request.URL.Hostname()) {
		return nil, fmt.Errorf("%w to %s", errPlain, request.URL.Host)
	}
	before := partialOf(request.Context())
	asked := before.ask(request)
	for attempt := 1; ; attempt++ {
		answer, err := through.RoundTrip(asked)
		if err == nil && before.refused(asked, answer) {
			_ = answer.Body.Close()
			asked = request
			answer, err = through.RoundTrip(asked)
		}
		if err == nil && asked != request {
			before.join(answer)
		}
		if err != nil || answer.StatusCode != http.StatusTooManyRequests || request.Body != nil {
			return answer, err
		}
		wait, ok := retryAfter(answer.Header, time.Now())
		if !ok {
			return answer, nil
		}
		_, _ = io.CopyN(io.Discard, answer.Body, maxManifest)
		_ = answer.Body.Close()
		if wait > c.soon || attempt == attempts {
			host := request.URL.Host
			return nil, core.Errorf(core.KindExhausted, "local.image", "", "%s allows no more pulls for %s", host, wait).
				WithHint("wait, or log in: docker login %s", host)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-request.Context().Done():
			timer.Stop()
			return nil, context.Cause(request.Context())
		}
	}
}

// retryAfter returns the time of the header Retry-After: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3.
func retryAfter(header http.Header, now time.Time) (wait time.Duration, ok bool) {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	return max(at.Sub(now), 0).Round(time.Second), err == nil
}

// loopback reports whether a host is this machine by its name or address.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
