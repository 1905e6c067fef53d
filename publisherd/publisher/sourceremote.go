package publisher

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// product is what we are called in robots.txt, and agent in requests.
const (
	product = "uzpif-oi"
	agent   = "publisherd (uzpif-oi; +https://github.com/uzpif-oi/uzpif-oi)"
)

// The bounds of how often a server is asked.
const (
	defaultInterval = 15 * time.Minute
	minInterval     = time.Minute
	maxInterval     = 24 * time.Hour
	maxRate         = 100 // requests a second
	maxSample       = 100 // pages a round
)

// Remote is what counts for a source whose location is a URL, in its own lines
// of sources/NAME.yaml.
type Remote struct {
	// AllowOrigins are further origins that may be fetched from, and may lie in
	// a private network or on this machine. A location on this machine is named
	// by itself; one in a private network has to be named here.
	AllowOrigins []string `yaml:"allow_origins,omitempty" json:"allow_origins,omitempty"`
	// CredentialsFile and CredentialsEnv, of which one may be set, say where
	// "Bearer TOKEN" or "Basic USER:PASSWORD" is kept. It is sent to the
	// location's origin and to no other.
	CredentialsFile string `yaml:"credentials_file,omitempty" json:"credentials_file,omitempty"`
	CredentialsEnv  string `yaml:"credentials_env,omitempty" json:"credentials_env,omitempty"`
	// CredentialHelper stands in their place: a program by its whole path, with
	// its arguments, that is asked as git asks a credential helper.
	CredentialHelper string `yaml:"credential_helper,omitempty" json:"credential_helper,omitempty"`
	// ClientCertFile and ClientKeyFile are shown to the location's origin, by
	// https, and to no other. The key is readable by its owner only.
	ClientCertFile string `yaml:"client_cert_file,omitempty" json:"client_cert_file,omitempty"`
	ClientKeyFile  string `yaml:"client_key_file,omitempty" json:"client_key_file,omitempty"`
	// Interval is how long run waits between two rounds, and a tenth more or
	// less: 1m to 24h; empty is 15m.
	Interval string `yaml:"interval,omitempty" json:"interval,omitempty"`
	// Rate is how many requests a second each origin gets; 0 is 4.
	Rate float64 `yaml:"rate,omitempty" json:"rate,omitzero"`
	// IgnoreRobots passes robots.txt over, for servers of one's own.
	IgnoreRobots bool `yaml:"ignore_robots,omitempty" json:"ignore_robots,omitzero"`
	// Sample is how many pages of each round, of those whose snapshot is new or
	// has changed, are held against it; of arc alone, and none unless it says so.
	Sample int `yaml:"sample,omitempty" json:"sample,omitzero"`
}

// isAfar reports whether each page is read from a server, one by one; collections
// come whole, and are read from a mirror.
func (s Source) isAfar() bool { return (s.Kind == "tct" || s.Kind == "arc") && s.isRemote() }

// isRemote reports whether the location is on a server.
func (s Source) isRemote() bool {
	scheme, _, ok := strings.Cut(s.Location, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) || s.isGit()
}

// origin is that of the location.
func (s Source) origin() (string, error) { return fetch.Origin(s.Location) }

func hostOf(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("base URL %.200q has no host", rawURL)
	}
	return u.Host, nil
}

func (r *Remote) check(s Source) error {
	lets := 0
	for _, place := range []string{r.CredentialsFile, r.CredentialsEnv, r.CredentialHelper} {
		if place != "" {
			lets++
		}
	}
	said := len(r.AllowOrigins) > 0 || lets > 0 || r.ClientCertFile != "" || r.ClientKeyFile != "" || r.Interval != "" || r.Rate != 0 || r.IgnoreRobots || r.Sample != 0
	switch {
	case !s.isRemote() && said:
		return errors.New("origins, credentials, an interval, a rate and robots.txt concern a location that is a URL, and this one is not")
	case s.isRemote() && s.Kind == "site":
		return errors.New("a site is a folder; of a server, this edition reads: tct, scp, rbt, arc")
	case lets > 1:
		return errors.New("credentials are in a file, in the environment or with a helper, not in several of these")
	case r.Sample != 0 && s.Kind != "arc" || r.Sample < 0 || r.Sample > maxSample:
		return fmt.Errorf("sample %d: of arc, and at most %d pages a round", r.Sample, maxSample)
	case (r.ClientCertFile == "") != (r.ClientKeyFile == ""):
		return errors.New("a client certificate and its key belong together")
	case r.ClientCertFile != "" && !strings.HasPrefix(s.Location, "https://"):
		return errors.New("a client certificate is for a location by https")
	case !(r.Rate >= 0 && r.Rate <= maxRate):
		return fmt.Errorf("rate %v: above 0, and at most %d requests a second", r.Rate, maxRate)
	}
	_, err := r.interval()
	return err
}

// interval is how long to wait between two rounds.
func (r *Remote) interval() (time.Duration, error) {
	if r.Interval == "" {
		return defaultInterval, nil
	}
	d, err := time.ParseDuration(r.Interval)
	if err != nil || d < minInterval || d > maxInterval {
		return 0, fmt.Errorf("interval %.40q: want a duration from %s to %s", r.Interval, minInterval, maxInterval)
	}
	return d, nil
}

// client makes the client of a source on a server.
func (s Source) client(dir string) (*fetch.Client, error) {
	c, err := s.clientConfig(dir)
	if err != nil {
		return nil, err
	}
	return fetch.New(c)
}

func (s Source) clientConfig(dir string) (c fetch.Config, err error) {
	c = fetch.Config{UserAgent: agent, Rate: s.Rate}
	for _, o := range s.AllowOrigins {
		if !strings.HasPrefix(o, "ssh://") { // that of another client
			c.Allowed = append(c.Allowed, o)
		}
	}
	own, err := s.origin()
	if err != nil && s.isGit() && !strings.HasPrefix(s.Location, "http") {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if isThisMachine(own) {
		c.Allowed = append([]string{own}, c.Allowed...)
	}
	if s.ClientCertFile != "" {
		if _, err := s.certificate(dir); err != nil {
			return c, err
		}
		c.Certificates = map[string]func() (*tls.Certificate, error){own: func() (*tls.Certificate, error) { return s.certificate(dir) }}
	}
	text, err := s.secret(dir)
	if err != nil {
		return c, err
	}
	if text != "" {
		credential, err := fetch.ParseCredential(text)
		if err != nil {
			return c, fmt.Errorf("%s: %w", s.secretPlace(), err)
		}
		c.Credentials = map[string]fetch.Credential{own: credential}
	}
	return c, nil
}

// isThisMachine reports whether an origin names this machine.
func isThisMachine(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *Remote) secretPlace() string {
	switch {
	case r.CredentialsFile != "":
		return "credentials file " + r.CredentialsFile
	case r.CredentialHelper != "":
		return "credential helper"
	}
	return "environment variable " + r.CredentialsEnv
}

// secret reads the credential; no error shows it. It is empty if there is none
// to be sent.
func (r *Remote) secret(dir string) (string, error) {
	if r.CredentialsEnv != "" {
		text, ok := os.LookupEnv(r.CredentialsEnv)
		if !ok || text == "" {
			return "", fmt.Errorf("%s is not set", r.secretPlace())
		}
		return text, nil
	}
	if r.CredentialsFile == "" {
		return "", nil
	}
	b, err := readPrivate(below(dir, r.CredentialsFile), maxCredential)
	return string(b), err
}

// secret is that of the location's origin, from wherever it is kept.
func (s Source) secret(dir string) (string, error) {
	if s.CredentialHelper == "" {
		return s.Remote.secret(dir)
	}
	own, err := s.origin()
	if err != nil {
		return "", err
	}
	scheme, host, _ := strings.Cut(own, "://")
	return s.help(scheme, host)
}

// secretSum tells whether a credential is another than before.
func (s Source) secretSum(dir string) ([32]byte, error) {
	text, err := s.secret(dir)
	return sha256.Sum256([]byte(text)), err
}
