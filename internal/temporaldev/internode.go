package temporaldev

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"go.temporal.io/server/common/rpc/encryption"
)

const (
	internodeName = "mcp-sandbox-temporal"
	// internodeLife outlasts any process; the key dies with it anyway.
	internodeLife = 10 * 365 * 24 * time.Hour
)

// internodeTLS keeps the ports between the services shut for everybody else. They
// know no claims (the internal frontend takes each caller for an administrator),
// and on loopback any local user can connect. So both ends show a certificate that
// is made at start and whose key is never written anywhere. The frontend stays
// plaintext: it has the secret.
type internodeTLS struct {
	server, client *tls.Config
}

var _ encryption.TLSConfigProvider = (*internodeTLS)(nil)

func newInternodeTLS() (*internodeTLS, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("internode key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: internodeName},
		DNSNames:              []string{internodeName},
		NotBefore:             now.Add(-24 * time.Hour), // the clock may be set back
		NotAfter:              now.Add(internodeLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("internode certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("internode certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	certs := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}
	return &internodeTLS{
		server: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: certs,
			ClientCAs:    pool,
			ClientAuth:   tls.RequireAndVerifyClientCert,
		},
		client: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: certs,
			RootCAs:      pool,
			ServerName:   internodeName, // services dial each other by address
		},
	}, nil
}

// GetInternodeServerConfig implements encryption.TLSConfigProvider.
func (t *internodeTLS) GetInternodeServerConfig() (*tls.Config, error) { return t.server, nil }

// GetInternodeClientConfig implements encryption.TLSConfigProvider.
func (t *internodeTLS) GetInternodeClientConfig() (*tls.Config, error) { return t.client, nil }

// GetFrontendServerConfig implements encryption.TLSConfigProvider; nil is plaintext.
func (*internodeTLS) GetFrontendServerConfig() (*tls.Config, error) { return nil, nil }

// GetFrontendClientConfig implements encryption.TLSConfigProvider; nil is plaintext.
func (*internodeTLS) GetFrontendClientConfig() (*tls.Config, error) { return nil, nil }

// GetRemoteClusterClientConfig implements encryption.TLSConfigProvider.
func (*internodeTLS) GetRemoteClusterClientConfig(string) (*tls.Config, error) {
	return nil, errors.New("the embedded temporal server has no remote clusters")
}

// GetExpiringCerts implements encryption.TLSConfigProvider.
func (*internodeTLS) GetExpiringCerts(time.Duration) (expiring, expired encryption.CertExpirationMap, err error) {
	return nil, nil, nil
}
