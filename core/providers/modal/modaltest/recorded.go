package modaltest

import (
	"net"
	"net/netip"
	"slices"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
)

// recorded names the settings of a sandbox that have no effect here. The server stores them, and clients can read them.
func recorded(d *pb.Sandbox) []string {
	var fields []string
	add := func(name string, set bool) {
		if set {
			fields = append(fields, name)
		}
	}
	add("gpu", d.GetResources().GetGpuConfig().GetGpuType() != "")
	add("regions", len(d.GetSchedulerPlacement().GetRegions()) > 0)
	add("cloud", d.GetCloudProviderStr() != "")
	add("runtime vm", d.GetRuntime() == "vm")
	add("proxy", d.GetProxyId() != "")
	add("header replacement", len(d.GetExperimentalOutboundPolicy().GetHeaderReplacements()) > 0)
	add("i6pn", d.GetI6PnEnabled())
	add("custom domain", d.GetCustomDomain() != "")
	return fields
}

// admits reports whether an address may connect to a sandbox.
func admits(d *pb.Sandbox, from string) bool {
	list := d.GetInboundCidrAllowlist()
	if len(list) == 0 {
		return true
	}
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		host = from
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(list, func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		return err == nil && prefix.Contains(addr.Unmap())
	})
}
