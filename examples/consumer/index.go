package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/uzpif-oi/uzpif-oi/feed"
)

// cursorKey holds the feed's cursor in the index itself, so that a change and the
// cursor behind it become durable by one batch.
var cursorKey = []byte("feed-cursor")

// batchPages is how many pages are put into one batch at most.
const batchPages = 100

// An index is the full-text index, and the feed's handler.
type index struct {
	bleve bleve.Index
	batch *bleve.Batch // what is not durable yet: puts alone
	pages int
}

// A document is a page as it is indexed. Owner names its series.
type document struct {
	Owner, URL, Title, Text string
}

func openIndex(path string) (*index, error) {
	b, err := bleve.Open(path)
	if errors.Is(err, bleve.ErrorIndexPathDoesNotExist) || errors.Is(err, fs.ErrNotExist) {
		b, err = bleve.New(path, indexMapping())
	} else if errors.Is(err, bleve.ErrorIndexMetaMissing) { // it was being made
		if err = os.RemoveAll(path); err == nil {
			b, err = bleve.New(path, indexMapping())
		}
	}
	if err != nil {
		return nil, err
	}
	return &index{bleve: b, batch: b.NewBatch()}, nil
}

func indexMapping() mapping.IndexMapping {
	m := bleve.NewIndexMapping()
	word := bleve.NewKeywordFieldMapping()
	m.DefaultMapping.AddFieldMappingsAt("Owner", word)
	m.DefaultMapping.AddFieldMappingsAt("URL", word)
	return m
}

func (x *index) close() error { return x.bleve.Close() }

// Cursor is where the index stands.
func (x *index) Cursor(context.Context) ([]byte, error) {
	x.batch.Reset()
	x.pages = 0
	return x.bleve.GetInternal(cursorKey)
}

func owner(it *feed.Item) string { return it.Publisher + " " + it.Series }

func id(it *feed.Item) string { return owner(it) + " " + hex.EncodeToString(it.URLHash[:]) }

// Apply applies one change. Puts are gathered; what is to be dropped goes at once.
func (x *index) Apply(_ context.Context, it *feed.Item) error {
	var err error
	switch it.Op {
	case feed.Put:
		err = x.batch.Index(id(it), documentOf(it))
		x.pages++
	case feed.Delete:
		x.batch.Delete(id(it))
	case feed.Stop:
		q := bleve.NewTermQuery(owner(it))
		q.SetField("Owner")
		err = x.drop(q)
	case feed.Reset:
		err = x.drop(bleve.NewMatchAllQuery())
	}
	if err != nil {
		return err
	}
	if len(it.Cursor) > 0 {
		x.batch.SetInternal(cursorKey, it.Cursor)
	}
	if it.Op == feed.Put && x.pages < batchPages {
		return nil
	}
	return x.flush()
}

// flush makes the batch durable.
func (x *index) flush() error {
	err := x.bleve.Batch(x.batch)
	x.batch.Reset()
	x.pages = 0
	return err
}

// drop deletes whatever a search finds, until it finds nothing.
func (x *index) drop(what query.Query) error {
	if err := x.flush(); err != nil {
		return err
	}
	for {
		found, err := x.bleve.Search(bleve.NewSearchRequestOptions(what, 1000, 0, false))
		if err != nil || len(found.Hits) == 0 {
			return err
		}
		for _, hit := range found.Hits {
			x.batch.Delete(hit.ID)
		}
		if err := x.flush(); err != nil {
			return err
		}
	}
}

// documentOf reads what can be searched for. A payload that is no JSON with a title
// and a content is searched as it is.
func documentOf(it *feed.Item) document {
	var page struct{ Title, Content string }
	if err := json.Unmarshal(it.Page.Payload, &page); err != nil || page.Content == "" {
		page.Content = string(it.Page.Payload)
	}
	return document{Owner: owner(it), URL: it.Page.URL, Title: page.Title, Text: page.Content}
}

// search gives the URLs of the pages that hold words, the best first.
func (x *index) search(words string) ([]string, error) {
	q := bleve.NewSearchRequestOptions(bleve.NewMatchQuery(words), 100, 0, false)
	q.Fields = []string{"URL"}
	found, err := x.bleve.Search(q)
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, hit := range found.Hits {
		if u, ok := hit.Fields["URL"].(string); ok {
			urls = append(urls, u)
		}
	}
	return urls, nil
}
