package walk

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// A reply is what a URL gave.
type reply struct {
	data        []byte
	etag        string
	notModified bool
}

const (
	tries      = 3           // of a request that fails below HTTP
	firstPause = time.Second // before the second; then twice as long
	maxRobots  = 1024        // origins whose robots.txt is kept in mind
)

// A web asks origins, as a walk may.
type web struct {
	config *Config
	robots map[string]*fetch.Robots // by origin
}

// get reads a URL of at most limit octets. What fails below HTTP is tried again.
func (w *web) get(ctx context.Context, rawURL string, cond fetch.Conditions, limit int64) (*reply, error) {
	if w.config.Client == nil {
		return nil, errNoWeb
	}
	if err := w.allowed(ctx, rawURL); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		r, err := w.once(ctx, rawURL, cond, limit)
		if err == nil || attempt == tries || ctx.Err() != nil || !passing(err) {
			return r, err
		}
		pause := firstPause << (attempt - 1)
		w.config.Log.Debug("a request failed and is made again", "url", rawURL, "after", pause, "error", err)
		if err := w.config.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (w *web) once(ctx context.Context, rawURL string, cond fetch.Conditions, limit int64) (*reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cond.Follow = func(to string) error {
		if !w.isOurs(to) {
			return fmt.Errorf("%w: %.200q", errRedirected, to)
		}
		return nil
	}
	r, err := w.config.Client.Get(ctx, rawURL, cond)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.NotModified {
		return &reply{etag: r.ETag, notModified: true}, nil
	}
	slow := time.AfterFunc(w.config.Limits.Request, func() {
		cancel(fmt.Errorf("no end of the body within %v: %w", w.config.Limits.Request, context.DeadlineExceeded))
	})
	defer slow.Stop()
	data, err := r.Body.ReadAll(limit)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	return &reply{data: data, etag: r.ETag}, nil
}

// isOurs reports whether a URL's host is one that may be asked.
func (w *web) isOurs(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	covers := func(names []string) bool {
		for _, name := range names {
			name = strings.ToLower(name)
			if host == name || strings.HasSuffix(host, "."+name) {
				return true
			}
		}
		return false
	}
	return !covers(w.config.NoHosts) && (len(w.config.OnlyHosts) == 0 || covers(w.config.OnlyHosts))
}

// allowed judges a URL by its host and by that host's robots.txt.
func (w *web) allowed(ctx context.Context, rawURL string) error {
	if !w.isOurs(rawURL) {
		return fmt.Errorf("%w: %.200q", errHost, rawURL)
	}
	if w.config.IgnoreRobots {
		return nil
	}
	origin, err := fetch.Origin(rawURL)
	if err != nil {
		return err
	}
	robots, ok := w.robots[origin]
	if !ok {
		var err error
		if robots, err = w.config.Client.Robots(ctx, rawURL, w.config.Product); err != nil {
			return fmt.Errorf("robots.txt: %w", err) // and it is tried again the next time
		}
		if w.robots == nil || len(w.robots) >= maxRobots {
			w.robots = make(map[string]*fetch.Robots)
		}
		w.robots[origin] = robots
	}
	if !robots.Allowed(rawURL) {
		return fmt.Errorf("%w: %.200q", errRobots, rawURL)
	}
	return nil
}

// isGone reports whether a URL leads to nothing.
func isGone(err error) bool {
	status := webStatus(err)
	return status == 404 || status == 410 || errors.Is(err, errRobots)
}
