package core

import (
	"net/url"
	"slices"
	"strings"
)

// Registries configure the downloads of images on this machine. Container engines have settings of their own.
type Registries struct {
	// Mirrors has the mirrors of a registry by its host: "docker.io". A mirror is "HOST[:PORT][/PATH]". They are tried in
	// order, and then the registry.
	Mirrors map[string][]string
	// Insecure lists the hosts, as "HOST[:PORT]", that may answer over http or with a certificate that cannot be
	// verified. Loopback addresses may answer over http anyway.
	Insecure []string
}

// Trusts reports whether a host, as "HOST[:PORT]", needs neither TLS nor a valid certificate.
func (r Registries) Trusts(host string) bool { return slices.Contains(r.Insecure, host) }

// ParseMirrors parses words "REGISTRY=MIRROR[,MIRROR...]". KindUsage: a word is invalid.
func ParseMirrors(text string) (map[string][]string, error) {
	mirrors := map[string][]string{}
	for word := range strings.FieldsSeq(text) {
		registry, list, ok := strings.Cut(word, "=")
		if !ok || !isRegistry(registry) {
			return nil, Errorf(KindUsage, "parse", word, "%q is not REGISTRY=MIRROR", word).
				WithHint("write it as in docker.io=mirror.example:5000")
		}
		if _, twice := mirrors[registry]; twice {
			return nil, Errorf(KindUsage, "parse", word, "%s is named twice: separate its mirrors with commas", registry)
		}
		for mirror := range strings.SplitSeq(list, ",") {
			host, path, _ := strings.Cut(mirror, "/")
			if strings.Contains(mirror, "://") {
				return nil, Errorf(KindUsage, "parse", word, "%q has a scheme: name the host only", mirror).
					WithHint("for http, list the host in images.insecure, too")
			}
			if !isRegistry(host) || strings.HasSuffix(mirror, "/") || strings.Contains(path, ":") {
				return nil, Errorf(KindUsage, "parse", word, "%q is not a mirror HOST[:PORT][/PATH]", mirror)
			}
			mirrors[registry] = append(mirrors[registry], mirror)
		}
	}
	return mirrors, nil
}

// ParseRegistries parses words "HOST[:PORT]". KindUsage: a word is invalid.
func ParseRegistries(text string) ([]string, error) {
	var hosts []string
	for word := range strings.FieldsSeq(text) {
		if !isRegistry(word) {
			return nil, Errorf(KindUsage, "parse", word, "%q is not a registry HOST[:PORT], without a scheme", word)
		}
		hosts = append(hosts, word)
	}
	return hosts, nil
}

// isRegistry reports whether the first part of an image's name is a host, and no part of a path.
func isRegistry(host string) bool {
	parsed, err := url.Parse("//" + host)
	return err == nil && parsed.Host == host && parsed.Hostname() != "" && !strings.ContainsAny(host, "@,;=") &&
		(strings.ContainsAny(host, ".:") || host == "localhost")
}
