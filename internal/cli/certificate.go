package cli

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
)

// CertificateFlags are the flags of init for an identity whose certificates
// somebody else issues.
type CertificateFlags struct{ Certificate, Key string }

// Add gives c the flags.
func (f *CertificateFlags) Add(c *cobra.Command) {
	set := c.Flags()
	set.StringVar(&f.Certificate, "tls-certificate", "", "PEM file of a certificate that the authority of the trust domain issues and renews; the card lists no TLS key then")
	set.StringVar(&f.Key, "tls-key", "", "PEM file of its key")
}

// External reports whether the flags name files.
func (f *CertificateFlags) External() (bool, error) {
	if (f.Certificate == "") != (f.Key == "") {
		return false, Errorf(Usage, "--tls-certificate and --tls-key go together")
	}
	return f.Certificate != "", nil
}

// Settings is what the flags say in a configuration file; nothing if they name no
// files.
func (f *CertificateFlags) Settings() map[string]string {
	if f.Certificate == "" {
		return map[string]string{}
	}
	return map[string]string{"tls_certificate": fmt.Sprintf("%q", f.Certificate), "tls_key": fmt.Sprintf("%q", f.Key)}
}

// CertificateSettings are the two settings of CertificateFiles.
func CertificateSettings() Settings {
	return Settings{
		{Key: "tls_certificate", Default: `""`, Values: "the path of a PEM file, from this folder on if it is not absolute",
			Doc: "A certificate that somebody else issues and renews, with tls_key; both are read again when they change (doc/identity.md). Empty: the certificate in keys/ renews itself."},
		{Key: "tls_key", Default: `""`, Values: "the path of a PEM file that nobody but owner and group may read",
			Doc: "Its key."},
	}
}

// CertificateFiles are the files that the settings tls_certificate and tls_key
// name, seen from dir; nil if they name none.
func CertificateFiles(dir, certificate, key string) (*identity.CertificateFiles, error) {
	if certificate == "" && key == "" {
		return nil, nil
	}
	if err := CheckCertificatePair(certificate, key); err != nil {
		return nil, With(Config, err)
	}
	from := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	return &identity.CertificateFiles{Certificate: from(certificate), Key: from(key)}, nil
}

// CheckCertificate refuses an identity that would have no good certificate to
// show: of its own, or in files, which may be nil. It changes nothing.
func CheckCertificate(l *identity.Local, files *identity.CertificateFiles) error {
	if files != nil {
		return With(Config, l.UseFiles(*files, time.Now()))
	}
	if l.Certificate() == nil {
		return Errorf(Config, "%s: its card lists no TLS key; name the files of its certificate by tls_certificate and tls_key", l.Name())
	}
	return nil
}

// DescribeIdentity puts the standing of a certificate and of the trust in words,
// one line each.
func DescribeIdentity(c identity.CertificateStatus, t identity.TrustStatus) string {
	text := "no certificate to show"
	if !c.NotAfter.IsZero() {
		text = fmt.Sprintf("certificate until %s, %s left", c.NotAfter, plural.Count(c.DaysLeft, "day", "days"))
	}
	if c.Problem != "" {
		text += "; ALARM: " + c.Problem
	}
	text += fmt.Sprintf("\ntrust in %s and %s", plural.Count(t.Identities, "identity", "identities"), plural.Count(t.Authorities, "authority", "authorities"))
	if t.Problem != "" {
		text += "; ALARM: " + t.Problem
	}
	return text
}
