package main

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/uzpif-oi/uzpif-oi/auditor/follow"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// maxFollowConfig bounds the file of --config, in octets.
const maxFollowConfig = 256 << 10

// A followLog is one log as the command line or the file of --config names it.
// Files are relative to the folder of that file.
type followLog struct {
	URL       string   `yaml:"url"`
	Key       string   `yaml:"key"`       // the indexer's identity card
	Witnesses string   `yaml:"witnesses"` // a policy file; none asks for no witness
	Quorum    int      `yaml:"quorum"`    // 0 takes that of the policy
	Notes     []string `yaml:"notes"`     // files and folders
}

// logs reads everything that the command line names.
func (f *followFlags) logs() ([]follow.Log, error) {
	if f.config == "" {
		if f.URL == "" || f.Key == "" {
			return nil, cli.Errorf(cli.Usage, "which log? Give its URL and --key, or --config")
		}
		log, err := f.open()
		return []follow.Log{log}, err
	}
	if f.URL != "" || f.Key != "" || f.Witnesses != "" || f.Quorum != 0 || len(f.Notes) > 0 {
		return nil, cli.Errorf(cli.Usage, "--config names the logs with their keys, witnesses and notes; give no others")
	}
	raw, err := readFile(f.config, maxFollowConfig)
	if err != nil {
		return nil, err
	}
	named, err := parseFollowConfig(raw)
	if err != nil {
		return nil, cli.Errorf(cli.Config, "%s: %w", f.config, err)
	}
	var logs []follow.Log
	for _, one := range named {
		one.within(filepath.Dir(f.config))
		log, err := one.open()
		if err != nil {
			return nil, err
		}
		logs = append(logs, log)
	}
	return logs, nil
}

// parseFollowConfig reads one YAML document, a list of logs. What it does not
// know, it refuses.
func parseFollowConfig(raw []byte) ([]followLog, error) {
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	var logs []followLog
	if err := d.Decode(&logs); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	if len(logs) == 0 {
		return nil, errors.New("it names no log; want a list of url, key, witnesses, quorum, notes")
	}
	for _, log := range logs {
		if log.URL == "" || log.Key == "" {
			return nil, errors.New("a log without url or key")
		}
	}
	return logs, nil
}

// within makes paths relative to dir.
func (l *followLog) within(dir string) {
	at := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	l.Key, l.Witnesses = at(l.Key), at(l.Witnesses)
	for i := range l.Notes {
		l.Notes[i] = at(l.Notes[i])
	}
}

// open reads card and policy.
func (l *followLog) open() (follow.Log, error) {
	card, err := readCard(l.Key)
	if err != nil {
		return follow.Log{}, err
	}
	if card.Log == nil {
		return follow.Log{}, cli.Errorf(cli.Usage, "%s is the card of a %s, which has no log", l.Key, card.Role)
	}
	key := l.Key
	policy, err := readWitnesses(verifyFlags{witnesses: l.Witnesses, quorum: l.Quorum})
	return follow.Log{
		URL: l.URL, Card: card, Witnesses: policy, Notes: l.Notes, Rules: true,
		Reload: func() (*identity.Card, error) { return readCard(key) },
	}, err
}
