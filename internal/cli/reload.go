package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Reloader reads the configuration of a running daemon anew at each SIGHUP. A
// file that cannot be read, or is wrong, changes nothing. C is a struct with
// mapstructure tags.
type Reloader[C any] struct {
	Log *slog.Logger
	// Config is what the daemon runs with. Only Run uses it.
	Config C
	// Read reads and checks the configuration.
	Read func() (C, error)
	// Live are the keys that Apply can change; a change of any other waits for a
	// restart, and is told each time.
	Live  []string
	Apply func(C)
	// Manager is told of it; nil for none.
	Manager *Manager
	// Written has a reload written down: what it changes, each as key=value, and how
	// it ended. What it cannot write down it does not do, and says so. nil for none.
	Written func(changes []string, reload func() error) error

	lastMu sync.Mutex
	last   Loaded
}

// Loaded is how the last reading of a configuration ended.
type Loaded struct {
	At      time.Time // when the one in force was read
	Problem string    // why a newer one is not in force; empty if there is none
}

// Last tells it of the daemon's configuration; before Run has begun it is the zero value.
func (r *Reloader[C]) Last() Loaded {
	r.lastMu.Lock()
	defer r.lastMu.Unlock()
	return r.last
}

func (r *Reloader[C]) ended(err error) {
	r.lastMu.Lock()
	defer r.lastMu.Unlock()
	if err != nil {
		r.last.Problem = err.Error()
		return
	}
	r.last = Loaded{At: time.Now()}
}

// A Change is a setting that differs.
type Change struct {
	Key      string
	From, To any
}

// Changes compares two configurations by the keys of their fields, in the order of
// the struct. Fields without a key are left out.
func Changes[C any](from, to C) []Change {
	var list []Change
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for i := range a.NumField() {
		key := a.Type().Field(i).Tag.Get("mapstructure")
		if key == "" || a.Field(i).Equal(b.Field(i)) {
			continue
		}
		list = append(list, Change{key, a.Field(i).Interface(), b.Field(i).Interface()})
	}
	return list
}

// Run waits for SIGHUP until ctx ends.
func (r *Reloader[C]) Run(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	r.ended(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			r.Manager.Reloading()
			r.reload()
			r.Manager.Ready()
		}
	}
}

// reload reads, and applies what differs. That is written down before anything
// changes, a file that cannot be used as well.
func (r *Reloader[C]) reload() {
	next, err := r.Read()
	var changes []Change
	if err == nil {
		changes = Changes(r.Config, next)
	}
	written := r.Written
	if written == nil {
		written = func(_ []string, reload func() error) error { return reload() }
	}
	var told []string
	for _, c := range changes {
		told = append(told, fmt.Sprintf("%s=%v", c.Key, c.To))
	}
	err = written(told, func() error { return r.apply(next, changes, err) })
	if r.ended(err); err != nil {
		r.Log.Error("configuration not reloaded", "error", err)
	}
}

func (r *Reloader[C]) apply(next C, changes []Change, err error) error {
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		r.Log.Warn("configuration read, nothing changed")
		return nil
	}
	for _, c := range changes {
		if slices.Contains(r.Live, c.Key) {
			r.Log.Warn("setting changed", "key", c.Key, "from", fmt.Sprint(c.From), "to", fmt.Sprint(c.To))
		} else {
			r.Log.Warn("setting waits for a restart", "key", c.Key, "from", fmt.Sprint(c.From), "to", fmt.Sprint(c.To))
		}
	}
	r.Apply(next)
	r.Config = keep(next, r.Config, r.Live)
	return nil
}

// keep is next with the settings of running that no reload changes, so that they
// are told again.
func keep[C any](next, running C, live []string) C {
	v, from := reflect.ValueOf(&next).Elem(), reflect.ValueOf(running)
	for i := range v.NumField() {
		if key := v.Type().Field(i).Tag.Get("mapstructure"); key != "" && !slices.Contains(live, key) {
			v.Field(i).Set(from.Field(i))
		}
	}
	return next
}
