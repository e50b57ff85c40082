package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type networkIn struct {
	Sandbox string   `json:"sandbox"`
	Network string   `json:"network" jsonschema:"outgoing connections from now on" enum:"none|all|allow|internal"`
	Allow   []string `json:"network_allow,omitempty" jsonschema:"domains and CIDRs, with network allow"`
}

type networkOut struct {
	Sandbox string   `json:"sandbox"`
	Network string   `json:"network"`
	Allow   []string `json:"network_allow,omitempty"`
}

func (o networkOut) Text() string {
	return strings.TrimSpace(o.Sandbox + ": network " + o.Network + " " + strings.Join(o.Allow, ", "))
}

type denial struct {
	Time     time.Time `json:"time" jsonschema:"of the last refusal"`
	Protocol string    `json:"protocol" jsonschema:"tcp, udp, or dns for a name that was not resolved"`
	Address  string    `json:"address,omitempty"`
	Port     int       `json:"port,omitempty"`
	Name     string    `json:"name,omitempty" jsonschema:"host name, if the sandbox named one"`
	Why      string    `json:"why,omitempty"`
	Count    int       `json:"count"`
}

type denialsOut struct {
	Denied []denial `json:"denied"`
}

func (o denialsOut) Text() string {
	if len(o.Denied) == 0 {
		return "no refused connections"
	}
	var lines []string
	for _, d := range o.Denied {
		lines = append(
			lines,
			strings.Join(
				strings.Fields(fmt.Sprintf("%s %s %s port %d, %d times, the last at %s %s", d.Protocol, d.Name, d.Address, d.Port,
					d.Count, d.Time.UTC().Format(time.RFC3339), d.Why)),
				" ",
			),
		)
	}
	return list(lines)
}

type tokenIn struct {
	Sandbox string `json:"sandbox"`
	Port    int    `json:"port,omitempty" jsonschema:"port inside; default: the provider's"`
	Note    string `json:"note,omitempty" jsonschema:"text that the sandbox receives with each request"`
}

type tokenOut struct {
	URL   string `json:"url"`
	Token string `json:"token" jsonschema:"goes into the header Authorization as: Bearer TOKEN"`
}

func (o tokenOut) Text() string { return o.URL + " with the header Authorization: Bearer " + o.Token }

func networkTools() []Tool {
	return []Tool{
		Define(Tool{
			Name: "ports", Title: "Published ports", Toolset: setup.Network, Extra: true, ReadOnly: true, Idempotent: true,
			Description: "List the published ports of a sandbox with their addresses. Ports are published by " +
				"sandbox_launch.",
		}, ports),
		Define(Tool{
			Name: "connect_token", Title: "Token to connect", Toolset: setup.Network, Extra: true, OpenWorld: true,
			Description: "Create a token for HTTP requests to a port of a sandbox that is not public. Everyone with " +
				"the token can connect.",
		}, connectToken),
		Define(Tool{
			Name: "network_set", Title: "Change the network", Toolset: setup.Network, Extra: true, Destructive: true,
			Idempotent: true,
			Description: "Change the outgoing connections that a running sandbox may make. Open connections that " +
				"are no longer allowed end.",
		}, setNetwork),
		Define(Tool{
			Name: "denied_connections", Title: "Refused connections", Toolset: setup.Network, Extra: true, ReadOnly: true,
			Idempotent:  true,
			Description: "List the connections that a sandbox's network policy refused, the latest first.",
		}, denied),
	}
}

// publishedPort is a port of a sandbox. Clients reach it at Address or URL.
type publishedPort struct {
	Port     int    `json:"port"`
	Protocol string `json:"protocol,omitempty"`
	Address  string `json:"address,omitempty"`
	URL      string `json:"url,omitempty"`
}

// String returns "port 80 at ADDRESS".
func (p publishedPort) String() string {
	kind := "port"
	if p.Protocol != "" && p.Protocol != "tcp" {
		kind = p.Protocol + " port"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %d at %s %s", kind, p.Port, p.Address, p.URL))
}

type portsOut struct {
	Ports []publishedPort `json:"ports" jsonschema:"in the order of the ports"`
}

func (o portsOut) Text() string {
	if len(o.Ports) == 0 {
		return "no ports are published; a launch publishes those in its argument ports"
	}
	var lines []string
	for _, p := range o.Ports {
		lines = append(lines, p.String())
	}
	return list(lines)
}

func ports(ctx context.Context, c *Call, in SandboxIn) (portsOut, error) {
	out := portsOut{Ports: []publishedPort{}}
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return out, err
	}
	if !sb.State.Live() {
		return out, core.Errorf(core.KindConflict, "ports", sb.Name, "the sandbox is not running: it is %s", sb.State)
	}
	tunnels, err := c.Service.Ports.Tunnels(ctx, sb.Ref())
	for _, t := range tunnels {
		out.Ports = append(
			out.Ports, publishedPort{Port: t.Port, Protocol: string(t.Protocol), Address: t.Address, URL: t.URL},
		)
	}
	return out, err
}

func connectToken(ctx context.Context, c *Call, in tokenIn) (tokenOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return tokenOut{}, err
	}
	token, err := c.Service.Ports.ConnectToken(ctx, sb.Ref(), core.ConnectOptions{Port: in.Port, Metadata: in.Note})
	return tokenOut{token.URL, token.Token.Reveal()}, err // the token is for the caller
}

func setNetwork(ctx context.Context, c *Call, in networkIn) (networkOut, error) {
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return networkOut{}, err
	}
	changed, err := c.Service.Policy.SetNetwork(
		ctx, sb.Ref(), core.Network{Mode: core.NetworkMode(in.Network), Allow: in.Allow},
	)
	return networkOut{sb.ID, string(changed.Spec.Network.Mode), changed.Spec.Network.Allow}, err
}

func denied(ctx context.Context, c *Call, in SandboxIn) (denialsOut, error) {
	out := denialsOut{Denied: []denial{}}
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return out, err
	}
	refused, err := c.Service.Policy.Denials(ctx, sb.Ref())
	for _, d := range refused {
		out.Denied = append(out.Denied, denialOf(d))
	}
	return out, err
}

func denialOf(d core.Denial) denial {
	return denial{d.Time, d.Protocol, d.Address, d.Port, d.Name, d.Why, d.Count}
}
