// Package convert turns pages from one format into another, for whoever writes them
// in a format that they did not come in, and says what that loses. It also makes a
// page of a payload alone, which is what a receiver has of it.
package convert

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// FromPayload makes a page of the payload that stands for url. modified stands in
// where the payload tells no time. The error is that of a payload that is none of
// its format, or of another page.
func FromPayload(format content.Format, url string, payload []byte, modified time.Time) (p content.Page, err error) {
	switch format {
	case content.FormatTCT:
		p, err = fromTCT(payload)
	case content.FormatSCP:
		var line scp.Page
		if line, err = scp.ParsePage(payload); err == nil {
			p = line.Content()
		}
	case content.FormatARC:
		p, err = fromARC(payload)
	default:
		err = fmt.Errorf("nothing is known of %v", format)
	}
	if err == nil && p.URL != url {
		err = fmt.Errorf("it is of %.200q", p.URL)
	}
	if err != nil {
		return p, fmt.Errorf("payload of %.200q: %w", url, err)
	}
	if p.Modified.IsZero() {
		p.Modified = modified
	}
	return p, nil
}

// fromTCT takes the fingerprint from the octets, whatever the payload says of itself.
func fromTCT(payload []byte) (content.Page, error) {
	d, err := tct.Decode(payload)
	if err != nil {
		return content.Page{}, err
	}
	p := content.Page{URL: d.URL, Format: content.FormatTCT, Payload: payload, Digest: sha256.Sum256(payload), Title: d.Title, Language: d.Language}
	p.Fingerprint, err = tct.MethodA(payload, d.URL)
	return p, err
}

func fromARC(payload []byte) (content.Page, error) {
	e, err := arc.ParseEntry(payload)
	if err != nil {
		return content.Page{}, err
	}
	d, _ := e.Document()
	p := content.Page{
		URL: e.URL, Format: content.FormatARC, Payload: payload, Digest: sha256.Sum256(payload), Title: d.Title, Language: d.Language,
		Description: e.Summary, Modified: e.Modified,
	}
	if p.Title == "" {
		p.Title = content.LastSegment(e.URL)
	}
	p.HTMLChecksum, _ = arc.ParseChecksum(e.Checksum)
	p.Fingerprint, err = e.Fingerprint()
	return p, err
}

// ToTCT turns a page into one whose payload is TCT's.
func ToTCT(p content.Page) (content.Page, []string, error) {
	if p.Format == content.FormatTCT {
		if p.Description != "" {
			return p, []string{"description"}, nil
		}
		return p, nil, nil
	}
	d, lost, err := document(&p)
	if err != nil {
		return p, nil, fmt.Errorf("page %.200q: %w", p.URL, err)
	}
	p.Format = content.FormatTCT
	p.Payload, p.Fingerprint = tct.Encode(nil, d)
	p.Digest = sha256.Sum256(p.Payload)
	return p, lost, nil
}

// ToOwnTCT is ToTCT with the hash of Method A, whatever method the page's publisher
// uses: for who has to know the hash of what it writes.
func ToOwnTCT(p content.Page) (content.Page, []string, error) {
	p, lost, err := ToTCT(p)
	if err != nil {
		return p, nil, err
	}
	d, err := tct.Decode(p.Payload)
	if err != nil {
		return p, nil, err
	}
	if d.Hash != tct.FormatHash(p.Fingerprint) {
		lost = append(lost, "hash by another method")
		p.Payload, p.Fingerprint = tct.Encode(nil, d)
		p.Digest = sha256.Sum256(p.Payload)
	}
	return p, lost, nil
}

// document is what a page of another format says in TCT.
func document(p *content.Page) (tct.Document, []string, error) {
	if p.Format == content.FormatARC {
		e, err := arc.ParseEntry(p.Payload)
		if err != nil {
			return tct.Document{}, nil, err
		}
		d, lost := e.Document()
		return d, lost, nil
	}
	line, err := scp.ParsePage(p.Payload)
	if err != nil {
		return tct.Document{}, nil, err
	}
	d, lost := line.Document()
	return d, lost, nil
}

// ToSCP turns a page into a page line of SCP.
func ToSCP(p content.Page) (line []byte, lost []string, err error) {
	if p.Format == content.FormatARC {
		if p, lost, err = ToTCT(p); err != nil {
			return nil, nil, err
		}
	}
	line, more, err := scp.FromContent(&p)
	return line, append(lost, more...), err
}
