package docker

import (
	"path/filepath"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
)

// hubKey is what docker login calls Docker Hub in its configuration.
const hubKey = "https://index.docker.io/v1/"

// credentials are those that docker login has kept, read with its own helpers when they are first needed. They
// go to the engine only.
type credentials struct{ dir string }

// credentials finds where docker login keeps them.
func (p *Provider) credentials() credentials {
	if dir, _ := p.opts.LookupEnv("DOCKER_CONFIG"); dir != "" {
		return credentials{dir}
	}
	home, _ := p.opts.LookupEnv("HOME")
	if home == "" {
		return credentials{}
	}
	return credentials{filepath.Join(home, ".docker")}
}

// of returns those for the registry of an image, encoded as the API takes them; "" is none.
func (c credentials) of(image string) (string, error) {
	if c.dir == "" {
		return "", nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", nil //nolint:nilerr // what is wrong with the name the engine says
	}
	key := reference.Domain(named)
	if key == "docker.io" {
		key = hubKey
	}
	file, err := config.Load(c.dir)
	if err != nil {
		return "", err
	}
	found, err := file.GetAuthConfig(key)
	if err != nil {
		return "", err
	}
	if found.Username == "" && found.Auth == "" && found.IdentityToken == "" && found.RegistryToken == "" {
		return "", nil
	}
	return authconfig.Encode(convert(found))
}

// all returns those of every registry, for a build, which may start from images of several.
func (c credentials) all() (map[string]registry.AuthConfig, error) {
	if c.dir == "" {
		return nil, nil
	}
	file, err := config.Load(c.dir)
	if err != nil {
		return nil, err
	}
	found, err := file.GetAllCredentials()
	all := make(map[string]registry.AuthConfig, len(found))
	for key, one := range found {
		all[key] = convert(one)
	}
	return all, err
}

// convert makes the API's type of the configuration's.
func convert(from types.AuthConfig) registry.AuthConfig {
	return registry.AuthConfig{
		Username: from.Username, Password: from.Password, Auth: from.Auth, ServerAddress: from.ServerAddress,
		IdentityToken: from.IdentityToken, RegistryToken: from.RegistryToken,
	}
}
