package auth

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// HostCheck refuses requests that a malicious web page makes a browser send: requests for another host name (DNS
// rebinding), and requests from another origin.
type HostCheck struct {
	hosts   []string // without ports
	Origins []string
	// anyIP accepts every IP address as Host. A server on all interfaces has several addresses, and a rebound web page has
	// a name instead.
	anyIP bool
}

// NewHostCheck returns the check for a server that is reached at base and listens at addr.
func NewHostCheck(options setup.HTTP, base string, addr net.Addr) (HostCheck, error) {
	c := HostCheck{hosts: []string{"localhost", "127.0.0.1", "::1"}}
	for _, host := range options.AllowHosts {
		c.hosts = append(c.hosts, strings.ToLower(host))
	}
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return c, core.Errorf(core.KindUsage, "mcp", "", "%q is not a URL", base)
	}
	c.hosts = append(c.hosts, strings.ToLower(u.Hostname()))
	c.Origins = append(c.Origins, strings.ToLower(u.Scheme+"://"+u.Host))
	for _, origin := range options.AllowOrigins {
		c.Origins = append(c.Origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		ip := net.ParseIP(host)
		c.anyIP = ip != nil && ip.IsUnspecified()
		c.hosts = append(c.hosts, host)
	}
	return c, nil
}

func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		hostport = host
	}
	return strings.ToLower(strings.Trim(hostport, "[]"))
}

// Known reports whether host is a name of the server.
func (c HostCheck) Known(host string) bool {
	return slices.Contains(c.hosts, host) || c.anyIP && net.ParseIP(host) != nil
}

// Check refuses a request for another host or from another origin.
func (c HostCheck) Check(r *http.Request) error {
	if host := hostname(r.Host); !c.Known(host) {
		return core.Errorf(core.KindUnauthorized, "mcp", "", "the host %q is not served; add it with --allow-host", host)
	}
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(c.Origins, strings.ToLower(origin)) {
		return nil
	}
	// The server's own pages come from its own host, under any of its names. Other ports of this machine are other
	// origins: sandboxes publish untrusted content there.
	if u, err := url.Parse(origin); err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
		strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return core.Errorf(
		core.KindUnauthorized, "mcp", "", "the origin %q is not allowed; add it with --allow-origin", origin,
	)
}

// CrossOrigin lets a page of another origin, which Check has accepted, read the answer
// (https://fetch.spec.whatwg.org/#http-cors-protocol). preflight reports a CORS preflight request, which the headers
// alone answer.
func CrossOrigin(header http.Header, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", server.HeaderKeySessionID+", WWW-Authenticate, ETag, Location")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	if requested := r.Header.Get("Access-Control-Request-Headers"); requested != "" {
		header.Set("Access-Control-Allow-Headers", requested) // the origin is trusted with any
	}
	header.Set("Access-Control-Max-Age", "600")
	return true
}
