package rbt

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

type (
	wireRegistry struct {
		RBT      string           `json:"rbt"`
		Schema   string           `json:"$schema"`
		Registry wireRegistryMeta `json:"registry"`
		Entries  []wireBurrow     `json:"entries"`
	}
	wireRegistryMeta struct {
		Title       string `json:"title"`
		Updated     string `json:"updated"`
		RID         string `json:"rid,omitzero"`
		Description string `json:"description,omitzero"`
	}
	wireBurrow struct {
		Name    string     `json:"name"`
		Title   string     `json:"title"`
		Summary string     `json:"summary"`
		Roots   []wireRoot `json:"roots"`
		RID     string     `json:"rid,omitzero"`
		Tags    []string   `json:"tags,omitempty"`
		Updated string     `json:"updated,omitzero"`
	}
	wireBurrowPointer struct {
		RBT      string     `json:"rbt"`
		Manifest string     `json:"manifest"`
		Roots    []wireRoot `json:"roots"`
	}
	wireWarrenPointer struct {
		RBT      string `json:"rbt"`
		Registry struct {
			JSON string `json:"json"`
			MD   string `json:"md,omitzero"`
		} `json:"registry"`
	}
)

// Marshal writes the registry, with an RID of its own. What ParseRegistry would
// refuse, or warn of, is an error.
func (g *Registry) Marshal() ([]byte, error) {
	w := wireRegistry{RBT: Written.String(), Schema: registrySchema, Entries: []wireBurrow{}, Registry: wireRegistryMeta{
		Title: g.Title, Updated: format(g.Updated), Description: g.Description,
	}}
	for _, b := range g.Burrows {
		w.Entries = append(w.Entries, wireBurrow{
			b.Name, b.Title, b.Summary, wireRoots(b.Roots), b.RID.String(), b.Tags, format(b.Updated),
		})
	}
	draft, err := marshal(w)
	if err != nil {
		return nil, err
	}
	own, err := RegistryRID(draft)
	if err != nil {
		return nil, err
	}
	w.Registry.RID = own.String()
	data, err := marshal(w)
	if err != nil {
		return nil, err
	}
	read, err := ParseRegistry(data, Options{})
	switch {
	case err != nil:
		return nil, err
	case len(read.Warnings) > 0:
		return nil, fmt.Errorf("it would be read with a warning: %s", read.Warnings[0])
	}
	return data, nil
}

// Markdown writes the companion for people, .warren.md (10.2): the same burrows
// in the same order. No text of the registry can be anything but text in it.
func (g *Registry) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", plainLine(g.Title))
	if g.Description != "" {
		fmt.Fprintf(&b, "%s\n\n", plainLine(g.Description))
	}
	fmt.Fprintf(&b, "Updated %s.\n", format(g.Updated))
	for _, w := range g.Burrows {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", plainLine(w.Title), plainLine(w.Summary))
		fmt.Fprintf(&b, "- name: %s\n", plainLine(w.Name))
		for _, r := range w.Roots {
			fmt.Fprintf(&b, "- %s\n", plainLine(r.String()))
		}
		if !w.RID.IsZero() {
			fmt.Fprintf(&b, "- %s\n", plainLine(w.RID.String()))
		}
		if len(w.Tags) > 0 {
			fmt.Fprintf(&b, "- tags: %s\n", plainLine(strings.Join(w.Tags, ", ")))
		}
	}
	return b.Bytes()
}

// plainLine writes text so that Markdown reads it as that, in one line.
func plainLine(s string) string {
	var b strings.Builder
	for _, c := range strings.Join(strings.Fields(s), " ") {
		if strings.ContainsRune("\\`*_{}[]<>#|!~&", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Marshal writes /.well-known/rabit-burrow.
func (p *BurrowPointer) Marshal() ([]byte, error) {
	data, err := marshal(wireBurrowPointer{Written.String(), p.Manifest, wireRoots(p.Roots)})
	if err == nil {
		_, err = ParseBurrowPointer(data, Options{})
	}
	return data, err
}

// Marshal writes /.well-known/rabit-warren.
func (p *WarrenPointer) Marshal() ([]byte, error) {
	w := wireWarrenPointer{RBT: Written.String()}
	w.Registry.JSON, w.Registry.MD = p.JSON, p.MD
	data, err := marshal(w)
	if err == nil {
		_, err = ParseWarrenPointer(data, Options{})
	}
	return data, err
}

// CheckFull returns an error that names the first thing by which a manifest
// falls short of a full publisher's (3.1.2): a Git root that is first, and an
// RID and a hash for each entry that has octets.
func (m *Manifest) CheckFull() error {
	if len(m.Roots) == 0 || m.Roots[0].Git == nil {
		return errors.New("the first root is no Git root")
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		if e.IsCollection() {
			if !e.RID.IsCollection() {
				return fmt.Errorf("collection %.100q has no synthetic RID", e.ID)
			}
			continue
		}
		sum, ok := e.RID.Sum()
		if !ok || e.Hash == nil || *e.Hash != sum {
			return fmt.Errorf("entry %.100q lacks an RID, or the hash that is the same", e.ID)
		}
	}
	return nil
}
