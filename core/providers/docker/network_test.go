package docker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// hostServer answers "host" on this machine's own address, which containers reach by the way they reach everything.
func hostServer(t *testing.T) netip.AddrPort {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		ip := prefix.Addr()
		if err != nil || !ip.Is4() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || strings.HasPrefix(ip.String(), "172.") || strings.HasPrefix(ip.String(), "10.88.") {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netip.AddrPortFrom(ip, 0).String())
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "host\n") }))
		_ = server.Listener.Close()
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
		return netip.MustParseAddrPort(listener.Addr().String())
	}
	t.Skip("this machine has no address but its loopback")
	return netip.AddrPort{}
}

// get asks a server for its page and returns the last line of what came, or what nc says.
func get(t *testing.T, p *Provider, id string, to netip.AddrPort) string {
	t.Helper()
	out, _ := sh(t, p, id, fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 3 %s %d 2>&1 | tail -n 1`, to.Addr(), to.Port()))
	return out
}

const unreachable = "Network is unreachable"

func port80(address string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), 80)
}

func TestNetworkAll(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		host := hostServer(t)
		p := e.open(t, nil)
		all := func(spec *core.Spec) { spec.Network.Mode = core.NetworkAll }
		id, neighbour := box(t, p, all).ID, box(t, p, all).ID
		if got := get(t, p, id, host); got != "host\n" {
			t.Errorf("the outside answers %q", got)
		}
		for _, metadata := range []string{"169.254.169.254", "169.254.170.2", "169.254.1.1"} {
			if got := get(t, p, id, port80(metadata)); !strings.Contains(got, unreachable) {
				t.Errorf("%s answers %q", metadata, got)
			}
		}
		found, err := e.raw(t).ContainerInspect(t.Context(), containerOf(neighbour), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, network := range found.Container.NetworkSettings.Networks {
			if network.IPAddress.IsValid() {
				if got := get(t, p, id, netip.AddrPortFrom(network.IPAddress, 80)); !strings.Contains(got, unreachable) {
					t.Errorf("the neighbour answers %q", got)
				}
			}
		}
		for _, try := range []string{"ip rule del pref 1", "ip rule flush", "ip route add 169.254.0.0/16 dev eth0", "ip addr add 10.1.1.1/24 dev eth0"} {
			if out, code := sh(t, p, id, try); code == 0 {
				t.Errorf("%s: %s", try, out)
			}
		}
	})
}

func TestNetworkAllow(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		host := hostServer(t)
		p := e.open(t, nil)
		for _, test := range []struct {
			allow []string
			want  string
		}{
			{[]string{host.Addr().String() + "/32"}, "host\n"},
			{[]string{"0.0.0.0/0"}, "host\n"},
			{[]string{"203.0.113.0/24"}, unreachable},
			{nil, unreachable},
		} {
			sb := box(t, p, func(spec *core.Spec) { spec.Network = core.Network{Mode: core.NetworkAllow, Allow: test.allow} })
			if got := get(t, p, sb.ID, host); !strings.Contains(got, test.want) {
				t.Errorf("allowed %v: the host answers %q", test.allow, got)
			}
			if got := get(t, p, sb.ID, port80("169.254.169.254")); !strings.Contains(got, unreachable) {
				t.Errorf("allowed %v: the metadata service answers %q", test.allow, got)
			}
		}
		for _, name := range []string{"pypi.org", "*.pypi.org", "localhost"} {
			_, err := p.Launch(t.Context(), core.Spec{
				Name: core.NewName(), Image: testImage, Network: core.Network{Mode: core.NetworkAllow, Allow: []string{name}},
			}, core.Lease{}, nil)
			wantKind(t, err, core.KindUnsupported)
		}
	})
}

func TestNetworkNone(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, nil)
		if out, _ := sh(t, p, sb.ID, "ls /sys/class/net"); out != "lo\n" {
			t.Errorf("the interfaces are %q", out)
		}
		_, err := p.Launch(t.Context(), core.Spec{
			Name: core.NewName(), Image: testImage, Network: core.Network{Mode: core.NetworkNone}, Ports: []core.Port{{Sandbox: 80}},
		}, core.Lease{}, nil)
		wantKind(t, err, core.KindUnsupported)
	})
}

func TestPorts(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) {
			spec.Network.Mode, spec.Ports = core.NetworkAll, []core.Port{{Sandbox: 8000}, {Sandbox: 8001}}
			spec.Command = []string{"sh", "-c", "mkdir /w; echo served > /w/index.html; httpd -p 8001 -h /w; httpd -f -p 8000 -h /w"}
		})
		if len(sb.Ports) != 2 || sb.Ports[0].Sandbox != 8000 || sb.Ports[1].Sandbox != 8001 {
			t.Fatalf("the ports are %+v", sb.Ports)
		}
		for _, port := range sb.Ports {
			address, err := netip.ParseAddrPort(port.Address)
			if err != nil || !address.Addr().IsLoopback() {
				t.Fatalf("port %d is at %s", port.Sandbox, port.Address)
			}
			answer := ""
			eventually(t, fmt.Sprint("port ", port.Sandbox, " answers"), func() bool {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+port.Address, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				transport := &http.Transport{DisableKeepAlives: true}
				response, err := (&http.Client{Transport: transport}).Do(request)
				if err != nil {
					return false
				}
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				answer = string(text)
				return err == nil
			})
			if answer != "served\n" {
				t.Errorf("port %d answers %q", port.Sandbox, answer)
			}
		}
		all, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range all {
			if other.ID == sb.ID && (len(other.Ports) != 2 || other.Ports[0] != sb.Ports[0]) {
				t.Errorf("the list has ports %+v, not %+v", other.Ports, sb.Ports)
			}
		}
	})
}
