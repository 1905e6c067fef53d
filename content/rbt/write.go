package rbt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// The addresses that the text gives to its schemas. Nothing is ever fetched
// from there: those of our own are in schema/.
const (
	manifestSchema = "https://rabit.dev/schemas/burrow-0.2.json"
	registrySchema = "https://rabit.dev/schemas/warren-0.2.json"
)

// The documents as they are written: members in the order of the text's tables.
type (
	wireManifest struct {
		RBT       string      `json:"rbt"`
		Schema    string      `json:"$schema"`
		Generator string      `json:"x-uzpif-generator,omitzero"`
		Manifest  wireMeta    `json:"manifest"`
		Entries   []wireEntry `json:"entries"`
	}
	wireMeta struct {
		Title       string         `json:"title"`
		Description string         `json:"description,omitzero"`
		Updated     string         `json:"updated"`
		RID         string         `json:"rid"`
		Roots       []wireRoot     `json:"roots"`
		Mirrors     []wireRoot     `json:"mirrors,omitempty"`
		Git         *wireGit       `json:"git,omitempty"`
		Cache       *wireCache     `json:"cache,omitempty"`
		Repo        map[string]any `json:"repo,omitempty"`
		Agents      *wireAgents    `json:"agents,omitempty"`
		Auth        *wireAuth      `json:"auth,omitempty"`
	}
	wireRoot struct {
		Git   *wireGit   `json:"git,omitempty"`
		HTTPS *wireHTTPS `json:"https,omitempty"`
	}
	wireGit struct {
		Remote    string `json:"remote"`
		Ref       string `json:"ref"`
		Commit    string `json:"commit,omitzero"`
		Path      string `json:"path"`
		Author    string `json:"author,omitzero"`
		Timestamp string `json:"timestamp,omitzero"`
	}
	wireHTTPS struct {
		Base string `json:"base"`
	}
	wireCache struct {
		MaxAge               int64 `json:"maxAge"`
		StaleWhileRevalidate int64 `json:"staleWhileRevalidate,omitzero"`
	}
	wireAgents struct {
		Context     string         `json:"context,omitzero"`
		EntryPoint  string         `json:"entryPoint,omitzero"`
		Hints       []string       `json:"hints,omitempty"`
		Ignore      []string       `json:"ignore,omitempty"`
		Permissions map[string]any `json:"permissions,omitempty"`
	}
	wireAuth struct {
		Required      bool   `json:"required"`
		Documentation string `json:"documentation,omitzero"`
	}
	wireEntry struct {
		ID       string        `json:"id"`
		RID      string        `json:"rid"`
		Href     string        `json:"href"`
		Type     string        `json:"type"`
		Rel      []string      `json:"rel"`
		Title    string        `json:"title,omitzero"`
		Summary  string        `json:"summary,omitzero"`
		Hash     string        `json:"hash,omitzero"`
		Size     *int64        `json:"size,omitempty"`
		Modified string        `json:"modified,omitzero"`
		Lang     string        `json:"lang,omitzero"`
		Links    []wireLink    `json:"links,omitempty"`
		Children *wireChildren `json:"children,omitempty"`
	}
	wireLink struct {
		ID   string `json:"id,omitzero"`
		Href string `json:"href,omitzero"`
		Rel  string `json:"rel,omitzero"`
	}
	wireChildren struct {
		Href   string `json:"href"`
		Offset int64  `json:"offset"`
		Limit  int64  `json:"limit"`
		Total  *int64 `json:"total,omitempty"`
	}
)

// Marshal writes the manifest, with its own RID and those of its collections:
// the RIDs that m and they hold are not looked at. What ParseManifest would
// refuse, or warn of, is an error, and so is a manifest that lists itself, which
// no RID can be right for. Equal manifests give equal octets.
func (m *Manifest) Marshal() ([]byte, error) {
	if m.Imported || m.Next != nil {
		return nil, errors.New("only manifests of this format are written, and whole")
	}
	for _, e := range m.Entries {
		t, err := ResolveHref(ManifestFile, e.Href, Options{})
		if err == nil && t.Path == ManifestFile {
			err = errors.New("a manifest that lists itself")
		}
		if err != nil {
			return nil, fmt.Errorf("entry %.100q: %w", e.ID, err)
		}
	}
	draft, err := m.marshal(SumRID([32]byte{}))
	if err != nil {
		return nil, err
	}
	own, err := ManifestRID(draft)
	if err != nil {
		return nil, err
	}
	data, err := m.marshal(own)
	if err != nil {
		return nil, err
	}
	read, err := ParseManifest(data, Options{})
	switch {
	case err != nil:
		return nil, err
	case len(read.Warnings) > 0:
		return nil, fmt.Errorf("it would be read with a warning: %s", read.Warnings[0])
	}
	return data, CheckManifest(data, own)
}

// marshal writes the manifest as one whose RID is own.
func (m *Manifest) marshal(own RID) ([]byte, error) {
	w := wireManifest{RBT: Written.String(), Schema: manifestSchema, Generator: m.Generator, Manifest: wireMeta{
		Title: m.Title, Description: m.Description, Updated: format(m.Updated), RID: own.String(),
		Roots: wireRoots(m.Roots), Mirrors: wireRoots(m.Mirrors), Git: m.Git.wire(),
		Repo: make(map[string]any), Agents: m.Agents.wire(),
	}}
	if c := m.Cache; c.HasMaxAge {
		w.Manifest.Cache = &wireCache{int64(c.MaxAge / time.Second), int64(c.StaleWhileRevalidate / time.Second)}
	}
	for _, r := range m.Repo.members() {
		if *r.value != "" {
			w.Manifest.Repo[r.name] = *r.value
		}
	}
	if m.Auth != nil {
		w.Manifest.Auth = &wireAuth{m.Auth.Required, m.Auth.Documentation}
	}
	for i := range m.Entries {
		w.Entries = append(w.Entries, m.Entries[i].wire(own))
	}
	return marshal(w)
}

func (e *Entry) wire(own RID) wireEntry {
	w := wireEntry{
		ID: e.ID, RID: e.RID.String(), Href: e.Href, Type: e.Type, Rel: e.Rel,
		Title: e.Title, Summary: e.Summary, Modified: format(e.Modified), Lang: e.Lang,
	}
	if e.IsCollection() {
		w.RID = CollectionRID(own, e.ID).String()
	}
	if e.Hash != nil {
		w.Hash = "sha256:" + hex.EncodeToString(e.Hash[:])
	}
	if e.Size >= 0 {
		w.Size = &e.Size
	}
	for _, l := range e.Links {
		w.Links = append(w.Links, wireLink(l))
	}
	if c := e.Children; c != nil {
		w.Children = &wireChildren{Href: c.Href, Offset: c.Offset, Limit: c.Limit}
		if c.Total >= 0 {
			w.Children.Total = &c.Total
		}
	}
	return w
}

func wireRoots(roots []Root) []wireRoot {
	all := []wireRoot{}
	for _, r := range roots {
		if r.Git != nil {
			all = append(all, wireRoot{Git: &wireGit{Remote: r.Git.Remote.String(), Ref: string(r.Git.Ref), Path: "/" + strings.TrimPrefix(r.Git.Path, ".")}})
		} else if r.HTTPS != nil {
			all = append(all, wireRoot{HTTPS: &wireHTTPS{r.HTTPS.Base}})
		}
	}
	return all
}

func (p *Provenance) wire() *wireGit {
	if p == nil {
		return nil
	}
	return &wireGit{p.Remote, p.Ref, p.Commit, p.Path, p.Author, format(p.Timestamp)}
}

func (a *Agents) wire() *wireAgents {
	w := &wireAgents{a.Context, a.EntryPoint, a.Hints, a.Ignore, permissions(a.Uses)}
	if w.Context == "" && w.EntryPoint == "" && len(w.Hints)+len(w.Ignore)+len(w.Permissions) == 0 {
		return nil
	}
	return w
}

// permissions writes what is stated about the four purposes that the text has
// words for; what else is denied has none, and is told by Unsaid.
func permissions(s preferences.Statement) map[string]any {
	said := make(map[string]any)
	for key, purpose := range preferences.Permitted() {
		switch answer, _ := s.Preferences.About(purpose); {
		case answer == content.Yes && s.Attribution:
			said[key] = "with-attribution"
		case answer != content.Unknown:
			said[key] = answer == content.Yes
		}
	}
	return said
}

// Unsaid lists the purposes that are denied, and that permissions have no word
// for.
func Unsaid(p content.Preferences) (purposes []string) {
	words := make(map[string]bool)
	for _, purpose := range preferences.Permitted() {
		words[purpose] = true
	}
	for _, d := range p.Denied() {
		if !words[d.Purpose] {
			purposes = append(purposes, d.Purpose)
		}
	}
	return purposes
}

// format writes a time as RFC 3339 has it, in UTC and whole seconds; "" for none.
func format(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// marshal writes a document for people and programs: indented, with a line feed
// at its end.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := json.MarshalWrite(&b, v, jsontext.WithIndent("  "), json.Deterministic(true)); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
