package image

import (
	"path/filepath"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
)

// HubKey is docker login's name of Docker Hub.
const HubKey = "https://index.docker.io/v1/"

// Login has the credentials of docker login. Its own helpers read them on use, and only the engine receives them. The
// zero value has none.
type Login struct{ dir string }

// FindLogin finds the configuration of docker login.
func FindLogin(lookupEnv func(string) (string, bool)) Login {
	if dir, _ := lookupEnv("DOCKER_CONFIG"); dir != "" {
		return Login{dir}
	}
	home, _ := lookupEnv("HOME")
	if home == "" {
		return Login{}
	}
	return Login{filepath.Join(home, ".docker")}
}

// of returns the credentials for the registry of an image, encoded for the API; "" is none.
func (l Login) of(image string) (string, error) {
	if l.dir == "" {
		return "", nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", nil //nolint:nilerr // the engine reports a wrong name
	}
	key := reference.Domain(named)
	if key == "docker.io" {
		key = HubKey
	}
	file, err := config.Load(l.dir)
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

// all returns the credentials of all registries, for a build, which may start from images of several.
func (l Login) all() (map[string]registry.AuthConfig, error) {
	if l.dir == "" {
		return nil, nil
	}
	file, err := config.Load(l.dir)
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

// convert converts the configuration's type to the API's.
func convert(from types.AuthConfig) registry.AuthConfig {
	return registry.AuthConfig{
		Username: from.Username, Password: from.Password, Auth: from.Auth, ServerAddress: from.ServerAddress,
		IdentityToken: from.IdentityToken, RegistryToken: from.RegistryToken,
	}
}
