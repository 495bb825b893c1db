package temporaldev

import (
	"fmt"

	"go.temporal.io/sdk/contrib/envconfig"
)

// ProfileFile is the name of the profile in the data dir.
const ProfileFile = "temporal.toml"

// WriteProfile writes an envconfig profile named "default", mode 0600, atomically.
// With TEMPORAL_CONFIG_FILE set to path, every Temporal SDK that reads the
// environment configuration and the temporal command connect to address and
// namespace and send the secret. An empty secret leaves the header out.
// An existing file is replaced: it belongs to mcp-sandbox.
func WriteProfile(path, address, namespace, secret string) error {
	profile := &envconfig.ClientConfigProfile{Address: address, Namespace: namespace}
	if secret != "" {
		profile.GRPCMeta = map[string]string{authorizationHeader: bearerPrefix + secret}
	}
	cfg := envconfig.ClientConfig{Profiles: map[string]*envconfig.ClientConfigProfile{
		envconfig.DefaultConfigFileProfile: profile,
	}}
	data, err := cfg.ToTOML(envconfig.ClientConfigToTOMLOptions{})
	if err != nil {
		return fmt.Errorf("temporal profile: %w", err)
	}
	const head = "# Written by mcp-sandbox at every start. It holds a secret: keep it private.\n# Use it with TEMPORAL_CONFIG_FILE=<this file>.\n"
	if err := writePrivate(path, append([]byte(head), data...)); err != nil {
		return fmt.Errorf("temporal profile: %w", err)
	}
	return nil
}
