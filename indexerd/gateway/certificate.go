package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookAgain is the time between two looks at the files of a certificate.
const lookAgain = time.Second

// TLS serves the certificate of two files, and the new one soon after they were
// replaced. One that cannot be loaded is told, and the older one stays.
func TLS(certificate, key string, log *slog.Logger) (*tls.Config, error) {
	f := &files{certificate: certificate, key: key, log: log}
	if err := f.load(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.now(), nil }}, nil
}

type files struct {
	certificate, key string
	log              *slog.Logger

	// loadedMu guards what follows.
	loadedMu sync.Mutex
	loaded   *tls.Certificate
	stamp    string
	looked   time.Time
}

func (f *files) stamps() string {
	var all string
	for _, name := range []string{f.certificate, f.key} {
		if info, err := os.Stat(name); err == nil {
			all += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), " ")
		}
	}
	return all
}

func (f *files) load() error {
	stamp := f.stamps()
	c, err := tls.LoadX509KeyPair(f.certificate, f.key)
	if err != nil {
		return fmt.Errorf("gateway certificate: %w", err)
	}
	f.loaded, f.stamp = &c, stamp
	return nil
}

func (f *files) now() *tls.Certificate {
	f.loadedMu.Lock()
	defer f.loadedMu.Unlock()
	if now := time.Now(); now.Sub(f.looked) >= lookAgain {
		f.looked = now
		if f.stamps() != f.stamp {
			if err := f.load(); err != nil {
				f.log.Error("gateway", "error", err)
			}
		}
	}
	return f.loaded
}
