package docker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// hostServer answers "host" on all addresses of this machine, and returns one that is not a bridge's.
func hostServer(t *testing.T) netip.AddrPort {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		ip := prefix.Addr()
		if err != nil || !ip.Is4() || ip.IsLoopback() || ip.IsLinkLocalUnicast() ||
			strings.HasPrefix(ip.String(), "172.") || strings.HasPrefix(ip.String(), "10.88.") {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "host\n")
		}))
		_ = server.Listener.Close()
		server.Listener = listener
		server.Start()
		t.Cleanup(server.Close)
		return netip.AddrPortFrom(ip, netip.MustParseAddrPort(listener.Addr().String()).Port())
	}
	t.Skip("this machine has no address but its loopback")
	return netip.AddrPort{}
}

// get requests a server's page and returns the last line of the answer, or nc's error.
func get(t *testing.T, p *Provider, id string, to netip.AddrPort) string {
	t.Helper()
	out, _ := sh(
		t, p, id, fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 3 %s %d 2>&1 | tail -n 1`, to.Addr(), to.Port()),
	)
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
		id, neighbor := box(t, p, all).ID, box(t, p, all).ID
		gateway := netip.AddrPortFrom(gatewayOf(t, p, id), host.Port())
		for what, to := range map[string]netip.AddrPort{"the host": host, "the gateway": gateway} {
			if got := get(t, p, id, to); !strings.Contains(got, unreachable) {
				t.Errorf("%s answers %q", what, got)
			}
		}
		open := box(t, p, func(spec *core.Spec) {
			spec.Network = core.Network{Mode: core.NetworkAll, Allow: []string{core.AllowHost}}
		})
		if got := get(t, p, open.ID, host); got != "host\n" {
			t.Errorf("opened: the host answers %q", got)
		}
		if got := get(t, p, open.ID, gateway); got != "host\n" && e.name != "rootless" { // slirp4netns never opens it
			t.Errorf("opened: the gateway answers %q", got)
		}
		for _, metadata := range []string{"169.254.169.254", "169.254.170.2", "169.254.1.1"} {
			if got := get(t, p, id, port80(metadata)); !strings.Contains(got, unreachable) {
				t.Errorf("%s answers %q", metadata, got)
			}
		}
		found, err := e.raw(t).ContainerInspect(t.Context(), containerOf(neighbor), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, network := range found.Container.NetworkSettings.Networks {
			if network.IPAddress.IsValid() {
				if got := get(t, p, id, netip.AddrPortFrom(network.IPAddress, 80)); !strings.Contains(got, unreachable) {
					t.Errorf("the neighbor answers %q", got)
				}
			}
		}
		for _, try := range []string{
			"ip rule del pref 1", "ip rule flush", "ip route add 169.254.0.0/16 dev eth0", "ip addr add 10.1.1.1/24 dev eth0",
		} {
			if out, code := sh(t, p, id, try); code == 0 {
				t.Errorf("%s: %s", try, out)
			}
		}
	})
}

// gatewayOf returns the address through which a sandbox reaches the outside.
func gatewayOf(t *testing.T, p *Provider, id string) netip.Addr {
	t.Helper()
	out, _ := sh(t, p, id, "ip route | sed -n 's/^default via \\([0-9.]*\\) .*/\\1/p'")
	gateway, err := netip.ParseAddr(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return gateway
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
			{[]string{core.AllowHost}, "host\n"},
			{[]string{"0.0.0.0/0"}, unreachable},
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
			Name: core.NewName(), Image: testImage, Network: core.Network{Mode: core.NetworkNone},
			Ports: []core.Port{{Sandbox: 80}},
		}, core.Lease{}, nil)
		wantKind(t, err, core.KindUnsupported)
	})
}

// bridgesAreFiltered reports whether this machine's firewall filters traffic between containers of one network. Docker
// enables that and drops unknown traffic, so the networks of a root Podman on the same machine carry nothing.
func bridgesAreFiltered() bool {
	text, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables")
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

func TestNetworkInternal(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		host := hostServer(t)
		p, raw := e.open(t, nil), e.raw(t)
		app := core.NewName()
		in := func(app string) func(*core.Spec) {
			return func(spec *core.Spec) {
				spec.App, spec.Network.Mode, spec.Persist = app, core.NetworkInternal, true
				spec.Command = []string{"sh", "-c", "mkdir -p /w; echo served > /w/index.html; httpd -f -p 8000 -h /w"}
			}
		}
		one, two, other := box(t, p, in(app)), box(t, p, in(app)), box(t, p, in(app+"-2"))
		address := func(sb core.Sandbox) netip.AddrPort {
			out, _ := sh(t, p, sb.ID, "hostname -i")
			ip, err := netip.ParseAddr(strings.TrimSpace(out))
			if err != nil {
				t.Fatal(err)
			}
			return netip.AddrPortFrom(ip, 8000)
		}
		for _, pair := range [][2]core.Sandbox{{one, two}, {two, one}} {
			if e.name == "podman" && bridgesAreFiltered() {
				if os.Getenv("CI") != "" {
					t.Error("the firewall filters bridges, which .ci/engines has it not do")
				}
				break
			}
			eventually(t, "the neighbor answers", func() bool { return get(t, p, pair[0].ID, address(pair[1])) == "served\n" })
			name, _ := sh(
				t, p, pair[0].ID, fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 3 %s 8000 2>&1 | tail -n 1`, pair[1].Name),
			)
			if named := name == "served\n"; named == p.engine.Podman {
				t.Errorf("by name the neighbor answers %q", name)
			}
		}
		network, err := raw.NetworkInspect(t.Context(), internalName(app, core.Owner{}), client.NetworkInspectOptions{})
		if err != nil || !network.Network.Internal {
			t.Fatalf("the network is %+v, %v", network.Network, err)
		}
		// A packet capture showed that Docker's name server then sends queries from the fenced container, not from its
		// machine.
		found, err := raw.ContainerInspect(t.Context(), containerOf(one.ID), client.ContainerInspectOptions{})
		if err != nil || !slices.Equal(found.Container.HostConfig.DNS, []netip.Addr{netip.MustParseAddr(nowhere)}) {
			t.Errorf("names are asked for at %v, %v", found.Container.HostConfig.DNS, err)
		}
		gateway := address(one).Addr().Prev()
		for gateway.Prev().As4()[3] != 0 {
			gateway = gateway.Prev()
		}
		for what, to := range map[string]netip.AddrPort{
			"the host": host, "the host's side of the network": netip.AddrPortFrom(gateway, 53), "another app": address(other),
			"the outside": port80("198.51.100.1"), "metadata": port80("169.254.169.254"),
		} {
			if got := get(t, p, one.ID, to); !strings.Contains(got, unreachable) {
				t.Errorf("%s (%s) answers %q", what, to, got)
			}
		}
		// A stopped sandbox keeps the network, even when it is the last one.
		if err := p.Stop(t.Context(), one.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		end(t, p, two.ID)
		if unused(t, p, internalName(app, core.Owner{})) {
			t.Error("the network of a stopped sandbox is left over")
		}
		if _, err := p.Start(t.Context(), one.ID); err != nil {
			t.Fatal(err)
		}
		if got := get(t, p, one.ID, host); !strings.Contains(got, unreachable) {
			t.Errorf("started again: the host answers %q", got)
		}
		end(t, p, one.ID)
		if _, err := raw.NetworkInspect(
			t.Context(), internalName(app, core.Owner{}), client.NetworkInspectOptions{},
		); !errdefs.IsNotFound(err) {
			t.Errorf("the network without sandboxes is still there: %v", err)
		}
		// A crash leaves a container's network behind.
		if _, err := raw.ContainerRemove(
			t.Context(), containerOf(other.ID), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true},
		); err != nil {
			t.Fatal(err)
		}
		if !unused(t, p, internalName(app+"-2", core.Owner{})) {
			t.Fatal("the network is not left over")
		}
		if err := p.Sweep(t.Context(), core.Leftover{Provider: Name, Subject: internalName(app+
			"-2", core.Owner{})}); err != nil {
			t.Fatal(err)
		}
		if _, err := raw.NetworkInspect(t.Context(), internalName(app+
			"-2", core.Owner{}), client.NetworkInspectOptions{}); !errdefs.IsNotFound(err) {
			t.Errorf("the swept network is still there: %v", err)
		}
	})
}

// TestNetworkInternalConcurrent checks that independent processes of sb create one network.
func TestNetworkInternalConcurrent(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		app, ids := core.NewName(), make(chan string, 4)
		var wg sync.WaitGroup
		for range cap(ids) {
			p := e.open(t, nil)
			spec := core.Spec{
				Name: core.NewName(), App: app, Image: testImage, Network: core.Network{Mode: core.NetworkInternal},
			}
			wg.Go(func() {
				sb, err := p.Launch(t.Context(), spec, lease(spec), nil)
				if err != nil {
					t.Error(err)
				}
				ids <- sb.ID
			})
		}
		wg.Wait()
		close(ids)
		p := e.open(t, nil)
		if err := p.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if found, err := p.engine.networksNamed(t.Context(), internalName(app, core.Owner{})); err != nil || len(found) != 1 {
			t.Errorf("the networks are %+v, %v", found, err)
		}
		for id := range ids {
			end(t, p, id)
		}
		if found, err := p.engine.networksNamed(t.Context(), internalName(app, core.Owner{})); err != nil || len(found) != 0 {
			t.Errorf("left over: %+v, %v", found, err)
		}
	})
}

// TestNetworkInternalForeign checks that sb neither uses nor removes a network of that name that it did not create.
func TestNetworkInternalForeign(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p, raw, app := e.open(t, nil), e.raw(t), core.NewName()
		made, err := raw.NetworkCreate(
			t.Context(), internalName(app, core.Owner{}), client.NetworkCreateOptions{Driver: "bridge", Internal: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Launch(
			t.Context(),
			core.Spec{Name: core.NewName(), App: app, Image: testImage, Network: core.Network{Mode: core.NetworkInternal}},
			core.Lease{}, nil,
		)
		wantKind(t, err, core.KindUnauthorized)
		if err := p.Sweep(t.Context(), core.Leftover{Provider: Name, Subject: internalName(app, core.Owner{})}); err != nil {
			t.Error(err)
		}
		if _, err := raw.NetworkRemove(t.Context(), made.ID, client.NetworkRemoveOptions{}); err != nil {
			t.Errorf("it was not left alone: %v", err)
		}
	})
}

func TestPorts(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, func(spec *core.Spec) {
			spec.Network.Mode, spec.Ports = core.NetworkAll, []core.Port{{Sandbox: 8000}, {Sandbox: 8001}}
			spec.Command = []string{
				"sh", "-c", "mkdir /w; echo served > /w/index.html; httpd -p 8001 -h /w; httpd -f -p 8000 -h /w",
			}
		})
		// Only the answers of published ports reach the gateway, and no process inside can take their place.
		host := hostServer(t)
		gateway := netip.AddrPortFrom(gatewayOf(t, p, sb.ID), host.Port())
		for _, to := range []netip.AddrPort{host, gateway} {
			if got := get(t, p, sb.ID, to); !strings.Contains(got, unreachable) {
				t.Errorf("with ports, %s answers %q", to, got)
			}
			from, _ := sh(t, p, sb.ID, fmt.Sprintf("nc -w 3 -p %d %s %d </dev/null 2>&1", firstOutside, to.Addr(), to.Port()))
			if !strings.Contains(from, "in use") && !strings.Contains(from, unreachable) {
				t.Errorf("from a published port, %s answers %q", to, from)
			}
		}
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
