package walk

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
)

var (
	errRobots     = errors.New("robots.txt keeps us out")
	errHost       = errors.New("the host is not one that may be asked")
	errType       = errors.New("the octets are not of the media type that is named")
	errUnverified = errors.New("a mirror's octets count only if an RID or a hash names them")
	errRedirected = errors.New("a redirect leads to a host that may not be asked")
	errOlder      = errors.New("the manifest is older than the last one that was seen")
	errNoGit      = errors.New("no git roots are read here")
	errNoWeb      = errors.New("no https roots are read here")
)

// absent are the errors that say: there is nothing here, whoever asks.
var absent = []error{
	gitroot.ErrNotFound, gitroot.ErrOutside, gitroot.ErrLoop, gitroot.ErrSubmodule, gitroot.ErrNotRegular, gitroot.ErrNoRef,
	errRobots, rbt.ErrHref,
}

// categoryOf puts an error of one attempt under one of the words of 9.1.
func categoryOf(err error, missing rbt.Category) rbt.Category {
	var known *rbt.Error
	var lfs *gitroot.LFSError
	switch {
	case errors.As(err, &known):
		return known.Category
	case errors.Is(err, errType), errors.Is(err, errUnverified), errors.Is(err, errOlder):
		return rbt.VerificationFailed
	case gitroot.Status(err) == http.StatusTooManyRequests:
		return rbt.RateLimited
	case gitroot.Status(err) == http.StatusNotFound, gitroot.Status(err) == http.StatusGone, errors.As(err, &lfs),
		slices.ContainsFunc(absent, func(target error) bool { return errors.Is(err, target) }):
		return missing
	}
	return rbt.CategoryOf(err)
}

// worst is the category of a problem that several attempts have: not found only
// if it was found nowhere.
func worst(categories []rbt.Category) rbt.Category {
	for _, c := range []rbt.Category{rbt.VerificationFailed, rbt.ManifestInvalid, rbt.RateLimited, rbt.TransportError} {
		if slices.Contains(categories, c) {
			return c
		}
	}
	return categories[0]
}

// A failure gathers what was tried for one document or entry.
type failure struct {
	missing    rbt.Category // what "not found" is called
	attempts   []rbt.Attempt
	categories []rbt.Category
	errs       []error
}

// maxAttempts bounds how many are told.
const maxAttempts = 32

func (f *failure) add(root string, err error) {
	if len(f.attempts) < maxAttempts {
		f.attempts = append(f.attempts, rbt.Attempt{Root: root, Error: err.Error(), Status: webStatus(err)})
		f.categories, f.errs = append(f.categories, categoryOf(err, f.missing)), append(f.errs, err)
	}
}

// err is what remains of all attempts.
func (f *failure) err() error {
	if len(f.errs) == 0 {
		return &rbt.Error{Category: f.missing, Err: errors.New("there is no root that could be asked")}
	}
	return &rbt.Error{Category: worst(f.categories), Err: errors.Join(f.errs...)}
}

func (f *failure) problem(id, href string) rbt.Problem {
	p := rbt.Problem{Category: f.missing, EntryID: id, Href: href, Attempts: f.attempts}
	if len(f.categories) > 0 {
		p.Category = worst(f.categories)
	}
	if p.Attempts == nil {
		p.Attempts = []rbt.Attempt{}
	}
	return p
}

func webStatus(err error) int {
	var status *fetch.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// passing reports whether the same request may well succeed a little later. Most
// of what a server answers is tried again by the client itself. What is wrong with
// one path says nothing about the root.
func passing(err error) bool {
	var status *fetch.StatusError
	var lfs *gitroot.LFSError
	permanent := append([]error{
		context.Canceled, fetch.ErrForbiddenAddress, fetch.ErrRedirect, fetch.ErrTooLarge, fetch.ErrCoding,
		gitroot.ErrNoRef, gitroot.ErrAuth, gitroot.ErrHostKey, gitroot.ErrTooLarge, gitroot.ErrProtocol, gitroot.ErrNotFound,
		errHost, errRedirected, fs.ErrNotExist, fs.ErrPermission,
	}, absent...)
	return !errors.As(err, &status) && !errors.As(err, &lfs) && !slices.ContainsFunc(permanent, func(target error) bool { return errors.Is(err, target) })
}
