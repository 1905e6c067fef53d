package indexer

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// dataKeys holds the data keys: one file a series and generation in keys/data/,
// readable by the owner only, apart from the store. Destroying the file makes
// every payload sealed with it unreadable, in the store and in its backups. A
// deletion begins a new generation.
type dataKeys struct {
	dir string

	// aeadsMu guards aeads.
	aeadsMu sync.Mutex
	aeads   map[string]cipher.AEAD // by file name
}

func newDataKeys(dir string) *dataKeys {
	return &dataKeys{dir: dir, aeads: make(map[string]cipher.AEAD)}
}

// ErrNoDataKey is returned for a series whose key is gone: its payloads cannot
// be read any more.
var ErrNoDataKey = errors.New("the data key of this series is gone")

func dataKeyName(publisher envelope.Name, series string, generation uint32) string {
	h := envelope.TaggedHash("uzpif-oi/data-key-name/v1", seriesKey(publisher, series))
	name := hex.EncodeToString(h[:16])
	if generation > 0 {
		name = fmt.Sprintf("%s-%d", name, generation)
	}
	return name + ".key"
}

// aead gives the series' cipher. With create, a missing key is drawn; the file
// and its folder are synced before it is used, and so before the first commit
// that depends on it.
func (d *dataKeys) aead(publisher envelope.Name, series string, generation uint32, create bool) (cipher.AEAD, error) {
	name := dataKeyName(publisher, series, generation)
	d.aeadsMu.Lock()
	defer d.aeadsMu.Unlock()
	if a, ok := d.aeads[name]; ok {
		return a, nil
	}
	path := filepath.Join(d.dir, name)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, ErrNoDataKey
		}
		key = make([]byte, chacha20poly1305.KeySize)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
		err = durable.WriteFile(path, key, 0o600)
	}
	if err != nil {
		return nil, err
	}
	a, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, fmt.Errorf("data key %s: %w", name, err)
	}
	d.aeads[name] = a
	return a, nil
}

// destroy makes away with every key of the series before generation keep. It
// returns once that is durable; keys that are gone already are no error.
func (d *dataKeys) destroy(publisher envelope.Name, series string, keep uint32) error {
	d.aeadsMu.Lock()
	defer d.aeadsMu.Unlock()
	for generation := range keep {
		name := dataKeyName(publisher, series, generation)
		delete(d.aeads, name)
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := durable.SyncDir(d.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// segmentData is what a sealed segment is bound to.
func segmentData(publisher envelope.Name, series string, segment uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte("uzpif-oi/segment/v1\x00"), seriesKey(publisher, series)...), segment)
}

// seal encrypts a frame for one segment of a series: nonce ‖ ciphertext.
func seal(a cipher.AEAD, publisher envelope.Name, series string, segment uint64, frame []byte) ([]byte, error) {
	out := make([]byte, a.NonceSize(), a.NonceSize()+len(frame)+a.Overhead())
	if _, err := rand.Read(out); err != nil {
		return nil, err
	}
	return a.Seal(out, out, frame, segmentData(publisher, series, segment)), nil
}

// unseal opens what seal made for the same segment.
func unseal(a cipher.AEAD, publisher envelope.Name, series string, segment uint64, sealed []byte) ([]byte, error) {
	n := a.NonceSize()
	if len(sealed) < n {
		return nil, fmt.Errorf("segment %d is cut short", segment)
	}
	frame, err := a.Open(nil, sealed[:n], sealed[n:], segmentData(publisher, series, segment))
	if err != nil {
		return nil, fmt.Errorf("segment %d of %s: %w", segment, series, err)
	}
	return frame, nil
}
