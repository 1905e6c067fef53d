package rbt

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// Where an origin says where its manifest and its registry are (4.2).
const (
	WellKnownBurrow = "/.well-known/rabit-burrow"
	WellKnownWarren = "/.well-known/rabit-warren"
)

// A BurrowPointer leads to a manifest (11.1).
type BurrowPointer struct {
	Version  Version
	Manifest string // URL
	Roots    []Root
	Warnings []string
}

// A WarrenPointer leads to a registry (11.2).
type WarrenPointer struct {
	Version  Version
	JSON     string // URL
	MD       string // URL; may be empty
	Warnings []string
}

// ParseBurrowPointer reads /.well-known/rabit-burrow.
func ParseBurrowPointer(data []byte, o Options) (*BurrowPointer, error) {
	var p BurrowPointer
	err := pointer(data, o, &p.Version, &p.Warnings, func(r *reader, name string, v jsontext.Value) (err error) {
		switch name {
		case "manifest":
			p.Manifest, err = r.url(v)
		case "roots":
			p.Roots, err = r.roots(v, 0)
		}
		return err
	})
	if err == nil && p.Manifest == "" {
		err = invalid("no manifest")
	}
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// ParseWarrenPointer reads /.well-known/rabit-warren.
func ParseWarrenPointer(data []byte, o Options) (*WarrenPointer, error) {
	var p WarrenPointer
	err := pointer(data, o, &p.Version, &p.Warnings, func(r *reader, name string, v jsontext.Value) error {
		if name != "registry" {
			return nil
		}
		return members(v, func(name string, v jsontext.Value) (err error) {
			switch name {
			case "json":
				p.JSON, err = r.url(v)
			case "md":
				p.MD, err = r.url(v)
			}
			return err
		})
	})
	if err == nil && p.JSON == "" {
		err = invalid("no registry.json")
	}
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// pointer reads what both have.
func pointer(data []byte, o Options, version *Version, warnings *[]string, visit func(*reader, string, jsontext.Value) error) error {
	if err := checkText(data, MaxPointer); err != nil {
		return invalid("%w", err)
	}
	r := &reader{options: o}
	said := ""
	err := members(data, func(name string, v jsontext.Value) (err error) {
		if name == "rbt" {
			said, err = text(v)
			return err
		}
		return visit(r, name, v)
	})
	if err == nil && said == "" {
		err = errors.New("no rbt")
	}
	if err == nil {
		*version, err = r.version(said)
	}
	if err != nil {
		return invalid("%w", err)
	}
	*warnings = r.told()
	return nil
}

func (r *reader) url(v jsontext.Value) (string, error) {
	s, err := text(v)
	if err != nil {
		return "", err
	}
	return r.options.checkURL(s)
}
